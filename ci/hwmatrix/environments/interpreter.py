"""Which interpreter environments are made from, and which installer makes them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix.environments import settings, steps
from hwmatrix.errors import EnvironmentBuildError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hwmatrix.environments.steps import Installer

PYTHON = "HWMATRIX_PYTHON"
INSTALLER = "HWMATRIX_INSTALLER"
_ASK_LIMIT_S = 30.0
_OLDEST = (3, 10)


def base_python(env: Mapping[str, str]) -> str:
    """Return the interpreter that environments are made from: HWMATRIX_PYTHON, else our own base.

    Raises:
        EnvironmentBuildError: the variable names no program.
    """
    chosen = env.get(PYTHON)
    if not chosen:
        return str(getattr(sys, "_base_executable", "") or sys.executable)
    found = shutil.which(chosen, path=env.get("PATH"))
    if found is None:
        raise EnvironmentBuildError(
            f"{PYTHON}={chosen}: no such program. It names the interpreter of the environment "
            "under test, by path or by a name on PATH."
        )
    return found


def python_version(python: str, env: Mapping[str, str]) -> tuple[int, int]:
    """Return (major, minor) of an interpreter.

    Raises:
        EnvironmentBuildError: it does not answer, or is older than 3.10.
    """
    if python == getattr(sys, "_base_executable", sys.executable):
        return sys.version_info[:2]
    command = [python, "-c", "import sys; print(*sys.version_info[:2])"]
    try:
        done = subprocess.run(
            command,
            env=settings.clean(env),
            capture_output=True,
            text=True,
            timeout=_ASK_LIMIT_S,
            check=True,
        )
        major, minor = map(int, done.stdout.split())
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise EnvironmentBuildError(
            f"{python} does not say which Python it is ({error}). {PYTHON} chooses another."
        ) from None
    if (major, minor) < _OLDEST:
        raise EnvironmentBuildError(
            f"{python} is Python {major}.{minor}; 3.10 or later is needed. {PYTHON} chooses "
            "another."
        )
    return major, minor


def find_installer(env: Mapping[str, str], python: str) -> Installer:
    """Return uv from PATH or from beside our interpreter, else pip; HWMATRIX_INSTALLER forces one.

    Raises:
        EnvironmentBuildError: the variable says neither uv nor pip, or uv and there is none.
    """
    wish = env.get(INSTALLER, "")
    if wish not in {"", "uv", "pip"}:
        raise EnvironmentBuildError(f"{INSTALLER}={wish}: allowed are uv and pip.")
    beside = Path(sys.executable).with_name("uv")
    found = shutil.which("uv", path=env.get("PATH")) or (str(beside) if beside.exists() else "")
    if wish == "pip" or (not found and not wish):
        return steps.Installer(kind="pip", program=python)
    if not found:
        raise EnvironmentBuildError(
            f"{INSTALLER}=uv: uv is not on PATH. Install it, or unset this."
        )
    return steps.Installer(kind="uv", program=found)
