"""One preloaded process for all slots of a run whose environments are alike.

    zygote        `python -m hwmatrix.target zygote LISTENER PARENT MODULES`; imports once for all
      slot server   forked for each worker that asks; below it everything is as below any other

The packages of N slots cost one import instead of N at once, and one copy of their pages. The
supervisor starts it beside the controller, so it imports while the workers start. It never answers:
a server that is up says so itself, on the channel that the worker sent along. Nothing depends on
it: when it cannot be forked (`template.unsafe`) or was killed, workers start servers of their own
(client.py).
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

from hwmatrix import process, runfolder
from hwmatrix.target import server, template
from hwmatrix.target.wire import Control, GoneError

_ROUND_S = 1.0  # how often servers that ended are reaped
_ASK_S = 10.0  # a worker sends at once what it asks for


def main(argv: list[str]) -> int:
    """Import the modules, then fork a slot server whenever asked; 1 if that would not be safe."""
    descriptor, parent, *modules = argv
    process.die_with_parent(int(parent))
    template.leave_start_folder()
    listener = socket.socket(fileno=int(descriptor))
    listener.set_inheritable(False)
    reason = template.preload(modules) or template.unsafe()
    if reason:
        sys.stderr.write(f"each slot imports its packages itself: {reason}\n")
        return 1
    template.about_plugins()  # remembered for every template to come
    template.settle()
    while os.getppid() == int(parent):  # where no signal tells of its death
        ready, _, _ = select.select([listener], [], [], _ROUND_S)
        _reap()
        if ready:
            # It died while it asked; or no descriptor or process is left: then it sees the end of
            # its channel, and starts a server itself.
            with contextlib.suppress(OSError, GoneError, IndexError):
                _answer(listener)
    return 0


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue


def _answer(listener: socket.socket) -> None:
    """Fork the server that one worker asks for."""
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(_ASK_S)
        asked = Control(connection)
        messages: list[dict[str, Any]] = []
        while not messages:
            received = asked.receive()
            if received is None:
                return
            messages = received
        (message,) = messages
        channel = asked.take_descriptor()
        try:
            if template.fork() == 0:
                connection.close()
                _become_server(listener, channel, message["env"], message["cwd"])
        finally:
            os.close(channel)


def _become_server(
    listener: socket.socket, channel: int, env: dict[str, str], cwd: str
) -> NoReturn:
    """Turn this copy into the server of one slot."""
    status = 1
    try:
        known = runfolder.server_mark(Path(listener.getsockname()), os.getpid())
        listener.close()
        os.setsid()
        known.touch()  # it may outlive the zygote: the supervisor does not take it for an orphan
        os.environ.clear()
        os.environ.update(env)
        os.chdir(cwd)
        control = Control(socket.socket(fileno=channel))
        status = server.serve(control, imported=True)
    except Exception:  # noqa: BLE001 - printed: above here is the zygote's own loop
        traceback.print_exc()
    finally:
        os._exit(status)
