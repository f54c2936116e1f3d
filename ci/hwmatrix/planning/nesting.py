"""Budgets nest: test < file < shard < job. Checked here, before anything runs.

A shard's deadline = set-up + factor x estimated makespan + the largest (budget - estimate): each
file may take `factor` times its estimate, and one of them may hang until its budget ends it.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hwmatrix.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hwmatrix.model import Matrix, Plan, RunnerConfig, SessionName, Suite, Tier, Unit
    from hwmatrix.planning.units import Draft


def makespan_s(seconds: Iterable[float], slots: int) -> float:
    """Return how long list scheduling takes: each item, in order, on the slot that is free first.

    A unit takes one slot. A session's slots are as wide as its widest runner config, so a unit
    that needs fewer devices leaves some idle: the figure is then too high, never too low.
    """
    free = [0.0] * max(1, slots)
    for item in seconds:
        heapq.heapreplace(free, free[0] + item)
    return max(free)


def run_deadline_s(units: Sequence[Unit], slots: int, tier: Tier) -> float:
    """Return the seconds in which `units` must have ended, set-up not counted; 0 for none.

    From estimates, never from history: it must hold the budgets, which come from estimates too.
    """
    if not units:
        return 0.0
    spread = max(unit.budget_s - unit.est_s for unit in units)
    return tier.budget.factor * makespan_s((unit.est_s for unit in units), slots) + spread


def deadline_s(plan: Plan, matrix: Matrix, *, slots: int) -> float:
    """Return the deadline of this machine's shard, from the start of its run, on real `slots`."""
    return run_deadline_s(plan.mine, slots, matrix.tiers[plan.tier])


def check_units(drafts: Iterable[Draft], session: SessionName) -> list[Problem]:
    """Return one problem per unit whose test limit, budget and estimate do not nest."""
    problems = []
    for draft in drafts:
        unit, first = draft.unit, draft.registrations[0]
        found = ""
        if not all(map(math.isfinite, (unit.est_s, unit.test_limit_s, unit.budget_s))):
            found = f"is estimated at {unit.est_s:g} s; its budget is no finite number."
        elif unit.est_s <= 0:
            found = f"is estimated at {unit.est_s:g} s."
        elif unit.budget_s <= unit.est_s:
            found = f"is estimated at {unit.est_s:g} s; its budget is {unit.budget_s:g} s."
        elif unit.test_limit_s >= unit.budget_s:
            found = (
                f"has {unit.test_limit_s:g} s for one test and {unit.budget_s:g} s for all of them."
            )
        if found:
            problems.append(
                Problem(
                    path=first.path,
                    line=first.line,
                    column=first.column,
                    found=f"{session.name}: {unit.id} {found}",
                    allowed="A file's budget exceeds its estimate and what one test may take.",
                    todo="Correct est_time, or the budget rows of the table.",
                    rule="nesting",
                )
            )
    return problems


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """What a session's shards must fit into: the machine, its job, and the tier's rules."""

    session: SessionName
    tier: Tier
    configs: tuple[RunnerConfig, ...]
    slots: int
    setup_s: float
    table: str

    @property
    def host(self) -> RunnerConfig:
        """The runner config whose job runs all of it: the widest, of those the tightest."""
        return min(self.configs, key=lambda c: (-c.devices, c.max_job_minutes, c.name))


def frame_of(matrix: Matrix, session: SessionName, suites: Iterable[Suite]) -> Frame:
    """Return the frame for `suites` of a session.

    With several runner configs one machine must be able to run every unit: its slots are as wide
    as the widest config, and it has as many as the config with most devices in all gives. (CI
    gives each suite its own jobs, with --suite, and then there is one config.)
    """
    names = dict.fromkeys(suite.runner_config for suite in suites)
    configs = tuple(matrix.runner_configs[name] for name in names)
    widest = max(config.devices for config in configs)
    devices = max(config.devices * config.slots for config in configs)
    return Frame(
        session=session,
        tier=matrix.tiers[session.tier],
        configs=configs,
        slots=devices // widest,
        setup_s=matrix.backends[session.backend].setup_s,
        table=matrix.path,
    )


def check_shards(units: Sequence[Unit], frame: Frame, shards: int) -> list[Problem]:
    """Return one problem per shard whose deadline its machine's job cannot hold."""
    problems = []
    for shard in range(1, shards + 1):
        mine = [unit for unit in units if unit.shard == shard]
        if mine and (fault := _shard_fault(mine, frame, shards)):
            problems.append(
                Problem(
                    path=frame.table,
                    line=frame.host.line,
                    found=f"{frame.session.name}: shard {shard} of {shards} {fault[0]}",
                    todo=fault[1],
                    rule="nesting",
                )
            )
    return problems


def _shard_fault(mine: Sequence[Unit], frame: Frame, shards: int) -> tuple[str, str] | None:
    """Return (what is wrong with a shard, what to do), or None."""
    run_s = run_deadline_s(mine, frame.slots, frame.tier)
    longest = max(mine, key=lambda unit: (unit.budget_s, unit.id))
    if longest.budget_s > run_s:
        found = f"may run {run_s:.0f} s; the budget of {longest.id} is {longest.budget_s:.0f} s."
        return found, "Raise the tier's factor to 1 at least."
    allowed_s = frame.host.max_job_minutes * 60
    if frame.setup_s + run_s <= allowed_s:
        return None
    found = (
        f"may take {frame.setup_s + run_s:.0f} s (set-up {frame.setup_s:.0f} s, run {run_s:.0f} "
        f"s); a job on {frame.host.name} may take {allowed_s:.0f} s."
    )
    if frame.setup_s + run_deadline_s([longest], 1, frame.tier) > allowed_s:
        todo = f"{longest.id} alone does not fit: split the file or raise max_job_minutes."
    else:
        todo = (
            f"Use more shards (--shard I/{shards + 1} or further), split long files, or raise "
            "max_job_minutes."
        )
    return found, todo
