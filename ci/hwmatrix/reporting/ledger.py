"""The journal's lines, sorted by unit, attempt and part as they come in.

`Ledger.feed` takes one line after the other, so that the live view and the final report share it.
A line may lack keys or hold values of a wrong type (a writer of another version, a damaged disk):
nothing here raises for that, and what is missing is missing from the verdict's evidence too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Line = Mapping[str, object]

_YEAR_10000 = 253_402_300_800


def text(value: object) -> str:
    """Return `value` if it is text, else an empty string."""
    return value if isinstance(value, str) else ""


def number(value: object) -> float:
    """Return `value` as a finite float, else 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0.0
    try:
        return float(value) if math.isfinite(value) else 0.0
    except OverflowError:
        return 0.0


def count(value: object) -> int:
    """Return `value` as a whole number, else 0."""
    return int(number(value))


def moment(value: object) -> float:
    """Return seconds since the epoch that a calendar can show (until the year 9999), else 0."""
    found = number(value)
    return found if 0 < found < _YEAR_10000 else 0.0


def texts(value: object) -> tuple[str, ...]:
    """Return the texts of a list, else nothing."""
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list) else ()


@dataclass(slots=True)
class Trace:
    """What one test left in one process: its reports in order, and whether more must come."""

    reports: list[Line] = field(default_factory=list)
    open: bool = True


@dataclass(slots=True)
class Part:
    """One process of a unit."""

    attempt: int
    part: int
    start: Line | None = None
    collected: tuple[str, ...] | None = None
    deselected: int = 0
    left_out: bool = False  # by --lf: no failure is known of it
    traces: dict[str, Trace] = field(default_factory=dict)
    collect_reports: list[Line] = field(default_factory=list)
    warnings: int = 0
    expired: Line | None = None
    internal_error: str = ""
    end: Line | None = None
    last_time: float = 0.0
    last_test: str = ""

    @property
    def running(self) -> str:
        """The test that was running when this process ended (or the journal did), or ''."""
        if self.end is not None:
            return text(self.end.get("test"))
        if self.expired is not None and self.expired.get("test"):
            return text(self.expired.get("test"))
        trace = self.traces.get(self.last_test)
        return self.last_test if trace is not None and trace.open else ""


@dataclass(slots=True)
class UnitRecord:
    """All that the journal tells of one unit."""

    parts: dict[tuple[int, int], Part] = field(default_factory=dict)
    not_run: str = ""
    not_run_at: float = 0.0

    @property
    def latest(self) -> Part | None:
        """The last process of the last attempt, or None before the first."""
        return self.parts[max(self.parts)] if self.parts else None

    def ordered(self) -> list[Part]:
        """Return the parts by attempt and number."""
        return [self.parts[key] for key in sorted(self.parts)]


def is_subtest(report: Line) -> bool:
    """Return whether a report is that of a subtest (pytest 9 writes `SubTestReport`)."""
    return "_subtest.context" in report or "subtest" in text(report.get("$report_type")).lower()


class Ledger:
    """The journal so far."""

    def __init__(self, lines: Iterable[Line] = ()) -> None:
        """Take in `lines`."""
        self.units: dict[str, UnitRecord] = {}
        self.run_start: Line | None = None
        self.run_end: Line | None = None
        self.stops: list[str] = []
        self.retired: list[Line] = []
        self.lines = 0
        self._stopped_at: dict[str, float] = {}
        self.torn: list[str] = []
        self.first_time = 0.0
        self.last_time = 0.0
        for line in lines:
            self.feed(line)

    def feed(self, line: Line) -> None:
        """Take in one line."""
        self.lines += 1
        at = moment(line.get("time"))
        if at:
            self.first_time = min(self.first_time or at, at)
            self.last_time = max(self.last_time, at)
        kind = text(line.get("$report_type"))
        if kind == "Torn":
            self.torn.append(f"{line.get('path')}:{line.get('line')}")
        elif kind == "RunStart":
            self.run_start = _later(self.run_start, line)
        elif kind == "RunEnd":
            self.run_end = _later(self.run_end, line)
        elif kind == "RunStop":
            self._feed_stop(text(line.get("reason")) or "unknown reason", at)
        elif kind == "SlotRetired":
            self.retired.append(line)
        elif text(line.get("unit")):
            self._feed_unit(kind, line, at)

    @property
    def resumed(self) -> int:
        """How many earlier parts the run has."""
        return count((self.run_start or {}).get("resumed"))

    def forget_earlier_parts(self) -> None:
        """Leave out how the earlier parts of a resumed run ended: only the last end counts.

        Files come in by their name, so the start of the last part may come after its end.
        """
        if not self.resumed:
            return
        since = moment((self.run_start or {}).get("time"))
        self.stops = [why for why in self.stops if self._stopped_at[why] >= since]
        if self.run_end is not None and moment(self.run_end.get("time")) < since:
            self.run_end = None
        for record in self.units.values():
            starts = (moment((part.start or {}).get("time")) for part in record.parts.values())
            if record.not_run_at < since <= max(starts, default=0.0):
                record.not_run = ""

    def _feed_stop(self, reason: str, at: float) -> None:
        if reason not in self.stops:
            self.stops.append(reason)
        self._stopped_at[reason] = max(at, self._stopped_at.get(reason, 0.0))

    def _feed_unit(self, kind: str, line: Line, at: float) -> None:
        record = self.units.setdefault(text(line.get("unit")), UnitRecord())
        if kind == "UnitNotRun":
            record.not_run = text(line.get("reason")) or "no reason given"
            record.not_run_at = at
            return
        key = (max(1, count(line.get("attempt"))), max(1, count(line.get("part"))))
        part = record.parts.get(key)
        if part is None:
            part = record.parts[key] = Part(*key)
        part.last_time = max(part.last_time, at)
        if kind.endswith("TestReport"):
            test = text(line.get("nodeid"))
            trace = part.traces.setdefault(test, Trace())
            trace.reports.append(line)
            # A teardown report is a test's last one; a setup report after it begins a rerun.
            trace.open = is_subtest(line) or line.get("when") != "teardown"
            part.last_test = test
        elif kind == "TestStart":
            part.last_test = text(line.get("test"))
            part.traces.setdefault(part.last_test, Trace()).open = True
        else:
            _feed_part(part, kind, line)


def _later(before: Line | None, line: Line) -> Line:
    """Return the later of two lines of a kind: a resumed run has one of each part."""
    if before is None or moment(line.get("time")) >= moment(before.get("time")):
        return line
    return before


def _feed_part(part: Part, kind: str, line: Line) -> None:
    if kind == "UnitStart":
        part.start = line
    elif kind == "UnitCollected":
        part.collected = texts(line.get("tests"))
        part.deselected = count(line.get("deselected"))
        part.left_out = line.get("left_out") is True
    elif kind == "CollectReport":
        part.collect_reports.append(line)
    elif kind == "WarningMessage":
        part.warnings += 1
    elif kind == "UnitExpired":
        part.expired = line
    elif kind == "InternalError":
        part.internal_error = text(line.get("text"))
    elif kind == "UnitEnd":
        part.end = line
