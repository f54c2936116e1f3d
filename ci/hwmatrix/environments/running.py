"""Runs installer commands: output to a log, progress to the person, a limit, a reason on failure."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from typing import TYPE_CHECKING

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

_REASONS = (
    (
        r"ensurepip is not|No module named ensurepip",
        (
            "this Python has no ensurepip. On Debian and Ubuntu install the package "
            "python3-venv (or python3.X-venv for another version), or put uv on PATH"
        ),
    ),
    (
        r"No space left on device|Disk quota exceeded",
        (
            "the disk is full: make room, or move the "
            "installer's cache (PIP_CACHE_DIR, UV_CACHE_DIR) and the project's .hwmatrix elsewhere"
        ),
    ),
    (
        r"DO NOT MATCH THE HASHES|[Hh]ash mismatch",
        (
            "a file does not have the hash that was "
            "promised: the index serves another file, or a proxy changed it. Nothing of it was kept"
        ),
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|invalid peer certificate|SSLError",
        ("the index's certificate is not trusted: set PIP_CERT (it is handed on to uv)"),
    ),
    (
        (
            r"No matching distribution|no version of|No solution found|ResolutionImpossible|has no wheels"
            r"|not found in the (package registry|provided package locations)"
        ),
        (
            "the index has no build that fits this Python, this machine and the pins: either a package "
            "wants another torch than the table pins, or the wheel does not exist for this Python "
            "(HWMATRIX_PYTHON chooses another), or the index is the wrong one"
        ),
    ),
    (
        (
            r"Connection refused|NewConnectionError|Name or service|name resolution|Max retries|"
            r"timed out|TimeoutError|error sending request|Failed to fetch|Could not connect|HTTP Error|"
            r"HTTP status|[45]\d\d (Client|Server) Error"
        ),
        (
            "the index cannot be reached or does not answer. Check the network, or name a mirror: "
            "HWMATRIX_TORCH_INDEX for torch, PIP_INDEX_URL for the rest"
        ),
    ),
    (
        r"Permission denied|EACCES",
        (
            "no permission to write: check the owner of the project's "
            ".hwmatrix folder and of the installer's cache"
        ),
    ),
)


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
) -> None:
    """Run one step to its end; its output is appended to `log`.

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
    try:
        finished = _wait(process, step, log, start, say, limit_s)
    finally:
        _end(process)
    if not finished:
        raise EnvironmentBuildError(_failure(step, log, start, f"took longer than {limit_s:g} s"))
    if process.returncode:
        found = f"exit status {process.returncode}"
        raise EnvironmentBuildError(_failure(step, log, start, found))


def _wait(
    process: subprocess.Popen[bytes],
    step: Step,
    log: Path,
    start: int,
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
            last = (_lines(log, start) or [""])[-1]
            say(f"{step.title}: {now - began:.0f} s so far. {last[:120]}".rstrip())


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


def redact(text: str) -> str:
    """Return `text` without the user and password of any address in it."""
    return re.sub(r"(\w+://)[^/\s@]+@", r"\1***@", text)


def _failure(step: Step, log: Path, start: int, found: str) -> str:
    lines = _lines(log, start)
    text = "\n".join(lines)
    reason = next((todo for pattern, todo in _REASONS if re.search(pattern, text)), "")
    source = f" (from {redact(step.index)})" if step.index else ""
    said = f" The installer said: {' / '.join(lines[-_TAIL_LINES:])}" if lines else ""
    advice = f" Likely: {reason}." if reason else ""
    return f"cannot {step.title}{source}: {found}.{advice}{said} The whole output: {log}"
