"""Runs units on one slot: asks the slot's server and serves both channels until the unit ended.

Ignorant of xdist: whoever carries the reports further is a `Sink` (part.py).
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwmatrix import runfolder
from hwmatrix.model import Isolation
from hwmatrix.target import lastfailed, memory, slotenv
from hwmatrix.target.client import SlotServer
from hwmatrix.target.part import Part, Sink, lost
from hwmatrix.target.wire import Control, Frames, GoneError, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hwmatrix.journal import Journal
    from hwmatrix.model import RunSpec, Slot, Unit

# A file whose every test crashes costs a start of pytest each time; after this many the rest is
# reported as not run.
MOST_PARTS = 8
_LEAST_PART_S = 1.0  # less is not worth starting pytest for
_POLL_MS = 200  # how soon a request to stop is seen


class Relay:
    """Runs the units of one slot, one after another."""

    def __init__(
        self,
        spec: RunSpec,
        slot: Slot,
        *,
        worker: str,
        worker_input: Mapping[str, Any],
        env: Mapping[str, str],
        temporary: Path,
        journal: Journal,
        sink: Sink,
    ) -> None:
        self._spec = spec
        self._slot = slot
        self._worker = worker
        self._worker_input = {**worker_input, **lastfailed.told(spec)}
        self._env = slotenv.server_env(spec, slot, env)
        self._temporary = temporary
        self._journal = journal
        self._sink = sink
        self._folder = Path(spec.folder)
        self._attempts = runfolder.read_accounts(self._folder).attempts if spec.resumed else {}
        self._meter = memory.meter_for(spec.plan.backend, env)
        self._units = 0
        wanted = {unit.isolation or spec.isolation for unit in runfolder.units_to_run(spec)}
        forks = Isolation.FORK in wanted
        self._server = SlotServer(self._env, spec.root, spec.preload if forks else None)

    def close(self) -> None:
        """End the slot's server."""
        self._server.close()

    def run_unit(self, unit: Unit) -> None:
        """Run `unit`; again, as a new attempt, while the machine was at fault and retries are left.

        Each attempt has the whole budget. When the slot's memory does not come clear, the slot is
        retired and the unit is left for another.
        """
        try:
            self._run_unit(unit)
        except OSError as error:  # the journal, most likely: without it no result would count
            with contextlib.suppress(OSError):
                self._stop(f"worker {self._worker} cannot go on: {error}")
            raise

    def _run_unit(self, unit: Unit) -> None:
        reason = self._not_clear()
        if reason:
            self._journal.write(
                "SlotRetired",
                slot=self._slot.index,
                worker=self._worker,
                reason=reason,
                given=unit.id,
            )
            runfolder.retire(self._folder, self._worker, reason)
            return
        first = self._attempts.get(unit.id, 0) + 1
        for attempt in range(first, first + 1 + self._spec.retries):
            if not self._run_attempt(unit, attempt) or self.stopping():
                return

    def _not_clear(self) -> str:
        if self._meter is None:
            return ""
        return memory.not_clear(self._slot.devices, self._meter, self._env)

    def _run_attempt(self, unit: Unit, attempt: int) -> bool:
        """Run all parts: after a crash the rest of the file goes on in a new process.

        Return True if the machine was at fault, and nothing else.
        """
        done: list[str] = []
        parts: list[Part] = []
        end = time.monotonic() + unit.budget_s
        for number in range(1, MOST_PARTS + 1):
            part = Part(
                unit,
                number,
                attempt=attempt,
                done=done,
                journal=self._journal,
                sink=self._sink,
            )
            self._run_part(part, end - time.monotonic())
            done = part.done
            parts.append(part)
            if not part.left or end - time.monotonic() < _LEAST_PART_S or self.stopping():
                break
        return any(part.fault for part in parts) and not any(part.failed for part in parts)

    def stopping(self) -> bool:
        """Return True if the run is to stop."""
        return runfolder.stop_reason(self._folder) is not None

    def _stop(self, reason: str) -> None:
        if runfolder.request_stop(self._folder, reason):
            self._journal.write("RunStop", reason=reason)

    def _run_part(self, part: Part, budget_s: float) -> None:
        read, write = os.pipe()
        conversation = _Conversation(part, Frames(read), self._start_keys(part))
        try:
            control = self._send(self._request(part, budget_s), write)
            try:
                conversation.listen(control, self.stopping)
            except KeyboardInterrupt:
                self._stop(f"SIGINT to worker {self._worker}")
                conversation.listen(control, self.stopping)
                raise
        except GoneError as error:
            conversation.ended = lost(f"the slot's server died ({error})")
        finally:
            os.close(read)
            part.end(conversation.ended)

    def _send(self, request: Request, events: int) -> Control:
        message = {"do": "run", "request": request.to_plain()}
        try:
            control = self._server.control()
            try:
                control.send(message, [events])
            except GoneError:  # it died since the last unit: this one need not suffer for it
                self._server.close()
                control = self._server.control()
                control.send(message, [events])
        finally:
            os.close(events)
        return control

    def _start_keys(self, part: Part) -> dict[str, object]:
        return {
            "slot": self._slot.index,
            "worker": self._worker,
            "devices": [device.key for device in self._slot.devices],
            "log": runfolder.log_name(part.unit.id, part.attempt, part.number),
        }

    def _request(self, part: Part, budget_s: float) -> Request:
        unit = part.unit
        log = self._folder / runfolder.log_name(unit.id, part.attempt, part.number)
        self._units += 1
        # Short: the path of a socket below it may have 107 bytes.
        temporary = str(self._temporary / f"{self._worker}.{self._units}")
        return Request(
            unit=unit.id,
            selectors=unit.selectors,
            options=(
                *self._spec.pytest_args,
                *(["-x"] if self._spec.fail_fast else []),
                "--timeout-method=signal",
            ),
            cwd=self._spec.root,
            log=str(log),
            stacks=str(log.with_suffix(".stacks")),
            temporary=temporary,
            test_limit_s=unit.test_limit_s,
            budget_s=budget_s,
            worker_input=self._worker_input,
            done=tuple(part.done),
            env=slotenv.unit_env(unit, temporary, self._env),
            lessons=str(self._folder.parent / ".lessons"),
            isolation=(unit.isolation or self._spec.isolation).value,
        )


