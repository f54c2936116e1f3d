"""The guard: starts the supervisor, waits for it, and sweeps whatever is left."""

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
import tempfile
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix import codec, process, runfolder
from hwmatrix.errors import RunFolderError
from hwmatrix.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import FrameType

    from hwmatrix.model import RunSpec

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_TICK_S = 0.2
# The pid that this process must stay a child of; nox sessions set it. Without it, the parent at
# the start of `run` counts.
PARENT = "HWMATRIX_PARENT"


@dataclass(frozen=True)
class Ending:
    """How a run ended.

    `exit_status` is the outer pytest's, None if it did not end by itself. `reason` is empty for a
    run that went through, else `deadline`, a signal's name, `first failure` or what broke. `signal`
    is the signal that the guard got, if any: it should end with 128 + that.
    """

    exit_status: int | None
    reason: str = ""
    signal: int | None = None


def run(spec: RunSpec, *, env: Mapping[str, str], tick: Callable[[], None] | None = None) -> Ending:
    """Run the plan of `spec` and return how it ended; no process of it is left then.

    `env` is the environment for everything below; `tick` is called about five times a second.
    Call it from the main thread: only there can signals be forwarded.

    Raises:
        RunFolderError: the run's folder cannot be written.
    """
    folder = Path(spec.folder)
    _write_plan(spec, folder)
    before = frozenset(p.pid for p in process.descendants(os.getpid()))
    process.become_subreaper()
    temporary = tempfile.mkdtemp(prefix="hw-")
    try:
        return _Guard(folder, temporary, before).run(env, tick or (lambda: None))
    finally:
        process.sweep(keep=before)
        process.become_subreaper(on=False)
        shutil.rmtree(temporary, ignore_errors=True)


def _write_plan(spec: RunSpec, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        runfolder.forget_stop(folder)
        path = folder / runfolder.PLAN
        path.write_text(codec.dumps(spec, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        message = (
            f"{folder}: the run's folder cannot be written ({error.strerror}). "
            "Free some space, or give another folder that you may write to."
        )
        raise RunFolderError(message) from error


class _Guard:
    def __init__(self, folder: Path, temporary: str, before: frozenset[int]) -> None:
        self._folder = folder
        self._temporary = temporary
        self._before = before
        self._received: list[int] = []

    def run(self, env: Mapping[str, str], tick: Callable[[], None]) -> Ending:
        parent = int(env.get(PARENT) or os.getppid())
        ours, theirs = socket.socketpair()
        with ours:
            with theirs, (self._folder / runfolder.SUPERVISOR_LOG).open("wb") as log:
                popen = self._start(env, theirs, log.fileno())
            try:
                with self._signals():
                    said = self._wait(ours, popen, parent, tick)
            finally:
                self._finish(ours, popen)
        return self._ending(said, popen.returncode)

    def _start(
        self, env: Mapping[str, str], theirs: socket.socket, log: int
    ) -> subprocess.Popen[bytes]:
        # Not `-m`: this package need not be on the path of whatever `env` describes.
        core = str(Path(process.__file__).parents[1])
        code = (
            "import sys; sys.path.insert(0, sys.argv.pop(1)); "
            "from hwmatrix.supervise.supervisor import main; sys.exit(main(sys.argv[1:]))"
        )
        arguments = [str(self._folder), str(theirs.fileno()), self._temporary]
        return subprocess.Popen(
            [sys.executable, "-c", code, core, *arguments],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Note signals instead of dying by them; one that was ignored (nohup) stays ignored."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def note(number: int, frame: FrameType | None) -> None:
            del frame
            self._received.append(number)

        old = {n: signal.getsignal(n) for n in SIGNALS}
        for number, handler in old.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, note)
        try:
            yield
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)

    def _wait(
        self,
        ours: socket.socket,
        popen: subprocess.Popen[bytes],
        parent: int,
        tick: Callable[[], None],
    ) -> bytes:
        """Return what the supervisor said at its end; nothing if it was killed."""
        said, forwarded = b"", 0
        follow = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN  # nohup: outlive the parent
        while True:
            readable, _, _ = select.select([ours], [], [], _TICK_S)
            if readable:
                data = ours.recv(1 << 16)
                said += data
                if not data:
                    return said
            if follow and os.getppid() != parent:
                follow = False
                self._say(ours, "stop", "the parent process ended")
            for number in self._received[forwarded:]:
                forwarded += 1
                self._forward(ours, popen, number, forwarded)
            tick()

    def _forward(
        self, ours: socket.socket, popen: subprocess.Popen[bytes], number: int, count: int
    ) -> None:
        """First signal: let units end. Second: at once. Third: without the supervisor."""
        if count > 2:  # noqa: PLR2004 - counted in the line above
            popen.kill()
        else:
            self._say(ours, "stop" if count == 1 else "kill", process.name_of_signal(number))

    def _say(self, ours: socket.socket, what: str, reason: str) -> None:
        with contextlib.suppress(OSError):  # it ended this moment
            ours.sendall(json.dumps({"do": what, "reason": reason}).encode() + b"\n")

    def _finish(self, ours: socket.socket, popen: subprocess.Popen[bytes]) -> None:
        """Have the supervisor end: by itself, at end-of-file, or killed."""
        with contextlib.suppress(OSError):
            ours.shutdown(socket.SHUT_RDWR)
        try:
            popen.wait(timeout=20)
        except subprocess.TimeoutExpired:
            popen.kill()
            popen.wait()

    def _ending(self, said: bytes, status: int) -> Ending:
        number = self._received[0] if self._received else None
        if said:
            plain = json.loads(said)
            ending = Ending(exit_status=plain["exit_status"], reason=plain["reason"])
            return replace(ending, signal=number)
        swept = process.sweep(keep=self._before)
        how = process.name_of_signal(-status) if status < 0 else f"exit status {status}"
        reason = f"the supervisor died ({how})"
        log = (self._folder / runfolder.SUPERVISOR_LOG).read_text(errors="replace").strip()
        with contextlib.suppress(OSError):
            journal = Journal(self._folder, "guard")
            killed = len(swept.killed)
            journal.write(
                "RunEnd", exit_status=None, reason=reason, killed=killed, tail=log[-4096:]
            )
            journal.close()
        last = log.rpartition("\n")[2]
        return Ending(
            exit_status=None, reason=f"{reason}: {last}" if last else reason, signal=number
        )
