"""Plans: units, budgets, order, shards, hash, and what is refused before anything runs."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from hwmatrix import codec
from hwmatrix.errors import NothingToDoError, PlanError, UsageError
from hwmatrix.model import Backend, BudgetPolicy, Disabled, Isolation, Plan
from hwmatrix.placing import planned_places
from hwmatrix.planning import deadline_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from hwmatrix.model import Matrix, Registration, Unit

CUDA = Backend.CUDA


def units(plan: Plan) -> dict[str, Unit]:
    return {unit.id.partition(":")[2]: unit for unit in plan.units}


def with_tier(matrix: Matrix, **changes: object) -> Matrix:
    tier = dataclasses.replace(matrix.tiers["stage-b"], **changes)  # type: ignore[arg-type]  # any
    return dataclasses.replace(matrix, tiers={**matrix.tiers, "stage-b": tier})


def with_suite(matrix: Matrix, **changes: object) -> Matrix:
    first = dataclasses.replace(matrix.suites[0], **changes)  # type: ignore[arg-type]  # any
    return dataclasses.replace(matrix, suites=(first, *matrix.suites[1:]))


class TestUnits:
    """One unit per enabled registration, or per group of them."""

    def test_budgets_follow_from_the_estimate(
        self, register: Callable[..., Registration], plan_of: Callable[..., Plan]
    ) -> None:
        found = units(plan_of([register("a.py", 10), register("b.py", 100)]))
        assert (found["a.py"].test_limit_s, found["a.py"].budget_s) == (30, 60 + 30 + 30)
        assert (found["b.py"].test_limit_s, found["b.py"].budget_s) == (300, 60 + 300 + 100)
        assert found["b.py"].est_s == 100

    def test_the_environment_is_merged_suite_over_tier_over_backend(
        self,
        matrix: Matrix,
        register: Callable[..., Registration],
        plan_of: Callable[..., Plan],
    ) -> None:
        changed = with_suite(matrix, env={"C": "suite"}, isolation=Isolation.SPAWN)
        unit = units(plan_of([register("a.py")], matrix=changed))["a.py"]
        assert unit.env == {"A": "backend", "B": "tier", "C": "suite"}
        assert unit.isolation is Isolation.SPAWN

    def test_a_process_group_is_one_unit(
        self, register: Callable[..., Registration], plan_of: Callable[..., Plan]
    ) -> None:
        rows = [register(f"{n}.py", 20, in_process_group="g") for n in "cab"]
        (unit,) = plan_of([*rows, register("d.py", disabled="x", in_process_group="g")]).units
        assert unit.id == "stage-b-test-cpu:@g"
        assert unit.files == unit.selectors == ("a.py", "b.py", "c.py")
        assert (unit.est_s, unit.budget_s) == (60, 60 + 180 + 60)

    def test_a_selection_narrows_a_group(
        self, register: Callable[..., Registration], plan_of: Callable[..., Plan]
    ) -> None:
        rows = [register(f"{n}.py", 20, in_process_group="g") for n in "abc"]
        (unit,) = plan_of(rows, paths=["b.py", "a.py::T"]).units
        assert (unit.files, unit.selectors) == (("a.py", "b.py"), ("a.py::T", "b.py"))
        assert unit.est_s == 40

    def test_devices_come_from_the_runner_config(
        self, register: Callable[..., Registration], plan_of: Callable[..., Plan]
    ) -> None:
        rows = [
            register("a.py", suite="stage-b-test-1-gpu", backend=CUDA),
            register("a.py", suite="stage-b-test-2-gpu", backend=CUDA),
        ]
        plan = plan_of(rows, "cuda-stage-b")
        assert {unit.id: unit.devices for unit in plan.units} == {
            "stage-b-test-1-gpu:a.py": 1,
            "stage-b-test-2-gpu:a.py": 2,
        }
        # Four devices: the wide file on two of them, the narrow one beside it.
        assert (plan.slots, plan.makespan_s) == (4, 10)

    def test_wide_and_exclusive_units_start_first_and_weigh_what_they_fill(
        self,
        matrix: Matrix,
        register: Callable[..., Registration],
        plan_of: Callable[..., Plan],
    ) -> None:
        quiet = dataclasses.replace(
            next(s for s in matrix.suites if s.name == "stage-b-test-1-gpu"),
            name="stage-b-quiet",
            exclusive=True,
        )
        table = dataclasses.replace(matrix, suites=(*matrix.suites, quiet))
        rows = [
            register("long.py", 100, suite="stage-b-test-1-gpu", backend=CUDA),
            register("wide.py", 40, suite="stage-b-test-2-gpu", backend=CUDA),
            register("alone.py", 30, suite="stage-b-quiet", backend=CUDA),
        ]
        plan = plan_of(rows, "cuda-stage-b", matrix=table)
        assert [unit.files for unit in plan.units] == [("alone.py",), ("wide.py",), ("long.py",)]
        assert [unit.exclusive for unit in plan.units] == [True, False, False]
        assert plan.makespan_s == 30 + 100
        # Of four devices: 100 x 1, 40 x 2, 30 x 4: the exclusive file is the costliest.
        split = plan_of(rows, "cuda-stage-b", matrix=table, shards=2)
        assert {unit.files[0]: unit.shard for unit in split.units} == {
            "alone.py": 2,
            "long.py": 1,
            "wide.py": 1,
        }
        assert plan_of(rows, "cuda-stage-b", suites=["stage-b-test-1-gpu"]).slots == 1

    def test_disabled_files_are_listed_with_their_reason(
        self, register: Callable[..., Registration], plan_of: Callable[..., Plan]
    ) -> None:
        off = Disabled(reason="flaky", owner="@me", until="2027-01-01")
        rows = [
            register("a.py"),
            register("c.py", disabled=off),
            register("b.py", disabled=Disabled(reason="")),
        ]
        assert plan_of(rows).disabled == (
            ("stage-b-test-cpu:b.py", "no reason given"),
            ("stage-b-test-cpu:c.py", "flaky (owner @me, until 2027-01-01)"),
        )

    def test_the_heaviest_starts_first_ties_by_id(
        self, register: Callable[..., Registration], plan_of: Callable[..., Plan]
    ) -> None:
        rows = [register("b.py", 5), register("a.py", 5), register("c.py", 9)]
        assert list(units(plan_of(rows))) == ["c.py", "a.py", "b.py"]

    def test_history_orders_and_splits_but_sets_no_budget(
        self, register: Callable[..., Registration], plan_of: Callable[..., Plan]
    ) -> None:
        rows = [register("a.py", 10), register("b.py", 20), register("c.py", 30)]
        measured = {(Backend.CPU, "stage-b-test-cpu", "a.py"): 90.0}
        plain, learnt = plan_of(rows, shards=2), plan_of(rows, shards=2, history=measured)
        assert list(units(learnt)) == ["a.py", "c.py", "b.py"]
        assert [unit.shard for unit in learnt.units] == [1, 2, 2]
        assert {u.id: u.budget_s for u in learnt.units} == {u.id: u.budget_s for u in plain.units}
        assert learnt.makespan_s == 90
        assert learnt.hash != plain.hash

    @pytest.mark.parametrize("seconds", [0.0, -1.0, float("inf"), float("nan")])
    def test_history_that_is_no_time_is_passed_over(
        self,
        seconds: float,
        register: Callable[..., Registration],
        plan_of: Callable[..., Plan],
    ) -> None:
        rows = [register("a.py")]
        measured = {(Backend.CPU, "stage-b-test-cpu", "a.py"): seconds}
        assert plan_of(rows, history=measured) == plan_of(rows)

    def test_history_of_other_suites_changes_nothing(
        self, register: Callable[..., Registration], plan_of: Callable[..., Plan]
    ) -> None:
        measured = {(Backend.AMD, "stage-b-test-cpu", "a.py"): 90.0}
        rows = [register("a.py")]
        assert plan_of(rows, history=measured) == plan_of(rows)


class TestShards:
    """Each unit in one shard; the machine's own part is told apart from the whole."""

    def test_a_machine_has_its_part_of_the_whole(
        self, register: Callable[..., Registration], plan_of: Callable[..., Plan]
    ) -> None:
        rows = [register(f"{n}.py", est) for n, est in enumerate([5, 5, 4, 4, 3, 3, 3])]
        plans = [plan_of(rows, shard=shard, shards=3) for shard in (1, 2, 3)]
        assert [sum(unit.est_s for unit in plan.mine) for plan in plans] == [9, 9, 9]
        assert len({plan.hash for plan in plans}) == 1
        assert all(plan.units == plans[0].units for plan in plans)

    @pytest.mark.parametrize(("shard", "shards"), [(0, 1), (2, 1), (1, 0), (-1, 3)])
    def test_a_shard_that_does_not_exist_is_refused(
        self,
        shard: int,
        shards: int,
        register: Callable[..., Registration],
        plan_of: Callable[..., Plan],
    ) -> None:
        with pytest.raises(UsageError, match=rf"there is no shard {shard} of {shards}; write"):
            plan_of([register("a.py")], shard=shard, shards=shards)

    def test_a_shard_without_units_is_nothing_to_do(
        self, register: Callable[..., Registration], plan_of: Callable[..., Plan]
    ) -> None:
        rows = [register("a.py"), register("b.py")]
        assert len(plan_of(rows, shard=2, shards=3).mine) == 1
        message = (
            r"^cpu-stage-b: nothing selected: shard 3 of 3 is empty, since 2 unit\(s\) fill 2 "
            r"shard\(s\)\. Use --shard I/2, or pass --allow-empty if intended\.$"
        )
        with pytest.raises(NothingToDoError, match=message):
            plan_of(rows, shard=3, shards=3)
        empty = plan_of(rows, shard=3, shards=3, allow_empty=True)
        assert (empty.mine, empty.makespan_s, empty.deadline_s) == ((), 0, 100)
        assert empty.hash == plan_of(rows, shard=1, shards=3).hash


