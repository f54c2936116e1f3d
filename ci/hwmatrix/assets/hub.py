"""Files of a hub repository at one commit, over HTTP as the hub speaks it.

`HF_ENDPOINT` names another hub; a token in `HF_TOKEN` is sent to that address and nowhere it leads
to. Whole files alone get their names, so what was fetched before a stop or a kill is kept and not
fetched again.
"""

from __future__ import annotations

import fnmatch
import hashlib
import http.client
import json
import os
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from hwmatrix.errors import AssetError
from hwmatrix.model.asset import PATTERN, expected_hash, inside

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from hwmatrix.model import Asset

DEFAULT_HUB = "https://huggingface.co"
PAUSES_S = (0.5, 2.0)  # before the second and the third try
_CHUNK = 1 << 20
_SAY_EVERY_S = 10.0
_PASSING = frozenset({408, 429, 500, 502, 503, 504})  # RFC 9110: may be gone in a moment
_LISTING_LIMIT = 64 << 20


@dataclass(frozen=True)
class Terms:
    """How long to wait: for each answer (seconds), and until when (`time.monotonic`) for all."""

    say: Callable[[str], None]
    until: float
    answer_s: float = 60.0
    pauses_s: tuple[float, ...] = PAUSES_S


@dataclass(frozen=True)
class Entry:
    """A file of the repository; size and hash where the hub tells them."""

    name: str
    size: int | None = None
    sha256: str = ""


def download(asset: Asset, folder: Path, env: Mapping[str, str], terms: Terms) -> dict[str, int]:
    """Return the size of each of the asset's files, all of them in `folder` now.

    Raises:
        AssetError: the hub does not answer, has no such file, or sends something else.
        OSError: the disk does not take it.
    """
    entries = _entries(asset, env, terms)
    sizes = {}
    for entry in entries:
        target = folder / entry.name
        if not target.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            _with_retries(asset, entry, target, env, terms)
        sizes[entry.name] = target.stat().st_size
    return sizes


def _entries(asset: Asset, env: Mapping[str, str], terms: Terms) -> list[Entry]:
    """Return the files to fetch; a pattern is held against the hub's own listing."""
    if not any(PATTERN & set(name) for name in asset.files):
        return [Entry(name) for name in asset.files]
    listed = _listing(asset, env, terms)
    chosen: dict[str, Entry] = {}
    for pattern in asset.files:
        fitting = [entry for entry in listed if fnmatch.fnmatchcase(entry.name, pattern)]
        if not fitting:
            raise AssetError(
                f"asset {asset.name}: no file of {asset.source} is called {pattern!r}. It has "
                f"{len(listed)}: {', '.join(entry.name for entry in listed[:8])}."
            )
        chosen.update({entry.name: entry for entry in fitting})
    return list(chosen.values())


def _listing(asset: Asset, env: Mapping[str, str], terms: Terms) -> list[Entry]:
    url = f"{_endpoint(env)}/api/{asset.kind}/{asset.hub}/tree/{asset.revision}?recursive=true"
    found: list[Entry] = []
    while url:
        with _ask(asset, url, env, terms) as answer:
            rows = json.loads(answer.read(_LISTING_LIMIT))
            link = answer.headers.get("Link", "")
        for row in rows:
            if row.get("type") == "file" and inside(row.get("path", "")):
                large = row.get("lfs") or {}
                found.append(Entry(row["path"], row.get("size"), large.get("oid", "")))
        # RFC 8288: `<address>; rel="next"`; the next page lies on the same hub.
        after = link.partition("<")[2].partition(">")[0] if 'rel="next"' in link else ""
        url = after if after.startswith(_endpoint(env)) else ""
    return found


def _with_retries(
    asset: Asset, entry: Entry, target: Path, env: Mapping[str, str], terms: Terms
) -> None:
    for pause in terms.pauses_s:
        fault = _try(asset, entry, target, env, terms)
        if fault is None:
            return
        if time.monotonic() + pause >= terms.until:
            raise fault
        terms.say(f"{fault} Trying again.")
        time.sleep(pause)
    _fetch(asset, entry, target, env, terms)


def _try(
    asset: Asset, entry: Entry, target: Path, env: Mapping[str, str], terms: Terms
) -> PassingError | None:
    try:
        _fetch(asset, entry, target, env, terms)
    except PassingError as fault:
        return fault
    return None


class PassingError(AssetError):
    """A fault that may be gone in a moment."""


