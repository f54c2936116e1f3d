"""The slot server's handle on its fork server: the preloaded process and its templates."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hwmatrix.target.forked import PREAMBLE, READ, Forked, Template, key_of
from hwmatrix.target.wire import Control, GoneError, Request

if TYPE_CHECKING:
    from collections.abc import Sequence

# Each keeps its own pages only; one per configuration, options and environment.
_MOST_TEMPLATES = 6


_PENDING = "it is not known yet"


class UnsafeError(Exception):
    """Forking is not possible here; the message says why."""


class CalledError(Exception):
    """The worker spoke, or was gone, before there was a child: nothing else can be meant."""


@dataclass
class ForkServer:
    """Starts the preloaded process at once; makes templates when they are needed.

    Heavy packages take their time: while they are imported, the descriptor `worker` is watched too.
    """

    modules: Sequence[str]
    cwd: str
    worker: int | None = None
    reason: str = ""  # why nothing can be forked; _PENDING until the preloaded process tells
    # Its descriptor and pid, where the preloaded process is there already (zygote.py).
    adopted: tuple[int, int] | None = None
    _templates: dict[tuple[object, ...], Template] = field(default_factory=dict)
    _refused: dict[tuple[object, ...], str] = field(default_factory=dict)
    _popen: subprocess.Popen[bytes] | None = None  # kept: one that is forgotten warns
    _pid: int | None = None
    _control: Control | None = None

    def start(self) -> None:
        """Start the preloaded process, without waiting for it."""
        if self.adopted:
            descriptor, self._pid = self.adopted
            ours = socket.socket(fileno=descriptor)
            ours.set_inheritable(False)
        else:
            ours, theirs = socket.socketpair()
            with theirs:
                self._pid = self._spawn(theirs)
        self._control = Control(ours)
        self.reason = _PENDING

    def _spawn(self, theirs: socket.socket) -> int:
        command = [sys.executable, "-m", "hwmatrix.target", "template"]
        self._popen = subprocess.Popen(
            [*command, str(theirs.fileno()), str(os.getpid()), *self.modules],
            cwd=self.cwd,
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
        return self._popen.pid

    def pids(self) -> frozenset[int]:
        """The processes that stay between units."""
        own = {template.pid for template in self._templates.values()}
        return frozenset(own | ({self._pid} if self._pid else set()))

    def fork(self, request: Request, events: int) -> tuple[Forked, Template]:
        """Return a child for `request` and the template that it came from.

        Raises:
            UnsafeError: it cannot be forked; start a fresh interpreter.
            CalledError: there is something to read from the worker, and no child yet.
        """
        template = self._template(request, time.monotonic() + request.budget_s)
        try:
            template.control.send({"do": "fork", "request": request.to_plain()}, [events])
            messages = _forked(template.control, time.monotonic() + request.budget_s)
        except GoneError as error:
            self.forget(template)
            reason = f"the template died ({error})"
            raise UnsafeError(reason) from error
        return Forked(template, messages), template

    def forget(self, template: Template) -> None:
        """Drop a template that cannot be used any more."""
        self._templates = {k: t for k, t in self._templates.items() if t is not template}
        template.close()

    def close(self) -> None:
        """Drop everything; the processes end at end-of-file."""
        for template in self._templates.values():
            template.close()
        self._templates = {}
        if self._control is not None:
            self._control.close()
            self._control = None

    # ------------------------------------------------------------ templates
    def _template(self, request: Request, end: float) -> Template:
        key = key_of(request)
        if key in self._refused:
            raise UnsafeError(self._refused[key])
        template = self._templates.pop(key, None)
        if template is None:
            template = self._make(key, request, end)
        self._templates[key] = template  # most recently used last
        return template

    def _make(self, key: tuple[object, ...], request: Request, end: float) -> Template:
        control = self._preloaded(end)
        while len(self._templates) >= _MOST_TEMPLATES:
            self.forget(next(iter(self._templates.values())))
        ours, theirs = socket.socketpair()
        output, write = os.pipe()
        os.set_blocking(output, False)
        try:
            descriptors = [theirs.fileno(), write]
            control.send({"do": "template", "request": request.to_plain()}, descriptors)
            (message,) = _wait(control, end)
        except GoneError as error:
            os.close(output)
            ours.close()
            self.reason = f"the preloaded process died ({error})"
            raise UnsafeError(self.reason) from error
        finally:
            theirs.close()
            os.close(write)
        template = Template(int(message["pid"]), Control(ours), output)
        try:
            self._await_ready(key, template, end)
        except CalledError:
            template.close()
            raise
        return template

    def _preloaded(self, end: float) -> Control:
        """Return the channel to the preloaded process once it has imported its modules."""
        if self._control is not None and self.reason == _PENDING:
            try:
                (message,) = _wait(self._control, end, self.worker)
                self.reason = str(message["reason"])
            except GoneError as error:
                self.reason = f"the preloaded process died ({error})"
        if self._control is None or self.reason:
            raise UnsafeError(self.reason or "no fork server was started")
        return self._control

    def _await_ready(self, key: tuple[object, ...], template: Template, end: float) -> None:
        reason = "the template died before it was ready"
        try:
            message = self._preamble(template, end)
            reason = str(message.get("reason", ""))
        except GoneError as error:
            reason = f"the template died before it was ready ({error}){template.last_words()}"
        if reason:
            template.close()
            self._refused[key] = reason
            raise UnsafeError(reason)

    def _preamble(self, template: Template, end: float) -> dict[str, Any]:
        """Keep what the template prints until it is ready; return its first message."""
        while True:
            ready = _poll([template.control.fileno(), template.output], end, self.worker)
            if template.output in ready:
                data = os.read(template.output, READ)
                template.preamble = (template.preamble + data)[:PREAMBLE]
                if data:
                    continue
            (message,) = _wait(template.control, end, self.worker)
            return message


def _poll(descriptors: list[int], end: float, worker: int | None = None) -> set[int]:
    poll = select.poll()
    for descriptor in [*descriptors, *([] if worker is None else [worker])]:
        poll.register(descriptor, select.POLLIN)
    left_ms = max(0, int((end - time.monotonic()) * 1000))
    ready = {descriptor for descriptor, _ in poll.poll(left_ms)}
    if not ready:
        reason = "no answer in time"
        raise GoneError(reason)
    if worker in ready:
        raise CalledError
    return ready


def _wait(control: Control, end: float, worker: int | None = None) -> list[dict[str, Any]]:
    """Return the next messages.

    Raises:
        GoneError: end-of-file, or nothing came until `end`.
        CalledError: there is something to read from `worker`.
    """
    messages: list[dict[str, Any]] = []
    while not messages:
        _poll([control.fileno()], end, worker)
        received = control.receive()
        if received is None:
            reason = "end of file"
            raise GoneError(reason)
        messages = received
    return messages


def _forked(control: Control, end: float) -> list[dict[str, Any]]:
    """Return the messages that begin with the fork of a child.

    Raises:
        GoneError: as `_wait`, or the template's pytest ended between two units.
    """
    messages = _wait(control, end)
    if messages[0]["is"] != "forked":
        raise GoneError(str(messages[0]["reason"]))
    return messages
