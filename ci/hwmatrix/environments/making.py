"""Makes the environment under test, or takes one that is there, and lets the guard look at it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix.environments import core, guard, running, settings, steps
from hwmatrix.environments.stamp import Stamp, locked
from hwmatrix.errors import EnvironmentBuildError, GuardError
from hwmatrix.model import Environment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hwmatrix.environments.steps import Installer, Step
    from hwmatrix.model import Slot, TorchCheck, Variant

PYTHON = "HWMATRIX_PYTHON"
INSTALLER = "HWMATRIX_INSTALLER"
_WAIT_LIMIT_S = 3600.0
_ASK_LIMIT_S = 30.0
_OLDEST = (3, 10)


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What is to be made, for whom, and under which variables."""

    variant: Variant
    check: TorchCheck
    slot: Slot | None
    root: Path
    state: Path
    env: Mapping[str, str]
    say: Callable[[str], None]

    def test_env(self, extra: Mapping[str, str]) -> dict[str, str]:
        """Return the variables under which tests of the first slot will run."""
        env = {**self.env, **extra}
        if self.slot is not None:
            env = {name: value for name, value in env.items() if name not in self.slot.unset}
            env.update(self.slot.env)
        return env


@dataclass(frozen=True, kw_only=True, slots=True)
class Build:
    """All that a build follows from."""

    folder: Path
    stamp: Stamp
    steps: tuple[Step, ...]
    constraints: tuple[str, ...]
    cleaned: Mapping[str, str]


def make(
    variant: Variant,
    *,
    torch_check: TorchCheck,
    slot: Slot | None,
    root: Path,
    state: Path,
    env: Mapping[str, str],
    overlay: Path | None = None,
    no_venv: bool = False,
    say: Callable[[str], None],
) -> Environment:
    """Return the environment of `variant`, made now or reused, after the guard has passed it.

    `slot` is the first that tests will run in: the guard asks under its variables, and asserts
    that torch sees a device if the slot has any. `state` is the project's .hwmatrix folder.
    `no_venv` installs nothing and takes the interpreter as it is, with `overlay` for the packages
    that it lacks.

    Raises:
        EnvironmentBuildError: it cannot be made.
        GuardError: it holds another torch than the table names, or one that sees no device.
    """
    request = Request(
        variant=variant,
        check=torch_check,
        slot=slot,
        root=root,
        state=state,
        env=env,
        say=say,
    )
    if no_venv:
        return take(request, overlay)
    if overlay is not None:
        raise EnvironmentBuildError(
            "--overlay goes with --no-venv: an environment that is made here installs its "
            "packages itself. Leave one of the two out."
        )
    return build_or_reuse(request)


# ---------------------------------------------------------------- an environment of our own
def build_or_reuse(request: Request) -> Environment:
    """Return the stamped environment, built first where there is none."""
    build = prepare(request)
    lock = build.folder.with_name(f"{build.folder.name}.lock")
    with locked(lock, limit_s=_WAIT_LIMIT_S, say=request.say):
        if build.stamp.matches(build.folder):
            core.link_core(build.folder)
            try:
                return _finished(request, build, reused=True)
            except GuardError as error:
                if _is_environment_fault(error):
                    raise
                request.say(f"{build.folder.name} is no longer what it was: {error} Building anew.")
        return _build(request, build)


def _is_environment_fault(error: GuardError) -> bool:
    """Whether building anew could not help: the fault lies with devices or variables."""
    return not isinstance(error, guard.OtherBuildError)


def prepare(request: Request) -> Build:
    """Return what a build would do, without doing it."""
    env, variant = request.env, request.variant
    python = base_python(env)
    version = python_version(python, env)
    installer = find_installer(env, python)
    chosen = settings.read(env, prefix=str(Path(python).parent.parent))
    requirements, contents = steps.read_requirements(request.root, variant)
    source = steps.torch_source(variant, chosen, env, version)
    constraints = steps.constraint_lines(variant, _constraint_files(request, chosen))
    stamp = Stamp(
        {
            "torch": " ".join(steps.pins(variant)),
            "source": f"{source.index} {source.links}",
            "python": f"{python} {version[0]}.{version[1]}",
            "installer": installer.kind,
            "settings": repr(chosen),
            "constraints": "\n".join(constraints),
            # The order tells nothing and the paths differ between machines: contents alone.
            "requirements": "\n".join(sorted(contents.values())),
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
        ),
        constraints=constraints,
        cleaned=settings.clean(env),
    )


def _constraint_files(request: Request, chosen: settings.PipSettings) -> dict[str, str]:
    """Return the variant's constraint file and those of pip's settings (path: content)."""
    named = [
        *((request.root / request.variant.constraints,) if request.variant.constraints else ())
    ]
    named += [request.root / path for path in chosen.constraints if "://" not in path]
    contents = {}
    for path in named:
        try:
            contents[str(path)] = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise EnvironmentBuildError(
                f"{request.variant.name}: cannot read the constraints {path}: {error}. It is named "
                "by the table or by pip's settings (PIP_CONSTRAINT)."
            ) from None
    return contents


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
            f"{build.folder.parent}; make room there, or make it writable."
        ) from None
    for step in build.steps:
        running.run_step(
            step,
            build.cleaned,
            cwd=request.root,
            log=log,
            say=request.say,
            limit_s=limit,
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
    devices = request.slot.devices if request.slot else ()
    quick = reused and not (devices and request.check.available)
    env = request.test_env({})
    answer = guard.ask(python, request.check, env, cwd=request.state, quick=quick)
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


# ---------------------------------------------------------------- somebody else's environment
def take(request: Request, overlay: Path | None) -> Environment:
    """Return the interpreter as it is (`--no-venv`), with core and overlay on PYTHONPATH."""
    python = request.env.get(PYTHON) or sys.executable
    variant = request.variant
    view = request.state / "no-venv" / variant.backend.value
    paths = [core.link_core(view)]
    notes: list[str] = []
    devices = request.slot.devices if request.slot else ()
    if overlay is not None:
        bare = guard.ask(python, request.check, dict(request.env), cwd=request.state, quick=True)
        shown = view / "overlay"
        if shown.exists():
            shutil.rmtree(shown)
        taken = core.link_overlay(overlay.resolve(), shown, bare.distributions)
        notes.append(f"from the overlay: {', '.join(taken) or 'nothing'}")
        paths.append(shown)
    before = [request.env["PYTHONPATH"]] if request.env.get("PYTHONPATH") else []
    extra = {"PYTHONPATH": ":".join([*before, *map(str, paths)])}
    env = request.test_env(extra)
    answer = guard.ask(python, request.check, env, cwd=request.state, quick=False)
    notes += guard.inspect(answer, variant, request.check, devices, python=python, exact=False)
    missing = guard.missing_tools(answer)
    if missing:
        raise EnvironmentBuildError(
            f"--no-venv: {python} lacks what runs the tests: {'; '.join(missing)}. Nothing is "
            "installed under --no-venv. Make a folder of packages where the network can be "
            f"reached ({core.overlay_recipe('DIR')}, with Python {answer.python}) and pass "
            "--overlay DIR."
        )
    return Environment(
        python=python,
        folder=answer.prefix,
        torch=answer.torch,
        toolkit=guard.toolkit(answer),
        notes=tuple(notes),
        env=extra,
    )


# ---------------------------------------------------------------- interpreter and installer
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
            f"{python} is Python {major}.{minor}; 3.10 or later is needed. {PYTHON} chooses another."
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
