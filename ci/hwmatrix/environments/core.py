"""How `import hwmatrix` works in the environment under test, and what an overlay adds to it.

A folder of links: it shows the one package and nothing that lies beside it (beside an installed
hwmatrix lie nox's own packages), and it can be named by a .pth file or by PYTHONPATH alike.
"""

from __future__ import annotations

import csv
import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix import codec
from hwmatrix.environments.guard import too_old
from hwmatrix.errors import EnvironmentBuildError

if TYPE_CHECKING:
    from collections.abc import Mapping

PTH_NAME = "hwmatrix_core.pth"


def package_folder() -> Path:
    """Return the folder of the running hwmatrix package."""
    return Path(codec.__file__).resolve().parent


def link(name: Path, target: Path) -> None:
    """Make `name` a symbolic link to `target`, in place of what it was, in one step.

    Raises:
        EnvironmentBuildError: the folder cannot be written.
    """
    if name.is_symlink() and os.readlink(name) == str(target):  # noqa: PTH115 - Path.readlink would resolve nothing more
        return
    passing = name.with_name(f".{name.name}.{os.getpid()}")
    try:
        name.parent.mkdir(parents=True, exist_ok=True)
        passing.unlink(missing_ok=True)
        passing.symlink_to(target)
        passing.replace(name)
    except OSError as error:
        raise EnvironmentBuildError(
            f"cannot link {name} to {target}: {error.strerror}. {name.parent} must be "
            "writable, or HWMATRIX_STATE must name another folder that is."
        ) from None


def link_core(folder: Path) -> Path:
    """Return `folder/core`, which shows the hwmatrix package alone."""
    core = folder / "core"
    link(core / "hwmatrix", package_folder())
    return core


def overlay_name(overlay: Path, have: Mapping[str, str]) -> str:
    """Return a name for the view of `overlay`: another for other contents or another Python.

    So a view is only ever added to, and sessions side by side do not disturb each other.
    """
    contents = sorted(path.name for path in overlay.glob("*.dist-info"))
    text = repr((str(overlay.resolve()), contents, sorted(have.items())))
    return f"overlay-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def link_overlay(overlay: Path, view: Path, have: Mapping[str, str]) -> tuple[str, ...]:
    """Return the distributions of `overlay` that the interpreter lacks, linked into `view`.

    `have` maps the interpreter's distributions to versions: what is there already and new enough
    stays the container's own, since PYTHONPATH goes before it.

    Raises:
        EnvironmentBuildError: the overlay is no folder of installed packages.
    """
    infos = sorted(overlay.glob("*.dist-info")) if overlay.is_dir() else []
    if not infos:
        raise EnvironmentBuildError(
            f"--overlay {overlay}: no installed packages there. Make one where the network can be "
            f"reached, with the same Python version: {overlay_recipe(overlay)}"
        )
    taken = []
    for info in infos:
        name, _, version = info.name.removesuffix(".dist-info").partition("-")
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in have and not too_old(key, have[key]):
            continue
        taken.append(f"{key} {version}")
        for entry in (info.name, *_top_level(info)):
            if (overlay / entry).exists():
                link(view / entry, overlay / entry)
    return tuple(taken)


def _top_level(info: Path) -> tuple[str, ...]:
    """Return the first parts of the paths that a distribution's RECORD lists."""
    try:
        text = (info / "RECORD").read_text(encoding="utf-8")
    except OSError:
        return ()
    firsts = (Path(row[0]).parts[0] for row in csv.reader(text.splitlines()) if row and row[0])
    return tuple(
        sorted({first for first in firsts if first not in {"..", "/", "bin", "__pycache__"}})
    )


def overlay_recipe(folder: Path | str) -> str:
    """Return the command that makes an overlay."""
    return f"pip install --target {folder} pytest pytest-xdist pytest-timeout pytest-reportlog"
