"""Progress while a run goes on, read from its journal."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from hwmatrix.model import Outcome
from hwmatrix.reporting.build import run_state
from hwmatrix.reporting.eta import Running, ratio, remaining_s
from hwmatrix.reporting.ledger import Ledger, Part, UnitRecord, is_subtest, number, text
from hwmatrix.reporting.longrepr import reason
from hwmatrix.reporting.screen import STYLE, Screen, duration, pad, plural
from hwmatrix.reporting.tail import Tail
from hwmatrix.reporting.units import judge_unit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from hwmatrix.model import RunSpec, Unit
    from hwmatrix.reporting.result import UnitResult

HEARTBEAT_S = 30.0
_OUTCOME_COLUMNS = 11


@dataclass(slots=True)
class _Shown:
    """What has been printed of one unit: its end, by attempt and part."""

    key: tuple[int, int] | None = None
    result: UnitResult | None = None


class Live:
    """Prints progress to `stream`; `tick()` a few times a second, `finish()` at the end.

    On a terminal one status line rewrites itself below the lines that stay: one per unit that
    ended, one per test that failed. Elsewhere the same lines, and a heartbeat each 30 seconds.
    `clock` is the wall clock (the journal's times are seconds since the epoch); `width` may be a
    function, so that a terminal can change its size.
    """

    def __init__(
        self,
        folder: Path,
        spec: RunSpec,
        stream: TextIO,
        *,
        screen: Screen | None = None,
        width: Callable[[], int] | None = None,
        clock: Callable[[], float] = time.time,
        redact: Callable[[str], str] = str,
    ) -> None:
        """Begin at the beginning of the journal of the run in `folder`."""
        self._spec = spec
        self._stream = stream
        self._screen = screen or Screen()
        self._width = width or (lambda: self._screen.width)
        self._clock = clock
        self._redact = redact
        self._tail = Tail(folder)
        self._ledger = Ledger()
        self._units = {unit.id: unit for unit in spec.plan.mine}
        self._shown = {unit: _Shown() for unit in self._units}
        self._started = clock()
        self._last_beat = self._started
        self._failures = 0
        self._status_drawn = False

    def tick(self) -> None:
        """Read what is new and print it."""
        for line in self._tail.read():
            self._ledger.feed(line)
            self._on_line(line)
        self._print_ended(final=False)
        self._status()

    def finish(self) -> None:
        """Print what is left and take the status line away; the verdict follows it."""
        for line in self._tail.read():
            self._ledger.feed(line)
            self._on_line(line)
        self._print_ended(final=True)
        self._wipe()
        self._stream.flush()

    # ------------------------------------------------------------ lines that stay

    def _on_line(self, line: Mapping[str, object]) -> None:
        kind = text(line.get("$report_type"))
        if kind.endswith("TestReport") and line.get("outcome") == "failed":
            if is_subtest(line) or text(line.get("unit")) not in self._units:
                return
            self._failures += 1
            word = "TIMED OUT" if line.get("hw_outcome") == Outcome.TIMED_OUT.value else "FAILED"
            why = reason(line.get("longrepr"))
            test = text(line.get("nodeid"))
            self._say(f"{self._screen.paint(word, 'red')}  {self._text(f'{test}: {why}')}")
        elif kind == "CollectReport" and line.get("outcome") == "failed":
            self._failures += 1
            why = reason(line.get("longrepr"))
            node = text(line.get("nodeid")) or text(line.get("unit"))
            word = self._screen.paint("FAILED", "red")
            self._say(f"{word}  {self._text(f'{node} cannot be collected: {why}')}")
        elif kind == "RunStop":
            self._say(
                self._screen.paint(self._text(f"stopping: {text(line.get('reason'))}"), "red")
            )

    def _print_ended(self, *, final: bool) -> None:
        state = run_state(self._spec, self._ledger)
        for unit_id, record in self._ledger.units.items():
            shown = self._shown.get(unit_id)
            if shown is None or not _has_ended(record, final=final, busy=self._busy_slots()):
                continue
            key = max(record.parts, default=(0, 0))
            if key == shown.key:
                continue
            shown.key = key
            shown.result = judge_unit(self._units[unit_id], record, state)
            self._say(self._ended_line(shown.result))

    def _busy_slots(self) -> dict[float, float]:
        """Return for each slot when its latest process began."""
        found: dict[float, float] = {}
        for record in self._ledger.units.values():
            for part in record.parts.values():
                slot, at = _slot(part), number((part.start or {}).get("time"))
                found[slot] = max(found.get(slot, 0.0), at)
        return found

    def _ended_line(self, unit: UnitResult) -> str:
        screen = self._screen
        done = sum(shown.result is not None for shown in self._shown.values())
        counter = f"[{pad(str(done), len(str(len(self._units))), right=True)}/{len(self._units)}]"
        word = pad(screen.mark(unit.outcome), _OUTCOME_COLUMNS + 2 * screen.unicode)
        word = screen.paint(word, STYLE[unit.outcome])
        tests = f", {plural(len(unit.tests), 'test')}" if unit.tests else ""
        flaky = ", flaky" if unit.flaky else ""
        what = f"{' '.join(unit.unit.files)}  {duration(unit.seconds)}{tests}{flaky}"
        why = f"  {unit.reason}" if unit.reason else ""
        return f"{counter} {word} {self._text(what + why)}"

    # ------------------------------------------------------------ the line that changes

    def _status(self) -> None:
        if self._screen.is_tty:
            line = self._screen.clip(self._status_text(), max(20, self._width() - 1))
            self._stream.write(f"\r\x1b[K{self._screen.paint(line, 'dim')}")
            self._stream.flush()
            self._status_drawn = True
        elif self._clock() - self._last_beat >= HEARTBEAT_S:
            self._last_beat = self._clock()
            self._say(self._status_text())

    def _status_text(self) -> str:
        ended = [shown.result for shown in self._shown.values() if shown.result is not None]
        running = self._running()
        words = [
            f"{duration(self._clock() - self._started)}",
            f"{len(ended)}/{len(self._units)} done",
            f"{self._failures} failed" if self._failures else "",
            self._eta(ended, running),
        ]
        slots = [self._slot_text(unit, part) for unit, part in running]
        return self._text("  ".join([*(word for word in words if word), *slots]))

    def _running(self) -> list[tuple[Unit, Part]]:
        found = []
        for unit_id, record in self._ledger.units.items():
            if unit_id in self._units and record.parts:
                part = record.ordered()[-1]
                if part.end is None and part.start is not None:
                    found.append((self._units[unit_id], part))
        return sorted(found, key=lambda pair: _slot(pair[1]))

    def _elapsed(self, part: Part) -> float:
        return max(0.0, self._clock() - number((part.start or {}).get("time")))

    def _slot_text(self, unit: Unit, part: Part) -> str:
        name = " ".join(file.rpartition("/")[2] for file in unit.files)
        return f"[{_slot(part):g}] {name} {self._elapsed(part):.0f}/{unit.est_s:g} s"

    def _eta(self, ended: list[UnitResult], running: list[tuple[Unit, Part]]) -> str:
        """Return how long it takes yet; without any measurement it says that it only estimates."""
        told = {unit.id for unit, _ in running} | {result.unit.id for result in ended}
        told |= {u for u, record in self._ledger.units.items() if record.not_run}
        waiting = [unit.est_s for unit in self._spec.plan.mine if unit.id not in told]
        if not waiting and not running:
            return ""
        measured = [(r.seconds, r.unit.est_s) for r in ended if r.spans]
        left = remaining_s(
            waiting,
            [
                Running(elapsed_s=self._elapsed(part), est_s=unit.est_s, budget_s=unit.budget_s)
                for unit, part in running
            ],
            slots=max(1, len(self._spec.slots)),
            scale=ratio(measured),
        )
        return f"about {duration(left)} left" if measured else f"estimated {duration(left)} left"

    # ------------------------------------------------------------ output

    def _text(self, words: str) -> str:
        return self._screen.safe(self._redact(words))

    def _say(self, line: str) -> None:
        self._wipe()
        self._stream.write(f"{line}\n")
        self._stream.flush()

    def _wipe(self) -> None:
        if self._status_drawn:
            self._stream.write("\r\x1b[K")
            self._status_drawn = False


def _slot(part: Part) -> float:
    return number((part.start or {}).get("slot"))


def _has_ended(record: UnitRecord, *, final: bool, busy: Mapping[float, float]) -> bool:
    """Return whether a unit's last process ended and no other will go on with its tests.

    After a crash another process takes up what is left of the file: the unit has ended when
    nothing is left, when its slot has begun something else, or when the run is over.
    """
    if not record.parts:
        return bool(record.not_run)
    part = record.ordered()[-1]
    if part.end is None:
        return final
    if final or part.end.get("cause") != "crashed" or record.not_run:
        return True
    left = [test for test in part.collected or () if test not in part.traces]
    began = number((part.start or {}).get("time"))
    return (part.collected is not None and not left) or busy.get(_slot(part), began) > began
