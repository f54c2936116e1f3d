"""Locks: every package of an environment but torch itself, with versions and hashes.

A lock holds for all Python versions and machines at once. What comes from torch's own index is not
in it: the table pins it, and a lock could name only the files that one machine has seen. What torch
needs is in it.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from typing import TYPE_CHECKING

from hwmatrix.environments import interpreter, pinning, running, settings, steps
from hwmatrix.environments.steps import Step
from hwmatrix.errors import EnvironmentBuildError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from hwmatrix.model import Environment, Variant

SWITCH = "HWMATRIX_LOCK"
_OLDEST_PYTHON = "3.11"
_ASK_LIMIT_S = 60.0
_HEADER = re.compile(r"# inputs sha256:([0-9a-f]{64})$", re.MULTILINE)
_ASK = (
    "import importlib.metadata as m, json, sys; "
    "print(json.dumps([r for n in sys.argv[1:] for r in m.requires(n) or []]))"
)


def lock_path(root: Path, variant: Variant) -> Path:
    """Return where the lock of a variant lies: beside its requirements file."""
    return (root / variant.requirements).with_suffix(".lock")


def usable_lock(
    root: Path, variant: Variant, contents: Mapping[str, str], env: Mapping[str, str]
) -> Path | None:
    """Return the committed lock of a variant; None where there is none, or HWMATRIX_LOCK=off.

    Raises:
        EnvironmentBuildError: it was made from other requirements or for another torch, or the
            variable says something else.
    """
    wish = env.get(SWITCH, "on")
    if wish not in {"on", "off"}:
        raise EnvironmentBuildError(f"{SWITCH}={wish}: allowed are on and off.")
    path = lock_path(root, variant)
    if wish == "off" or not path.is_file():
        return None
    header = _HEADER.search(path.read_text(encoding="utf-8"))
    if header is None or header[1] != _digest(variant, contents):
        raise EnvironmentBuildError(
            f"{variant.name}: {path} was not made from {variant.requirements} as it is now and "
            f"torch {variant.torch}. Run `nox -s lock`, or set {SWITCH}=off for one run without it."
        )
    return path


def _digest(variant: Variant, contents: Mapping[str, str]) -> str:
    text = json.dumps([pinning.pins(variant), sorted(contents.values())])
    return hashlib.sha256(text.encode()).hexdigest()


def lock(
    variant: Variant,
    environment: Environment,
    *,
    root: Path,
    state: Path,
    env: Mapping[str, str],
    say: Callable[[str], None],
) -> Path:
    """Return the lock of `variant`, written anew.

    `environment` is one of that variant, made and guarded: its torch says what it needs.

    Raises:
        EnvironmentBuildError: there is no uv (pip cannot lock for other machines), or nothing
            fits together.
    """
    installer = interpreter.find_installer(env, environment.python)
    if installer.kind != "uv":
        raise EnvironmentBuildError("locks are made by uv, and it is not here. Put uv on PATH.")
    chosen = settings.read(env)
    start, contents = pinning.read_requirements(root, variant)
    # Torch from a local wheel: its index may be out of reach, and no package comes from there.
    version = interpreter.python_version(environment.python, env)
    source = steps.torch_source(variant, chosen, env, version)
    path = lock_path(root, variant)
    asked = state / "locks" / f"{variant.name}.in"
    passing = state / "locks" / f"{variant.name}.lock"
    asked.parent.mkdir(parents=True, exist_ok=True)
    apart = pinning.from_torchs_index(variant)
    ordinary = [pin for pin in pinning.pins(variant) if pin not in apart]
    lines = [f"-r {start}", *ordinary, *_needs_of_torch(variant, environment)]
    asked.write_text("\n".join(lines) + "\n", encoding="utf-8")
    # What comes from torch's index drops out of the resolution, whoever asks for it: the ordinary
    # index has another build of it, whose needs (gigabytes of CUDA) would land in the lock.
    dropped = state / "locks" / f"{variant.name}.override"
    gone = [f"{pinning.named(pin)} ; python_version < '0'" for pin in apart]
    dropped.write_text("\n".join(gone) + "\n", encoding="utf-8")
    options = ("--universal", "--python-version", _OLDEST_PYTHON, "--generate-hashes")
    quiet = ("--no-header", "--no-annotate", "--quiet", "--upgrade")
    step = Step(
        title=f"lock {variant.name}",
        command=(
            installer.program,
            "pip",
            "compile",
            *options,
            *quiet,
            "--override",
            str(dropped),
            str(asked),
            "--output-file",
            str(passing),
        ),
        env=steps.locking_env(installer, chosen, source.index),
        index=chosen.index_url,
    )
    running.run_step(
        step,
        settings.clean(env),
        cwd=root,
        log=state / "locks" / f"{variant.name}.log",
        say=say,
        limit_s=running.limit_s(env),
    )
    header = (
        f"# Versions and hashes for {variant.requirements} with torch {variant.torch}, which is "
        f"not in here.\n# Made by `nox -s lock`; do not edit.\n"
        f"# inputs sha256:{_digest(variant, contents)}\n"
    )
    path.write_text(header + passing.read_text(encoding="utf-8"), encoding="utf-8")
    return path


def _needs_of_torch(variant: Variant, environment: Environment) -> list[str]:
    """Return what the installed torch and companions require, without extras and each other."""
    names = [pinning.named(pin) for pin in pinning.from_torchs_index(variant)]
    command = [environment.python, "-c", _ASK, *names]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_ASK_LIMIT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentBuildError(
            f"{environment.python} does not say what {', '.join(names)} need ({error})."
        ) from None
    needs: list[str] = json.loads(done.stdout)
    return [
        need
        for need in dict.fromkeys(needs)
        if "extra ==" not in need and pinning.named(need) not in names
    ]
