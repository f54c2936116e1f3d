"""The stamp: which inputs an environment was made from. A torn build has none: it comes last.

The folder's name carries the hash of the inputs; a lock beside it lets one session build while
others wait.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hwmatrix.errors import EnvironmentBuildError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from hwmatrix.model import Variant

NAME = "hwmatrix-stamp.json"
_FORMAT = "1"
"""Raise it when the way in which environments are made changes: all are then built anew."""

_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Stamp:
    """The inputs and their hash."""

    inputs: Mapping[str, str]

    @property
    def digest(self) -> str:
        """The SHA-256 of the inputs, in hexadecimal."""
        text = json.dumps({"format": _FORMAT, **self.inputs}, sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()

    def folder_name(self, variant: Variant) -> str:
        """Return `amd-rocm-7.2-<12 digits>`; the backend is not said twice."""
        name, backend = variant.name, variant.backend.value
        full = name if name == backend or name.startswith(f"{backend}-") else f"{backend}-{name}"
        return f"{full}-{self.digest[:12]}"

    def matches(self, folder: Path) -> bool:
        """Whether `folder` was finished from these inputs."""
        try:
            value = json.loads((folder / NAME).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return isinstance(value, dict) and value.get("digest") == self.digest

    def write(self, folder: Path) -> None:
        """Mark `folder` as finished, in one step."""
        passing = folder / f".{NAME}.{os.getpid()}"
        text = json.dumps({"digest": self.digest, "inputs": self.inputs}, indent=1, sort_keys=True)
        passing.write_text(text + "\n", encoding="utf-8")
        passing.replace(folder / NAME)


@contextlib.contextmanager
def locked(path: Path, *, limit_s: float, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the file lock at `path` while the body runs; it ends with the process that holds it.

    Raises:
        EnvironmentBuildError: it was not free within `limit_s`, or cannot be made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise EnvironmentBuildError(
            f"cannot write {path}: {error.strerror}. {path.parent} must be writable, or "
            "HWMATRIX_STATE must name another folder that is."
        ) from None
    try:
        _acquire(descriptor, path, limit_s, say)
        yield
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, path: Path, limit_s: float, say: Callable[[str], None]) -> None:
    began = time.monotonic()
    told = False
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        if time.monotonic() - began > limit_s:
            raise EnvironmentBuildError(
                f"another session has been building this environment for {limit_s:g} s (lock "
                f"{path}). Wait for it, or end it."
            )
        if not told:
            say("another session builds this environment; waiting for it ...")
            told = True
        time.sleep(_POLL_S)
