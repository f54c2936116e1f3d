"""A worker's conversation with server and child while one part of a unit runs."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING, Any

from hwmatrix.target.wire import Control, Frames, GoneError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hwmatrix.target.part import Part

POLL_MS = 200  # how soon a request to stop is seen


class Conversation:
    """Listens to server and child until the part ended.

    Events are taken only between the start that the server announces and the expiry or stop: a
    signal can wake a hung call, and what the test says after that counts for nothing.
    """

    def __init__(self, part: Part, frames: Frames, start_keys: Mapping[str, object]) -> None:
        self._part = part
        self._frames = frames
        self._start_keys = dict(start_keys)
        self._open = False
        self._over = False
        self._stopped = False
        self.ended: Mapping[str, Any] | None = None

    def listen(self, control: Control, stopping: Callable[[], bool]) -> None:
        """Return once `ended` is known.

        Raises:
            GoneError: the server died.
        """
        while self.ended is None:
            waiting = [control.fileno()]
            if self._open and not self._over:
                waiting.append(self._frames.descriptor)
            ready = _readable(waiting)
            if control.fileno() in ready:
                self._take_messages(control)
            elif self._frames.descriptor in ready:
                self._take_events()
            if not self._stopped and stopping():
                self._stopped = True
                self._open = False
                control.send({"do": "stop"})

    def _take_events(self) -> None:
        events, self._over = self._frames.read()
        for event in events:
            self._part.take(event)

    def _take_rest(self) -> None:
        for event in self._frames.rest():
            self._part.take(event)

    def _take_messages(self, control: Control) -> None:
        messages = control.receive()
        if messages is None:
            reason = "end of file"
            raise GoneError(reason)
        for message in messages:
            what = message["is"]
            if what == "started":
                keys = {key: message[key] for key in ("pid", "isolation", "note")}
                self._part.begin(**keys, **self._start_keys)
                self._open = not self._stopped
            elif what == "expired":
                self._expire(control)
            elif what == "ended":
                self.ended = message
                if not message["why"]:
                    self._take_rest()

    def _expire(self, control: Control) -> None:
        if self._open:
            self._take_rest()
        self._open = False
        self._part.expire()
        control.send({"do": "ack"})


def _readable(descriptors: list[int]) -> set[int]:
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(POLL_MS)}
