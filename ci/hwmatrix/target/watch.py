"""Watches one child: drains its output, keeps its budget, ends it, sweeps what it leaves.

Single-threaded and never longer than a moment in one call: everything waits in `pump`.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix import process
from hwmatrix.target.cappedlog import CappedLog, tail_of
from hwmatrix.target.wire import GoneError

if TYPE_CHECKING:
    from hwmatrix.target.handle import Child
    from hwmatrix.target.wire import Control, Request

# All of these together stay below the 5 s within which a kill is to be complete.
ACK_S = 1.0  # the worker writes down that the unit expired before anything is signalled
STACKS_S = 0.4  # faulthandler writes a hundred threads in milliseconds
TERM_S = 1.0  # from SIGTERM to SIGKILL
KILL_S = 2.0  # a process in the middle of a system call may need a moment to die
# From SIGINT, at which pytest tears fixtures down, to SIGTERM.
INTERRUPT_S = 3.0

_STEP_S = 0.02  # where there are no process descriptors, the child is looked at this often
_READ = 1 << 16
_STACKS_TAIL = 12 * 1024
_LOG_TAIL = 8 * 1024


@dataclass(frozen=True)
class Ended:
    """How one part of a unit ended.

    `why` is "budget" or "stopped" where the watch ended it, else "". `left` are pids that would
    not die. `seconds` is the wall time of the part.
    """

    why: str
    exit_status: int | None
    signal: int | None
    killed: int
    left: tuple[int, ...]
    seconds: float
    tail: str


class Watch:
    """Runs until the child and everything below it is gone."""

    def __init__(
        self,
        child: Child,
        *,
        output: int,
        control: Control,
        request: Request,
        keep: frozenset[int],
        preamble: bytes = b"",
    ) -> None:
        self._child = child
        self._output = output
        self._control = control
        self.request = request
        self._keep = keep
        self._log = CappedLog(Path(request.log))
        self._log.write(preamble)
        self._messages: list[str] = []
        self._status: int | None = None
        self._killed: frozenset[int] = frozenset()
        self.worker_gone = False
        os.set_blocking(output, False)
        self._poll = select.poll()
        self._poll.register(output, select.POLLIN)
        self._poll.register(control.fileno(), select.POLLIN)
        descriptor = child.fileno()
        if descriptor is not None:
            self._poll.register(descriptor, select.POLLIN)
        self._step_s = None if descriptor is not None else _STEP_S

    def run(self) -> Ended:
        """Return how the child ended; nothing of it is left then."""
        started = time.monotonic()
        why = self._wait(started + self.request.budget_s)
        if why == "budget":
            self._expire()
        elif why == "stopped":
            self._interrupt()
        if self._status is None:
            self._end_by_force()
        swept = process.sweep(keep=self._keep | self._unreaped(), within_s=KILL_S)
        self._drain()
        self._log.close()
        status = self._status
        return Ended(
            why=why,
            exit_status=status if status is not None and status >= 0 else None,
            signal=-status if status is not None and status < 0 else None,
            killed=len(self._killed | swept.killed),
            left=swept.left,
            seconds=round(time.monotonic() - started, 3),
            tail=self._tail(),
        )

    def _unreaped(self) -> frozenset[int]:
        # A child that would not die is still to be collected by its own handle.
        return frozenset() if self._status is not None else frozenset({self._child.pid})

    def _wait(self, end: float) -> str:
        while True:
            self.pump(end)
            if self._status is not None:
                return ""
            if self.worker_gone or "stop" in self._messages:
                return "stopped"
            if time.monotonic() >= end:
                return "budget"

    # ------------------------------------------------------------ waiting
    def pump(self, end: float) -> None:
        """Serve output and messages until `end`, the child's end, or a message."""
        known = len(self._messages)
        while self._status is None and len(self._messages) == known and not self.worker_gone:
            left_s = end - time.monotonic()
            if left_s <= 0:
                return
            self._serve(min(left_s, self._step_s) if self._step_s else left_s)

    def _serve(self, wait_s: float) -> None:
        ready = {descriptor for descriptor, _ in self._poll.poll(max(1, int(wait_s * 1000)))}
        if self._output in ready:
            self._read_output()
        if self._control.fileno() in ready:
            self._read_control()
        descriptor = self._child.fileno()
        if descriptor is None or descriptor in ready:
            self._look_at_child(descriptor)

    def _look_at_child(self, descriptor: int | None) -> None:
        self._status = self._child.status()
        if self._status is not None and descriptor is not None:
            self._poll.unregister(descriptor)

    def _read_output(self) -> bool:
        try:
            data = os.read(self._output, _READ)
        except BlockingIOError:
            return False
        if data:
            self._log.write(data)
        else:
            self._poll.unregister(self._output)  # the child closed it; it may well go on
        return bool(data)

    def _read_control(self) -> None:
        messages = self._control.receive()
        if messages is None:
            self.worker_gone = True
            self._poll.unregister(self._control.fileno())
            return
        self._messages += [str(message["do"]) for message in messages]

    def _drain(self) -> None:
        # Unregistered at end-of-file: reading it again is end-of-file again, so ask only once.
        try:
            self._poll.modify(self._output, 0)
        except FileNotFoundError:
            return
        while self._read_output():
            pass

    # ------------------------------------------------------------ ending
    def _expire(self) -> None:
        """Announce first: a signal can wake the hung call, and the test would then "pass"."""
        self._tell("expired")
        end = time.monotonic() + ACK_S
        while "ack" not in self._messages and self._status is None and not self.worker_gone:
            self.pump(end)
            if time.monotonic() >= end:
                break
        if self._status is None:
            self._dump_stacks()

    def _interrupt(self) -> None:
        self._signal([self._child.pid], signal.SIGINT)
        if not self.worker_gone:
            self.pump(time.monotonic() + INTERRUPT_S)

    def _tell(self, what: str) -> None:
        try:
            self._control.send({"is": what})
        except GoneError:
            self.worker_gone = True

    def _tree(self) -> list[process.Process]:
        found = process.descendants(os.getpid())
        return [p for p in found if p.pid not in self._keep and not p.dead]

    def _signal(self, pids: list[int], number: int) -> None:
        for found in self._tree():
            if found.pid in pids:
                process.send(found, number)

    def _dump_stacks(self) -> None:
        """Ask for Python stacks: of the child and its forks by its handler, of others by SIGABRT.

        PYTHONFAULTHANDLER=1 in the environment makes every Python that was started anew answer
        SIGABRT with its stacks, on its standard error.
        """
        tree = [p.pid for p in self._tree()]
        forks = [pid for pid in tree if process.catches(pid, signal.SIGUSR1)]
        self._signal(forks, signal.SIGUSR1)
        self.pump(time.monotonic() + STACKS_S)
        others = [pid for pid in tree if pid not in forks and process.catches(pid, signal.SIGABRT)]
        if others:
            # Else the test would go on when what it waits for dies, and its output be gone.
            self._signal([self._child.pid], signal.SIGSTOP)
            self._signal(others, signal.SIGABRT)
            self.pump(time.monotonic() + STACKS_S)
        self._save_captured()

    def _save_captured(self) -> None:
        """Append what the test printed so far: pytest keeps it in unnamed files of the child."""
        for number in (1, 2):
            path = Path(f"/proc/{self._child.pid}/fd/{number}")
            try:
                regular = stat.S_ISREG(path.stat().st_mode)
            except OSError:
                continue
            text = tail_of(path, _LOG_TAIL) if regular else ""
            if text:
                with Path(self.request.stacks).open("a", encoding="utf-8") as stream:
                    stream.write(f"\n--- captured so far on descriptor {number} ---\n{text}\n")

    def _end_by_force(self) -> None:
        tree = [p.pid for p in self._tree()]
        self._killed |= frozenset(tree)
        self._signal(tree, signal.SIGTERM)
        self._signal(tree, signal.SIGCONT)
        self._until_dead(TERM_S)
        if self._status is None:
            self._signal([self._child.pid], signal.SIGKILL)
            self._until_dead(KILL_S)

    def _until_dead(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while self._status is None and time.monotonic() < end:
            if self.worker_gone:
                self._serve(end - time.monotonic())
            else:
                self.pump(end)

    def _tail(self) -> str:
        stacks = Path(self.request.stacks)
        texts = [tail_of(stacks, _STACKS_TAIL), tail_of(Path(self.request.log), _LOG_TAIL)]
        if not texts[0]:
            stacks.unlink(missing_ok=True)
        return "\n".join(text for text in texts if text)
