"""`[[gate]]` rows to the model: names are looked up, and rows that could never run are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwmatrix.matrix.check import quote
from hwmatrix.matrix.switches import switches
from hwmatrix.model import Backend, GateEvent, GateRule

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hwmatrix.matrix.check import Checker, Row
    from hwmatrix.model import Matrix

# A change list exists where one commit is held against another.
_WITH_CHANGES = frozenset({GateEvent.PULL_REQUEST, GateEvent.PUSH, GateEvent.MERGE_GROUP})
# A call carries the labels of the pull request that it came from, if it came from one.
_WITH_LABELS = frozenset({GateEvent.PULL_REQUEST, GateEvent.CALL})


def gates(rows: Iterable[Row], matrix: Matrix, checker: Checker) -> tuple[GateRule, ...]:
    """Return the gate rows in the order of the file; `matrix` has all the other rows."""
    made: list[GateRule] = []
    lines: dict[str, int] = {}
    for row in rows:
        rule = _rule(row, checker)
        if rule.name in lines:
            checker.problem(
                (*row.at, "name"),
                f"is {quote(rule.name)}, as is that of the row on line {lines[rule.name]}.",
                todo="Rename one: reasons name rows.",
            )
        elif rule.name:
            lines[rule.name] = rule.line
        _check_names(row, rule, matrix, checker)
        _check_schedule(row, rule, checker)
        _check_labels(row, rule, checker)
        _check_globs(row, rule, checker)
        _check_switches(row, rule, made, checker)
        made.append(rule)
    return tuple(made)


def _rule(row: Row, checker: Checker) -> GateRule:
    return GateRule(
        name=row.text("name"),
        events=_events(row, "events"),
        cron=row.texts("cron"),
        backends=tuple(Backend(name) for name in row.texts("backends")),
        tiers=row.texts("tiers"),
        suites=row.texts("suites"),
        variants=row.texts("variants"),
        labels=row.texts("labels"),
        bypass_labels=_events(row, "bypass_labels"),
        drafts=row.flag("drafts"),
        branches=row.texts("branches"),
        paths=row.texts("paths"),
        continue_on_error=_events(row, "continue_on_error"),
        env=switches(row, checker),
        about=row.text("about"),
        line=checker.line(row.at),
    )


def _events(row: Row, key: str) -> tuple[GateEvent, ...]:
    return tuple(GateEvent(name) for name in row.texts(key))


def _check_names(row: Row, rule: GateRule, matrix: Matrix, checker: Checker) -> None:
    """Every backend, tier, suite and variant exists; no variant is retired."""
    backends = rule.backends or tuple(matrix.backends)
    rows = [matrix.backends[backend] for backend in backends if backend in matrix.backends]
    variants = {name: variant for each in rows for name, variant in each.variants.items()}
    suites = {suite.name: suite for suite in matrix.suites if suite.backend in backends}
    for key, noun, names, known in (
        ("backends", "backend with a row", row.texts("backends"), _values(matrix.backends)),
        ("tiers", "tier", rule.tiers, matrix.tiers),
        ("suites", "suite of these backends", rule.suites, suites),
        ("variants", "variant of these backends", rule.variants, variants),
    ):
        for index, name in enumerate(names):
            if name not in known:
                checker.refer((*row.at, key, index), name, noun, known)
    for index, name in enumerate(rule.variants):
        if name in variants and variants[name].retired:
            checker.problem(
                (*row.at, "variants", index),
                f"is {quote(name)}, which is retired: {variants[name].retired}",
                todo="Remove it.",
            )


def _values(backends: Iterable[Backend]) -> dict[str, object]:
    return {backend.value: backend for backend in backends}


def _check_schedule(row: Row, rule: GateRule, checker: Checker) -> None:
    scheduled = GateEvent.SCHEDULE in rule.events
    if scheduled and not rule.cron and not checker.has((*row.at, "cron")):
        checker.problem(
            row.at, "answers to schedules, and lacks the key 'cron'.", todo="Say which schedules."
        )
    elif rule.cron and rule.events and not scheduled:
        checker.problem(
            (*row.at, "cron"),
            "is never looked at: the row does not answer to schedules.",
            todo='Add "schedule" to its events, or remove it.',
        )


def _check_labels(row: Row, rule: GateRule, checker: Checker) -> None:
    """Labels can be there on every event that needs them."""
    for event in rule.events if rule.labels else ():
        if event not in _WITH_LABELS and event not in rule.bypass_labels:
            checker.problem(
                (*row.at, "labels"),
                f"can never hold on {event}, which has no labels.",
                todo=f'Say bypass_labels = ["{event}"], or give the event a row of its own.',
            )
    for key, events in (
        ("bypass_labels", rule.bypass_labels),
        ("continue_on_error", rule.continue_on_error if "continue_on_error" in row.given else ()),
    ):
        for index, event in enumerate(events):
            if event not in rule.events:
                checker.problem(
                    (*row.at, key, index),
                    f"is {quote(event.value)}, which this row does not answer to.",
                    f"Its events: {', '.join(rule.events) or 'none'}.",
                )
    if rule.bypass_labels and not rule.labels:
        checker.problem(
            (*row.at, "bypass_labels"), "has no labels to bypass.", todo="Remove it, or add labels."
        )


def _check_globs(row: Row, rule: GateRule, checker: Checker) -> None:
    for key, globs in (("paths", rule.paths), ("branches", rule.branches)):
        if globs and all(glob.startswith("!") for glob in globs):
            checker.problem(
                (*row.at, key),
                "takes nothing in: every glob takes out.",
                todo='Put "**" first, or what it is to take.',
            )
        if globs and rule.events and not _WITH_CHANGES.intersection(rule.events):
            checker.problem(
                (*row.at, key),
                f"is never looked at on {', '.join(rule.events)}.",
                f"It counts on {', '.join(sorted(_WITH_CHANGES))}.",
                "Remove it.",
            )
    if rule.drafts and rule.events and GateEvent.PULL_REQUEST not in rule.events:
        checker.problem((*row.at, "drafts"), "is of pull requests alone.", todo="Remove it.")


def _check_switches(
    row: Row, rule: GateRule, earlier: Sequence[GateRule], checker: Checker
) -> None:
    """Two rows that may start the same session on one event agree on every switch."""
    for other in earlier:
        if not _meet(rule, other):
            continue
        for name in rule.env:
            if name in other.env and other.env[name] != rule.env[name]:
                checker.problem(
                    (*row.at, "env", name),
                    f"is {quote(rule.env[name])}, and {quote(other.env[name])} in row "
                    f"{other.name!r}, which may start the same session on the same event.",
                    todo="Give both the same value, or keep the rows apart.",
                )


def _meet(rule: GateRule, other: GateRule) -> bool:
    """Whether both rows may start one session: empty lists take in everything."""
    shared = set(rule.events) & set(other.events)
    if shared == {GateEvent.SCHEDULE} and not set(rule.cron) & set(other.cron):
        return False
    pairs = (
        (rule.backends, other.backends),
        (rule.tiers, other.tiers),
        (rule.suites, other.suites),
        (rule.variants, other.variants),
    )
    return bool(shared) and all(
        not mine or not theirs or set(mine) & set(theirs) for mine, theirs in pairs
    )
