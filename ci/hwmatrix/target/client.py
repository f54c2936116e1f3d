"""The worker's handle on its slot's server."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

from hwmatrix import process
from hwmatrix.target.wire import Control, GoneError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_END_S = 10.0  # the server's own bound on ending a child is below this
_ASK_S = 10.0  # the kernel takes the request at once, whatever the zygote does
_END_OF_FILE = "end of file"


class SlotServer:
    """The worker's handle on its slot's server; started anew when it died.

    `preload` names the modules that its fork server imports before the first unit comes; None
    where nothing forks. It starts at once: forked by the zygote that listens at `zygote`, else, or
    where nobody listens there, in an interpreter of its own.
    """

    def __init__(
        self,
        env: Mapping[str, str],
        cwd: str,
        preload: Sequence[str] | None = None,
        zygote: Path | None = None,
    ) -> None:
        self._preload = preload
        self._zygote = zygote if preload is not None else None
        self._env = dict(env)
        self._cwd = cwd
        self._popen: subprocess.Popen[bytes] | None = None
        self._ending: int | None = None  # can be read once a forked server has ended
        self._control: Control | None = None
        self._up = self._served = False
        self._reason = ""
        self._start()

    def control(self, wait_s: float) -> Control | None:
        """Return the channel to a living server; None if it is not up within `wait_s`.

        What a zygote does not give, an interpreter of its own does.

        Raises:
            GoneError: it died before it was up; the next call starts another.
        """
        if self._control is None or self._ended():
            self.close()
            self._start()
        assert self._control is not None
        if not self._up and _readable(self._control.fileno(), wait_s):
            messages = self._control.receive()
            if messages is None:
                self._gone()
            for message in messages or ():
                self._up = self._served = True
                if self._popen is None:
                    self._ending = process.end_of(int(message["pid"]))
        return self._control if self._up else None

    def _gone(self) -> None:
        """Start another where a zygote failed."""
        forked = self._popen is None
        self.close()
        self._zygote = None
        if not forked:
            raise GoneError(_END_OF_FILE)
        self._start()

    def patience_s(self, budget_s: float) -> float:
        """Return how long to wait for a server: what imports may take, or seconds after those."""
        return min(budget_s, _ASK_S) if self._zygote is not None and self._served else budget_s

    def give_up(self, waited_s: float) -> None:
        """Start another server, in an interpreter of its own, and no zygote is asked any more.

        Where a zygote still imports after `waited_s`, the other one imports nothing beforehand.
        """
        self.close()
        if not self._served:
            self._preload = None
            self._reason = f"packages were not imported within {waited_s:.0f} s"
        self._zygote = None
        self._start()

    def _ended(self) -> bool:
        if self._popen is not None:
            return self._popen.poll() is not None
        return self._ending is not None and _readable(self._ending, 0)

    def _start(self) -> None:
        ours = self._ask_zygote()
        if ours is None:
            self._zygote = None
            ours, theirs = socket.socketpair()
            with theirs:
                self._popen = self._spawn(theirs)
        self._control = Control(ours)
        if self._preload is not None:
            # Dead already: `control` finds out, and starts another for the next unit.
            with contextlib.suppress(GoneError):
                self._control.send({"do": "preload", "modules": list(self._preload)})
        elif self._reason:
            with contextlib.suppress(GoneError):
                self._control.send({"do": "spawn", "reason": self._reason})

    def _ask_zygote(self) -> socket.socket | None:
        """Ask for a server and return the channel to it; None where nobody listens.

        It comes once the packages are imported, and says so on the channel; end-of-file there means
        that it will not come.
        """
        if self._zygote is None:
            return None
        ours, theirs = socket.socketpair()
        try:
            # An environment may be larger than what a socket takes before anybody reads it, and
            # hold secrets: the file has no name.
            with (
                theirs,
                tempfile.TemporaryFile(dir=self._zygote.parent) as file,
                socket.socket(socket.AF_UNIX) as connection,
            ):
                file.write(json.dumps({"env": self._env, "cwd": self._cwd}).encode())
                file.flush()
                asked = Control(connection)
                connection.settimeout(_ASK_S)
                connection.connect(str(self._zygote))
                asked.send({"do": "serve"}, [theirs.fileno(), file.fileno()])
        except (OSError, GoneError):
            ours.close()
            return None
        return ours

    def _spawn(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "hwmatrix.target", "server", str(theirs.fileno())],
            env=self._env,
            cwd=self._cwd,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )

    def close(self) -> None:
        """Close the channel, so that the server kills what runs and ends; wait until it has."""
        if self._control is not None:
            self._control.close()
            self._control = None
        self._up = False
        if self._popen is not None:
            try:
                self._popen.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._popen.kill()
                self._popen.wait()
            self._popen = None
        if self._ending is not None:
            if not _readable(self._ending, _END_S):
                with contextlib.suppress(OSError):
                    signal.pidfd_send_signal(self._ending, signal.SIGKILL)
            os.close(self._ending)
            self._ending = None


def _readable(descriptor: int, wait_s: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(wait_s * 1000))
