"""The supervisor: owns the deadline, the outer pytest, the sweep, and the closing of accounts.

The guard starts it in a session of its own and holds the other end of a socket: end-of-file there
means that the guard is gone, and everything ends at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix import codec, placing, process, runfolder, sharing
from hwmatrix.journal import Journal
from hwmatrix.model import RunSpec
from hwmatrix.supervise import accounts, lastfailed

if TYPE_CHECKING:
    from types import FrameType

    from hwmatrix.model import Slot

DEADLINE = "deadline"
GUARD_GONE = "the guard died"

_TICK_S = 0.2
# A stopped unit gets SIGINT, 3 s, SIGTERM, 1 s, SIGKILL; then xdist ends its workers.
GRACE_S = 15.0
_ORPHAN_S = 1.0  # an orphan that is still there on the second look has nobody else to end it


def main(argv: list[str]) -> int:
    """Supervise the run whose folder, guard's descriptor and temporary folder `argv` gives."""
    folder, descriptor, temporary = argv
    guard = socket.socket(fileno=int(descriptor))
    guard.set_inheritable(False)
    process.become_subreaper()
    return Supervisor(Path(folder), guard, temporary).run()


class Supervisor:
    """One run."""

    def __init__(self, folder: Path, guard: socket.socket, temporary: str) -> None:
        self._folder = folder
        self._guard = guard
        self._temporary = temporary
        self._spec = codec.load(RunSpec, folder / runfolder.PLAN)
        self._journal = Journal(folder, "supervisor")
        self._buffer = b""
        self._received: list[int] = []
        self._stop_at: float | None = None  # when the grace is over
        self._orphans: frozenset[int] = frozenset()
        self._zygote: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """Run to the end, whatever it is; return 0."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._note)
        if self._spec.resumed:
            accounts.settle(self._folder, self._journal)
        self._journal.write(
            "RunStart",
            run_id=self._spec.run_id,
            plan_hash=self._spec.plan.hash,
            pid=os.getpid(),
            slots=len(self._spec.slots),
            resumed=self._spec.resumed,
        )
        controller = self._start()
        self._wait(controller)
        return self._end(controller)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._received.append(number)

    # ------------------------------------------------------------ the outer pytest
    def _start(self) -> subprocess.Popen[bytes]:
        ini = self._folder / "outer.ini"
        ini.write_text("[pytest]\n", encoding="utf-8")
        slots, env = self._slots(), self._env()
        with (self._folder / runfolder.OUTER_LOG).open("wb") as log:
            path = Path(self._temporary) / runfolder.ZYGOTE
            self._zygote = sharing.start(self._spec, slots, env, path=path, log=log.fileno())
            return subprocess.Popen(
                self._command(ini),
                cwd=self._spec.root,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _slots(self) -> tuple[Slot, ...]:
        """Return the slots that get a worker: none that has nothing to run."""
        return placing.useful(self._spec.slots, runfolder.units_to_run(self._spec))

    def _command(self, ini: Path) -> list[str]:
        """Return the outer pytest's command: nothing of the project's own configuration applies."""
        slots = max(1, len(self._slots()))
        # Every unit may take its worker with it once; a worker that cannot even start may not
        # keep the run busy for ever.
        restarts = len(runfolder.units_to_run(self._spec)) + 2 * slots
        return [
            *[self._spec.python, "-m", "pytest", "-c", str(ini), "--rootdir", self._spec.root],
            *["-p", "xdist", "-p", "hwmatrix.target.plugin", "-p", "no:cacheprovider"],
            *["--basetemp", f"{self._temporary}/outer"],
            *["--noconftest", "-n", str(slots), "--max-worker-restart", str(restarts), "-ra"],
        ]

    def _env(self) -> dict[str, str]:
        env = runfolder.outer_env({**os.environ, **self._spec.env})
        return {
            **env,
            "HWMATRIX_RUN": str(self._folder),
            runfolder.PARENT: str(os.getpid()),
            runfolder.TEMPORARY: self._temporary,
        }

    # ------------------------------------------------------------ waiting
    def _wait(self, controller: subprocess.Popen[bytes]) -> None:
        limit_s = self._spec.deadline_s
        deadline = time.monotonic() + limit_s if limit_s else None
        handled, next_look = 0, time.monotonic() + _ORPHAN_S
        ended = process.end_of(controller.pid)
        while controller.poll() is None:
            if not self._listen(ended):
                self._stop(GUARD_GONE, at_once=True)
            for number in self._received[handled:]:
                handled += 1
                self._stop(process.name_of_signal(number), at_once=handled > 1)
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                self._stop(DEADLINE)
            if self._stop_at is not None and now >= self._stop_at:
                controller.kill()
                controller.wait()
                return
            if now >= next_look:
                next_look = now + _ORPHAN_S
                self._end_orphans(controller.pid)

    def _listen(self, ended: int | None) -> bool:
        """Wait a moment for the guard, or for the `ended` of a process; False once it is gone."""
        waited = [self._guard.fileno(), *([] if ended is None else [ended])]
        readable, _, _ = select.select(waited, [], [], _TICK_S)
        if self._guard.fileno() not in readable:
            return True
        try:
            data = self._guard.recv(1 << 16)
        except OSError:
            return False
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            self._stop(message["reason"], at_once=message["do"] == "kill")
        return bool(data)

    def _stop(self, reason: str, *, at_once: bool = False) -> None:
        """Ask the run to end, and set the moment after which it is not asked any more."""
        now = time.monotonic()
        if self._stop_at is None:
            self._stop_at = now + GRACE_S
            if runfolder.request_stop(self._folder, reason):
                self._journal.write("RunStop", reason=reason)
        if at_once:
            self._stop_at = now

    def _end_orphans(self, controller: int) -> None:
        """Kill what re-parented to this process: its own parent, a slot's server, was killed."""
        tree = process.descendants(os.getpid())
        known = {controller, *([self._zygote.pid] if self._zygote else [])}
        mine = {p.pid for p in tree if p.parent == os.getpid() and p.pid not in known}
        tops = {pid for pid in mine if not self._serves(pid)}
        for orphan in [p for p in tree if p.pid in tops & self._orphans]:
            for found in [orphan, *process.below(orphan.pid, tree)]:
                process.send(found, signal.SIGKILL)
        for pid in mine:
            process.reap(pid)
        self._orphans = frozenset(tops)

    def _serves(self, pid: int) -> bool:
        """Return whether `pid` is a slot's server that outlived its zygote: a worker has it."""
        return runfolder.server_mark(Path(self._temporary) / runfolder.ZYGOTE, pid).exists()

    # ------------------------------------------------------------ the end
    def _end(self, controller: subprocess.Popen[bytes]) -> int:
        self._end_zygote()
        swept = process.sweep()
        status = controller.returncode
        reason = runfolder.stop_reason(self._folder)
        if reason is None and status < 0:
            reason = f"the controller died ({process.name_of_signal(-status)})"
        exit_status = status if status >= 0 else None
        try:
            broken = accounts.close(self._folder, self._spec.plan, self._journal, reason)
            reason = reason or broken
            self._journal.write(
                "RunEnd", exit_status=exit_status, reason=reason, killed=len(swept.killed)
            )
        except OSError as error:
            unwritten = f"the journal cannot be written: {error.strerror}"
            reason = f"{reason}; {unwritten}" if reason else unwritten
        self._update_last_failed()
        shutil.rmtree(self._temporary, ignore_errors=True)
        with contextlib.suppress(OSError):
            said = {"exit_status": exit_status, "reason": reason or ""}
            self._guard.sendall(json.dumps(said).encode())
        return 0

    def _end_zygote(self) -> None:
        """End it before the sweep, which counts what tests left behind."""
        if self._zygote is not None:
            self._zygote.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # the sweep names it then
                self._zygote.wait(_ORPHAN_S)

    def _update_last_failed(self) -> None:
        try:
            lastfailed.update(self._folder, {u.id: u.files for u in self._spec.plan.mine})
        except OSError as error:  # a tree that is mounted read-only: the run is none the worse
            sys.stderr.write(f"pytest's cache of failures was not written: {error}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
