"""What failed last, in pytest's own cache: `pytest --lf` goes on where a session ended.

The tests' processes present themselves as workers, which pytest's cache takes as a reason to write
nothing. So it is written once, at the end, from the journal, by the rules of pytest's own plugin
(`_pytest/cacheprovider.py`): a call that passed or a skip takes an entry away, a failure in any
phase makes one, and so does what could not be collected. A test that took its process with it
counts as failed. Beyond pytest's rules, so does a file that was not run, or in which no test was
found: pytest would not know of it, and `--lf` would pass it over.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix import journal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Line = Mapping[str, object]

_WITH_TESTS = (0, 1)  # pytest's exit statuses after which tests are known
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
    # What was not collected goes where most of the others do.
    usual = [cache for cache, _ in Counter(caches.values()).most_common(1)]
    caches = {**{unit: cache for cache in usual for unit in files}, **caches}
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
    told: set[object] = set()  # units of which it is known why no test of theirs ran
    for line in lines:
        kind, name, unit = line["$report_type"], str(line.get("nodeid")), line.get("unit")
        if kind == "UnitCollected":
            _collected(known, [str(test) for test in _list(line["tests"])])
            told |= {unit} if line.get("deselected") else set()
        elif kind == "CollectReport":
            _reported(known, name, {**line, "when": "call"})
            told.add(unit)
        elif kind in {"UnitEnd", "UnitNotRun"}:
            known |= dict.fromkeys(_culprits(line, files, told=unit in told), True)
        elif "when" in line and "outcome" in line:
            _reported(known, name, line)
    return known


def _culprits(line: Line, files: Mapping[str, Sequence[str]], *, told: bool) -> Sequence[str]:
    """Return what the end of a unit makes failed: the test that ended it, or all of its files."""
    whole = files.get(str(line["unit"]), ())
    if line["$report_type"] == "UnitNotRun":
        return whole
    if line["cause"] == "finished":
        return () if told or line.get("exit_status", 0) in _WITH_TESTS else whole
    if line["cause"] in {"crashed", "budget"}:
        return [str(line["test"])] if line["test"] else whole
    return ()


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
