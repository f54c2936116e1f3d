"""The plan: frozen, hashed, the same on every machine, checked before anything runs."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import TYPE_CHECKING

from hwmatrix import codec
from hwmatrix.errors import NothingToDoError, PlanError, UsageError
from hwmatrix.model import Plan
from hwmatrix.placing import makespan_s, need_of
from hwmatrix.planning.nesting import check_shards, check_units, frame_of, run_deadline_s
from hwmatrix.planning.select import pick_paths, pick_suites
from hwmatrix.planning.split import split
from hwmatrix.planning.units import draft_units

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hwmatrix.errors import Problem
    from hwmatrix.model import Backend, Matrix, RunnerConfig, SessionName
    from hwmatrix.planning.assign import Assignment
    from hwmatrix.planning.nesting import Frame
    from hwmatrix.planning.units import Draft, Drafts

# 64 bits: enough to tell plans apart, short enough to read out and to stand in a job's name.
_HASH_DIGITS = 16


def make_plan(
    matrix: Matrix,
    session: SessionName,
    assignment: Assignment,
    *,
    suites: Sequence[str] = (),
    shard: int = 1,
    shards: int = 1,
    paths: Sequence[str] = (),
    history: Mapping[tuple[Backend, str, str], float] | None = None,
    allow_empty: bool = False,
) -> Plan:
    """Return the plan of `session` with all its units, each in exactly one shard.

    Units stand in the order in which they are to start: those that want the host for themselves,
    then the widest, of those the heaviest; ties by id. `history`
    has measured seconds per (backend, suite, path): they weigh units for order and split in place
    of estimates; budgets and deadlines stay with the estimates, which people have reviewed. With
    `allow_empty` a plan, or this machine's shard of it, may have no unit.

    Raises:
        UsageError: a suite, path or shard that does not exist.
        PlanError: budgets that do not nest, all of them.
        NothingToDoError: nothing to run here, and not `allow_empty`.
    """
    if not 1 <= shard <= shards:
        raise UsageError(
            f"{session.name}: there is no shard {shard} of {shards}; write 1/N to N/N."
        )
    chosen = pick_suites(matrix, session, suites)
    picked = pick_paths(matrix, session, assignment, chosen, paths)
    drafts = draft_units(matrix, assignment, chosen, picked, history or {})
    if not allow_empty:
        _refuse_empty(drafts, session, shard, shards)
    _raise(check_units(drafts.drafts, session))
    weights = [draft.weight_s for draft in drafts.drafts]
    units = tuple(
        dataclasses.replace(draft.unit, shard=number + 1)
        for draft, number in zip(drafts.drafts, _shards(drafts.drafts, shards), strict=True)
    )
    frame = frame_of(matrix, session, chosen)
    _raise(check_shards(units, frame, shards))
    plan = Plan(
        session=session.name,
        backend=session.backend,
        variant=session.variant,
        tier=session.tier,
        suites=tuple(suite.name for suite in chosen),
        units=units,
        shard=shard,
        shards=shards,
        hash="",
        disabled=drafts.disabled,
        deselected=drafts.deselected,
        fail_fast=frame.tier.fail_fast,
        slots=frame.slots,
        setup_s=frame.setup_s,
    )
    return _timed(plan, matrix, frame, weights)


def _shards(drafts: Sequence[Draft], count: int) -> list[int]:
    """Return the shard (from 0) of each draft; `split` wants the costliest first."""
    order = sorted(range(len(drafts)), key=lambda n: (-drafts[n].cost, drafts[n].unit.id))
    found = [0] * len(drafts)
    for n, shard in zip(order, split([drafts[n].cost for n in order], count), strict=True):
        found[n] = shard
    return found


def _timed(plan: Plan, matrix: Matrix, frame: Frame, weights: Sequence[float]) -> Plan:
    """Return the plan with its hash, and with the times of this machine's shard."""
    mine = [
        (weight_s, need_of(unit))
        for weight_s, unit in zip(weights, plan.units, strict=True)
        if unit.shard == plan.shard
    ]
    return dataclasses.replace(
        plan,
        hash=_hash(plan, matrix, frame, weights),
        makespan_s=makespan_s(mine, frame.places),
        deadline_s=frame.setup_s + run_deadline_s(plan.mine, frame.places, frame.tier),
    )


def _raise(problems: Sequence[Problem]) -> None:
    if problems:
        raise PlanError(problems)


def _refuse_empty(drafts: Drafts, session: SessionName, shard: int, shards: int) -> None:
    """Tell why there is nothing to do, with the counts that a person needs."""
    count = len(drafts.drafts)
    if count >= shard:  # each shard up to the number of units has one
        return
    if count:
        raise NothingToDoError(
            f"{session.name}: nothing selected: shard {shard} of {shards} is empty, since "
            f"{count} unit(s) fill {count} shard(s). Use --shard I/{count}, or pass --allow-empty "
            "if intended."
        )
    counts = [f"{drafts.registered} files registered"]
    if drafts.disabled:
        counts.append(f"{len(drafts.disabled)} disabled (reasons below)")
    if drafts.deselected:
        counts.append(f"{len(drafts.deselected)} deselected")
    lines = [
        f"{session.name}: nothing selected: {', '.join(counts)}. Pass --allow-empty if intended."
    ]
    lines += [f"  {name}: {reason}" for name, reason in drafts.disabled]
    raise NothingToDoError("\n".join(lines))


def _hash(plan: Plan, matrix: Matrix, frame: Frame, weights: Sequence[float]) -> str:
    """Return the hash of all that the shards share: not which of them this is, nor its times."""
    shared = {
        field.name: getattr(plan, field.name)
        for field in dataclasses.fields(plan)
        if field.name not in ("shard", "hash", "makespan_s", "deadline_s")
    }
    backend = matrix.backends[plan.backend]
    facts = {
        "plan": shared,
        "weights_s": list(weights),
        "variant": backend.variants.get(plan.variant),
        "preload": list(backend.preload),
        "budget": frame.tier.budget,
        "runners": [_facts(config, plan.backend) for config in frame.configs],
    }
    return hashlib.sha256(codec.dumps(facts).encode("utf-8")).hexdigest()[:_HASH_DIGITS]


def _facts(config: RunnerConfig, backend: Backend) -> dict[str, object]:
    """Return what a runner config says about the machine; not where the row stands."""
    return {
        "name": config.name,
        "devices": config.devices,
        "slots": config.slots,
        "memory_gib": config.memory_gib,
        "arch": list(config.arch.get(backend, ())),
        "max_job_minutes": config.max_job_minutes,
    }
