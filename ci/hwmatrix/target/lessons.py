"""What a template learns from its children: modules that each of them would import again.

pytest and its plugins import a good deal only when they need it (hypothesis half a second's worth
at the end of each session). A child names the modules that it had to import; the template imports
those of the standard library and of the installed pytest plugins for the children to come, and
keeps the names in a file beside the runs for the templates to come. Modules of tests, and packages
under test, are never among them: those are `preload`'s business.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

_MOST = 1 << 15  # bytes: a pipe takes at least 64 KiB without a reader
_PYTEST = frozenset({"_pytest", "pytest", "pluggy"})
# Standard names that projects use for packages of their own, or that do something when imported.
_NEVER = frozenset({"test", "this", "antigravity", "__main__", "idlelib", "turtledemo"})


class Lessons:
    """One lesson at a time: `begin` before the fork, `tell` in the child, then the other two."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: frozenset[str] = frozenset()
        self._read = self._write = -1

    def recall(self, config: pytest.Config) -> None:
        """Import what earlier templates learnt; what is not there any more is passed over."""
        _import(_wanted(self._kept(), config))

    def begin(self) -> None:
        """Note what is imported before the fork."""
        self._known = frozenset(sys.modules)
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def tell(self) -> None:
        """Name what this child imported, in order; a test may have closed the pipe."""
        names = [name for name in list(sys.modules) if name not in self._known]
        data = "\n".join(names).encode()[:_MOST]
        with contextlib.suppress(OSError):
            os.write(self._write, data)

    def learn(self, config: pytest.Config) -> list[str]:
        """Return what the child named, may be imported here, and is not yet; keep it on disk."""
        os.close(self._write)
        try:
            data = os.read(self._read, _MOST)
        except OSError:
            data = b""
        os.close(self._read)
        names = _wanted(data.decode(errors="replace").split("\n"), config)
        if names:
            self._keep(names)
        return names

    def practise(self, names: Iterable[str]) -> None:
        """Import what was learnt: half a second with hypothesis, so once the child is reported."""
        _import(names)

    def _kept(self) -> list[str]:
        try:
            return self._path.read_text(encoding="utf-8", errors="replace").split()
        except OSError:
            return []

    def _keep(self, names: list[str]) -> None:
        kept = self._kept()
        whole = [*kept, *(name for name in names if name not in kept)]
        temporary = Path(f"{self._path}.{os.getpid()}")
        with contextlib.suppress(OSError):  # it only saves time
            temporary.write_text("\n".join(whole), encoding="utf-8")
            temporary.replace(self._path)


def _wanted(names: Iterable[str], config: pytest.Config) -> list[str]:
    """Return those of `names` that may be imported here and were not yet."""
    allowed = _allowed(config)
    return [n for n in names if _top(n) in allowed and n not in sys.modules]


def _import(names: Iterable[str]) -> None:
    """Import `names` without a sound."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            with contextlib.suppress(Exception):
                importlib.import_module(name)


def _top(name: str) -> str:
    return name.partition(".")[0]


def _allowed(config: pytest.Config) -> frozenset[str]:
    """Return the top-level names of the standard library, of pytest and of installed plugins."""
    plugins = set()
    for plugin, distribution in config.pluginmanager.list_plugin_distinfo():
        plugins.add(_top(getattr(plugin, "__name__", "")))
        plugins.add(str(distribution.project_name).lower().replace("-", "_"))
    return (frozenset(sys.stdlib_module_names) | _PYTEST | plugins) - _NEVER - {""}
