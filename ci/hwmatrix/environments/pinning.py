"""Requirement and constraint files: what holds torch where the table wants it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix.errors import EnvironmentBuildError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hwmatrix.environments.request import Request
    from hwmatrix.environments.settings import PipSettings
    from hwmatrix.model import Variant

_INCLUDE = re.compile(r"(-[cr]|--constraint|--requirement)[ =](.+)")
_NAME_END = re.compile(r"[=<>!~ \[;@]")


def normal(name: str) -> str:
    """Return the normalised name of a distribution (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def named(requirement: str) -> str:
    """Return the normalised name that a requirement line begins with."""
    return normal(_NAME_END.split(requirement.strip(), maxsplit=1)[0])


def pins(variant: Variant) -> tuple[str, ...]:
    """Return `torch==X+label` and the companions: what nothing may replace."""
    return (f"torch=={variant.torch}", *variant.companions)


def from_torchs_index(variant: Variant) -> tuple[str, ...]:
    """Return the pins that the variant's own index serves: torch and all that have a local label.

    A companion without one (torch-npu) is an ordinary package: pinned, from the default index.
    """
    torch, *companions = pins(variant)
    return (torch, *(pin for pin in companions if "+" in pin))


def constraint_lines(variant: Variant, files: Mapping[str, str]) -> tuple[str, ...]:
    """Return the pins, then every other line of the given constraint files (path: content).

    Lines of theirs about a pinned package are left out: the table alone says which torch.
    """
    held = {named(pin) for pin in pins(variant)}
    lines = list(pins(variant))
    for path, content in files.items():
        for raw in content.splitlines():
            line = raw.split(" #")[0].strip()
            if not line or line.startswith("#"):
                continue
            option = _INCLUDE.fullmatch(line)
            if option:
                line = f"-c {Path(path).parent / option[2].strip()}"
            elif named(line) in held:
                continue
            lines.append(line)
    return tuple(lines)


def read_requirements(root: Path, variant: Variant) -> tuple[Path, dict[str, str]]:
    """Return the variant's requirements file, and it and all files that it names (path: content).

    Raises:
        EnvironmentBuildError: one of them is missing or cannot be read.
    """
    start = root / variant.requirements
    contents: dict[str, str] = {}
    todo = [start]
    while todo:
        path = todo.pop(0)
        if str(path) in contents:
            continue
        try:
            contents[str(path)] = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise EnvironmentBuildError(
                f"{variant.name}: cannot read {path}: {error}. The table names it as requirements "
                "of this variant; each variant has requirements/<variant>.in."
            ) from None
        for line in contents[str(path)].splitlines():
            option = _INCLUDE.fullmatch(line.strip())
            if option:
                todo.append(path.parent / option[2].split(" #")[0].strip())
    return start, contents


def constraint_files(request: Request, chosen: PipSettings) -> dict[str, str]:
    """Return the variant's constraint file and those of pip's settings (path: content).

    Raises:
        EnvironmentBuildError: one of them cannot be read.
    """
    variant, root = request.variant, request.root
    paths = [root / variant.constraints] if variant.constraints else []
    paths += [root / path for path in chosen.constraints if "://" not in path]
    return {str(path): _read_constraints(path, variant) for path in paths}


def _read_constraints(path: Path, variant: Variant) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentBuildError(
            f"{variant.name}: cannot read the constraints {path}: {error}. It is named by the "
            "table or by pip's settings (PIP_CONSTRAINT)."
        ) from None
