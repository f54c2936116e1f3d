"""The assets that test files declare, themselves or through helpers that they import.

A helper is a module below the test roots that a file imports, by a name that is found in the
file's own folder or in one above it (as pytest puts them on sys.path), or relatively; also each
`conftest.py` beside or above the file. Nothing is imported here: the syntax tree tells.

Only files that say `requires_asset`, or name a module that does, are parsed at all.
"""

from __future__ import annotations

import ast
import os
import re
import warnings
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from hwmatrix.errors import Problem
from hwmatrix.model import Declared
from hwmatrix.registry import assetcalls, source
from hwmatrix.registry.calls import find
from hwmatrix.registry.files import walk
from hwmatrix.registry.markers import ASSETS
from hwmatrix.registry.reader import PARSER_ERRORS, place_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

_MENTION = b"requires_asset"


@dataclass(frozen=True, kw_only=True, slots=True)
class AssetScan:
    """What files declare: by file, helpers' declarations included, each asset once; and problems.

    `problems` are those of the files asked for and of their helpers, sorted by place.
    """

    by_file: dict[str, tuple[Declared, ...]]
    problems: tuple[Problem, ...] = ()


def declared(root: Path, roots: Sequence[str], paths: Iterable[str] | None = None) -> AssetScan:
    """Return the assets that the test files `paths` (from `root`; None: all) need.

    Files that cannot be read or parsed declare nothing: their registrations, or their run, tell.
    """
    walked = walk(os.fspath(root), roots, ("*.py",))
    tree = _Tree({name: _bytes(path) for name, (path, _) in walked.files.items()})
    wanted = sorted(tree.sources if paths is None else paths)
    by_file: dict[str, tuple[Declared, ...]] = {}
    seen: set[str] = set()
    for path in wanted:
        modules = tree.reached(path)
        seen.update(modules)
        unique: dict[str, Declared] = {}
        for module in modules:
            for item in tree.module(module).declared:
                unique.setdefault(item.asset.key + item.asset.folder, item)
        if unique:
            by_file[path] = tuple(unique.values())
    found = [problem for name in seen for problem in tree.module(name).problems]
    problems = sorted(found, key=lambda problem: (problem.path, problem.line, problem.column))
    return AssetScan(by_file=by_file, problems=tuple(problems))


def _bytes(path: str) -> bytes:
    try:
        return source.prepare(source.read(path))
    except source.UnreadableError:
        return b""


@dataclass(slots=True)
class _Module:
    """One parsed file: what it declares, what is wrong with that, and what it imports."""

    declared: list[Declared] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)


class _Tree:
    def __init__(self, sources: dict[str, bytes]) -> None:
        self.sources = sources
        self._modules: dict[str, _Module] = {}
        self._carriers = _carriers(sources)

    def reached(self, path: str) -> list[str]:
        """Return the file, its conftests and helpers as far as assets may be in them."""
        above = [f"{folder}/conftest.py".removeprefix("./") for folder in _folders(path)]
        todo = [name for name in (path, *above) if name in self._carriers]
        found: list[str] = []
        while todo:
            name = todo.pop(0)
            if name not in found:
                found.append(name)
                todo += self.module(name).imports
        return found

    def module(self, name: str) -> _Module:
        """Return a carrier, parsed once."""
        if name not in self._modules:
            self._modules[name] = self._read(name)
        return self._modules[name]

    def _read(self, name: str) -> _Module:
        data = self.sources[name]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # remarks on escapes are not ours to print
                body = ast.parse(data).body
        except PARSER_ERRORS:
            return _Module()
        made = _calls(name, data, body)
        made.imports = [path for path in self._imports(name, body) if path in self._carriers]
        return made

    def _imports(self, name: str, body: list[ast.stmt]) -> Iterator[str]:
        here = str(PurePosixPath(name).parent)
        for statement in body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Import):
                    for item in node.names:
                        yield from self._resolve(_folders(name), item.name)
                elif isinstance(node, ast.ImportFrom):
                    base = PurePosixPath(here, *[".."] * max(0, node.level - 1))
                    folders = [os.path.normpath(base)] if node.level else _folders(name)
                    for item in node.names:
                        dotted = f"{node.module}.{item.name}" if node.module else item.name
                        yield from self._resolve(folders, dotted)

    def _resolve(self, folders: Sequence[str], dotted: str) -> Iterator[str]:
        """Yield the files of the packages on the way and of the module, from the nearest folder."""
        parts = dotted.split(".")
        for folder in folders:
            found = [
                path
                for count in range(1, len(parts) + 1)
                for stem in ["/".join([*([] if folder == "." else [folder]), *parts[:count]])]
                for path in (f"{stem}.py", f"{stem}/__init__.py")
                if path in self.sources
            ]
            if found:
                yield from found
                return


def _folders(path: str) -> list[str]:
    """Return the folder of a file and those above it, up to the project's, which is `.`."""
    return [str(folder) for folder in PurePosixPath(path).parents]


def _carriers(sources: dict[str, bytes]) -> set[str]:
    """Return the files that may declare an asset, or import a module that may.

    A module's own name stands in the text of whatever imports it.
    """
    found = {name for name, data in sources.items() if _MENTION in data}
    fresh = found
    while fresh:
        words = b"|".join(sorted(re.escape(_stem(name).encode()) for name in fresh))
        named = re.compile(rb"\b(?:" + words + rb")\b")
        fresh = {n for n, data in sources.items() if n not in found and named.search(data)}
        found |= fresh
    return found


def _stem(name: str) -> str:
    path = PurePosixPath(name)
    return path.parent.name if path.name == "__init__.py" else path.stem


def _calls(name: str, data: bytes, body: list[ast.stmt]) -> _Module:
    made = _Module()
    if _MENTION not in data:
        return made
    found = find(body, {}, ASSETS)
    if found.aliases:
        found = find(body, found.aliases, ASSETS)
    for misuse in found.misuses:
        place = place_of(name, data, misuse.node)
        made.problems.append(_problem(place, misuse.found, misuse.allowed, misuse.todo))
    for call in sorted(found.calls, key=lambda call: (call.node.lineno, call.node.col_offset)):
        place = place_of(name, data, call.node)
        asset, complaints = assetcalls.asset(call.node)
        if asset is not None:
            made.declared.append(
                Declared(path=name, line=place.line, column=place.column, asset=asset)
            )
        made.problems += [
            _problem(place, f"{call.written}() {item.found}", item.allowed, item.todo)
            for item in complaints
        ]
    return made


def _problem(place: tuple[str, int, int], found: str, allowed: str, todo: str) -> Problem:
    path, line, column = place
    return Problem(
        path=path,
        line=line,
        column=column,
        found=found,
        allowed=allowed,
        todo=todo,
        rule="asset",
    )
