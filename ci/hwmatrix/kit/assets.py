"""Models and data sets that tests need: declared in the file, fetched before, offline afterwards.

An asset is a package (its wheel's files), a hub repository at a revision, or a folder that the
machine has. `requires_asset` only names and finds it; fetching is `fetch`, which a session runs
before any device is taken. A missing asset is a fault of the machine (`AssetError`), never a skip
and never a failure of the test's subject.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import urllib.error
import urllib.request
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from hwmatrix.errors import AssetError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DEFAULT_HUB = "https://huggingface.co"
_DONE = ".complete.json"
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Asset:
    """What a test needs: exactly one of package, hub (with its revision) and folder."""

    name: str
    package: str = ""
    hub: str = ""
    revision: str = ""
    kind: str = "models"
    files: tuple[str, ...] = ()
    folder: str = ""

    @property
    def key(self) -> str:
        """A name for its place in the cache that differs whenever its content may."""
        what = json.dumps([self.package, self.hub, self.revision, self.kind, sorted(self.files)])
        return f"{self.name}-{hashlib.sha256(what.encode()).hexdigest()[:12]}"

    def path(self, env: Mapping[str, str] | None = None) -> Path:
        """Return the folder that holds the asset on this machine.

        Raises:
            AssetError: it is not there; says how it is brought.
        """
        env = os.environ if env is None else env
        if self.folder:
            return self._folder(env)
        if self.package:
            return self._package()
        place = cache_folder(env) / self.key
        if not (place / _DONE).is_file():
            raise AssetError(
                f"asset {self.name}: {self.hub}@{self.revision} is not in {place.parent}. "
                "Fetch it while the machine is online: `nox -s assets -- SESSION`."
            )
        return place

    def _folder(self, env: Mapping[str, str]) -> Path:
        place = Path(os.path.expandvars(self.folder) if env is os.environ else self.folder)
        if not place.is_dir():
            raise AssetError(f"asset {self.name}: {place} is no folder on this machine.")
        return place

    def _package(self) -> Path:
        wanted, _, version = self.package.partition("==")
        try:
            found = metadata.distribution(wanted)
        except metadata.PackageNotFoundError:
            raise AssetError(
                f"asset {self.name}: package {self.package} is not installed. It belongs to the "
                "requirements of the variant."
            ) from None
        if version and found.version != version:
            raise AssetError(f"asset {self.name}: {wanted} is {found.version}, not {version}.")
        return Path(str(found.locate_file("")))


def requires_asset(
    name: str,
    *,
    package: str = "",
    hub: str = "",
    revision: str = "",
    kind: str = "models",
    files: tuple[str, ...] = (),
    folder: str = "",
) -> Asset:
    """Return the declaration of an asset; a statement at module level of the test file.

    Args:
        name: a short name for messages and the cache.
        package: `name==version` of an installed distribution that carries the files.
        hub: `owner/repository` on the hub; needs `revision` (a commit) and `files`.
        revision: the commit; a branch could change between two machines.
        kind: `models` or `datasets`.
        files: paths inside the repository.
        folder: a folder of this machine.

    Raises:
        UsageError: not exactly one source, or a hub source without revision or files.
    """
    if sum(map(bool, (package, hub, folder))) != 1:
        raise UsageError(f"requires_asset({name!r}) needs one of package=, hub= and folder=.")
    if hub and not (revision and files):
        raise UsageError(f"requires_asset({name!r}) with hub= needs revision= and files=.")
    if kind not in {"models", "datasets"}:
        raise UsageError(f"requires_asset({name!r}) has kind={kind!r}; allowed: models, datasets.")
    return Asset(
        name=name,
        package=package,
        hub=hub,
        revision=revision,
        kind=kind,
        files=files,
        folder=folder,
    )


def cache_folder(env: Mapping[str, str]) -> Path:
    """Return where fetched assets lie: HWMATRIX_ASSETS, else below the user's cache folder."""
    if env.get("HWMATRIX_ASSETS"):
        return Path(env["HWMATRIX_ASSETS"])
    base = env.get("XDG_CACHE_HOME") or str(Path(env.get("HOME", "~")).expanduser() / ".cache")
    return Path(base) / "hwmatrix" / "assets"


def fetch(asset: Asset, env: Mapping[str, str], *, limit_s: float = 60.0) -> Path:
    """Return the asset's folder, fetching it from the hub first where it is not in the cache.

    One process fetches, others wait for its lock and find it done. The hub's address is HF_ENDPOINT
    where set; a token in HF_TOKEN is sent to that address alone. `limit_s` bounds each wait for
    bytes, not the whole.

    Raises:
        AssetError: the hub does not answer, answers with an error or sends less than it announced.
    """
    if not asset.hub:
        return asset.path(env)
    folder = cache_folder(env)
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / f".{asset.key}.lock"):
        with contextlib.suppress(AssetError):
            return asset.path(env)
        made = Path(tempfile.mkdtemp(prefix=f".{asset.name}-", dir=folder))
        try:
            sizes = {name: _download(asset, name, made, env, limit_s) for name in asset.files}
            (made / _DONE).write_text(json.dumps(sizes), encoding="utf-8")
            made.rename(folder / asset.key)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return asset.path(env)


def _download(asset: Asset, name: str, folder: Path, env: Mapping[str, str], limit_s: float) -> int:
    """Return the size of the file fetched into `folder`."""
    endpoint = env.get("HF_ENDPOINT", DEFAULT_HUB).rstrip("/")
    middle = "" if asset.kind == "models" else "datasets/"
    url = f"{endpoint}/{middle}{asset.hub}/resolve/{quote(asset.revision)}/{quote(name)}"
    request = urllib.request.Request(url)  # noqa: S310 - the user's own endpoint
    if env.get("HF_TOKEN"):
        request.add_unredirected_header("Authorization", f"Bearer {env['HF_TOKEN']}")
    target = folder / name
    if not target.resolve().is_relative_to(folder.resolve()):
        raise AssetError(f"asset {asset.name}: {name!r} leads out of its folder.")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with urllib.request.urlopen(request, timeout=limit_s) as answer, target.open("wb") as out:  # noqa: S310 - as above
            announced = answer.headers.get("Content-Length")
            shutil.copyfileobj(answer, out, _CHUNK)
    except (OSError, urllib.error.URLError) as error:
        raise AssetError(f"asset {asset.name}: {url}: {error}. Nothing was kept.") from error
    size = target.stat().st_size
    if announced is not None and size != int(announced):
        raise AssetError(f"asset {asset.name}: {url}: {size} of {announced} bytes came.")
    return size


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
