"""Where a command works: the project's root, its table, its state folder, its streams."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from hwmatrix.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

TABLE = "ci/matrix.toml"


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """All that a command takes from its surroundings.

    `state` holds environments, runs and caches (`$HWMATRIX_STATE`, else `<root>/.hwmatrix`).
    """

    root: Path
    cwd: Path
    state: Path
    env: Mapping[str, str]
    out: TextIO
    err: TextIO

    @property
    def table(self) -> Path:
        """The path of `ci/matrix.toml`."""
        return self.root / TABLE

    def say(self, message: str) -> None:
        """Print one line for a person, at once."""
        self.err.write(f"{message}\n")
        self.err.flush()


def find_root(cwd: Path, env: Mapping[str, str]) -> Path:
    """Return the nearest folder at or above `cwd` that holds `ci/matrix.toml`.

    `$HWMATRIX_ROOT` names it outright.

    Raises:
        UsageError: there is none.
    """
    named = env.get("HWMATRIX_ROOT")
    candidates = [Path(named).resolve()] if named else [cwd, *cwd.parents]
    for folder in candidates:
        if (folder / TABLE).is_file():
            return folder
    looked = f"$HWMATRIX_ROOT ({named})" if named else f"{cwd} and every folder above it"
    raise UsageError(
        f"no {TABLE} found: looked in {looked}. Run inside a project that has one, or set "
        "HWMATRIX_ROOT."
    )


def find_place(*, cwd: Path, env: Mapping[str, str], out: TextIO, err: TextIO) -> Place:
    """Return the place of this process.

    Raises:
        UsageError: there is no `ci/matrix.toml` at or above `cwd`.
    """
    root = find_root(cwd, env)
    state = env.get("HWMATRIX_STATE")
    return Place(
        root=root,
        cwd=cwd,
        state=Path(state).resolve() if state else root / ".hwmatrix",
        env=env,
        out=out,
        err=err,
    )
