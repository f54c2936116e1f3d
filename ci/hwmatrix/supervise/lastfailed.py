"""What failed last, in pytest's own cache: `pytest --lf` goes on where a session ended.

The tests' processes present themselves as workers, which pytest's cache takes as a reason to write
nothing. So it is written once, at the end, from the journal, by the rules of pytest's own plugin
(`_pytest/cacheprovider.py`): a call that passed or a skip takes an entry away, a failure in any
phase makes one, and so does what could not be collected. A test that took its process with it
counts as failed; what was not run keeps its entry.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix import journal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Line = Mapping[str, object]

NAME = "v/cache/lastfailed"  # below the project's `cache_dir`

# What pytest puts into a new cache folder: version control and backups leave it alone.
_SUPPORT = {
    ".gitignore": "*\n",
    "CACHEDIR.TAG": "Signature: 8a477f597d28d172789f06886806bc55\n",  # bford.info/cachedir
}


def update(run_folder: Path, files: Mapping[str, Sequence[str]]) -> None:
    """Bring the caches up to date with the run; `files` are those of each unit.

    Tests of folders with configurations of their own may have a cache each.

    Raises:
        OSError: the journal cannot be read, or a cache cannot be written.
    """
    lines = sorted(journal.read(run_folder), key=lambda line: float(str(line.get("time", 0))))
    caches = {
        str(line["unit"]): str(line["cache"]) for line in lines if line.get("cache") is not None
    }
    for cache in sorted(set(caches.values()) - {""}):
        path = Path(cache) / NAME
        before = _read(path)
        mine = [line for line in lines if caches.get(str(line.get("unit"))) == cache]
        after = failed(before, mine, files)
        if after != before:
            _write(Path(cache), after)


def failed(
    before: Mapping[str, bool], lines: Iterable[Line], files: Mapping[str, Sequence[str]]
) -> dict[str, bool]:
    """Return what failed last, given what did so `before` and the journal's lines in order."""
    known = dict(before)
    for line in lines:
        kind, name = line["$report_type"], str(line.get("nodeid"))
        if kind == "UnitCollected":
            _collected(known, [str(test) for test in _list(line["tests"])])
        elif kind == "CollectReport":
            if line["outcome"] == "failed":
                known[name] = True
            else:
                known.pop(name, None)
        elif kind == "UnitEnd":
            if line["cause"] in {"crashed", "budget"}:
                culprits = [line["test"]] if line["test"] else files.get(str(line["unit"]), ())
                known |= dict.fromkeys(map(str, culprits), True)
        elif "when" in line and "outcome" in line:
            _reported(known, name, line)
    return known


def _reported(known: dict[str, bool], name: str, line: Line) -> None:
    if line["outcome"] == "failed":
        known[name] = True
    elif line["outcome"] == "skipped" or line["when"] == "call":
        known.pop(name, None)


def _collected(known: dict[str, bool], tests: Sequence[str]) -> None:
    """A file that could not be collected and now was: its tests are to be tried instead."""
    found = set(tests)
    for name in [name for name in known if name not in found]:
        inside = [test for test in tests if test.startswith(f"{name}::")]
        if inside:
            del known[name]
            known |= dict.fromkeys(inside, True)


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _read(path: Path) -> dict[str, bool]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # as pytest does
    return {str(k): bool(v) for k, v in found.items()} if isinstance(found, dict) else {}


def _write(cache: Path, known: Mapping[str, bool]) -> None:
    path = cache / NAME
    if not cache.is_dir():
        cache.mkdir(parents=True)
        for name, text in _SUPPORT.items():
            (cache / name).write_text(text, encoding="utf-8")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.hwmatrix")
    temporary.write_text(json.dumps(known, ensure_ascii=False, indent=2), encoding="utf-8")
    temporary.replace(path)  # a reader sees the old one or the new one
