"""Registrations to units: what is scheduled, with its budget, environment and weight."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hwmatrix.model import Unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hwmatrix.model import Backend, Matrix, Registration, Suite
    from hwmatrix.planning.assign import Assignment
    from hwmatrix.planning.select import Picked


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A unit before it has a shard: `weight_s` is measured where history knows, else estimated.

    `cost` is what it takes of the machine: its weight times the narrowest slots that it fills.
    """

    unit: Unit
    weight_s: float
    cost: float
    registrations: tuple[Registration, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Drafts:
    """The units that run, in order of start, and what was left out: (id, reason) each."""

    drafts: tuple[Draft, ...]
    disabled: tuple[tuple[str, str], ...]
    deselected: tuple[tuple[str, str], ...]
    registered: int


def unit_id(suite: str, name: str) -> str:
    """Return what names a unit: `suite:path`, or `suite:@group` for files that share a process."""
    return f"{suite}:{name}"


def draft_units(
    matrix: Matrix,
    assignment: Assignment,
    suites: Sequence[Suite],
    picked: Picked,
    history: Mapping[tuple[Backend, str, str], float],
) -> Drafts:
    """Return the units of `suites` that are enabled and picked, in the order of their start.

    Those that need the host for themselves first, then wide ones before narrow ones: the devices
    of a wide unit never come free together while narrow units keep being placed on some of them.
    Within a width heaviest first, ties by id.
    """
    drafts: list[Draft] = []
    disabled: list[tuple[str, str]] = []
    deselected: list[tuple[str, str]] = []
    registered = 0
    for suite in suites:
        groups: dict[str, list[Registration]] = defaultdict(list)
        for registration in assignment.by_suite.get((suite.backend, suite.name), ()):
            registered += 1
            name = unit_id(suite.name, registration.path)
            if not picked.of(registration.path):
                deselected.append((name, "not under the paths given"))
            elif registration.disabled:
                disabled.append((name, reason(registration)))
            else:
                group = registration.in_process_group
                groups[f"@{group}" if group else registration.path].append(registration)
        drafts += [
            _draft(name, members, matrix=matrix, suite=suite, picked=picked, history=history)
            for name, members in groups.items()
        ]
    drafts = _costed(drafts, matrix, suites)
    drafts.sort(
        key=lambda draft: (
            not draft.unit.exclusive,
            -draft.unit.devices,
            -draft.weight_s,
            draft.unit.id,
        )
    )
    return Drafts(
        drafts=tuple(drafts),
        disabled=tuple(sorted(disabled)),
        deselected=tuple(sorted(deselected)),
        registered=registered,
    )


def reason(registration: Registration) -> str:
    """Return why a registration is disabled, with owner and expiry where they are given."""
    off = registration.disabled
    assert off is not None
    notes = [f"owner {off.owner}" if off.owner else "", f"until {off.until}" if off.until else ""]
    extra = ", ".join(note for note in notes if note)
    text = off.reason or "no reason given"
    return f"{text} ({extra})" if extra else text


def _draft(
    name: str,
    members: Iterable[Registration],
    *,
    matrix: Matrix,
    suite: Suite,
    picked: Picked,
    history: Mapping[tuple[Backend, str, str], float],
) -> Draft:
    files = sorted(members, key=lambda r: r.path)
    tier = matrix.tiers[suite.tier]
    est_s = float(sum(r.est_s for r in files))  # 10 and 10.0 must not differ in the hash
    unit = Unit(
        id=unit_id(suite.name, name),
        suite=suite.name,
        files=tuple(r.path for r in files),
        selectors=tuple(selector for r in files for selector in picked.of(r.path)),
        est_s=est_s,
        test_limit_s=tier.budget.test_limit_s(est_s),
        budget_s=tier.budget.budget_s(est_s),
        devices=matrix.runner_configs[suite.runner_config].devices,
        shard=1,
        env={**matrix.backends[suite.backend].env, **tier.env, **suite.env},
        isolation=suite.isolation,
        exclusive=suite.exclusive,
    )
    weight_s = float(
        sum(_seconds(history.get((suite.backend, suite.name, r.path)), r.est_s) for r in files)
    )
    return Draft(unit=unit, weight_s=weight_s, cost=weight_s, registrations=tuple(files))


def _costed(drafts: list[Draft], matrix: Matrix, suites: Sequence[Suite]) -> list[Draft]:
    """Return the drafts with what each takes of the machine; alike units keep weight as cost."""
    narrowest = min((draft.unit.devices for draft in drafts), default=1)
    configs = [matrix.runner_configs[suite.runner_config] for suite in suites]
    whole = max((config.devices * config.slots for config in configs), default=1)
    found = []
    for draft in drafts:
        share = (whole if draft.unit.exclusive else draft.unit.devices) / narrowest
        found.append(replace(draft, cost=draft.weight_s * share))
    return found


def _seconds(measured: float | None, est_s: float) -> float:
    """Return the measured time where it is one; a file of history may hold anything."""
    return measured if measured is not None and 0 < measured < math.inf else est_s