class _Conversation:
    """Listens to server and child until the part ended.

    Events are taken only between the start that the server announces and the expiry or stop: a
    signal can wake a hung call, and what the test says after that counts for nothing.
    """

    def __init__(self, part: Part, frames: Frames, start_keys: Mapping[str, object]) -> None:
        self._part = part
        self._frames = frames
        self._start_keys = dict(start_keys)
        self._open = False
        self._over = False
        self._stopped = False
        self.ended: Mapping[str, Any] | None = None

    def listen(self, control: Control, stopping: Callable[[], bool]) -> None:
        """Return once `ended` is known.

        Raises:
            GoneError: the server died.
        """
        while self.ended is None:
            waiting = [control.fileno()]
            if self._open and not self._over:
                waiting.append(self._frames.descriptor)
            ready = _readable(waiting)
            if control.fileno() in ready:
                self._take_messages(control)
            elif self._frames.descriptor in ready:
                self._take_events()
            if not self._stopped and stopping():
                self._stopped = True
                self._open = False
                control.send({"do": "stop"})

    def _take_events(self) -> None:
        events, self._over = self._frames.read()
        for event in events:
            self._part.take(event)

    def _take_rest(self) -> None:
        for event in self._frames.rest():
            self._part.take(event)

    def _take_messages(self, control: Control) -> None:
        messages = control.receive()
        if messages is None:
            reason = "end of file"
            raise GoneError(reason)
        for message in messages:
            what = message["is"]
            if what == "started":
                keys = {key: message[key] for key in ("pid", "isolation", "note")}
                self._part.begin(**keys, **self._start_keys)
                self._open = not self._stopped
            elif what == "expired":
                self._expire(control)
            elif what == "ended":
                self.ended = message
                if not message["why"]:
                    self._take_rest()

    def _expire(self, control: Control) -> None:
        if self._open:
            self._take_rest()
        self._open = False
        self._part.expire()
        control.send({"do": "ack"})


def _readable(descriptors: list[int]) -> set[int]:
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(_POLL_MS)}
