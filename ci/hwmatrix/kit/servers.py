"""A server under test: any command, on a port of the slot, ready by polling, gone at the end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hwmatrix import process
from hwmatrix.errors import HwMatrixError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

READY_LIMIT_S = 120.0  # below the smallest budget of a file whose estimate holds a server's start
_POLL_S = 0.05
_STOP_S = 10.0  # from the polite signal to the one that cannot be refused
_TAIL = 8000  # characters of the log that go into a failing test's report


class ServerError(HwMatrixError):
    """The server ended early or did not come up in time; the message ends with its log."""


@dataclass
class Server:
    """A running server: where it listens, its process, its log."""

    command: tuple[str, ...]
    port: int
    log: Path
    child: subprocess.Popen[bytes]
    ready_s: float = 0.0
    tree: list[process.Process] = field(default_factory=list)

    @property
    def url(self) -> str:
        """`http://127.0.0.1:port`."""
        return f"http://127.0.0.1:{self.port}"

    def tail(self) -> str:
        """Return the end of what the server wrote."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return text if len(text) <= _TAIL else "[...] " + text[-_TAIL:]

    def stop(self) -> int:
        """End the server and all that it started; return its exit status (negative: a signal).

        Raises:
            ServerError: a process is left that would not die.
        """
        tree = self._see()
        self._signal(signal.SIGTERM)
        try:
            self.child.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            tree = self._see()
        self._signal(signal.SIGKILL)
        for member in tree:
            process.send(member, signal.SIGKILL)
        status = self.child.wait()
        left = self._left(tree)
        if left:
            raise ServerError(f"{self.command[0]}: still there after SIGKILL: {left}")
        return status

    def _see(self) -> list[process.Process]:
        """Return all processes below the server seen so far, those that left its group too."""
        known = {(p.pid, p.started) for p in self.tree}
        found = process.descendants(self.child.pid)
        self.tree += [p for p in found if (p.pid, p.started) not in known]
        return self.tree

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self.child.pid, number)
        except (ProcessLookupError, PermissionError):
            return  # the group is empty; macOS says so with the second error

    def _left(self, tree: Sequence[process.Process], within_s: float = 5.0) -> list[int]:
        """Return the pids of `tree` that still run when `within_s` is over."""
        end = time.monotonic() + within_s
        while True:
            left = [p.pid for p in tree if _runs(p)]
            if not left or time.monotonic() > end:
                return left
            time.sleep(_POLL_S)


def start_server(
    command: Sequence[str],
    *,
    log: Path,
    port: int | None = None,
    ready: str = "/health",
    limit_s: float = READY_LIMIT_S,
    env: Mapping[str, str] | None = None,
) -> Server:
    """Return the server that `command` starts, once `ready` answers with a status below 400.

    `{port}` in the command becomes the port: the slot's leased one where a session gave it
    (HWMATRIX_PORT), else a free one. `env` is added to this process's environment. A `ready` of ""
    waits for the port to accept a connection.

    Raises:
        ServerError: it ended, or was not ready after `limit_s` seconds; nothing is left of it.
    """
    port = own_port() if port is None else port
    line = tuple(word.replace("{port}", str(port)) for word in command)
    began = time.monotonic()
    with log.open("ab") as out:
        started = subprocess.Popen(
            line,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
    server = Server(command=line, port=port, log=log, child=started)
    while not _answers(server, ready):
        waited = time.monotonic() - began
        ended = started.poll()
        if ended is None and waited < limit_s:
            time.sleep(_POLL_S)
            continue
        server.stop()
        what = f"was not ready after {waited:.0f} s" if ended is None else f"ended with {ended}"
        raise ServerError(f"{' '.join(line)}: {what}. Its log:\n{server.tail()}")
    server.ready_s = time.monotonic() - began
    return server


def own_port() -> int:
    """Return the port that this slot has a lease on, else one that was free a moment ago."""
    leased = os.environ.get("HWMATRIX_PORT", "")
    if leased:
        return int(leased)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(server: Server, ready: str) -> bool:
    if server.child.poll() is not None:
        return False
    try:
        if not ready:
            socket.create_connection(("127.0.0.1", server.port), timeout=2).close()
            return True
        with urllib.request.urlopen(server.url + ready, timeout=2) as answer:  # noqa: S310 - http
            return int(answer.status) < 400  # noqa: PLR2004 - RFC 9110: errors begin there
    except (OSError, urllib.error.URLError):
        return False


def _runs(seen: process.Process) -> bool:
    now = process.look(seen.pid)
    return now is not None and now.started == seen.started and not now.dead
