"""The cache of failures follows pytest's own rules."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix.journal import Journal
from hwmatrix.supervise import lastfailed

if TYPE_CHECKING:
    from pathlib import Path

FILES = {"a.py": ("a.py",), "group": ("b.py", "c.py")}


def collected(*tests: str, unit: str = "a.py", cache: str = "") -> dict[str, Any]:
    return {"$report_type": "UnitCollected", "unit": unit, "tests": list(tests), "cache": cache}


def report(test: str, outcome: str, when: str = "call") -> dict[str, Any]:
    return {
        "$report_type": "TestReport",
        "unit": "a.py",
        "nodeid": test,
        "outcome": outcome,
        "when": when,
    }


def ended(cause: str, test: str | None, unit: str = "a.py", exit_status: int = 0) -> dict[str, Any]:
    return {
        "$report_type": "UnitEnd",
        "unit": unit,
        "cause": cause,
        "test": test,
        "exit_status": exit_status,
    }


NOT_RUN = {"$report_type": "UnitNotRun", "unit": "a.py", "reason": "infrastructure"}
SKIPPED = {"$report_type": "CollectReport", "unit": "a.py", "nodeid": "a.py", "outcome": "skipped"}


@pytest.mark.parametrize(
    ("before", "lines", "after"),
    [
        ((), [report("a.py::t", "failed")], {"a.py::t"}),
        ((), [report("a.py::t", "failed", "setup")], {"a.py::t"}),
        (("a.py::t",), [report("a.py::t", "passed")], set()),
        (("a.py::t",), [report("a.py::t", "passed", "setup")], {"a.py::t"}),
        (("a.py::t",), [report("a.py::t", "passed", "teardown")], {"a.py::t"}),
        (("a.py::t",), [report("a.py::t", "skipped", "setup")], set()),
        ((), [report("a.py::t", "passed"), report("a.py::t", "failed", "teardown")], {"a.py::t"}),
        # A second attempt decides.
        ((), [report("a.py::t", "failed"), report("a.py::t", "passed")], set()),
        ((), [ended("crashed", "a.py::t")], {"a.py::t"}),
        ((), [ended("budget", "a.py::t")], {"a.py::t"}),
        ((), [ended("crashed", None, "group")], {"b.py", "c.py"}),
        (("a.py::t",), [ended("stopped", "a.py::u")], {"a.py::t"}),
        ((), [ended("finished", None)], set()),
        (("a.py",), [collected("a.py::t", "a.py::u")], {"a.py::t", "a.py::u"}),
        (("a.py::t", "z.py"), [collected("a.py::t")], {"a.py::t", "z.py"}),
        (("a.py",), [collected()], {"a.py"}),
        # Red without a test: pytest's rules would pass it over.
        ((), [NOT_RUN], {"a.py"}),
        ((), [collected(), ended("finished", None, exit_status=5)], {"a.py"}),
        ((), [ended("finished", None, exit_status=4)], {"a.py"}),
        ((), [SKIPPED, ended("finished", None, exit_status=5)], set()),
        ((), [{**collected(), "deselected": 2}, ended("finished", None, exit_status=5)], set()),
    ],
)
def test_rules(before: tuple[str, ...], lines: list[dict[str, Any]], after: set[str]) -> None:
    assert set(lastfailed.failed(dict.fromkeys(before, True), lines, FILES)) == after


@pytest.mark.parametrize(("outcome", "after"), [("failed", {"a.py"}), ("skipped", set())])
def test_what_was_not_collected(outcome: str, after: set[str]) -> None:
    line = {"$report_type": "CollectReport", "nodeid": "a.py", "outcome": outcome}
    assert set(lastfailed.failed({"a.py": True}, [line], FILES)) == after
    assert set(lastfailed.failed({}, [line], FILES)) == after


def test_each_configuration_has_its_cache(tmp_path: Path) -> None:
    run, one, two = (tmp_path / name for name in ("run", "one", "two"))
    journal = Journal(run, "gw0-1")
    for unit, cache in (("a.py", one), ("b.py", two), ("c.py", "")):
        journal.write("UnitCollected", unit=unit, tests=[f"{unit}::t"], cache=str(cache))
        keys = {**report(f"{unit}::t", "failed"), "unit": unit}
        journal.write(keys.pop("$report_type"), **keys)
    journal.close()
    lastfailed.update(run, {})
    for folder, name in ((one, "a.py::t"), (two, "b.py::t")):
        assert json.loads((folder / lastfailed.NAME).read_text()) == {name: True}
        assert (folder / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f59")
        assert (folder / ".gitignore").read_text() == "*\n"


def test_a_cache_is_made_only_when_there_is_something_to_say(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    journal = Journal(tmp_path, "gw0-1")
    journal.write("UnitCollected", unit="a.py", tests=["a.py::t"], cache=str(cache))
    journal.close()
    lastfailed.update(tmp_path, FILES)
    assert not cache.exists()
    cache.mkdir()
    (cache / "v").mkdir()
    (cache / "v/cache").mkdir()
    (cache / lastfailed.NAME).write_text("not JSON")
    lastfailed.update(tmp_path, FILES)
    assert (cache / lastfailed.NAME).read_text() == "not JSON"


@pytest.mark.parametrize("text", ["[1, 2]", "nothing", ""])
def test_a_cache_that_is_something_else_is_made_anew(tmp_path: Path, text: str) -> None:
    path = tmp_path / lastfailed.NAME
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert lastfailed._read(path) == {}