class TestNothing:
    """Nothing to do is a failure, with the counts and reasons."""

    def test_all_disabled(
        self, register: Callable[..., Registration], plan_of: Callable[..., Plan]
    ) -> None:
        rows = [register("a.py", disabled="one"), register("b.py", disabled="two")]
        message = (
            r"^cpu-stage-b: nothing selected: 2 files registered, 2 disabled \(reasons below\)\. "
            r"Pass --allow-empty if intended\.\n"
            r"  stage-b-test-cpu:a\.py: one\n  stage-b-test-cpu:b\.py: two$"
        )
        with pytest.raises(NothingToDoError, match=message):
            plan_of(rows)
        assert plan_of(rows, allow_empty=True).units == ()

    def test_none_registered(self, plan_of: Callable[..., Plan]) -> None:
        message = r"nothing selected: 0 files registered\. Pass --allow-empty if intended\.$"
        with pytest.raises(NothingToDoError, match=message):
            plan_of([])


class TestNesting:
    """test < file < shard < job, or a plan error that says where."""

    def test_a_deadline_is_setup_and_work_and_the_largest_spread(
        self,
        matrix: Matrix,
        register: Callable[..., Registration],
        plan_of: Callable[..., Plan],
    ) -> None:
        rows = [register("a.py", 100), register("b.py", 40), register("c.py", 50)]
        plan = plan_of(rows)  # two slots: 100 beside 40 + 50
        assert (plan.makespan_s, plan.setup_s) == (100, 100)
        assert plan.deadline_s == 100 + 3 * 100 + (60 + 300 + 100 - 100)
        assert deadline_s(plan, matrix, planned_places(1, [1])) == 3 * 190 + 360
        assert deadline_s(plan, matrix, planned_places(3, [1])) == 3 * 100 + 360

    def test_a_shard_over_its_jobs_limit_is_refused_with_what_to_do(
        self, register: Callable[..., Registration], plan_of: Callable[..., Plan]
    ) -> None:
        rows = [register(f"{n}.py", 500) for n in range(8)]
        with pytest.raises(
            PlanError, match=r"^ci/matrix\.toml:3: cpu-stage-b: shard 1 of 1 may"
        ) as caught:
            plan_of(rows)
        assert [str(problem) for problem in caught.value.problems] == [
            (
                "ci/matrix.toml:3: cpu-stage-b: shard 1 of 1 may take 7660 s (set-up 100 s, run "
                "7560 s); a job on cpu may take 6000 s. Use more shards (--shard I/2 or "
                "further), split long files, or raise max_job_minutes."
            )
        ]
        assert len(plan_of(rows, shards=2).mine) == 4

    def test_every_shard_that_does_not_fit_is_told(
        self, register: Callable[..., Registration], plan_of: Callable[..., Plan]
    ) -> None:
        rows = [register(f"{n}.py", 2000) for n in range(2)]
        with pytest.raises(PlanError, match="shard 1 of 2") as caught:
            plan_of(rows, shards=2)
        assert [str(problem) for problem in caught.value.problems] == [
            f"ci/matrix.toml:3: cpu-stage-b: shard {n + 1} of 2 may take 12160 s (set-up 100 s, "
            f"run 12060 s); a job on cpu may take 6000 s. stage-b-test-cpu:{n}.py alone does not "
            "fit: split the file or raise max_job_minutes."
            for n in range(2)
        ]

    def test_of_several_runner_configs_the_widest_is_the_host(
        self, register: Callable[..., Registration], plan_of: Callable[..., Plan]
    ) -> None:
        rows = [
            register("a.py", 900, suite="stage-b-test-1-gpu", backend=CUDA),
            register("a.py", 10, suite="stage-b-test-2-gpu", backend=CUDA),
        ]
        with pytest.raises(PlanError, match=r"toml:5: .*a job on 2-gpu may take 5400 s\."):
            plan_of(rows, "cuda-stage-b")
        assert plan_of(rows, "cuda-stage-b", suites=["stage-b-test-1-gpu"]).units

    @pytest.mark.parametrize(
        ("policy", "est_s", "message"),
        [
            (
                BudgetPolicy(factor=1, floor_s=1, startup_s=0, grace_s=0),
                1e308,
                "is estimated at 1e+308 s; its budget is no finite number.",
            ),
            (
                BudgetPolicy(factor=0, floor_s=0, startup_s=0, grace_s=0),
                10.0,
                "is estimated at 10 s; its budget is 10 s.",
            ),
            (
                BudgetPolicy(factor=1, floor_s=1e30, startup_s=1, grace_s=1),
                10.0,
                "has 1e+30 s for one test and 1e+30 s for all of them.",
            ),
            (
                BudgetPolicy(factor=1, floor_s=1, startup_s=1, grace_s=1),
                0.0,
                "is estimated at 0 s.",
            ),
        ],
    )
    def test_absurd_budgets_are_refused_where_the_file_registers(
        self,
        *,
        policy: BudgetPolicy,
        est_s: float,
        message: str,
        matrix: Matrix,
        register: Callable[..., Registration],
        plan_of: Callable[..., Plan],
    ) -> None:
        changed = with_tier(matrix, budget=policy)
        with pytest.raises(PlanError, match=r"^a\.py:3: cpu-stage-b") as caught:
            plan_of([register("a.py", est_s)], matrix=changed)
        assert str(caught.value) == (
            f"a.py:3: cpu-stage-b: stage-b-test-cpu:a.py {message} A file's budget exceeds its "
            "estimate and what one test may take. Correct est_time, or the budget rows of the "
            "table."
        )

    def test_a_budget_beyond_the_shards_time_is_refused(
        self,
        matrix: Matrix,
        register: Callable[..., Registration],
        plan_of: Callable[..., Plan],
    ) -> None:
        policy = BudgetPolicy(factor=0.1, floor_s=1, startup_s=1, grace_s=1)
        message = (
            r"shard 1 of 1 may run 21 s; the budget of stage-b-test-cpu:a\.py is 111 s\. Raise the "
            r"tier's factor to 1 at least\.$"
        )
        with pytest.raises(PlanError, match=message):
            plan_of([register("a.py", 100)], matrix=with_tier(matrix, budget=policy))


