"""The test files below the roots, each with its stamp, and the names that cannot be read.

Links are followed, as pytest does. Folders whose name begins with a dot and `__pycache__` are
left out. A folder may be called `test_x.py`; then it is a folder like any other.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hwmatrix.registry.source import NOT_A_FILE, Fault, Stamp, os_fault, stamp_of

if TYPE_CHECKING:
    from collections.abc import Sequence


class Walked(NamedTuple):
    """Files by their path relative to the project, `/` between names, and faults beside them."""

    files: dict[str, tuple[str, Stamp]]  # relative path -> path to open, stamp
    faults: list[tuple[str, Fault]]


def walk(root: str, roots: Sequence[str], python_files: Sequence[str]) -> Walked:
    """Return the files below `roots` (relative to `root`) whose name fits a pattern.

    A root may itself be a file. Files that two roots reach are listed once.
    """
    patterns = re.compile("|".join(map(fnmatch.translate, python_files)) or r"(?!)")
    walked = Walked({}, [])
    for name in roots:
        top = Path(root, name)
        relative = os.path.relpath(top, root).replace(os.sep, "/")
        if top.is_dir():
            prefix = "" if relative == "." else f"{relative}/"
            _walk_folder(os.fspath(top), prefix, patterns, walked)
        elif top.is_symlink() or top.exists():
            _add(relative, top, walked)
        else:
            fault = Fault(
                "no such folder; it is declared as a test root.",
                "Create it, or correct roots in ci/matrix.toml.",
                "unreadable",
            )
            walked.faults.append((relative, fault))
    return walked


def _walk_folder(top: str, prefix: str, patterns: re.Pattern[str], walked: Walked) -> None:
    folders = [(top, prefix)]
    while folders:
        folder, prefix = folders.pop()
        try:
            with os.scandir(folder) as entries:
                listed = list(entries)
        except OSError as error:
            walked.faults.append((_shown(prefix.rstrip("/")), os_fault(folder, error)))
            continue
        for entry in listed:
            if _is_folder(entry):
                if entry.name.startswith(".") or entry.name == "__pycache__":
                    continue
                if entry.is_symlink() and _leads_back(entry.path):
                    walked.faults.append((_shown(prefix + entry.name), _LOOP))
                    continue
                folders.append((entry.path, f"{prefix}{entry.name}/"))
            elif patterns.match(entry.name):
                _add(prefix + entry.name, entry, walked)


_LOOP = Fault(
    "the link leads back to a folder above it; what is below it would be found again and again.",
    "Remove the link.",
    "unreadable",
)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a loop of links; it is reported where its name is a test file's
        return False


def _leads_back(link: str) -> bool:
    """Return whether a link leads to a folder that it was reached through, or above one."""
    target = os.path.realpath(link)
    return any(
        os.path.commonpath((os.path.realpath(folder), target)) == target
        for folder in Path(link).parents
    )


def _add(relative: str, entry: os.DirEntry[str] | Path, walked: Walked) -> None:
    """Add a file with its stamp, or the fault that stands in the way."""
    if not relative.isascii() and _shown(relative) != relative:
        fault = Fault("the file's name is not UTF-8.", "Rename it.", "unreadable")
        walked.faults.append((_shown(relative), fault))
        return
    path = os.fspath(entry)
    try:
        status = entry.stat()
    except OSError as error:
        walked.faults.append((relative, os_fault(path, error)))
        return
    if stat.S_ISREG(status.st_mode):
        walked.files[relative] = (path, stamp_of(status))
    else:
        walked.faults.append((relative, NOT_A_FILE))


def _shown(path: str) -> str:
    r"""Return a path as it can be printed; bytes that are not UTF-8 become `\xNN`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
