"""Runs installer commands: output to a log, progress to the person, a limit, a reason."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from functools import partial
from typing import TYPE_CHECKING

from hwmatrix.environments.faults import likely, redact
from hwmatrix.errors import EnvironmentBuildError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from hwmatrix.environments.steps import Step

LIMIT_VARIABLE = "HWMATRIX_INSTALL_LIMIT_S"
DEFAULT_LIMIT_S = 1800.0
"""A CUDA or ROCm build of torch is 2-5 GB: half an hour still does at 3 MB/s."""

_POLL_S = 0.2
_SAY_EVERY_S = 20.0
_TAIL_LINES = 12
_GRACE_S = 5.0


def limit_s(env: Mapping[str, str]) -> float:
    """Return how many seconds one step may take: HWMATRIX_INSTALL_LIMIT_S, else half an hour.

    Raises:
        EnvironmentBuildError: the variable is not a number above 0.
    """
    text = env.get(LIMIT_VARIABLE, "")
    if not text:
        return DEFAULT_LIMIT_S
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise EnvironmentBuildError(
            f"{LIMIT_VARIABLE}={text}: allowed is a number of seconds above 0."
        )
    return value


def run_step(
    step: Step,
    env: Mapping[str, str],
    *,
    cwd: Path,
    log: Path,
    say: Callable[[str], None],
    limit_s: float,
) -> str:
    """Return the output of one step, run to its end; it is appended to `log` too.

    The step leads a process session of its own, which is ended with it whatever happens here.

    Raises:
        EnvironmentBuildError: it failed, could not start, or took longer than `limit_s`.
    """
    say(f"{step.title} ...")
    with log.open("ab") as stream:
        stream.write(f"\n$ {' '.join(step.command)}\n".encode())
        stream.flush()
        start = stream.tell()
        try:
            process = subprocess.Popen(
                step.command,
                env={**env, **step.env},
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise EnvironmentBuildError(
                f"cannot {step.title}: {step.command[0]} does not start ({error.strerror})."
            ) from None
    last = partial(_last_line, log, start)
    try:
        finished = _wait(process, step.title, last, say=say, limit=limit_s)
    finally:
        _end(process)
    if not finished:
        raise EnvironmentBuildError(_failure(step, log, start, f"took longer than {limit_s:g} s"))
    if process.returncode:
        found = f"exit status {process.returncode}"
        raise EnvironmentBuildError(_failure(step, log, start, found))
    return "\n".join(_lines(log, start))


def _wait(
    process: subprocess.Popen[bytes],
    title: str,
    last_line: Callable[[], str],
    *,
    say: Callable[[str], None],
    limit: float,
) -> bool:
    """Return whether the process ended by itself within the limit."""
    began = said = time.monotonic()
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=min(_POLL_S, limit))
            return True
        now = time.monotonic()
        if now - began > limit:
            return False
        if now - said >= _SAY_EVERY_S:
            said = now
            say(f"{title}: {now - began:.0f} s so far. {last_line()}".rstrip())


def _last_line(log: Path, start: int) -> str:
    return (_lines(log, start) or [""])[-1].strip()[:120]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the step's whole process session; a step that ended by itself leaves nothing."""
    for number, patience in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, _GRACE_S)):
        if process.poll() is not None and not _group_lives(process.pid):
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=patience)


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _lines(log: Path, start: int) -> list[str]:
    with log.open("rb") as stream:
        stream.seek(start)
        text = stream.read().decode("utf-8", "replace")
    return [redact(line.rstrip()) for line in text.replace("\r", "\n").splitlines() if line.strip()]


def _failure(step: Step, log: Path, start: int, found: str) -> str:
    lines = _lines(log, start)
    reason = likely("\n".join(lines))
    source = f" (from {redact(step.index)})" if step.index else ""
    said = f" The installer said: {' / '.join(lines[-_TAIL_LINES:])}" if lines else ""
    advice = f" Likely: {reason}." if reason else ""
    return f"cannot {step.title}{source}: {found}.{advice}{said} The whole output: {log}"
