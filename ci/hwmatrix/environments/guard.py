"""The guard: which torch is really in the environment, held against what the table names."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping  # noqa: TC003 - codec.py resolves the hints at run time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix.codec import from_plain
from hwmatrix.environments.faults import redact
from hwmatrix.errors import GuardError

if TYPE_CHECKING:
    from hwmatrix.model import Device, TorchCheck, Variant

LIMIT_S = 300.0
"""A cold import of torch from a network disk, then a first touch of eight GPUs."""

_REAP_S = 2.0
_MARK = "HWMATRIX:"
_DISTRIBUTIONS = {
    "pytest": "pytest",
    "xdist": "pytest-xdist",
    "pytest_timeout": "pytest-timeout",
}
MINIMUMS = {"pytest": (8, 0), "pytest-xdist": (3, 5), "pytest-timeout": (2, 2)}
"""What the engine uses exists from these versions on."""


class OtherBuildError(GuardError):
    """What is installed is not what was asked for: building anew may help."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What the interpreter under test says of itself."""

    python: str = ""
    prefix: str = ""
    distributions: Mapping[str, str] = field(default_factory=dict)
    tools: Mapping[str, str] = field(default_factory=dict)
    error: str = ""
    torch: str = ""
    file: str = ""
    version: Mapping[str, str | None] = field(default_factory=dict)
    available: bool | None = None
    archs: tuple[str, ...] = ()


