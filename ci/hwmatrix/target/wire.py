"""What travels between worker, slot server and child.

Two channels. *Control* (worker and server, a socket pair): one JSON object per line; file
descriptors may ride along. *Events* (child to worker, a pipe): frames of a 4-byte little-endian
length and an `execnet.dumps` payload, which keeps tuples that JSON would turn into lists (junitxml
asserts on them).
"""

from __future__ import annotations

import json
import os
import socket
import struct
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import execnet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_LENGTH = struct.Struct("<I")
_READ = 1 << 20
_MOST_DESCRIPTORS = 4
_LARGEST_INT = 1 << 62  # execnet carries larger ones as text at best


@dataclass(frozen=True)
class Request:
    """What the worker asks of its server: run one part of one unit.

    `selectors` and `options` are pytest's arguments; `done` are node ids that earlier parts
    finished with. `log` and `stacks` are absolute paths. `test_limit_s` is what one test may take
    that asks for nothing else; `budget_s` counts from the start of this part. `isolation` is "fork"
    or "spawn". `lessons` is the file of lessons.py.
    """

    unit: str
    selectors: tuple[str, ...]
    options: tuple[str, ...]
    cwd: str
    log: str
    stacks: str
    temporary: str
    test_limit_s: float
    budget_s: float
    worker_input: Mapping[str, Any]
    done: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    isolation: str = "spawn"
    lessons: str = ""

    @property
    def args(self) -> list[str]:
        """Pytest's command line."""
        return [*self.selectors, *self.options]

    def to_plain(self) -> dict[str, object]:
        """Return what JSON carries."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Request:
        """Return the request that `to_plain` gave."""
        lists = {name: tuple(plain[name]) for name in ("selectors", "options", "done")}
        return cls(**{**plain, **lists})


class GoneError(Exception):
    """The other side of the control channel is gone."""


class Control:
    """One end of the control channel."""

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(None)  # a package may have set another default
        self._socket = sock
        self._buffer = b""
        self._descriptors: list[int] = []

    def fileno(self) -> int:
        """Return the descriptor to poll."""
        return self._socket.fileno()

    def send(self, message: Mapping[str, object], descriptors: Sequence[int] = ()) -> None:
        """Send one message.

        Raises:
            GoneError: the other side is gone.
        """
        data = json.dumps(message).encode() + b"\n"
        try:
            sent = socket.send_fds(self._socket, [data], list(descriptors)) if descriptors else 0
            if data[sent:]:  # sending nothing fails too where the other side has read all and left
                self._socket.sendall(data[sent:])
        except OSError as error:
            raise GoneError(str(error)) from error

    def receive(self) -> list[dict[str, Any]] | None:
        """Wait for data; return the messages that are complete, None once the other end closed."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._socket, _READ, _MOST_DESCRIPTORS)
        except ConnectionResetError:
            return None
        self._descriptors += descriptors
        if not data:
            return None
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def take_descriptor(self) -> int:
        """Return the oldest descriptor that arrived and was not taken yet."""
        return self._descriptors.pop(0)

    def close(self) -> None:
        """Close this end, and descriptors that nobody took; the other one reads end-of-file."""
        self._socket.close()
        while self._descriptors:
            os.close(self._descriptors.pop())


def frame(event: Mapping[str, object]) -> bytes:
    """Return `event` as one frame; what execnet cannot carry goes as its `repr`."""
    try:
        payload = execnet.dumps(event)
    except execnet.DumpError:
        payload = execnet.dumps(_plain(event))
    return _LENGTH.pack(len(payload)) + payload


def _plain(value: object) -> object:
    if value is None or type(value) in {bool, float, str, bytes}:
        return value
    if type(value) is int and abs(value) < _LARGEST_INT:
        return value
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if type(value) is tuple:
        return tuple(_plain(item) for item in value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return repr(value)


class Frames:
    """Reads frames from a descriptor that never blocks."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self._buffer = b""

    def read(self) -> tuple[list[dict[str, Any]], bool]:
        """Return the events that are complete, and whether the stream has ended."""
        try:
            data = os.read(self.descriptor, _READ)
        except BlockingIOError:
            return [], False
        self._buffer += data
        return list(self._complete()), not data

    def rest(self) -> list[dict[str, Any]]:
        """Return all that can be read without waiting."""
        events: list[dict[str, Any]] = []
        while True:
            before = len(self._buffer)
            more, ended = self.read()
            events += more
            if ended or (not more and len(self._buffer) == before):
                return events

    def _complete(self) -> Iterator[dict[str, Any]]:
        start = 0
        while len(self._buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, start)
            end = start + _LENGTH.size + length
            if len(self._buffer) < end:
                break
            yield execnet.loads(self._buffer[start + _LENGTH.size : end])
            start = end
        self._buffer = self._buffer[start:]

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)
