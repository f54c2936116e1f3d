"""Small reads of device files, and vendor tools under a time limit."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    Tool = Callable[[Sequence[str], Mapping[str, str]], "ToolAnswer"]

TOOL_LIMIT_S = 20.0
"""A healthy vendor tool answers within 3 s, a cold first NVML start on 8 GPUs within about 10 s;
one that waits for a dead device never does."""

_REAP_S = 2.0

GIB = 1024**3


@dataclass(frozen=True)
class ToolAnswer:
    """What a vendor tool printed; `problem` says why there is nothing, empty if there is."""

    text: str = ""
    problem: str = ""


def run_tool(
    command: Sequence[str], env: Mapping[str, str], *, limit_s: float = TOOL_LIMIT_S
) -> ToolAnswer:
    """Return what `command` prints, or why it printed nothing; never waits past `limit_s`.

    A tool that is stuck in the driver cannot be reaped (state D); it is killed, then left behind.
    """
    path = shutil.which(command[0], path=env.get("PATH", os.defpath))
    if path is None:
        return ToolAnswer(problem=f"{command[0]}: not on PATH")
    name = os.path.basename(command[0])  # noqa: PTH119 - a word of the command, not a path to open
    try:
        process = subprocess.Popen(
            [path, *command[1:]],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return ToolAnswer(problem=f"{name}: cannot start ({error.strerror})")
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        _kill(process)
        return ToolAnswer(problem=f"{name}: no answer within {limit_s:g} s (driver stuck?)")
    text = output.decode("utf-8", "replace")
    if process.returncode:
        last = text.strip().splitlines()[-1:] or [""]
        return ToolAnswer(problem=f"{name}: exit status {process.returncode} {last[0]}".rstrip())
    return ToolAnswer(text=text)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_REAP_S)
    if process.stdout is not None:
        process.stdout.close()


def read_text(path: Path) -> str:
    """Return the stripped text of a small file, empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def read_int(path: Path) -> int:
    """Return the integer in a file (decimal or 0x...), 0 where there is none."""
    try:
        return int(read_text(path), 0)
    except ValueError:
        return 0


def numbered(folder: Path, pattern: str) -> tuple[Path, ...]:
    """Return the entries of `folder` whose whole name matches `pattern`, by their number."""
    try:
        names = [path for path in folder.iterdir() if re.fullmatch(pattern, path.name)]
    except OSError:
        return ()
    return tuple(sorted(names, key=lambda path: (int(re.sub(r"\D", "", path.name)), path.name)))
