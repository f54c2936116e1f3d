"""The slot's server: starts one child per unit, watches it, and sweeps after it.

`python -m hwmatrix.target server CONTROL [PRELOADED PID]`, with the number of the control channel's
descriptor, and those of a preloaded process that a zygote forked.
It runs in a session of its own, so that a Ctrl-C at the terminal does not reach it, and is a
subreaper: whatever a test leaves behind re-parents to it and is killed before the next unit. When
the worker dies it reads end-of-file, kills what runs, and leaves.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix import process
from hwmatrix.target.forkserver import CalledError, ForkServer, UnsafeError
from hwmatrix.target.handle import Spawned
from hwmatrix.target.watch import Ended, Watch
from hwmatrix.target.wire import Control, GoneError, Request

if TYPE_CHECKING:
    from hwmatrix.target.forked import Template
    from hwmatrix.target.handle import Child


def main(argv: list[str]) -> int:
    """Serve until the worker closes its end; return 0."""
    descriptor, *adopted = [int(word) for word in argv]
    process.become_subreaper()
    control = Control(socket.socket(fileno=descriptor))
    try:
        control.send({"is": "up", "pid": os.getpid()})
        Server(control, (adopted[0], adopted[1]) if adopted else None).serve()
    except GoneError:
        return 0
    finally:
        process.sweep()
    return 0


class Server:
    """Runs one request at a time."""

    def __init__(self, control: Control, adopted: tuple[int, int] | None = None) -> None:
        self._control = control
        self._adopted = adopted
        self._forks = ForkServer((), "")
        os.set_inheritable(control.fileno(), False)

    def serve(self) -> None:
        """Take requests until end-of-file."""
        while True:
            messages = self._control.receive()
            if messages is None:
                return
            for message in messages:
                if message["do"] == "preload":
                    worker = self._control.fileno()
                    self._forks = ForkServer(
                        message["modules"], str(Path.cwd()), worker, adopted=self._adopted
                    )
                    self._forks.start()
                elif message["do"] == "spawn":
                    self._forks = ForkServer((), "", reason=message["reason"])
                elif message["do"] == "run" and not self._run(
                    Request.from_plain(message["request"])
                ):
                    return

    def _run(self, request: Request) -> bool:
        """Run one part of a unit; False once the worker is gone."""
        events = self._control.take_descriptor()
        temporary = Path(request.temporary)
        try:
            temporary.mkdir(parents=True, exist_ok=True)
            Path(request.log).parent.mkdir(parents=True, exist_ok=True)
            started = self._start(request, events)
        except OSError as error:
            self._control.send({"is": "ended", **asdict(_not_started(error))})
            return True
        except CalledError:
            return self._called()
        finally:
            os.close(events)
        ended = started.watch.run()
        self._tidy(started, ended)
        shutil.rmtree(temporary, ignore_errors=True)
        if started.watch.worker_gone:
            return False
        self._control.send({"is": "ended", **asdict(ended)})
        return True

    def _called(self) -> bool:
        """End a unit that has no process yet; False if the worker is gone, else it said to stop."""
        if self._control.receive() is None:
            return False
        self._forks.close()
        self._control.send({"is": "ended", **asdict(_stopped_before())})
        return True

    def _start(self, request: Request, events: int) -> _Started:
        note = ""
        if request.isolation == "fork":
            try:
                return self._fork(request, events)
            except UnsafeError as error:
                note = f"a fresh interpreter instead of a fork: {error}"
        return self._spawn(request, events, note)

    def _fork(self, request: Request, events: int) -> _Started:
        child, template = self._forks.fork(request, events)
        self._announce(child.pid, "fork", "")
        watch = self._watch(child, template.output, request, template.preamble)
        return _Started(watch, template=template)

    def _spawn(self, request: Request, events: int, note: str) -> _Started:
        read, write = os.pipe()
        try:
            child = spawn(request, events=events, output=write)
        except OSError:
            os.close(read)
            raise
        finally:
            os.close(write)
        self._announce(child.pid, "spawn", note)
        return _Started(self._watch(child, read, request, b""), output=read)

    def _announce(self, pid: int, isolation: str, note: str) -> None:
        self._control.send({"is": "started", "pid": pid, "isolation": isolation, "note": note})

    def _watch(self, child: Child, output: int, request: Request, preamble: bytes) -> Watch:
        return Watch(
            child,
            output=output,
            control=self._control,
            request=request,
            keep=self._forks.pids(),
            preamble=preamble,
        )

    def _tidy(self, started: _Started, ended: Ended) -> None:
        if started.output is not None:
            os.close(started.output)
        Path(f"{started.watch.request.temporary}.json").unlink(missing_ok=True)
        template = started.template
        silent = ended.exit_status is None and ended.signal is None
        if template is not None and (template.broken or silent):
            self._forks.forget(template)  # dead, or it never said how its child ended


@dataclass(frozen=True)
class _Started:
    """A watched child: `template` where it was forked, else the `output` to close after it."""

    watch: Watch
    template: Template | None = None
    output: int | None = None


def spawn(request: Request, *, events: int, output: int) -> Spawned:
    """Start the child in a fresh interpreter.

    Raises:
        OSError: no memory, no process left, or the interpreter is gone.
    """
    path = Path(f"{request.temporary}.json")
    path.write_text(json.dumps(request.to_plain()), encoding="utf-8")
    command = [sys.executable, "-m", "hwmatrix.target", "child"]
    popen = subprocess.Popen(
        [*command, str(path), str(events), str(os.getpid())],
        cwd=request.cwd,
        env={**os.environ, **request.env},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=(events,),
        start_new_session=True,
    )
    return Spawned(popen)


def _not_started(error: OSError) -> Ended:
    return _nothing("", f"the process of the file could not be started: {error}")


def _stopped_before() -> Ended:
    return _nothing("stopped", "the run was stopped before the file's process was started")


def _nothing(why: str, tail: str) -> Ended:
    """Return the end of a part without a process."""
    return Ended(why=why, exit_status=None, signal=None, killed=0, left=(), seconds=0.0, tail=tail)