def ask(
    python: str,
    check: TorchCheck,
    env: Mapping[str, str],
    *,
    cwd: Path,
    quick: bool,
    limit_s: float = LIMIT_S,
) -> Answer:
    """Return what `python` says, asked under the variables that the tests will have.

    `quick` reads torch/version.py in place of importing torch.

    Raises:
        GuardError: it does not start, crashes, does not answer in time, or not in our words.
    """
    question = {
        "modules": list(check.modules),
        "available": check.available,
        "archs": check.archs,
        "quick": quick,
    }
    script = str(Path(__file__).with_name("asking.py"))
    command = [python, script, json.dumps(question)]
    try:
        process = subprocess.Popen(
            command,
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise GuardError(
            f"{python} does not start ({error.strerror}). HWMATRIX_PYTHON chooses the interpreter."
        ) from None
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise GuardError(
            f"{python} did not say which torch it has within {limit_s:g} s: its import or the "
            "device's driver hangs. Try `import torch` there by hand."
        ) from None
    finally:
        _sweep(process)
    text = output.decode("utf-8", "replace")
    for line in text.splitlines():
        if line.startswith(_MARK):
            return from_plain(Answer, json.loads(line.removeprefix(_MARK)))
    last = redact(" / ".join(text.strip().splitlines()[-5:]))
    raise GuardError(
        f"{python} ended with status {process.returncode} when asked which torch it has. It said: "
        f"{last or 'nothing'}"
    )


def _sweep(process: subprocess.Popen[bytes]) -> None:
    """End what is left of the child's process group; one stuck in the driver is left behind."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_REAP_S)
    if process.stdout is not None:
        process.stdout.close()


def inspect(
    answer: Answer,
    variant: Variant,
    check: TorchCheck,
    devices: tuple[Device, ...],
    *,
    python: str,
    exact: bool,
) -> tuple[str, ...]:
    """Return notes on what differs without being wrong.

    `exact` demands the pinned version; without it (`--no-venv`) another version is a note. An
    availability that was not asked for is not judged; devices empty, nor is one that was.

    Raises:
        GuardError: another kind of build, toolkit or architecture than the table names, in one
            message with all that differs.
    """
    where = f"{variant.backend} variant {variant.name}: {python}"
    if not answer.torch:
        raise OtherBuildError(
            f"{where} cannot import torch ({answer.error or 'no version'}). Allowed: torch "
            f"{variant.torch}. {_advice(exact=exact)}"
        )
    faults = [*_kind_faults(answer, variant, check)]
    notes: list[str] = []
    if answer.torch != variant.torch:
        text = f"torch is {answer.torch}, the table pins {variant.torch}"
        (faults if exact else notes).append(text)
    if answer.error:
        faults.append(f"importing {', '.join(('torch', *check.modules))} fails: {answer.error}")
    if exact and not Path(answer.file).is_relative_to(answer.prefix):
        raise GuardError(
            f"{where} imports torch from {answer.file}, outside its own folder: PYTHONPATH or a "
            ".pth file puts that first. Unset it for this session."
        )
    if faults:
        raise OtherBuildError(
            f"{where}: {'; '.join(faults)}. It was found in {answer.file}. {_advice(exact=exact)}"
        )
    fault = _device_fault(answer, check, devices) if devices and check.available else ""
    if fault:
        raise GuardError(f"{where}: {fault}. Run on another machine or choose another variant.")
    return tuple(notes)


def toolkit(answer: Answer) -> str:
    """Return `cuda 13.0`, `hip 7.2.26015` ..., empty for a cpu build."""
    return ", ".join(f"{kind} {value}" for kind, value in answer.version.items() if value)


def _advice(*, exact: bool) -> str:
    if exact:
        return (
            "Something put another build in its place (PYTHONPATH, a requirement, an index): "
            "correct that, or remove the environment's folder to have it built anew."
        )
    return (
        "Run in a container or environment whose torch is of this kind (HWMATRIX_PYTHON chooses "
        "the interpreter), choose another session, or leave --no-venv out."
    )


def _kind_faults(answer: Answer, variant: Variant, check: TorchCheck) -> list[str]:
    said = {kind: value for kind, value in answer.version.items() if value}
    kinds = ", ".join(f"{kind} {value}" for kind, value in said.items()) or "none (a cpu build)"
    faults = []
    if check.version and not any(kind in said for kind in check.version):
        wanted = " or ".join(f"torch.version.{kind}" for kind in check.version)
        faults.append(f"torch {answer.torch} is built for {kinds}; {wanted} must be set")
    elif any(kind in said for kind in check.never):
        faults.append(f"torch {answer.torch} is built for {kinds}, which this backend never uses")
    elif variant.toolkit and check.version:
        found = next(said[kind] for kind in check.version if kind in said) or ""
        if not _same_release(found, variant.toolkit):
            faults.append(f"torch is built with toolkit {found}; allowed is {variant.toolkit}")
    return faults


def _same_release(found: str, wanted: str) -> bool:
    """Whether `7.2.26015-fc0010cf6a` is of release `7.2`: the parts that `wanted` names agree."""
    parts = wanted.split(".")
    return found.replace("-", ".").split(".")[: len(parts)] == parts


def _device_fault(answer: Answer, check: TorchCheck, devices: tuple[Device, ...]) -> str:
    if answer.available is False:
        names = ", ".join(sorted({device.name or device.key for device in devices}))
        return (
            f"torch {answer.torch} imports but {check.available}() is False, though the probe "
            f"found {names}: the driver is too old for this toolkit, or a variable hides the device"
        )
    built = answer.archs
    missing = sorted({d.arch for d in devices if built and not runs_on(d.arch, built)})
    if missing:
        return f"torch is built for {', '.join(built)}, and not for {', '.join(missing)}"
    return ""


def runs_on(arch: str, built: tuple[str, ...]) -> bool:
    """Whether a build for the architectures `built` runs on `arch`; unknown ones do.

    NVIDIA: machine code runs within its major version on the same or a later minor one, PTX
    (`compute_XX`) on all later ones (CUDA C++ programming guide, Application Compatibility).
    AMD: names are exact, apart from feature flags (`gfx90a:xnack-`); `-generic` targets are let by.
    """
    if arch.startswith("sm_"):
        number = int("".join(filter(str.isdigit, arch)))
        for item in built:
            kind, _, text = item.partition("_")
            other = int("".join(filter(str.isdigit, text)) or 0)
            if kind == "sm" and other // 10 == number // 10 and other <= number:
                return True
            if kind == "compute" and other <= number:
                return True
        return False
    if arch.startswith("gfx"):
        return any(item.split(":")[0] == arch or item.endswith("-generic") for item in built)
    return True


def missing_tools(answer: Answer) -> tuple[str, ...]:
    """Return `name: reason` for each tool that the engine needs and cannot use."""
    problems = []
    for module, name in _DISTRIBUTIONS.items():
        reason = answer.tools.get(module, "not asked")
        if reason.startswith("ModuleNotFoundError"):
            problems.append(f"{name}: not there")
        elif reason:
            problems.append(f"{name}: {reason}")
        elif too_old(name, answer.distributions.get(name, "")):
            least = ".".join(map(str, MINIMUMS[name]))
            problems.append(f"{name}: {answer.distributions[name]}, at least {least} is needed")
    return tuple(problems)


def too_old(name: str, version: str) -> bool:
    """Whether `version` is below the least that the engine can use; unknown ones are not."""
    digits = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    return name in MINIMUMS and bool(digits) and digits < MINIMUMS[name]
