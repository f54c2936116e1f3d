"""One gate row held against one event: does it hold, and what is to be said of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hwmatrix.gate.globs import taken, takes
from hwmatrix.gate.text import listed, quoted
from hwmatrix.model import GateEvent, GateRule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hwmatrix.gate.decision import Facts
    from hwmatrix.gate.events import Event
    from hwmatrix.model import Matrix, SessionName

# Where one commit is held against another, on a branch.
_WITH_CHANGES = frozenset({GateEvent.PULL_REQUEST, GateEvent.PUSH, GateEvent.MERGE_GROUP})
# What starts only when somebody asks for it.
BY_HAND = frozenset({GateEvent.DISPATCH, GateEvent.CALL})


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """A row, whether it failed, and the reason in one line.

    `asks_labels` and `asks_changes` tell that the answer hangs on them; `labels_unknown` says why
    they are missing where they are.
    """

    rule: GateRule
    failed: bool
    reason: str
    asks_labels: bool = False
    asks_changes: bool = False
    labels_unknown: str = ""


def covers(rule: GateRule, session: SessionName, matrix: Matrix) -> bool:
    """Return whether `rule` reaches a suite of the session's backend and tier."""
    own = {suite.name for suite in matrix.suites_of(session.backend, session.tier)}
    return (
        (not rule.backends or session.backend in rule.backends)
        and (not rule.tiers or session.tier in rule.tiers)
        and (not rule.suites or not own.isdisjoint(rule.suites))
    )


def judge(rule: GateRule, event: Event, matrix: Matrix, *, labels: Facts, changes: Facts) -> Judged:
    """Return whether `rule` holds on `event`, which is one of its events."""
    against = [
        *_against_branch(rule, event),
        *_against_draft(rule, event),
        *_against_cron(rule, event),
    ]
    if against:
        # Nothing more was asked for, so nothing more can be said.
        return Judged(rule=rule, failed=True, reason=_reason(rule, matrix, against))
    asks_labels = _needs_labels(rule, event) and event.number > 0
    for_it = [f"schedule {quoted(event.cron)}"] if event.cron else []
    if _needs_labels(rule, event):
        missing = [label for label in rule.labels if label not in labels.names]
        if not event.number:
            against.append(f"needs {_labels(rule.labels)}, and no pull request is behind this call")
        elif missing:
            has = listed(labels.names) if labels.names else "none"
            against.append(f"needs {_labels(missing)}; the pull request has {has}")
        else:
            for_it.append(f"{_labels(rule.labels)} {'are' if len(rule.labels) > 1 else 'is'} there")
    elif rule.labels:
        for_it.append(f"{event.name} bypasses the labels")
    if rule.paths and event.name in _WITH_CHANGES:
        reason, counts = _paths(rule, changes)
        (for_it if counts else against).append(reason)
    said = against or for_it or [f"answers to {event.name}"]
    return Judged(
        rule=rule,
        failed=bool(against),
        reason=_reason(rule, matrix, said),
        asks_labels=asks_labels,
        asks_changes=bool(rule.paths) and event.name in _WITH_CHANGES,
        labels_unknown=labels.unreadable if asks_labels else "",
    )


def _reason(rule: GateRule, matrix: Matrix, said: Iterable[str]) -> str:
    return f"row {rule.name!r} ({matrix.path}:{rule.line}): {'; '.join(said)}"


def _labels(names: tuple[str, ...] | list[str]) -> str:
    return f"label{'s' * (len(names) > 1)} {listed(names)}"


def _needs_labels(rule: GateRule, event: Event) -> bool:
    return bool(rule.labels) and event.name not in rule.bypass_labels


def _against_branch(rule: GateRule, event: Event) -> Iterator[str]:
    looked_at = event.name in _WITH_CHANGES and rule.branches
    if looked_at and not takes(rule.branches, event.branch):
        yield f"the branch {quoted(event.branch)} is none of {', '.join(rule.branches)}"


def _against_draft(rule: GateRule, event: Event) -> Iterator[str]:
    if event.name is GateEvent.PULL_REQUEST and event.draft and not rule.drafts:
        yield "the pull request is a draft"


def _against_cron(rule: GateRule, event: Event) -> Iterator[str]:
    if event.name is GateEvent.SCHEDULE and event.cron not in rule.cron:
        yield f"runs on the schedule {', '.join(rule.cron)}"


def _paths(rule: GateRule, changes: Facts) -> tuple[str, bool]:
    """What to say of the changed paths, and whether they let the row run."""
    if changes.unreadable:
        return f"the changed paths are not known ({changes.unreadable})", True
    count = len(changes.names)
    hits = taken(rule.paths, changes.names)
    if hits:
        return f"{len(hits)} of {count} changed paths count, {quoted(hits[0])} first", True
    return f"none of {count} changed paths counts ({listed(changes.names)})", False
