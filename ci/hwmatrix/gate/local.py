"""Changed paths without an API: from a file, or from git on this machine."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from hwmatrix.gate.decision import Facts
from hwmatrix.gate.text import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_GIT_S = 60.0


def from_file(path: Path) -> Facts:
    """Return the paths that `path` lists, ended by line feeds, or by NUL as `git diff -z` does."""
    try:
        data = path.read_bytes()
    except OSError as error:
        return Facts(unreadable=f"{quoted(str(path))} cannot be read: {error.strerror or error}")
    return _listed(data, f"{quoted(str(path))} lists no path")


def from_git(root: Path, base: str, env: Mapping[str, str]) -> Facts:
    """Return the paths in which HEAD differs from where it left `base`; both names of moved files.

    Local changes that nobody committed do not count.
    """
    command = ["git", "diff", "--name-only", "-z", "--no-renames", "--end-of-options"]
    try:
        done = subprocess.run(
            [*command, f"{base}...HEAD", "--"],
            cwd=root,
            env=dict(env),
            capture_output=True,
            check=False,
            timeout=_GIT_S,
        )
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        return Facts(unreadable=f"git cannot be run: {quoted(str(error))}")
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()
        return Facts(unreadable=f"git diff ended with {done.returncode}: {quoted(said)}")
    return _listed(done.stdout, f"nothing differs from {quoted(base)}")


def _listed(data: bytes, empty: str) -> Facts:
    """Paths need not be UTF-8; what is not comes out with surrogates, as file names do."""
    ends = b"\0" if b"\0" in data else b"\n"
    names = [part.decode("utf-8", "surrogateescape") for part in data.split(ends)]
    if ends == b"\n":
        names = [name.removesuffix("\r") for name in names]
        if any(name.startswith('"') for name in names):
            return Facts(unreadable="the list has names in git's quotes; make it with -z")
    kept = tuple(dict.fromkeys(name for name in names if name))
    return Facts(names=kept) if kept else Facts(unreadable=empty)
