"""Templates and the children forked from them, as the slot's server sees them."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hwmatrix.target.wire import Control, Request

PREAMBLE = 64 * 1024  # pytest's header, which a template prints once for all its children
READ = 1 << 16
# What pytest reads its configuration from, or takes its root folder from.
_CONFIGURES = (
    "conftest.py",
    *("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini"),
    *("pyproject.toml", "tox.ini", "setup.cfg", "setup.py"),
)
_ERROR = re.compile(r"[\w.]+(Error|Exception|Exit|Interrupt|Warning)\b")  # how tracebacks end
_LAST = 200  # characters of a line that still make a readable reason


def key_of(request: Request) -> tuple[object, ...]:
    """Return what a template's configuration depends on: folders, options, environment.

    Of the folders only those that have a file which configures pytest: it is looked for from the
    test file's folder upwards, as pytest does.
    """
    files = {selector.partition("::")[0] for selector in request.selectors}
    folders = tuple(sorted({_configured_in(Path(request.cwd), name) for name in files}))
    env = tuple(sorted((n, v) for n, v in request.env.items() if n != "TMPDIR"))
    return folders, request.options, env


def _configured_in(root: Path, name: str) -> str:
    """Return the nearest folder from that of the file up to `root` that has such a file."""
    folder = (root / name).parent
    if ".." in folder.parts or not folder.is_relative_to(root):
        return str(folder)
    while folder != root and not any((folder / known).exists() for known in _CONFIGURES):
        folder = folder.parent
    return str(folder)


@dataclass
class Template:
    """One template: `output` is what it and its children print."""

    pid: int
    control: Control
    output: int
    preamble: bytes = b""
    broken: bool = False

    def last_words(self) -> str:
        """Return the last error that it printed, or its last line, as the end of a sentence."""
        with contextlib.suppress(OSError):
            self.preamble = (self.preamble + os.read(self.output, READ))[-PREAMBLE:]
        text = self.preamble.decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        told = [line for line in lines if _ERROR.match(line)] or lines
        return f': it said "{told[-1][:_LAST]}"' if told else ""

    def close(self) -> None:
        """Let it end: it reads end-of-file."""
        self.control.close()
        os.close(self.output)


class Forked:
    """A child that a template forked; the template tells its exit status."""

    def __init__(self, template: Template, messages: Sequence[dict[str, Any]]) -> None:
        self.pid = int(messages[0]["pid"])
        self._template = template
        self._status: int | None = None
        self._take(messages[1:])

    def _take(self, messages: Sequence[dict[str, Any]]) -> None:
        for message in messages:
            self._status = int(message["status"])

    def status(self) -> int | None:
        """Return None while it runs, else its exit status, or minus the signal that ended it."""
        if self._status is None and _readable(self._template.control, 0):
            messages = self._template.control.receive()
            if messages is None:
                # The template died, and the kernel killed the child with it (PR_SET_PDEATHSIG).
                self._template.broken = True
                self._status = -signal.SIGKILL
            else:
                self._take(messages)
        return self._status

    def fileno(self) -> int | None:
        """Return the descriptor on which the template speaks, None once it has spoken."""
        return self._template.control.fileno() if self._status is None else None


def _readable(control: Control, wait_ms: int) -> bool:
    poll = select.poll()
    poll.register(control.fileno(), select.POLLIN)
    return bool(poll.poll(wait_ms))
