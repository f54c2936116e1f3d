"""Runs units on one slot: asks the slot's server and serves both channels until the unit ended.

Ignorant of xdist: whoever carries the reports further is a `Sink` (part.py).
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwmatrix import runfolder, slotenv
from hwmatrix.model import Isolation
from hwmatrix.target import lastfailed, memory
from hwmatrix.target.client import SlotServer
from hwmatrix.target.conversation import POLL_MS, Conversation
from hwmatrix.target.part import Part, Sink, lost
from hwmatrix.target.wire import Control, Frames, GoneError, Request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hwmatrix.journal import Journal
    from hwmatrix.model import RunSpec, Slot, Unit

# A file whose every test crashes costs a start of pytest each time; after this many the rest is
# reported as not run.
MOST_PARTS = 8
_LEAST_PART_S = 1.0  # less is not worth starting pytest for
_STOPPED = "the run was stopped before the file's process was started"


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
        self._server = SlotServer(
            self._env,
            spec.root,
            spec.preload if forks else None,
            temporary / runfolder.ZYGOTE,
        )

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

    def interrupted(self) -> None:
        """Ask the whole run to stop; once is enough."""
        self._stop(f"SIGINT to worker {self._worker}")

    def _stop(self, reason: str) -> None:
        if runfolder.request_stop(self._folder, reason):
            self._journal.write("RunStop", reason=reason)

    def _run_part(self, part: Part, budget_s: float) -> None:
        try:
            self._converse(part, budget_s)
        except GoneError:  # nothing of the part had begun: it need not suffer for the server
            self._server.close()
            self._converse(part, budget_s, last=True)

    def _converse(self, part: Part, budget_s: float, *, last: bool = False) -> None:
        """Ask the server for the part, listen until it ended, and say so.

        Raises:
            GoneError: the server died before the part began; unless `last`, which is its end then.
        """
        read, write = os.pipe()
        conversation = Conversation(part, Frames(read), self._start_keys(part))
        control, again = None, False
        try:
            try:
                control = self._send(self._request(part, budget_s), write)
                self._listen(conversation, control)
            except KeyboardInterrupt:
                self.interrupted()
                self._listen(conversation, control)
                raise
        except GoneError as error:
            again = not (last or part.begun)
            if again:
                raise
            conversation.ended = lost(f"the slot's server died ({error})")
        finally:
            os.close(read)
            if not again:
                part.end(conversation.ended)

    def _listen(self, conversation: Conversation, control: Control | None) -> None:
        """Return once the part has ended; at once where it was never asked for."""
        if control is None:
            conversation.ended = lost(_STOPPED, why="stopped")
        else:
            conversation.listen(control, self.stopping)

    def _send(self, request: Request, events: int) -> Control | None:
        """Return the channel on which `request` went; None if the run is to stop instead."""
        try:
            control = self._server_up(request.budget_s)
            if control is not None:
                control.send({"do": "run", "request": request.to_plain()}, [events])
        finally:
            os.close(events)
        return control

    def _server_up(self, within_s: float) -> Control | None:
        """Wait for the server, which may wait for packages to be imported; None if told to stop."""
        waited_s = self._server.patience_s(within_s)
        end = time.monotonic() + waited_s
        while (control := self._server.control(POLL_MS / 1000)) is None:
            if self.stopping():
                return None
            if time.monotonic() >= end:
                self._server.give_up(waited_s)
                end += within_s
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
