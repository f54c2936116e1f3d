"""pip's own settings, read as pip reads them, so that uv and a clean pip can be handed them.

Both installers run with pip's configuration files switched off and with PIP_* and UV_* removed;
what a step may use is set again, one variable each. So no setting of the machine (a second index, a
global constraint) can change which build of torch is chosen, and both installers see the same.
"""

from __future__ import annotations

import configparser
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEYS = (
    "index-url",
    "extra-index-url",
    "find-links",
    "no-index",
    "constraint",
    "cert",
    "client-cert",
    "trusted-host",
    "proxy",
    "default-timeout",
    "timeout",
    "retries",
)
_KEPT = (
    "PIP_CACHE_DIR",
    "PIP_NO_CACHE_DIR",
    "UV_CACHE_DIR",
    "UV_NO_CACHE",
    "UV_LINK_MODE",
    "UV_OFFLINE",
    "UV_NATIVE_TLS",
    "UV_SYSTEM_CERTS",
    "UV_HTTP_TIMEOUT",
)
"""Settings that say where and how to fetch, never what."""

_DROPPED = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "__PYVENV_LAUNCHER__")
"""With these an installer could work on another environment than the one it is told."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PipSettings:
    """What pip would use here; empty where nothing is set."""

    index_url: str = ""
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    no_index: bool = False
    constraints: tuple[str, ...] = ()
    cert: str = ""
    client_cert: str = ""
    trusted_hosts: tuple[str, ...] = ()
    proxy: str = ""
    timeout: str = ""
    retries: str = ""


def read(env: Mapping[str, str], *, prefix: str = "", root: Path = Path("/")) -> PipSettings:
    """Return pip's settings: files in pip's order, `[install]` over `[global]`, PIP_* over all.

    `prefix` is that of the interpreter beside which a `pip.conf` may lie. UV_DEFAULT_INDEX and
    UV_INDEX_URL count where pip names no index. A file that cannot be read or parsed is passed
    over, as pip would stop on it before we are asked.
    """
    values: dict[str, str] = {}
    for path in _files(env, prefix, root):
        values.update(_file_values(path))
    for key in _KEYS:
        name = "PIP_" + key.upper().replace("-", "_")
        if name in env:
            values[key] = env[name]
    uv_index = env.get("UV_DEFAULT_INDEX") or env.get("UV_INDEX_URL") or ""
    return PipSettings(
        index_url=values.get("index-url") or uv_index,
        extra_index_urls=_words(values.get("extra-index-url", "")),
        find_links=_words(values.get("find-links", "")),
        no_index=values.get("no-index", "").strip().lower() in {"1", "true", "yes", "on"},
        constraints=_words(values.get("constraint", "")),
        cert=values.get("cert", ""),
        client_cert=values.get("client-cert", ""),
        trusted_hosts=_words(values.get("trusted-host", "")),
        proxy=values.get("proxy", ""),
        timeout=values.get("default-timeout") or values.get("timeout", ""),
        retries=values.get("retries", ""),
    )


def _files(env: Mapping[str, str], prefix: str, root: Path) -> tuple[Path, ...]:
    """Return pip's configuration files, weakest first (pip's manual, Configuration)."""
    chosen = env.get("PIP_CONFIG_FILE", "")
    if chosen == os.devnull:
        return ()
    home = env.get("HOME", "")
    user = Path(env.get("XDG_CONFIG_HOME") or f"{home}/.config")
    shared = env.get("XDG_CONFIG_DIRS") or str(root / "etc/xdg")
    files = [Path(folder) / "pip/pip.conf" for folder in shared.split(":") if folder]
    files.append(root / "etc/pip.conf")
    if home:
        files += [
            root / "Library/Application Support/pip/pip.conf",
            Path(home) / ".pip/pip.conf",
            user / "pip/pip.conf",
            Path(home) / "Library/Application Support/pip/pip.conf",
        ]
    if prefix:
        files.append(Path(prefix) / "pip.conf")
    if chosen:
        files.append(Path(chosen))
    return tuple(files)


def _file_values(path: Path) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, configparser.Error):
        return {}
    values: dict[str, str] = {}
    for section in ("global", "install"):
        if parser.has_section(section):
            values.update((key.replace("_", "-"), value) for key, value in parser.items(section))
    return {key: value for key, value in values.items() if key in _KEYS}


def _words(text: str) -> tuple[str, ...]:
    """Return the words of a list setting, each once; a quoted path may hold spaces."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    return tuple(dict.fromkeys(words))


def clean(env: Mapping[str, str]) -> dict[str, str]:
    """Return `env` without what steers an installer, and with configuration files off."""
    kept = {
        name: value
        for name, value in env.items()
        if name in _KEPT or not (name.startswith(("PIP_", "UV_")) or name in _DROPPED)
    }
    return {
        **kept,
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        # Compiling the 15 000 modules of torch takes longer than unpacking them, and most are
        # never imported; uv does not compile either.
        "PIP_NO_COMPILE": "1",
        "PIP_NO_INPUT": "1",
        "UV_NO_CONFIG": "1",
        "UV_NO_PROGRESS": "1",
        "UV_PYTHON_DOWNLOADS": "never",
    }