def _fetch(asset: Asset, entry: Entry, target: Path, env: Mapping[str, str], terms: Terms) -> None:
    """Bring one file under its name, whole and with the hash that it must have."""
    middle = "" if asset.kind == "models" else "datasets/"
    place = f"{middle}{asset.hub}/resolve/{asset.revision}/{quote(entry.name)}"
    url = f"{_endpoint(env)}/{place}"
    passing = target.with_name(f"{target.name}.partial")
    try:
        with _ask(asset, url, env, terms) as answer:
            announced = answer.headers.get("Content-Length")
            total = int(announced) if announced and announced.isdigit() else entry.size
            wanted = Entry(entry.name, total, expected_hash(asset, entry.name) or entry.sha256)
            size, digest = _copy(asset, wanted, answer, passing, terms)
        if total is not None and size != total:
            raise PassingError(
                f"asset {asset.name}: {url}: {size} of {total} bytes came. Nothing of it was kept."
            )
        if wanted.sha256 and digest != wanted.sha256:
            raise AssetError(
                f"asset {asset.name}: {url} has sha256 {digest}, not {wanted.sha256}. It was "
                "changed on the way or on the hub. Nothing of it was kept."
            )
        passing.replace(target)
    except http.client.HTTPException as error:
        raise PassingError(
            f"asset {asset.name}: {url}: {error!r}. Nothing of it was kept."
        ) from error
    finally:
        passing.unlink(missing_ok=True)


def _copy(
    asset: Asset, entry: Entry, answer: http.client.HTTPResponse, passing: Path, terms: Terms
) -> tuple[int, str]:
    """Return the bytes that came and their hash; says how far it is every few seconds."""
    digest = hashlib.sha256()
    size, said = 0, time.monotonic()
    with passing.open("wb") as out:
        while True:
            try:
                chunk = answer.read1(_CHUNK)
            except OSError as error:
                raise _unreachable(asset, answer.url, error) from error
            if not chunk:
                break
            out.write(chunk)
            digest.update(chunk)
            size += len(chunk)
            now = time.monotonic()
            if now >= terms.until:
                raise AssetError(
                    f"asset {asset.name}: {entry.name}: {shown(size)} came before the time was "
                    "over. HWMATRIX_ASSETS_LIMIT_S allows more."
                )
            if now - said >= _SAY_EVERY_S:
                said = now
                of = f" of {shown(entry.size)}" if entry.size else ""
                terms.say(f"asset {asset.name}: {entry.name}: {shown(size)}{of}")
        out.flush()
        os.fsync(out.fileno())
    return size, digest.hexdigest()


def _endpoint(env: Mapping[str, str]) -> str:
    return (env.get("HF_ENDPOINT") or DEFAULT_HUB).rstrip("/")


def _ask(asset: Asset, url: str, env: Mapping[str, str], terms: Terms) -> http.client.HTTPResponse:
    request = urllib.request.Request(url)  # noqa: S310 - the user's own endpoint
    if env.get("HF_TOKEN"):
        request.add_unredirected_header("Authorization", f"Bearer {env['HF_TOKEN']}")
    wait_s = max(0.1, min(terms.answer_s, terms.until - time.monotonic()))
    try:
        answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=wait_s)  # noqa: S310 - as above
    except urllib.error.HTTPError as error:
        error.close()
        kind = PassingError if error.code in _PASSING else AssetError
        raise kind(f"asset {asset.name}: {url}: {_said(error)}. Nothing was kept.") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise _unreachable(asset, url, error) from error
    return answer


def _said(error: urllib.error.HTTPError) -> str:
    known = {
        401: " (no access: HF_TOKEN holds no token, or not one that may read it)",
        403: " (no access: the token may not read it, or the terms were not accepted)",
        404: " (no such repository, commit or file, or no access to it)",
    }
    return f"HTTP {error.code} {error.reason}{known.get(error.code, '')}"


def _unreachable(asset: Asset, url: str, error: Exception) -> PassingError:
    why = getattr(error, "reason", None) or error
    return PassingError(
        f"asset {asset.name}: {url}: {why}. Check the network; HF_ENDPOINT names a mirror."
    )


def shown(size: int) -> str:
    """Return `1.2 GB` for a number of bytes."""
    value = float(size)
    for unit in ("B", "kB", "MB"):
        if value < 1000:  # noqa: PLR2004 - SI
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"
