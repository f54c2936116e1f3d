"""One way to write the table, so that two people's changes meet in one place and diffs stay small.

The rules are few, and a comment is never in their way:

1. Top-level keys and tables stand in the order of the model: version, project, budget, backend,
   tier, runner, suite, gate, ci.
2. Backends, and suites by backend, stand in the order of `Backend`; a backend's variants follow
   it, and the suites of a backend stand in the order of their tiers.
3. Keys of a table stand in the order of the model; rows under `[runner]`, `[[gate]]` rows and
   those in tables whose keys people choose (`env`, variants) are free.
4. Lines end with a line feed alone, without blanks before it; the file ends with one line feed;
   no tabs; one blank line at most; no blanks before a key or header, one on each side of its
   equals sign.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hwmatrix.errors import Problem
from hwmatrix.matrix.check import spell
from hwmatrix.matrix.positions import find_positions
from hwmatrix.matrix.spec import Rows, Table, Tables
from hwmatrix.matrix.table import TABLE
from hwmatrix.model import Backend

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hwmatrix.matrix.positions import KeyPath, Positions
    from hwmatrix.matrix.spec import Spec
    from hwmatrix.model import Matrix

_FIRST_COLUMN = "Begin it at the first column."
_BACKENDS = tuple(member.value for member in Backend)


def canonical(text: str, matrix: Matrix) -> tuple[Problem, ...]:
    """Return what is out of its place in `text`, which `matrix` was read from, by line."""
    positions = find_positions(text)
    order = _document_order(positions)
    found = [*_spacing(text, positions), *_table_order(order), *_suite_order(order, matrix)]
    problems = [
        Problem(path=matrix.path, line=line, found=message, todo=todo, rule="canonical")
        for line, message, todo in found
    ]
    return tuple(sorted(problems, key=lambda problem: (problem.line, problem.found)))


_Found = tuple[int, str, str]  # line, what was found, what to do


def _document_order(positions: Positions) -> list[tuple[KeyPath, int]]:
    """Return every key with its line, in the order in which the file first gives it."""
    placed = sorted(positions.keys.items(), key=lambda item: (item[1].line, item[1].column))
    return [(path, position.line) for path, position in placed]


def _table_order(order: Iterable[tuple[KeyPath, int]]) -> Iterable[_Found]:
    """Yield keys that stand after one which should follow them, table by table."""
    last: dict[KeyPath, tuple[int, str]] = {}
    for path, line in order:
        ranks = _ranks(path[:-1])
        key = path[-1]
        if not isinstance(key, str) or key not in ranks:
            continue
        rank, before = last.get(path[:-1], (-1, ""))
        if ranks[key] < rank:
            yield line, f"{spell(path)} stands after {before!r}.", f"Move it above {before!r}."
        else:
            last[path[:-1]] = (ranks[key], key)


def _ranks(path: KeyPath) -> Mapping[str, int]:
    """Return the place of each key in the table at `path`; nothing where the order is free."""
    spec: Spec = TABLE
    for part in path:
        if isinstance(spec, Table) and part in spec.fields:
            spec = spec.fields[str(part)].spec
        elif isinstance(spec, (Rows, Tables)):
            spec = spec.value
        else:
            return {}
    if isinstance(spec, Table):
        return {key: rank for rank, key in enumerate(spec.fields)}
    by_backend = isinstance(spec, Rows) and spec.key.choices == _BACKENDS
    return {name: rank for rank, name in enumerate(_BACKENDS)} if by_backend else {}


def _suite_order(order: Sequence[tuple[KeyPath, int]], matrix: Matrix) -> Iterable[_Found]:
    """Yield suites that stand after one of a later tier of the same backend."""
    lines = dict(order)
    tiers = {name: rank for rank, name in enumerate(matrix.tiers)}
    last: dict[Backend, tuple[int, str]] = {}
    for suite in matrix.suites:
        rank, before = last.get(suite.backend, (-1, ""))
        if tiers[suite.tier] < rank:
            line = lines["suite", suite.backend.value, suite.name]
            found = (
                f"suite {suite.name!r} of {suite.tier!r} stands after {before!r} of a later tier."
            )
            yield line, found, "Sort the suites of a backend by tier."
        else:
            last[suite.backend] = (tiers[suite.tier], suite.name)


def _spacing(text: str, positions: Positions) -> Iterable[_Found]:
    """Yield lines that end, begin or are spaced in another way."""
    blank = 0
    for line, raw in enumerate(text.split("\n"), start=1):
        if raw.endswith("\r"):
            yield line, "the line ends with a carriage return.", "Save with Unix line ends."
        elif raw != raw.rstrip():
            yield line, "the line ends with blanks.", "Remove them."
        if "\t" in raw:
            yield line, "the line holds a tab.", "Use spaces."
        blank = 0 if raw.strip() else blank + 1
        if blank == 2:  # noqa: PLR2004 - the second of two in a row
            yield line, "there are two blank lines in a row.", "Keep one."
    if not text.endswith("\n"):
        yield text.count("\n") + 1, "the file does not end with a line feed.", "Add one."
    yield from _key_spacing(text.split("\n"), positions)


def _key_spacing(lines: Sequence[str], positions: Positions) -> Iterable[_Found]:
    """Yield keys and headers that do not begin their line or lack one blank beside their sign."""
    for path, position in positions.keys.items():
        raw = lines[position.line - 1]
        before = raw[: position.column - 1]
        if path in positions.headers:
            if not raw.startswith("["):
                yield position.line, f"[{spell(path)}] is indented.", _FIRST_COLUMN
            continue
        if isinstance(path[-1], int) or before.strip() or "=" in spell(path):
            continue  # elements, inner keys of inline tables, and keys that hold the sign itself
        if before:
            yield position.line, f"{spell(path)} is indented.", _FIRST_COLUMN
        if not re.match(r"[^=]*[^\s=] = \S", raw):
            yield position.line, f"{spell(path)} is not written as `key = value`.", "Space it so."
