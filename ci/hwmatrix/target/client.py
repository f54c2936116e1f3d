"""The worker's handle on its slot's server."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

from hwmatrix.target.wire import Control, GoneError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_END_S = 10.0  # the server's own bound on ending a child is below this


class SlotServer:
    """The worker's handle on its slot's server; started anew when it died.

    `preload` names the modules that its fork server imports before the first unit comes; None
    where nothing forks. It starts at once.
    """

    def __init__(
        self, env: Mapping[str, str], cwd: str, preload: Sequence[str] | None = None
    ) -> None:
        self._preload = preload
        self._env = dict(env)
        self._cwd = cwd
        self._popen: subprocess.Popen[bytes] | None = None
        self._control: Control | None = None
        self._start()

    def control(self) -> Control:
        """Return the channel to a living server."""
        if self._control is None or self._popen is None or self._popen.poll() is not None:
            self.close()
            self._start()
        assert self._control is not None
        return self._control

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "hwmatrix.target", "server", str(theirs.fileno())]
        with theirs:
            self._popen = subprocess.Popen(
                command,
                env=self._env,
                cwd=self._cwd,
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno(),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._control = Control(ours)
        if self._preload is not None:
            # Dead already: `control` finds out, and starts another for the next unit.
            with contextlib.suppress(GoneError):
                self._control.send({"do": "preload", "modules": list(self._preload)})

    def close(self) -> int | None:
        """Close the channel, so that the server kills what runs and ends; return its status."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._popen is None:
            return None
        try:
            self._popen.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        status, self._popen = self._popen.returncode, None
        return status
