"""Budgets nest: test < file < shard < job. Checked here, before anything runs.

A shard's deadline = set-up + factor x estimated makespan + the largest (budget - estimate): each
file may take `factor` times its estimate, and one of them may hang until its budget ends it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hwmatrix.errors import Problem
from hwmatrix.placing import makespan_s, need_of, planned_places

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hwmatrix.model import Matrix, Plan, RunnerConfig, SessionName, Suite, Tier, Unit
    from hwmatrix.placing import Place
    from hwmatrix.planning.units import Draft


def run_s(units: Sequence[Unit], places: Sequence[Place], *, at_once: int = 0) -> float:
    """Return how long `units` are estimated to run on `places`, by list scheduling."""
    return makespan_s(((u.est_s, need_of(u)) for u in units), places, at_once=at_once)


def run_deadline_s(
    units: Sequence[Unit], places: Sequence[Place], tier: Tier, *, at_once: int = 0
) -> float:
    """Return the seconds in which `units` must have ended, set-up not counted; 0 for none.

    From estimates, never from history: it must hold the budgets, which come from estimates too.
    """
    if not units:
        return 0.0
    spread = max(unit.budget_s - unit.est_s for unit in units)
    return tier.budget.factor * run_s(units, places, at_once=at_once) + spread


def deadline_s(plan: Plan, matrix: Matrix, places: Sequence[Place], *, at_once: int = 0) -> float:
    """Return the deadline of this machine's shard, from the start of its run, on real `places`."""
    return run_deadline_s(plan.mine, places, matrix.tiers[plan.tier], at_once=at_once)


def planned_on(plan: Plan, matrix: Matrix) -> tuple[Place, ...]:
    """Return the places of the machine that the plan reckons with."""
    suites = [s for s in matrix.suites if s.backend is plan.backend and s.name in plan.suites]
    return places_of([matrix.runner_configs[suite.runner_config] for suite in suites])


def places_of(configs: Iterable[RunnerConfig]) -> tuple[Place, ...]:
    """Return the places of one machine that can run every unit of `configs`.

    It has as many devices as the config with most of them in all. (CI gives each suite its own
    jobs, with --suite, and then there is one config.)
    """
    configs = list(configs)
    devices = max(config.devices * config.slots for config in configs)
    return planned_places(devices, (config.devices for config in configs))


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
    places: tuple[Place, ...]
    setup_s: float
    table: str

    @property
    def host(self) -> RunnerConfig:
        """The runner config whose job runs all of it: the widest, of those the tightest."""
        return min(self.configs, key=lambda c: (-c.devices, c.max_job_minutes, c.name))

    @property
    def slots(self) -> int:
        """How many slots of the narrowest runner config there are."""
        narrowest = min(map(len, self.places))
        return sum(len(place) == narrowest for place in self.places)


def frame_of(matrix: Matrix, session: SessionName, suites: Iterable[Suite]) -> Frame:
    """Return the frame for `suites` of a session."""
    names = dict.fromkeys(suite.runner_config for suite in suites)
    configs = tuple(matrix.runner_configs[name] for name in names)
    return Frame(
        session=session,
        tier=matrix.tiers[session.tier],
        configs=configs,
        places=places_of(configs),
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
    limit_s = run_deadline_s(mine, frame.places, frame.tier)
    longest = max(mine, key=lambda unit: (unit.budget_s, unit.id))
    if longest.budget_s > limit_s:
        found = f"may run {limit_s:.0f} s; the budget of {longest.id} is {longest.budget_s:.0f} s."
        return found, "Raise the tier's factor to 1 at least."
    allowed_s = frame.host.max_job_minutes * 60
    if frame.setup_s + limit_s <= allowed_s:
        return None
    found = (
        f"may take {frame.setup_s + limit_s:.0f} s (set-up {frame.setup_s:.0f} s, run "
        f"{limit_s:.0f} s); a job on {frame.host.name} may take {allowed_s:.0f} s."
    )
    if frame.setup_s + run_deadline_s([longest], frame.places, frame.tier) > allowed_s:
        todo = f"{longest.id} alone does not fit: split the file or raise max_job_minutes."
    else:
        todo = (
            f"Use more shards (--shard I/{shards + 1} or further), split long files, or raise "
            "max_job_minutes."
        )
    return found, todo
