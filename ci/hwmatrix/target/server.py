"""The slot's server: starts one child per unit, watches it, and sweeps after it.

`python -m hwmatrix.target server CONTROL`, with the number of the control channel's descriptor.
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
from dataclasses import asdict
from pathlib import Path

from hwmatrix import process
from hwmatrix.target.watch import Ended, Spawned, Watch
from hwmatrix.target.wire import Control, Request


def main(argv: list[str]) -> int:
    """Serve until the worker closes its end; return 0."""
    (descriptor,) = argv
    process.become_subreaper()
    server = Server(Control(socket.socket(fileno=int(descriptor))))
    server.serve()
    process.sweep()
    return 0


class Server:
    """Runs one request at a time."""

    def __init__(self, control: Control) -> None:
        self._control = control
        os.set_inheritable(control.fileno(), False)

    def serve(self) -> None:
        """Take requests until end-of-file."""
        while True:
            messages = self._control.receive()
            if messages is None:
                return
            for message in messages:
                if message["do"] == "run" and not self._run(Request.from_plain(message["request"])):
                    return

    def _run(self, request: Request) -> bool:
        """Run one part of a unit; False once the worker is gone."""
        events = self._control.take_descriptor()
        temporary = Path(request.temporary)
        try:
            temporary.mkdir(parents=True, exist_ok=True)
            watch = self._start(request, events)
        except OSError as error:
            os.close(events)
            self._control.send({"is": "ended", **asdict(_not_started(error))})
            return True
        ended = watch.run()
        shutil.rmtree(temporary, ignore_errors=True)
        if watch.worker_gone:
            return False
        self._control.send({"is": "ended", **asdict(ended)})
        return True

    def _start(self, request: Request, events: int) -> Watch:
        read, write = os.pipe()
        child = spawn(request, events=events, output=write)
        os.close(write)
        os.close(events)
        self._control.send({"is": "started", "pid": child.pid, "isolation": "spawn"})
        return Watch(
            child, output=read, control=self._control, request=request, keep=frozenset()
        )


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
    return Ended(
        why="",
        exit_status=None,
        signal=None,
        killed=0,
        left=(),
        seconds=0.0,
        tail=f"the process of the file could not be started: {error}",
    )
