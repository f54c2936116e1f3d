"""A running child, as the slot's server holds it, whoever started it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import subprocess


class Child(Protocol):
    """A process that the watch did or did not start itself."""

    pid: int

    def status(self) -> int | None:
        """Return None while it runs, else its exit status, or minus the signal that ended it."""

    def fileno(self) -> int | None:
        """Return a descriptor that becomes readable when it ends, None where there is none."""


class Spawned:
    """A child in a fresh interpreter, started by this process."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self.pid = popen.pid
        self._popen = popen
        self._pidfd: int | None = None
        try:
            self._pidfd = os.pidfd_open(popen.pid)
        except (AttributeError, OSError):
            self._pidfd = None  # not Linux, or a sandbox without the call

    def status(self) -> int | None:
        """Return None while it runs, else its exit status, or minus the signal that ended it."""
        status = self._popen.poll()
        if status is not None and self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None
        return status

    def fileno(self) -> int | None:
        """Return its process descriptor."""
        return self._pidfd
