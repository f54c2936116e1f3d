"""How many machines a session gets: as few as its wall clock and its jobs' limits allow.

Each shard costs its set-up, so the smallest number that meets the target is also the cheapest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hwmatrix.errors import PlanError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from hwmatrix.model import Plan, RunnerConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardTime:
    """One shard (seconds): `run_s` as estimated, `deadline_s` with set-up, as it may at most be."""

    run_s: float
    deadline_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """What a job must fit into (seconds); `target_s` 0 asks for nothing beyond the job's limit.

    `most` is the largest number of shards that can be of use: one per file.
    """

    config: RunnerConfig
    table: str
    setup_s: float
    overhead_s: float
    target_s: float
    most: int

    @property
    def limit_s(self) -> float:
        """What a session may take of a job."""
        return self.config.max_job_minutes * 60 - self.overhead_s

    @property
    def run_target_s(self) -> float:
        """What the target leaves for tests; 0 or less where set-up alone exceeds it."""
        return self.target_s - self.setup_s - self.overhead_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """The plan with as many shards as chosen, the times of each, and what is worth knowing."""

    plan: Plan
    times: tuple[ShardTime, ...]
    note: str = ""


def choose_shards(
    plan_of: Callable[[int], Plan],
    times_of: Callable[[Plan], tuple[ShardTime, ...]],
    bounds: Bounds,
) -> Split:
    """Return the split into the smallest number of shards that meets target and job limit.

    A file longer than the target leaves cannot be split: the target is then as long as that file,
    and the note says so. Where set-up alone exceeds the target, more shards would only cost more:
    the target is left out of account.

    Raises:
        PlanError: no number of shards fits the job's limit.
    """
    finest = plan_of(bounds.most)
    longest_s = max((unit.est_s for unit in finest.units), default=0.0)
    work_s = sum(unit.est_s for unit in finest.units) / max(1, finest.slots)
    wanted_s, note = _wanted(bounds, longest_s)
    refused: PlanError | None = None
    for count in range(_fewest(work_s, wanted_s), bounds.most + 1):
        try:
            plan = plan_of(count)
        except PlanError as error:
            refused = error
            continue
        times = times_of(plan)
        over = max((time.deadline_s for time in times), default=0.0)
        if over > bounds.limit_s:
            refused = _over(plan, over, bounds)
        elif not wanted_s or max((time.run_s for time in times), default=0.0) <= wanted_s:
            return Split(plan=plan, times=times, note=note)
        else:
            refused = None
    if refused is not None:
        raise refused
    return Split(plan=finest, times=times_of(finest), note=note)


def _wanted(bounds: Bounds, longest_s: float) -> tuple[float, str]:
    """Return the seconds that the tests of a shard should take (0: no target), and a note."""
    if not bounds.target_s:
        return 0.0, ""
    asked = f"target of {bounds.target_s / 60:g} min"
    if bounds.run_target_s <= 0:
        spent = (bounds.setup_s + bounds.overhead_s) / 60
        return 0.0, f"{asked} left out of account: set-up alone takes {spent:.1f} min"
    if longest_s > bounds.run_target_s:
        return longest_s, f"{asked} out of reach: one file alone is estimated at {longest_s:g} s"
    return bounds.run_target_s, ""


def _fewest(work_s: float, wanted_s: float) -> int:
    """Return a number of shards below which the target cannot be met."""
    return max(1, math.ceil(work_s / wanted_s - 1e-9)) if wanted_s else 1


def _over(plan: Plan, deadline_s: float, bounds: Bounds) -> PlanError:
    config = bounds.config
    return PlanError(
        [
            Problem(
                path=bounds.table,
                line=config.line,
                found=f"{plan.session}: of {plan.shards} shard(s) one may take {deadline_s:.0f} s, "
                f"and {bounds.overhead_s:.0f} s around it; a job on {config.name} may take "
                f"{config.max_job_minutes * 60:.0f} s.",
                todo="Split its longest file, or raise max_job_minutes.",
                rule="nesting",
            )
        ]
    )
