"""An environment of our own: built in a folder that its inputs name, or reused from there."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix.environments import (
    core,
    faults,
    guard,
    interpreter,
    locking,
    pinning,
    running,
    settings,
    steps,
)
from hwmatrix.environments.stamp import Stamp, locked
from hwmatrix.errors import EnvironmentBuildError
from hwmatrix.model import Environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hwmatrix.environments.request import Request
    from hwmatrix.environments.steps import Step

_WAIT_LIMIT_S = 3600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Build:
    """All that a build follows from."""

    folder: Path
    stamp: Stamp
    steps: tuple[Step, ...]
    constraints: tuple[str, ...]
    cleaned: Mapping[str, str]


def build_or_reuse(request: Request) -> Environment:
    """Return the stamped environment, built first where there is none."""
    build = prepare(request)
    lock = build.folder.with_name(f"{build.folder.name}.lock")
    with locked(lock, limit_s=_WAIT_LIMIT_S, say=request.say):
        # The interpreter that the environment links to may have been removed since.
        if build.stamp.matches(build.folder) and (build.folder / "bin/python").exists():
            core.link_core(build.folder)
            try:
                return _finished(request, build, reused=True)
            except guard.OtherBuildError as error:
                request.say(f"{build.folder.name} is no longer what it was: {error} Building anew.")
        return _build(request, build)


def prepare(request: Request) -> Build:
    """Return what a build would do, without doing it."""
    env, variant = request.env, request.variant
    python = interpreter.base_python(env)
    version = interpreter.python_version(python, env)
    installer = interpreter.find_installer(env, python)
    chosen = settings.read(env, prefix=str(Path(python).parent.parent))
    requirements, contents = pinning.read_requirements(request.root, variant)
    source = steps.torch_source(variant, chosen, env, version)
    lock = locking.usable_lock(request.root, variant, contents, env)
    constraints = pinning.constraint_lines(variant, pinning.constraint_files(request, chosen))
    stamp = Stamp(
        {
            "torch": " ".join(pinning.pins(variant)),
            "source": _hidden(f"{source.index} {source.links}"),
            "python": f"{python} {version[0]}.{version[1]}",
            "installer": installer.kind,
            "settings": _hidden(repr(chosen)),
            "constraints": "\n".join(constraints),
            # The order tells nothing and the paths differ between machines: contents alone.
            "requirements": "\n".join(sorted(contents.values())),
            "lock": lock.read_text(encoding="utf-8") if lock else "",
        }
    )
    folder = request.state / "envs" / stamp.folder_name(variant)
    return Build(
        folder=folder,
        stamp=stamp,
        steps=steps.plan(
            variant,
            installer=installer,
            base_python=python,
            folder=folder,
            source=source,
            settings=chosen,
            requirements=requirements,
            constraints=folder.with_name(f"{folder.name}.constraints.txt"),
            lock=lock,
        ),
        constraints=constraints,
        cleaned=settings.clean(env),
    )


def _hidden(text: str) -> str:
    """Return `text` without passwords, and with a hash that tells whether they changed."""
    return f"{faults.redact(text)} {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _build(request: Request, build: Build) -> Environment:
    """Make the folder in place; the stamp goes in last, after the guard."""
    limit = running.limit_s(request.env)
    log = build.folder.with_name(f"{build.folder.name}.log")
    try:
        if build.folder.exists():
            shutil.rmtree(build.folder)
        log.write_bytes(b"")
        constraints = build.folder.with_name(f"{build.folder.name}.constraints.txt")
        constraints.write_text("\n".join(build.constraints) + "\n", encoding="utf-8")
    except OSError as error:
        raise EnvironmentBuildError(
            f"cannot write {error.filename}: {error.strerror}. Environments are made in "
            f"{build.folder.parent}; make room there, make it writable, or name another "
            "folder with HWMATRIX_STATE."
        ) from None
    for step in build.steps:
        output = running.run_step(
            step,
            build.cleaned,
            cwd=request.root,
            log=log,
            say=request.say,
            limit_s=limit,
        )
        if step.pinned and faults.withdrawn(output):
            raise EnvironmentBuildError(
                f"cannot {step.title}: this build was withdrawn (yanked). Pin another version in "
                f"the table. The installer said: {faults.withdrawn(output)}"
            )
    _add_core(build.folder)
    environment = _finished(request, build, reused=False)
    build.stamp.write(build.folder)
    return environment


def _add_core(folder: Path) -> None:
    shown = core.link_core(folder)
    for packages in folder.glob("lib/python3.*/site-packages"):
        (packages / core.PTH_NAME).write_text(f"{shown}\n", encoding="utf-8")


def _finished(request: Request, build: Build, *, reused: bool) -> Environment:
    """Return the environment after the guard has looked: the whole of torch where it is new."""
    python = str(build.folder / "bin/python")
    devices = request.devices
    quick = reused and not request.asked.available
    env = request.test_env({})
    answer = guard.ask(python, request.asked, env, cwd=request.state, quick=quick)
    notes = guard.inspect(
        answer, request.variant, request.check, devices, python=python, exact=True
    )
    missing = guard.missing_tools(answer)
    if missing:
        raise guard.OtherBuildError(
            f"{request.variant.name}: {python} lacks what runs the tests: {'; '.join(missing)}. "
            f"Name pytest, pytest-xdist and pytest-timeout in {request.variant.requirements}."
        )
    return Environment(
        python=python,
        folder=str(build.folder),
        torch=answer.torch,
        toolkit=guard.toolkit(answer),
        stamp=build.stamp.digest,
        reused=reused,
        notes=notes,
    )
