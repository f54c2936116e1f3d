"""One part of a unit, as the worker sees it: what the child reports, journalled and passed on."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any, Protocol

from hwmatrix import process

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hwmatrix.journal import Journal
    from hwmatrix.model import Unit

Location = tuple[str, "int | None", str]

# pytest's exit statuses that need no explanation: passed, failed, no tests.
_ORDINARY = frozenset({0, 1, 5})
# Internal error and usage error: no machine makes those.
_REFUSALS = frozenset({3, 4})


class Sink(Protocol):
    """Where reports go besides the journal. `data` is pytest's serialised report."""

    def start(self, test: str, location: Location) -> None:
        """Take that a test begins."""

    def report(self, data: Mapping[str, Any]) -> None:
        """Take one phase of a test."""

    def finish(self, test: str, location: Location) -> None:
        """Take that a test is over."""

    def collect_report(self, data: Mapping[str, Any]) -> None:
        """Take what could not be collected."""

    def warning(self, event: Mapping[str, Any]) -> None:
        """Take a warning."""

    def broken(self, unit: Unit, test: str | None, text: str, seconds: float) -> None:
        """Take that the process of the unit ended badly, while `test` ran if not None."""


class Part:
    """Takes the child's events in order; `done` are the tests that this and earlier parts ended."""

    def __init__(
        self,
        unit: Unit,
        number: int,
        *,
        attempt: int = 1,
        done: Sequence[str],
        journal: Journal,
        sink: Sink,
    ) -> None:
        self.unit = unit
        self.number = number
        self.attempt = attempt
        self.keys: dict[str, object] = {"unit": unit.id, "attempt": attempt, "part": number}
        self.begun = False
        self._failures = 0
        self._finished = 0
        self._faults: list[str] = []
        self.done = list(done)
        self.running: str | None = None
        self._collected: tuple[str, ...] = ()
        self._pytest_status: int | None = None
        self._ended: Mapping[str, Any] = lost("the worker was interrupted", why="stopped")
        self._started = time.monotonic()
        self._journal = journal
        self._sink = sink
        self._takers = {
            "start": self._take_start,
            "report": self._take_report,
            "finish": self._take_finish,
            "collected": self._take_collected,
            "collectreport": self._take_collect_report,
            "warning": self._take_warning,
            "internal error": self._take_internal_error,
            "end": self._take_end,
        }

    def begin(self, **keys: object) -> None:
        """Journal that the process runs."""
        self.begun = True
        self._journal.write("UnitStart", **self.keys, **keys)

    def take(self, event: dict[str, Any]) -> None:
        """Take one event of the child."""
        self._takers[event.pop("kind")](event)

    def expire(self) -> None:
        """Journal that the budget is over."""
        limit_s = self.unit.budget_s
        self._journal.write("UnitExpired", **self.keys, limit_s=limit_s, test=self.running)

    @property
    def cause(self) -> str:
        """The journal's word for how the part ended."""
        if self._ended["why"]:
            return str(self._ended["why"])
        said = self._pytest_status
        return "finished" if said is not None and said == self._ended["exit_status"] else "crashed"

    @property
    def left(self) -> frozenset[str]:
        """The tests that were collected and not run yet, where the process came to a bad end.

        None where that was before the first test: the next process would come no further.
        """
        if self.cause != "crashed" or (self.running is None and not self._finished):
            return frozenset()
        return frozenset(self._collected) - frozenset(self.done)

    @property
    def failed(self) -> bool:
        """True if the code failed, whatever the machine did besides."""
        crashed = self.cause == "crashed" and not self._killed_from_outside
        refused = self.cause == "finished" and self._pytest_status in _REFUSALS
        return bool(self._failures) or crashed or refused

    @property
    def fault(self) -> str:
        """What the machine did to this part, "" if nothing.

        A kill from outside counts (the kernel's when memory runs out, most of all), and so does a
        budget that ran out. A signal that a process brings on itself does not.
        """
        if self.cause == "budget":
            return "killed at its budget"
        if self._killed_from_outside:
            return "killed from outside (SIGKILL)"
        return next(iter(self._faults), "")

    @property
    def _killed_from_outside(self) -> bool:
        return self.cause == "crashed" and self._ended["signal"] == signal.SIGKILL

    def end(self, ended: Mapping[str, Any] | None) -> None:
        """Journal how the part ended; `ended` is what the server said, None if it did not.

        A part that was stopped before it had a process has no end: the unit was not run.
        """
        self._ended = ended or self._ended
        if self.cause == "stopped" and not self.begun:
            return
        seconds = time.monotonic() - self._started
        status = self._pytest_status if self.cause == "finished" else self._ended["exit_status"]
        ordinary = self.cause == "finished" and status in _ORDINARY
        if self.cause == "crashed" and self.running is not None:
            self.done.append(self.running)
        self._journal.write(
            "UnitEnd",
            **self.keys,
            cause=self.cause,
            exit_status=status,
            signal=self._ended["signal"],
            test=self.running,
            seconds=round(seconds, 3),
            killed=self._ended["killed"],
            fault=self.fault,
            tail="" if ordinary else self._ended["tail"],
        )
        if self.cause in {"crashed", "budget"}:
            text = f"{self._describe()}\n{self._ended['tail']}"
            self._sink.broken(self.unit, self.running, text, seconds)

    def _describe(self) -> str:
        name, number = self.unit.id, self._ended["signal"]
        if self.cause == "budget":
            return f"{name}: killed at its budget of {self.unit.budget_s:g} s"
        if number is not None:
            return f"{name}: the process was ended by {process.name_of_signal(number)}"
        status = self._ended["exit_status"]
        return f"{name}: the process ended before pytest did, exit status {status}"

    # ------------------------------------------------------------ events
    def _take_start(self, event: Mapping[str, Any]) -> None:
        self.running = event["test"]
        self._journal.write("TestStart", **self.keys, test=event["test"])
        self._sink.start(event["test"], event["location"])

    def _take_report(self, event: Mapping[str, Any]) -> None:
        self._write_report(event["type"], event["data"])
        self._sink.report(event["data"])

    def _take_finish(self, event: Mapping[str, Any]) -> None:
        self.running = None
        self._finished += 1
        self.done.append(event["test"])
        self._sink.finish(event["test"], event["location"])

    def _take_collected(self, event: Mapping[str, Any]) -> None:
        self._collected = tuple(event["tests"])
        self._journal.write("UnitCollected", **self.keys, **event)

    def _take_collect_report(self, event: Mapping[str, Any]) -> None:
        self._write_report(event["type"], event["data"])
        self._sink.collect_report(event["data"])

    def _take_warning(self, event: Mapping[str, Any]) -> None:
        names = ("category", "filename", "lineno", "message", "when", "nodeid", "location")
        keys = {name: event[name] for name in names}
        self._journal.write("WarningMessage", **keys, **self.keys)
        self._sink.warning(event)

    def _take_internal_error(self, event: Mapping[str, Any]) -> None:
        self._journal.write("InternalError", **self.keys, text=event["text"])

    def _take_end(self, event: Mapping[str, Any]) -> None:
        self._pytest_status = event["status"]

    def _write_report(self, kind: str, data: Mapping[str, Any]) -> None:
        if data.get("outcome") == "failed":
            fault = data.get("hw_fault")
            self._failures += fault is None
            self._faults += [] if fault is None else [str(fault)]
        # Subtests name their kind in a key of their own; one name serves the readers.
        names = ("$report_type", "_report_type")
        rest = {key: value for key, value in data.items() if key not in names}
        kind = next((str(data[name]) for name in names if name in data), kind)
        self._journal.write(kind, **{**rest, **self.keys})


def lost(tail: str, *, why: str = "") -> dict[str, Any]:
    """Return the end of a part of which the server said nothing."""
    return {"why": why, "exit_status": None, "signal": None, "killed": 0, "tail": tail}
