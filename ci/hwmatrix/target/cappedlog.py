"""A log that keeps the beginning and the end of its input, however long the middle is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

HEAD = 1 << 20  # bytes: start-up, versions, the first failures
TAIL = 1 << 20  # bytes: what came last


class CappedLog:
    """Writes to `path` and holds it to `head + 2 * tail` bytes and a line that says what was cut.

    All of it is in the file at any time, so it survives the death of its writer.
    """

    def __init__(self, path: Path, *, head: int = HEAD, tail: int = TAIL) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o644)
        self._head, self._tail = head, tail
        self._size = 0  # bytes in the file
        self._keep = head  # where the part that is never cut ends: head and the line after it
        self._cut = 0

    def write(self, data: bytes) -> None:
        """Append `data`; cut the middle when the file has grown past its cap."""
        while data:
            room = self._keep + 2 * self._tail - self._size
            piece, data = data[:room], data[room:]
            os.pwrite(self._descriptor, piece, self._size)
            self._size += len(piece)
            if self._size >= self._keep + 2 * self._tail:
                self._compact()

    def _compact(self) -> None:
        last = os.pread(self._descriptor, self._tail, self._size - self._tail)
        self._cut += self._size - self._keep - len(last)
        note = f"\n... {self._cut} bytes cut ...\n".encode()
        os.ftruncate(self._descriptor, self._head)
        os.pwrite(self._descriptor, note + last, self._head)
        self._keep = self._head + len(note)
        self._size = self._keep + len(last)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def tail_of(path: Path, limit: int) -> str:
    """Return the last `limit` bytes of the file at `path` as text, "" if it cannot be read."""
    try:
        with path.open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            size = stream.tell()
            stream.seek(max(0, size - limit))
            data = stream.read(limit)
    except OSError:
        return ""
    cut = size > limit
    text = data.decode("utf-8", errors="replace")
    return f"...{text}" if cut else text
