"""One report.json as values: what `finish` needs of it, checked (docs/report.md has the format)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = 1
# Outcomes that make a verdict red (docs/report.md).
RED = frozenset({"failed", "crashed", "timed out", "not run"})
OUTCOMES = RED | {"passed", "skipped", "deselected"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """A value that a test measured, beside its limit."""

    test: str
    name: str
    value: float
    limit: float
    unit: str = ""
    better: str = "lower"

    @property
    def used(self) -> float:
        """How much of the way to the limit it has gone: 1 is at the limit, more is over it.

        0 where that cannot be said (a limit or value of zero, or of another sign).
        """
        one, other = (self.value, self.limit)
        if self.better == "higher":
            one, other = other, one
        return one / other if one > 0 and other > 0 else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitRow:
    """How one unit ended. `tests` are (id, outcome, reason) of those that did not end well."""

    id: str
    suite: str
    files: tuple[str, ...]
    outcome: str
    reason: str
    flaky: bool
    seconds: float
    est_s: float
    budget_s: float
    command: str
    tests: tuple[tuple[str, str, str], ...] = ()
    flaky_tests: tuple[str, ...] = ()
    measured: tuple[Measured, ...] = ()

    @property
    def where(self) -> str:
        """Its file, or its files in a row."""
        return " ".join(self.files) or self.id


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """The report of one machine. `planned` has the unit ids of every shard of its plan."""

    place: str
    run: str
    session: str
    backend: str
    suites: tuple[str, ...]
    plan_hash: str
    shard: int
    shards: int
    planned: tuple[tuple[str, ...], ...]
    commit: str
    table_hash: str
    green: bool
    reasons: tuple[str, ...]
    units: tuple[UnitRow, ...]
    tests: Mapping[str, int]
    command: str
    command_red: str
    seconds: float = 0.0
    setup_s: float = 0.0
    setup_planned_s: float = 0.0

    @property
    def name(self) -> str:
        """What messages call it."""
        suites = f" ({', '.join(self.suites)})" if self.suites else ""
        return f"{self.session}{suites} shard {self.shard}/{self.shards}"


def parse(plain: object, place: str) -> Shard:
    """Return the report that `plain` (parsed JSON) spells; `place` says where it was.

    Raises:
        ValueError: it is no report, or one of another version; the message says why.
    """
    top = _table(plain, "the report")
    if top.get("kind") != "verdict":
        message = f"its kind is {str(top.get('kind'))[:40]!r}, not 'verdict'"
        raise ValueError(message)
    if top.get("version") != VERSION:
        message = f"its version is {str(top.get('version'))[:40]!r}; this reads version {VERSION}"
        raise ValueError(message)
    verdict, setup = _table(top.get("verdict"), "verdict"), _table(top.get("setup", {}), "setup")
    shard, shards = int(_number(top, "shard")), int(_number(top, "shards"))
    if not 1 <= shard <= shards:
        message = f"there is no shard {shard} of {shards}"
        raise ValueError(message)
    return Shard(
        place=place,
        run=_text(top, "run"),
        session=_text(top, "session"),
        backend=_text(top, "backend"),
        suites=_texts(top, "suites"),
        plan_hash=_text(top, "plan_hash"),
        shard=shard,
        shards=shards,
        planned=tuple(_strings(ids, "planned") for ids in _list(top, "planned")),
        commit=_text(top, "commit"),
        table_hash=_text(top, "table_hash"),
        green=verdict.get("green") is True,
        reasons=_texts(verdict, "reasons"),
        units=tuple(_unit(_table(unit, "a unit")) for unit in _list(top, "units")),
        tests={
            name: int(_number(_table(verdict.get("tests", {}), "tests"), name))
            for name in _table(verdict.get("tests", {}), "tests")
        },
        command=_text(top, "command"),
        command_red=_text(top, "command_red"),
        seconds=_number(top, "seconds"),
        setup_s=_number(setup, "seconds", 0.0),
        setup_planned_s=_number(setup, "planned_s", 0.0),
    )


def _unit(plain: Mapping[str, object]) -> UnitRow:
    outcome = _text(plain, "outcome")
    if outcome not in OUTCOMES:
        message = f"unit {_text(plain, 'id')!r} came to {outcome[:40]!r}, which is no outcome"
        raise ValueError(message)
    tests = [_table(test, "a test") for test in _list(plain, "tests")]
    return UnitRow(
        id=_text(plain, "id"),
        suite=_text(plain, "suite"),
        files=_texts(plain, "files"),
        outcome=outcome,
        reason=_text(plain, "reason"),
        flaky=plain.get("flaky") is True,
        seconds=_number(plain, "seconds"),
        est_s=_number(plain, "est_s"),
        budget_s=_number(plain, "budget_s"),
        command=_text(plain, "command"),
        tests=tuple(
            (_text(test, "id"), _text(test, "outcome"), _text(test, "reason"))
            for test in tests
            if test.get("outcome") in RED
        ),
        flaky_tests=tuple(_text(test, "id") for test in tests if test.get("flaky") is True),
        measured=tuple(found for test in tests for found in _measured(test)),
    )


def _measured(test: Mapping[str, object]) -> Iterator[Measured]:
    """Yield what the test measured against a limit; a report without such lists has none."""
    items = test.get("measurements", [])
    for item in items if isinstance(items, list) else []:
        value, limit = (item.get("value"), item.get("limit")) if isinstance(item, dict) else (0, 0)
        if isinstance(item, dict) and _finite(value) and _finite(limit):
            yield Measured(
                test=_text(test, "id"),
                name=str(item.get("name", "")),
                value=float(str(value)),
                limit=float(str(limit)),
                unit=str(item.get("unit", "")),
                better=str(item.get("better", "lower")),
            )


def _finite(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _table(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        message = f"{what} is no object"
        raise ValueError(message)  # noqa: TRY004 - callers tell of one kind of fault
    return value


def _list(plain: Mapping[str, object], key: str) -> list[object]:
    value = plain.get(key)
    if not isinstance(value, list):
        message = f"{key!r} is no list"
        raise ValueError(message)  # noqa: TRY004 - as above
    return value


def _text(plain: Mapping[str, object], key: str) -> str:
    value = plain.get(key)
    if not isinstance(value, str):
        message = f"{key!r} is no text"
        raise ValueError(message)  # noqa: TRY004 - as above
    return value


def _texts(plain: Mapping[str, object], key: str) -> tuple[str, ...]:
    return _strings(plain.get(key), key)


def _strings(value: object, what: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        message = f"{what!r} is no list of texts"
        raise ValueError(message)
    return tuple(value)


def _number(plain: Mapping[str, object], key: str, default: float | None = None) -> float:
    value = plain.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        message = f"{key!r} is no number"
        raise ValueError(message)
    return float(value)
