"""The exact commands by which an environment is made, as data: nothing is run here.

1. an empty environment; 2. torch, pinned with its local label, from the variant's index alone or
from a wheel in a find-links folder; 3. everything else from the default index, under constraints
that hold torch where it is. Addresses travel as variables, so that a password in one never shows
in the process table or in the log.
"""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hwmatrix.environments.pinning import from_torchs_index, normal, pins

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hwmatrix.environments.settings import PipSettings
    from hwmatrix.model import Variant

_WHEEL = re.compile(
    r"(?P<name>[^-]+)-(?P<version>[^-]+)(-\d[^-]*)?-(?P<py>[^-]+)-(?P<abi>[^-]+)-(?P<plat>[^-]+)\.whl"
)
TORCH_INDEX = "HWMATRIX_TORCH_INDEX"


@dataclass(frozen=True, kw_only=True, slots=True)
class Installer:
    """Which installer is used, and by which program: uv, or pip of the new environment."""

    kind: Literal["uv", "pip"]
    program: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One command: what it is for, its words, the variables it gets on top of a clean set.

    `pinned` marks the step that chooses the build of torch.
    """

    title: str
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    index: str = ""
    pinned: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class TorchSource:
    """Where torch comes from: an index address, or a folder of wheels when `links` is set."""

    index: str = ""
    links: str = ""


def torch_index(variant: Variant, env: Mapping[str, str]) -> tuple[str, str]:
    """Return the index of the variant's torch, and which variable replaced the table's, if any.

    HWMATRIX_TORCH_INDEX_<VARIANT> (`rocm-7.2` is ROCM_7_2) goes before HWMATRIX_TORCH_INDEX. In
    both, `{build}` stands for the last part of the table's address (`rocm7.2`).
    """
    own = f"{TORCH_INDEX}_{re.sub(r'[^A-Z0-9]', '_', variant.name.upper())}"
    for name in (own, TORCH_INDEX):
        if env.get(name):
            build = variant.index.rstrip("/").rsplit("/", 1)[-1]
            return env[name].replace("{build}", build), name
    return variant.index, ""


def torch_source(
    variant: Variant, settings: PipSettings, env: Mapping[str, str], python: tuple[int, int]
) -> TorchSource:
    """Return a find-links folder that holds wheels for all of the pins, else the index.

    An index that the environment names goes before a folder: it is the nearer wish.
    """
    index, replaced_by = torch_index(variant, env)
    for link in () if replaced_by else settings.find_links:
        folder = Path(link.removeprefix("file://"))
        if "://" not in link.removeprefix("file://") and _holds(
            folder, from_torchs_index(variant), python
        ):
            return TorchSource(links=str(folder))
    return TorchSource(index=index)


def _holds(folder: Path, wanted: Sequence[str], python: tuple[int, int]) -> bool:
    try:
        names = [path.name for path in folder.iterdir()]
    except OSError:
        return False
    return all(any(_satisfies(name, pin, python) for name in names) for pin in wanted)


def _satisfies(filename: str, pin: str, python: tuple[int, int]) -> bool:
    """Whether a wheel's name is that of the pin, for this Python and machine."""
    match = _WHEEL.fullmatch(filename.replace("%2B", "+").replace("%2b", "+"))
    name, _, version = pin.partition("==")
    if match is None or normal(match["name"]) != normal(name) or match["version"] != version:
        return False
    tag = f"cp{python[0]}{python[1]}"
    fits_python = any(
        part in {tag, "py3"} or (match["abi"] == "abi3" and _older(part, python))
        for part in match["py"].split(".")
    )
    machine = platform.machine()
    return fits_python and any(
        part == "any" or part.endswith(machine) for part in match["plat"].split(".")
    )


def _older(tag: str, python: tuple[int, int]) -> bool:
    return tag.startswith("cp3") and tag[3:].isdigit() and (3, int(tag[3:])) <= python


