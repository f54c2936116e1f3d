"""What a test needs beside its code: a model or a data set, as its file declares it."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

KINDS = ("models", "datasets")
PATTERN = frozenset("*?[")  # a file name with one of these stands for all names that fit
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.!+_-]*")
_HUB = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_HASH = re.compile(r"[0-9a-f]{64}")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Asset:
    """One asset: exactly one of package, hub (with revision and files) and folder.

    Words as `requires_asset` documents them. `sha256` holds pairs of file and hash; the file of a
    package is "", its wheel.
    """

    name: str
    package: str = ""
    hub: str = ""
    revision: str = ""
    kind: str = "models"
    files: tuple[str, ...] = ()
    folder: str = ""
    sha256: tuple[tuple[str, str], ...] = ()
    optional: bool = False

    @property
    def key(self) -> str:
        """A name for its place in the cache that differs whenever its content may."""
        what: list[object] = [self.package, self.hub, self.revision, self.kind]
        what += [sorted(self.files), sorted(self.sha256)]
        return f"{self.name}-{hashlib.sha256(json.dumps(what).encode()).hexdigest()[:12]}"

    @property
    def source(self) -> str:
        """Where it comes from, in a few words."""
        if self.hub:
            at = f"@{self.revision}" if self.revision else ""
            return f"hub {'' if self.kind == 'models' else 'data set '}{self.hub}{at}"
        return f"package {self.package}" if self.package else f"folder {self.folder}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Declared:
    """An asset and the call that declares it; line and column count from 1."""

    path: str
    line: int
    column: int
    asset: Asset


def resolve(asset: Asset, env: Mapping[str, str]) -> tuple[Asset, tuple[str, ...]]:
    """Return the asset with its variables' values, and the names of variables that are not set.

    A hub source whose value begins with a slash is a folder that the machine has. One that holds
    `owner/name@commit` brings its revision along.
    """
    missing: list[str] = []

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if not env.get(name):
            missing.append(name)
        return env.get(name, "")

    hub, revision, folder = (
        _VARIABLE.sub(value, text) for text in (asset.hub, asset.revision, asset.folder)
    )
    if missing:
        return asset, tuple(dict.fromkeys(missing))
    if hub.startswith("/"):
        made = Asset(name=asset.name, folder=hub, optional=asset.optional)
    else:
        hub, _, at = hub.partition("@")
        made = replace(asset, hub=hub, revision=revision or at, folder=folder)
    return made, ()


def faults(asset: Asset) -> tuple[str, ...]:
    """Return everything that is wrong with a declaration, each as `has ...` or `needs ...`.

    What a variable fills in is left open until `resolve` has filled it.
    """
    found: list[str] = []
    if not _NAME.fullmatch(asset.name):
        found.append(
            f"has name={asset.name!r}; allowed: up to 80 letters, digits, '.', '_' and '-', "
            "beginning with a letter or digit."
        )
    given = [name for name in ("package", "hub", "folder") if getattr(asset, name)]
    if len(given) != 1:
        has = " and ".join(f"{name}=" for name in given) or "no source"
        return (*found, f"has {has}; needs one of package=, hub= and folder=.")
    found += [
        f"has a '$' without a variable's name in {name}={text!r}; allowed: $NAME and ${{NAME}}."
        for name in ("hub", "revision", "folder")
        if "$" in _VARIABLE.sub("", text := getattr(asset, name))
    ]
    if asset.package and not _PACKAGE.fullmatch(asset.package):
        found.append(f"has package={asset.package!r}; allowed: name==version, one exact release.")
    if asset.hub:
        found += _hub_faults(asset)
    elif asset.files or asset.revision or asset.kind != KINDS[0]:
        found.append("has revision=, kind= or files= without hub=, which they belong to.")
    return (*found, *_hash_faults(asset))


def _hub_faults(asset: Asset) -> list[str]:
    open_ = "$" in asset.hub or "$" in asset.revision
    found = []
    if not asset.files or not (asset.revision or open_):
        lacks = "files" if asset.revision or open_ else "revision"
        found.append(f"has hub= and an empty {lacks}=; with hub= needs revision= and files=.")
    if "$" not in asset.hub and not _HUB.fullmatch(asset.hub):
        found.append(f"has hub={asset.hub!r}; allowed: owner/name.")
    if asset.revision and "$" not in asset.revision and not _COMMIT.fullmatch(asset.revision):
        found.append(
            f"has revision={asset.revision!r}; allowed: the 40 digits of a commit. A branch or a "
            "tag could change between two machines."
        )
    if asset.kind not in KINDS:
        found.append(f"has kind={asset.kind!r}; allowed: {', '.join(KINDS)}.")
    return found + [
        f"has a file {name!r}, which leads out of its folder."
        for name in asset.files
        if not inside(name)
    ]


def _hash_faults(asset: Asset) -> list[str]:
    if asset.sha256 and asset.folder:
        return ["has sha256= for a folder, which is taken as it is."]
    known = {""} if asset.package or len(asset.files) == 1 else set()
    found = []
    for name, digest in asset.sha256:
        if name not in known | set(asset.files):
            what = f"the file {name!r}, which is not in files" if name else "one of several files"
            found.append(f"has sha256= for {what}.")
        if not _HASH.fullmatch(digest):
            found.append(f"has sha256={digest!r}; allowed: 64 hexadecimal digits, lower case.")
    return found


def inside(name: str) -> bool:
    """Return whether a file's name with `/` stays inside the folder that it is relative to."""
    parts = name.split("/")
    return bool(name) and not ({"", ".", ".."} & set(parts)) and not set("\\\0:") & set(name)


def expected_hash(asset: Asset, file: str) -> str:
    """Return the hash that a file must have, '' where none is given."""
    given = dict(asset.sha256)
    alone = len(asset.files) == 1 or not asset.files
    return given.get(file) or (given.get("", "") if alone else "")
