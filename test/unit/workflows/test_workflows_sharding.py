"""The number of shards: the smallest that meets the target, whatever the files' lengths."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from hwmatrix.errors import PlanError, Problem
from hwmatrix.model import Backend, Plan, RunnerConfig, Unit
from hwmatrix.placing import planned_places
from hwmatrix.planning import run_s
from hwmatrix.planning.split import split
from hwmatrix.workflows import Bounds, ShardTime, choose_shards

SETUP_S, OVERHEAD_S = 60.0, 30.0


def plan_of(estimates: list[float], count: int) -> Plan:
    ordered = sorted(estimates, reverse=True)
    units = tuple(
        Unit(
            id=str(number),
            suite="s",
            files=(f"{number}.py",),
            selectors=(f"{number}.py",),
            est_s=est_s,
            test_limit_s=2 * est_s,
            budget_s=3 * est_s,
            devices=1,
            shard=shard + 1,
        )
        for number, (est_s, shard) in enumerate(
            zip(ordered, split(ordered, count), strict=True), start=1
        )
    )
    return Plan(
        session="cpu-b",
        backend=Backend.CPU,
        variant="cpu",
        tier="b",
        suites=("s",),
        units=units,
        shard=1,
        shards=count,
        hash="",
        slots=1,
        setup_s=SETUP_S,
    )


def times_of(plan: Plan) -> tuple[ShardTime, ...]:
    runs = [
        run_s([u for u in plan.units if u.shard == n], planned_places(plan.slots, [1]))
        for n in range(1, plan.shards + 1)
    ]
    return tuple(ShardTime(run_s=run, deadline_s=SETUP_S + 2 * run) for run in runs)


def bounds(estimates: list[float], target_s: float, minutes: float = 10_000) -> Bounds:
    return Bounds(
        config=RunnerConfig(name="m", devices=1, max_job_minutes=minutes),
        table="ci/matrix.toml",
        setup_s=SETUP_S,
        overhead_s=OVERHEAD_S,
        target_s=target_s,
        most=len(estimates),
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 500), min_size=1, max_size=9), st.integers(91, 900))
def test_one_shard_fewer_would_miss_the_target(files: list[int], target_s: int) -> None:
    """All shards take at most what the target leaves, or the longest file; one fewer would not."""
    estimates = [float(est_s) for est_s in files]
    chosen = choose_shards(
        lambda count: plan_of(estimates, count), times_of, bounds(estimates, target_s)
    )
    wanted_s = max(target_s - SETUP_S - OVERHEAD_S, *estimates)
    assert max(time.run_s for time in chosen.times) <= wanted_s
    assert bool(chosen.note) is (max(estimates) > target_s - SETUP_S - OVERHEAD_S)
    for fewer in range(1, chosen.plan.shards):
        assert max(t.run_s for t in times_of(plan_of(estimates, fewer))) > wanted_s


def test_a_number_that_the_planner_refuses_is_passed_over() -> None:
    estimates = [100.0] * 4

    def plan(count: int) -> Plan:
        if count < 3:
            raise PlanError([Problem(path="ci/matrix.toml", found=f"{count} do not fit")])
        return plan_of(estimates, count)

    assert choose_shards(plan, times_of, bounds(estimates, 0)).plan.shards == 3


def test_the_job_s_limit_holds_without_a_target() -> None:
    estimates = [100.0] * 4
    # A job may take 500 s: 30 around it, 60 of set-up, twice 200 of tests: two files fit.
    chosen = choose_shards(
        lambda count: plan_of(estimates, count), times_of, bounds(estimates, 0, minutes=500 / 60)
    )
    assert chosen.plan.shards == 2