def plan(
    variant: Variant,
    *,
    installer: Installer,
    base_python: str,
    folder: Path,
    source: TorchSource,
    settings: PipSettings,
    requirements: Path,
    constraints: Path,
    lock: Path | None = None,
) -> tuple[Step, ...]:
    """Return the steps, in order, that make `folder` the environment of `variant`.

    With a lock, the last step installs what it lists, by hash and nothing else.
    """
    python = str(folder / "bin/python")
    venv: tuple[str, ...]
    install: tuple[str, ...]
    if installer.kind == "uv":
        venv = (installer.program, "venv", "--python", base_python, str(folder))
        install = (installer.program, "pip", "install", "--python", python)
    else:
        venv = (base_python, "-m", "venv", str(folder))
        install = (python, "-m", "pip", "install")
    name, wanted = variant.name, from_torchs_index(variant)
    torch_command: tuple[str, ...]
    torch_env: dict[str, str] = {}
    rest: tuple[str, ...]
    if source.links:
        offline = ("--no-index", "--no-deps", "--find-links", source.links)
        torch_command = (*install, *offline, *wanted)
    else:
        torch_command = (*install, *wanted)
        torch_env = {**_network(installer, settings), **_index(installer, source.index)}
    rest = ("--constraint", str(constraints), "--requirement", str(requirements), *pins(variant))
    what = f"{requirements.name}, with torch held at {variant.torch}"
    if lock:
        rest = ("--no-deps", "--require-hashes", "--requirement", str(lock))
        what = f"{lock.name}, by hash"
    return (
        Step(title="make an empty environment", command=venv),
        Step(
            title=f"install torch {variant.torch} from {source.links or 'the index of ' + name}",
            command=torch_command,
            env=torch_env,
            index=source.index,
            pinned=True,
        ),
        Step(
            title=f"install {what}",
            command=(*install, *rest),
            env=packages_env(installer, settings),
            index=settings.index_url or "the default index",
        ),
    )


def _index(installer: Installer, address: str) -> dict[str, str]:
    """Return the variables that make `address` the only index."""
    return {"UV_DEFAULT_INDEX" if installer.kind == "uv" else "PIP_INDEX_URL": address}


def _network(installer: Installer, settings: PipSettings) -> dict[str, str]:
    """Return certificate, proxy, trusted hosts and patience as the installer wants them named."""
    if installer.kind == "pip":
        given = {
            "PIP_CERT": settings.cert,
            "PIP_CLIENT_CERT": settings.client_cert,
            "PIP_TRUSTED_HOST": " ".join(settings.trusted_hosts),
            "PIP_PROXY": settings.proxy,
            "PIP_DEFAULT_TIMEOUT": settings.timeout,
            # With none pip does not say that the index could not be reached, but that it has no
            # such version.
            "PIP_RETRIES": "1" if settings.retries == "0" else settings.retries,
        }
    else:
        given = {
            "SSL_CERT_FILE": settings.cert,
            "SSL_CLIENT_CERT": settings.client_cert,
            "UV_INSECURE_HOST": " ".join(settings.trusted_hosts),
            "HTTP_PROXY": settings.proxy,
            "HTTPS_PROXY": settings.proxy,
            "UV_HTTP_TIMEOUT": settings.timeout,
            "UV_HTTP_RETRIES": settings.retries,
        }
    return {name: value for name, value in given.items() if value}


def _default_index(installer: Installer, settings: PipSettings) -> dict[str, str]:
    """Return where everything but torch comes from: all that pip's settings name."""
    extra, links = settings.extra_index_urls, settings.find_links
    if installer.kind == "pip":
        given = {
            "PIP_INDEX_URL": settings.index_url,
            "PIP_EXTRA_INDEX_URL": " ".join(extra),
            "PIP_FIND_LINKS": " ".join(links),
            "PIP_NO_INDEX": "1" if settings.no_index else "",
        }
    else:
        given = {
            "UV_DEFAULT_INDEX": settings.index_url,
            "UV_INDEX": " ".join(extra),
            "UV_FIND_LINKS": ",".join(links),
            "UV_NO_INDEX": "1" if settings.no_index else "",
            # pip takes the best version of all indexes; uv's own rule stops at the first that
            # has the name, which with pip's settings would hide newer releases.
            "UV_INDEX_STRATEGY": "unsafe-best-match" if extra else "",
        }
    return {name: value for name, value in given.items() if value}


def packages_env(installer: Installer, settings: PipSettings) -> dict[str, str]:
    """Return the variables for ordinary packages: where they come from, and how to get there."""
    return {**_network(installer, settings), **_default_index(installer, settings)}


def locking_env(installer: Installer, settings: PipSettings, torch_address: str) -> dict[str, str]:
    """Return the variables for making a lock: pip's indexes, and torch's for what only it has.

    `torch_address` is empty where torch came from a local wheel.
    """
    given = packages_env(installer, settings)
    more = [*settings.extra_index_urls, *([torch_address] if torch_address else [])]
    given["UV_INDEX"] = " ".join(more)
    given["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return {name: value for name, value in given.items() if value}