class TestHash:
    """The same for all shards and hosts; another when any fact is."""

    def test_a_plan_survives_json_with_its_hash(
        self, register: Callable[..., Registration], plan_of: Callable[..., Plan]
    ) -> None:
        plan = plan_of([register("a.py"), register("b.py", disabled="x")])
        assert codec.from_plain(Plan, codec.to_plain(plan)) == plan
        assert len(plan.hash) == 16
        assert int(plan.hash, 16) >= 0

    def test_every_fact_of_a_registration_counts(
        self, register: Callable[..., Registration], plan_of: Callable[..., Plan]
    ) -> None:
        rows = [register("a.py"), register("b.py")]
        variants = [
            rows,
            [*rows, register("c.py")],
            [register("a.py"), register("c.py")],
            [register("a.py"), register("b.py", 11)],
            [register("a.py"), register("b.py", in_process_group="g")],
            [register("a.py"), register("b.py", disabled="x")],
            [register("a.py"), register("b.py", disabled="y")],
        ]
        hashes = [plan_of(variant).hash for variant in variants]
        hashes += [plan_of(rows, shards=2).hash, plan_of(rows, paths=["a.py"]).hash]
        hashes += [plan_of(rows, paths=["a.py::T"]).hash]
        assert len(set(hashes)) == len(hashes)

    def test_every_fact_of_the_table_counts(
        self,
        matrix: Matrix,
        register: Callable[..., Registration],
        plan_of: Callable[..., Plan],
    ) -> None:
        rows = [register("a.py")]
        cpu = matrix.backends[Backend.CPU]
        runner = matrix.runner_configs["cpu"]
        policy = matrix.tiers["stage-b"].budget
        backends = [
            dataclasses.replace(cpu, setup_s=1),
            dataclasses.replace(cpu, env={}),
            dataclasses.replace(cpu, preload=("torch",)),
            dataclasses.replace(
                cpu, variants={"cpu": dataclasses.replace(cpu.variants["cpu"], torch="3")}
            ),
        ]
        runners = [
            dataclasses.replace(runner, devices=2),
            dataclasses.replace(runner, slots=3),
            dataclasses.replace(runner, memory_gib=3),
            dataclasses.replace(runner, max_job_minutes=99),
            dataclasses.replace(runner, arch={Backend.CPU: ("x86_64",)}),
        ]
        changed = [
            matrix,
            *(
                dataclasses.replace(matrix, backends={**matrix.backends, Backend.CPU: row})
                for row in backends
            ),
            *(
                dataclasses.replace(matrix, runner_configs={**matrix.runner_configs, "cpu": row})
                for row in runners
            ),
            with_tier(matrix, budget=dataclasses.replace(policy, factor=4)),
            with_tier(matrix, fail_fast=True),
            with_tier(matrix, env={}),
            with_suite(matrix, env={"X": "1"}),
            with_suite(matrix, isolation=Isolation.FORK),
        ]
        hashes = [plan_of(rows, matrix=table).hash for table in changed]
        assert len(set(hashes)) == len(hashes)

    def test_where_rows_stand_and_what_others_say_does_not_count(
        self,
        matrix: Matrix,
        register: Callable[..., Registration],
        plan_of: Callable[..., Plan],
    ) -> None:
        rows = [register("a.py")]
        runner = dataclasses.replace(
            matrix.runner_configs["cpu"],
            line=99,
            about="words",
            labels={Backend.CPU: ("x",)},
            arch={Backend.AMD: ("gfx942",)},
        )
        same = [
            with_suite(matrix, line=99, about="words"),
            dataclasses.replace(matrix, runner_configs={**matrix.runner_configs, "cpu": runner}),
            dataclasses.replace(matrix, path="elsewhere/matrix.toml"),
        ]
        found = {plan_of(rows, matrix=table).hash for table in [matrix, *same]}
        others = [register("z.py", suite="stage-b-test-1-gpu", backend=CUDA)]
        found.add(plan_of([register("a.py", line=77), *others]).hash)
        assert len(found) == 1
