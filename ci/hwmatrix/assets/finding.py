"""Where an asset lies on this machine, or why it does not."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix.errors import AssetError
from hwmatrix.model.asset import faults, inside, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hwmatrix.model import Asset

    Installed = Callable[[str], "tuple[str, Path] | None"]
    """From a distribution's name to its version and the folder that holds its files."""

CACHE = "HWMATRIX_ASSETS"
DONE = ".complete.json"
"""In an asset's folder, written last: the size of each of its files."""


@dataclass(frozen=True)
class Found:
    """What a look at the machine gave: the folder, or None and the reason.

    `asset` has its variables filled in; `open` names those that are not set, so that nobody can
    tell which asset it is. `fetchable`: it is not here and could be fetched.
    """

    asset: Asset
    folder: Path | None = None
    reason: str = ""
    open: tuple[str, ...] = ()
    fetchable: bool = False


def cache_folder(env: Mapping[str, str]) -> Path:
    """Return where fetched assets lie: HWMATRIX_ASSETS, else below the user's cache folder."""
    if env.get(CACHE):
        return Path(env[CACHE])
    base = env.get("XDG_CACHE_HOME") or str(Path(env.get("HOME", "~")).expanduser() / ".cache")
    return Path(base) / "hwmatrix" / "assets"


def nothing_installed(name: str) -> tuple[str, Path] | None:
    """Return None: no distribution is looked at."""
    del name
    return None


def look(asset: Asset, env: Mapping[str, str], installed: Installed = nothing_installed) -> Found:
    """Return where the asset lies. An installed distribution of that very version goes first."""
    made, missing = resolve(asset, env)
    if missing:
        wanted = " and ".join(missing)
        return Found(made, reason=f"{wanted} is not set, which names its source.", open=missing)
    wrong = faults(made)
    if wrong:
        return Found(made, reason=f"its source {made.source} {' It '.join(wrong)}")
    if made.folder:
        place = Path(made.folder)
        there = place.is_dir()
        return Found(made, place if there else None, "" if there else _no_folder(place))
    also = ""
    if made.package:
        name, _, version = made.package.partition("==")
        known = installed(name)
        if known is not None and known[0] == version:
            return Found(made, known[1])
        other = f"{known[0]} of it is installed" if known else "it is not installed"
        also = f"{other}, and "
    place = cache_folder(env) / made.key
    if whole(place):
        return Found(made, place)
    reason = f"{also}{made.source} is not in {place.parent}."
    return Found(made, reason=reason, fetchable=True)


def wanted(asset: Asset, env: Mapping[str, str]) -> bool:
    """Return whether a session needs it here: it is not optional, or the machine names it."""
    if not asset.optional:
        return True
    made, missing = resolve(asset, env)
    return not missing and made != asset


def find(asset: Asset, env: Mapping[str, str], installed: Installed = nothing_installed) -> Path:
    """Return the folder that holds the asset.

    Raises:
        AssetError: it is not there; says how it is brought.
    """
    seen = look(asset, env, installed)
    if seen.folder is None:
        todo = how_to_fetch(asset) if seen.fetchable else ""
        raise AssetError(f"asset {asset.name}: {seen.reason}{todo}")
    return seen.folder


def how_to_fetch(asset: Asset) -> str:
    """Return what a person does to bring it."""
    named = "$" in f"{asset.hub}{asset.revision}{asset.folder}"
    more = " --optional" if asset.optional and not named else ""
    return f" Fetch it while the machine is online: `nox -s assets -- SESSION{more}`."


def whole(place: Path) -> bool:
    """Return whether a folder of the cache holds all that it is said to hold."""
    return size_of(place) is not None


def size_of(place: Path) -> int | None:
    """Return the bytes of an asset's files; None where a file is missing or of another size."""
    try:
        sizes: dict[str, int] = json.loads((place / DONE).read_text(encoding="utf-8"))
        for name, size in sizes.items():
            if not inside(name) or (place / name).stat().st_size != size:
                return None
        return sum(sizes.values())
    except (OSError, ValueError, AttributeError, TypeError):
        return None


def _no_folder(place: Path) -> str:
    return f"{place} is no folder on this machine."
