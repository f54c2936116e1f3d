"""Packages that are looked at or fetched, never installed: what a Python has, a single wheel."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix.environments import faults, interpreter, running, settings, steps
from hwmatrix.environments.steps import Installer, Step
from hwmatrix.errors import EnvironmentBuildError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_ASK_LIMIT_S = 60.0
_ASK = """\
import importlib.metadata as m, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        there = m.distribution(name)
    except m.PackageNotFoundError:
        continue
    found[name] = [there.version, str(there.locate_file(""))]
print(json.dumps(found))
"""


def download(
    requirement: str,
    folder: Path,
    *,
    env: Mapping[str, str],
    say: Callable[[str], None],
    pythons: Sequence[str] = (),
) -> Path:
    """Return the wheel of `name==version`, downloaded into `folder` under pip's own settings.

    pip's output is kept beside the folder where it fails. `pythons` are asked for a pip after the
    one that runs this and its base (uv has no download).

    Raises:
        EnvironmentBuildError: no pip, no such release, withdrawn, or the index does not answer.
    """
    own = (sys.executable, interpreter.base_python(env))
    python = _with_pip(dict.fromkeys([*own, *pythons]), env)
    chosen = settings.read(env, prefix=sys.prefix)
    step = Step(
        title=f"download the wheel of {requirement}",
        command=(
            *(python, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"),
            *("--progress-bar", "off", "--dest", str(folder), requirement),
        ),
        env=steps.packages_env(Installer(kind="pip"), chosen),
        index=chosen.index_url or "the default index",
    )
    log = folder.parent / f".{requirement}.log"
    output = running.run_step(
        step, settings.clean(env), cwd=folder, log=log, say=say, limit_s=running.limit_s(env)
    )
    log.unlink(missing_ok=True)
    if faults.withdrawn(output):
        raise EnvironmentBuildError(
            f"cannot {step.title}: this release was withdrawn (yanked). Name another version. "
            f"The installer said: {faults.withdrawn(output)}"
        )
    found = sorted(folder.glob("*.whl"))
    if len(found) != 1:
        raise EnvironmentBuildError(f"cannot {step.title}: pip left {len(found)} wheels.")
    return found[0]


def installed(
    python: str, names: Iterable[str], env: Mapping[str, str]
) -> dict[str, tuple[str, Path]]:
    """Return version and folder of those of the distributions that an interpreter has.

    Raises:
        EnvironmentBuildError: it does not answer.
    """
    wanted = sorted(set(names))
    if not wanted:
        return {}
    try:
        done = subprocess.run(
            [python, "-c", _ASK, *wanted],
            env=dict(env),
            capture_output=True,
            text=True,
            timeout=_ASK_LIMIT_S,
            check=True,
        )
        found: dict[str, tuple[str, str]] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise EnvironmentBuildError(f"{python} does not say what it has ({error}).") from None
    return {name: (version, Path(folder)) for name, (version, folder) in found.items()}


def _with_pip(pythons: Iterable[str], env: Mapping[str, str]) -> str:
    for python in pythons:
        command = [python, "-m", "pip", "--version"]
        try:
            done = subprocess.run(
                command,
                env=settings.clean(env),
                capture_output=True,
                timeout=_ASK_LIMIT_S,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            continue
        if done.returncode == 0:
            return python
    raise EnvironmentBuildError(
        f"cannot download a package: none of {', '.join(pythons)} has pip. Install it there, or "
        "name an interpreter that has it with HWMATRIX_PYTHON."
    )
