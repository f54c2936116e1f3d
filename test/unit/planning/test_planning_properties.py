"""Rules that hold for any registrations and any table."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hwmatrix.errors import NothingToDoError
from hwmatrix.model import (
    Backend,
    BackendRow,
    BudgetPolicy,
    Disabled,
    Matrix,
    Plan,
    Registration,
    RunnerConfig,
    SessionName,
    Suite,
    Tier,
)
from hwmatrix.planning import assign, make_plan

SUITES = ("first", "second")
SESSION = SessionName(backend=Backend.AMD, tier="t", variant="", name="amd-t")
MATRIX = Matrix(
    path="ci/matrix.toml",
    roots=("test",),
    python_files=("test_*.py",),
    backends={Backend.AMD: BackendRow(backend=Backend.AMD, default_variant="", variants={})},
    tiers={"t": Tier(name="t", budget=BudgetPolicy(factor=2, floor_s=10, startup_s=5, grace_s=5))},
    runner_configs={"r": RunnerConfig(name="r", devices=1, max_job_minutes=1e12, slots=2)},
    suites=tuple(
        Suite(backend=Backend.AMD, name=name, tier="t", runner_config="r", aliases=(f"old-{name}",))
        for name in SUITES
    ),
)

registrations = st.lists(
    st.builds(
        Registration,
        path=st.sampled_from([f"d{d}/test_{n}.py" for d in range(3) for n in range(6)]),
        line=st.integers(1, 50),
        backend=st.just(Backend.AMD),
        est_s=st.floats(0.001, 1e5),
        suite=st.sampled_from([*SUITES, "old-first", "old-second"]),
        disabled=st.none() | st.just(Disabled(reason="off")),
        in_process_group=st.sampled_from(["", "", "", "g", "h"]),
    ),
    min_size=1,
    max_size=30,
    unique_by=lambda r: (r.path, r.suite.removeprefix("old-")),
)
shards = st.integers(1, 6)


def plan_of(rows: list[Registration], shard: int = 1, count: int = 1) -> Plan:
    return make_plan(
        MATRIX, SESSION, assign(rows, MATRIX), shard=shard, shards=count, allow_empty=True
    )


class TestPlans:
    """The four rules of a plan, and its hash."""

    @settings(deadline=None, max_examples=30)
    @given(registrations, shards)
    def test_every_enabled_file_is_in_exactly_one_shard(
        self, rows: list[Registration], count: int
    ) -> None:
        seen = [
            (unit.suite, file)
            for shard in range(1, count + 1)
            for unit in plan_of(rows, shard, count).mine
            for file in unit.files
        ]
        enabled = [(r.suite.removeprefix("old-"), r.path) for r in rows if not r.disabled]
        assert sorted(seen) == sorted(enabled)

    @settings(deadline=None, max_examples=30)
    @given(registrations, shards)
    def test_disabled_files_never_run_and_are_listed(
        self, rows: list[Registration], count: int
    ) -> None:
        plan = plan_of(rows, 1, count)
        listed = [name for name, _ in plan.disabled]
        off = [f"{r.suite.removeprefix('old-')}:{r.path}" for r in rows if r.disabled]
        assert listed == sorted(off)
        assert not {f"{u.suite}:{f}" for u in plan.units for f in u.files} & set(off)

    @settings(deadline=None, max_examples=30)
    @given(registrations, shards, st.randoms(use_true_random=False))
    def test_the_order_of_the_input_is_irrelevant(
        self, rows: list[Registration], count: int, random: object
    ) -> None:
        shuffled = list(rows)
        random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis's own Random
        assert plan_of(shuffled, 1, count) == plan_of(rows, 1, count)

    @settings(deadline=None, max_examples=30)
    @given(registrations, shards)
    def test_the_heaviest_shard_is_within_the_bound_of_lpt(
        self, rows: list[Registration], count: int
    ) -> None:
        """Graham 1969: LPT <= (4/3 - 1/(3m)) optimum; and any list: <= mean + longest."""
        plan = plan_of(rows, 1, count)
        assume(plan.units)
        weights = sorted((unit.est_s for unit in plan.units), reverse=True)
        loads = [0.0] * count
        for unit in plan.units:
            loads[unit.shard - 1] += unit.est_s
        bins = [0.0] * count
        for weight in weights:
            bins[bins.index(min(bins))] += weight
        rounding = 1 + 1e-9
        assert max(loads) <= max(bins) * rounding
        assert max(loads) <= (sum(weights) / count + weights[0]) * rounding

    @settings(deadline=None, max_examples=30)
    @given(registrations, shards)
    def test_budgets_nest(self, rows: list[Registration], count: int) -> None:
        for shard in range(1, count + 1):
            plan = plan_of(rows, shard, count)
            for unit in plan.mine:
                assert unit.test_limit_s < unit.budget_s
                assert unit.est_s < unit.budget_s <= plan.deadline_s - plan.setup_s + 1e-6
            assert plan.makespan_s <= sum(unit.est_s for unit in plan.mine) * (1 + 1e-9)

    @settings(deadline=None, max_examples=30)
    @given(registrations, shards, st.data())
    def test_the_hash_is_that_of_the_facts(
        self, rows: list[Registration], count: int, data: st.DataObject
    ) -> None:
        hashes = {plan_of(rows, shard, count).hash for shard in range(1, count + 1)}
        assert len(hashes) == 1
        index = data.draw(st.integers(0, len(rows) - 1))
        row = rows[index]
        change: dict[str, object] = data.draw(
            st.sampled_from(
                [
                    {"path": "d9/test_new.py"},
                    {"disabled": None if row.disabled else Disabled(reason="off")},
                    *([] if row.disabled else [{"est_s": row.est_s * 2}]),
                ]
            )
        )
        new = dataclasses.replace(row, **change)  # type: ignore[arg-type]  # any of the above
        changed = [*rows[:index], new, *rows[index + 1 :]]
        assert plan_of(changed, 1, count).hash not in hashes

    @settings(deadline=None, max_examples=30)
    @given(registrations)
    def test_only_an_empty_shard_is_nothing_to_do(self, rows: list[Registration]) -> None:
        count = len(plan_of(rows).units)
        for shard in (1, 2, 7):
            expected = (
                nullcontext()
                if shard <= count
                else pytest.raises(NothingToDoError, match="nothing")
            )
            with expected:
                plan = make_plan(MATRIX, SESSION, assign(rows, MATRIX), shard=shard, shards=7)
                assert plan.mine
