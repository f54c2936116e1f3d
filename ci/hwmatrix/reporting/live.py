"""Progress while a run goes on, read from its journal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TextIO

from hwmatrix.model import Outcome
from hwmatrix.reporting.build import assemble, run_state
from hwmatrix.reporting.ledger import Ledger, text
from hwmatrix.reporting.longrepr import reason
from hwmatrix.reporting.progress import Progress
from hwmatrix.reporting.screen import STYLE, Screen, about, clock_time, duration, pad, plural
from hwmatrix.reporting.tail import Tail
from hwmatrix.reporting.tests import subtest_name
from hwmatrix.reporting.units import judge_unit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from hwmatrix.model import RunSpec
    from hwmatrix.reporting.progress import Busy
    from hwmatrix.reporting.result import Report, UnitResult

HEARTBEAT_S = 30.0
# The longest outcome; the table's words stand under each other.
_WORD = len(Outcome.DESELECTED.value)


class Live:
    """Prints progress to `stream`; `tick()` a few times a second, `finish()` at the end.

    On a terminal one status line rewrites itself below the lines that stay: one per unit that
    ended, one per test that failed. Elsewhere the same lines, and a heartbeat each 30 seconds.
    `clock` is the wall clock (the journal's times are seconds since the epoch); `width` may be a
    function, so that a terminal can change its size. A stream that goes away (a closed pipe) ends
    the printing and never the run.
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
        self._out = _Output(stream)
        self._screen = screen or Screen()
        self._width = width or (lambda: self._screen.width)
        self._clock = clock
        self._redact = redact
        self._tail = Tail(folder)
        self._ledger = Ledger()
        self._progress = Progress(spec, self._ledger)
        self._started = clock()
        self._last_beat = self._started
        self._failed: dict[str, set[str]] = {}
        self._stops: set[str] = set()

    def tick(self) -> None:
        """Read what is new and print it."""
        self._read(final=False)
        if self._screen.is_tty:
            room = max(20, self._width() - 1)
            self._out.status(self._screen.paint(self._screen.clip(self._status(), room), "dim"))
        elif self._clock() - self._last_beat >= HEARTBEAT_S:
            self._last_beat = self._clock()
            self._out.say(self._status(tests=True))

    def finish(self) -> None:
        """Print what is left and take the status line away; the verdict follows it."""
        self._read(final=True)
        self._out.wipe()

    def known(self) -> Report:
        """Return the report of what was read while it happened, whatever the folder holds now."""
        return assemble(self._spec, self._ledger)

    def _read(self, *, final: bool) -> None:
        for line in self._tail.read():
            self._ledger.feed(line)
            self._on_line(line)
        state = run_state(self._spec, self._ledger)
        for unit, record in self._progress.newly_ended(final=final):
            result = judge_unit(unit, record, state)
            self._progress.took(result)
            self._out.say(self._ended_line(result))

    # ------------------------------------------------------------ lines that stay

    def _on_line(self, line: Mapping[str, object]) -> None:
        kind, unit = text(line.get("$report_type")), text(line.get("unit"))
        if kind == "RunStop":
            why = text(line.get("reason"))
            if why not in self._stops:
                self._stops.add(why)
                self._out.say(self._screen.paint(self._text(f"stopping: {why}"), "red"))
        elif kind == "SlotRetired":
            what = f"slot {line.get('slot')} was retired: {text(line.get('reason'))}"
            self._out.say(self._screen.paint(self._text(what), "red"))
        elif kind == "UnitStart" and line.get("part") == 1:
            # A new attempt: what failed before may pass now.
            self._failed.pop(unit, None)
        elif kind.endswith(("TestReport", "CollectReport")) and line.get("outcome") == "failed":
            self._on_failure(kind, unit, line)

    def _on_failure(self, kind: str, unit: str, line: Mapping[str, object]) -> None:
        """Print the first failure of a test: a failed subtest fails it again at its end."""
        test = text(line.get("nodeid")) or unit
        known = self._failed.setdefault(unit, set())
        if test in known:
            return
        known.add(test)
        late = line.get("hw_outcome") == Outcome.TIMED_OUT.value
        word = self._screen.paint("TIMED OUT" if late else "FAILED", "red")
        why = reason(line.get("longrepr"))
        inner = f" {subtest_name(line)}" if "_subtest.context" in line else ""
        what = "" if kind.endswith("TestReport") else "cannot be collected: "
        self._out.say(f"{word}  {self._text(f'{test}{inner}: {what}{why}')}")

    def _ended_line(self, unit: UnitResult) -> str:
        screen, total = self._screen, self._progress.total
        done = pad(str(len(self._progress.ended)), len(str(total)), right=True)
        word = pad(screen.mark(unit.outcome), _WORD + (2 if screen.unicode else 0))
        tests = f", {plural(len(unit.tests), 'test')}" if unit.tests else ""
        flaky = ", flaky" if unit.flaky else ""
        what = f"{' '.join(unit.unit.files)} ({duration(unit.seconds)}{tests}{flaky})"
        why = f": {unit.reason}" if unit.reason else ""
        return (
            f"[{done}/{total}] {screen.paint(word, STYLE[unit.outcome])} {self._text(what + why)}"
        )

    # ------------------------------------------------------------ the line that changes

    def _status(self, *, tests: bool = False) -> str:
        """Return where the run stands; `tests` adds the test that each slot runs."""
        now, progress = self._clock(), self._progress
        running = progress.running(now)
        failed = sum(max(1, len(names)) for names in self._red().values())
        words = [
            clock_time(now - self._started),
            f"{len(progress.ended)}/{progress.total} files",
            plural(failed, "failure") if failed else "",
            self._left(running),
            *(_busy(busy, test=tests) for busy in running),
        ]
        return self._text(" | ".join(word for word in words if word))

    def _red(self) -> dict[str, set[str]]:
        red = {unit: names for unit, names in self._failed.items() if names}
        for unit, result in self._progress.ended.items():
            if result.is_red:
                red.setdefault(unit, set())
        return red

    def _left(self, running: list[Busy]) -> str:
        """Return how long it takes yet; without any measurement it says that it only estimates."""
        left = self._progress.left_s(running)
        if left is None:
            return ""
        return f"{about(left)} left" if self._progress.measured else f"{about(left)} estimated"

    def _text(self, words: str) -> str:
        return self._screen.safe(self._redact(words))


def _busy(busy: Busy, *, test: bool) -> str:
    name = " ".join(file.rpartition("/")[2] for file in busy.unit.files)
    inner = f" in {busy.test}" if test and busy.test else ""
    return f"{busy.slot}: {name} {busy.elapsed_s:.0f}/{busy.unit.est_s:g} s{inner}"


class _Output:
    """Lines that stay, and one that is rewritten below them."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._drawn = ""
        self._gone = False

    def say(self, line: str) -> None:
        """Print a line that stays."""
        again = self._drawn
        self.wipe()
        self._write(f"{line}\n")
        if again:
            self.status(again)

    def status(self, line: str) -> None:
        """Draw the line that changes, if it did."""
        if line != self._drawn:
            self._write(f"\r\x1b[K{line}")
            self._drawn = line

    def wipe(self) -> None:
        """Take the line that changes away."""
        if self._drawn:
            self._write("\r\x1b[K")
            self._drawn = ""

    def _write(self, words: str) -> None:
        if self._gone:
            return
        try:
            self._stream.write(words)
            self._stream.flush()
        except (OSError, ValueError):  # a closed pipe, a closed file
            self._gone = True
