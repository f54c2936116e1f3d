"""One process fetches an asset; the others wait, say for whom, and not for ever."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import TYPE_CHECKING

from hwmatrix.errors import AssetError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_POLL_S = 0.1
_SAY_EVERY_S = 30.0


@contextlib.contextmanager
def locked(path: Path, what: str, *, until: float, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the file lock at `path` while the body runs; it ends with the process that holds it.

    `until` is a moment of `time.monotonic`. The file names its holder while it is held.

    Raises:
        AssetError: it was not free by then.
        OSError: it cannot be made.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        _acquire(descriptor, what, until, say)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"pid {os.getpid()} on {os.uname().nodename}".encode(), 0)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, what: str, until: float, say: Callable[[str], None]) -> None:
    said = 0.0
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        now = time.monotonic()
        holder = os.pread(descriptor, 200, 0).decode("utf-8", "replace") or "another process"
        if now >= until:
            raise AssetError(
                f"asset {what}: {holder} is still fetching it. Wait for it, or end it."
            )
        if not said or now - said >= _SAY_EVERY_S:
            say(f"asset {what}: {holder} is fetching it; waiting ...")
            said = now
        time.sleep(_POLL_S)
