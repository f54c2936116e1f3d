from __future__ import annotations

import json
import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hwmatrix.reporting import Report, build, render, write_all
from hwmatrix.reporting.build import assemble
from hwmatrix.reporting.json_report import report_json
from hwmatrix.reporting.junit import junit_xml
from hwmatrix.reporting.ledger import Ledger
from hwmatrix.reporting.summary import summary_md
from hwmatrix.reporting.timeline import timeline_html

if TYPE_CHECKING:
    from pathlib import Path

    from test.unit.reporting.conftest import FakeRun, Maker


def matters(line: dict[str, Any]) -> bool:
    """Whether the verdict cannot do without `line`: a later attempt stands for an earlier one."""
    earlier = line.get("attempt") == 1 and line.get("unit", "").endswith("test_c.py")
    needed = {"UnitStart", "UnitEnd"} if earlier else None
    kind = line["$report_type"]
    return kind in needed if needed else kind not in {"WarningMessage", "TestStart"}


def green_run(make: Maker) -> FakeRun:
    """Return a green run with everything that a green run can hold: a retry, a skip, subtests."""
    units = [make.unit(name) for name in ("a", "b", "c", "d")]
    a, b, c, d = units
    run = make.run(*units)
    run.start()
    run.good(a, "test_1", "test_2")
    part = run.part(b, slot=1)
    part.start()
    part.collected("test_1", "TestX::test_2[é]")
    part.test("test_1", "skipped", why="no gpu")
    part.test("TestX::test_2[é]", "skipped", wasxfail="bug")
    part.write("WarningMessage", message="old")
    part.end()
    part = run.part(c, slot=1)
    part.start()
    part.collected("test_1")
    part.test("test_1", "failed", why="OSError: port taken")
    part.end(exit_status=1)
    part = run.part(c, slot=0, attempt=2)
    part.start()
    part.collected("test_1")
    part.test("test_1")
    part.end()
    part = run.part(d, slot=0)
    part.start()
    part.collected("test_1")
    part.test("test_1", "skipped", why="no")
    part.end()
    run.end(1)
    run.close()
    return run


@pytest.fixture
def original(make: Maker) -> FakeRun:
    run = green_run(make)
    assert build(run.folder).verdict.green
    return run


def with_journal(original: FakeRun, files: dict[str, bytes]) -> Path:
    """Return a folder with the plan of `original` and the given journal."""
    folder = original.folder.with_name("copy")
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "journal").mkdir(parents=True)
    shutil.copy(original.folder / "plan.json", folder)
    for name, content in files.items():
        (folder / "journal" / name).write_bytes(content)
    return folder


def contents(run: FakeRun) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted((run.folder / "journal").glob("*.jsonl"))}


def all_lines(files: dict[str, bytes]) -> list[dict[str, Any]]:
    return [parse(raw) for content in files.values() for raw in content.splitlines()]


def accounts_for_all(report: Report, lines: list[dict[str, Any]]) -> None:
    """Assert that each planned unit and each test that the journal knows stands there once."""
    assert [r.unit.id for r in report.units] == [u.id for u in report.plan.mine]
    tests = Counter(test.id for unit in report.units for test in unit.tests)
    assert set(tests.values()) <= {1}
    known = {unit.id for unit in report.plan.mine}
    for line in lines:
        if line.get("$report_type") == "UnitCollected" and line.get("unit") in known:
            assert set(line["tests"]) <= tests.keys()


def parse(raw: bytes) -> dict[str, Any]:
    try:
        value = json.loads(raw)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


SETTINGS = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


class TestJournalsThatLost:
    """Whatever survives of a journal: no exception, each unit once, green only if all is there."""

    @SETTINGS
    @given(data=st.data())
    def test_the_ends_of_files(self, original: FakeRun, data: st.DataObject) -> None:
        whole = contents(original)
        files = {}
        for name, content in whole.items():
            cut = st.one_of(st.just(len(content)), st.integers(0, len(content)), st.none())
            length = data.draw(cut, label=name)
            if length is not None:
                files[name] = content[:length]
        report = build(with_journal(original, files))
        accounts_for_all(report, all_lines(files))
        # A file that only lacks its last line break has lost nothing.
        lost = any(whole[n].rstrip(b"\n") != files.get(n, b"").rstrip(b"\n") for n in whole)
        assert report.verdict.green is not lost
        assert bool(report.verdict.reasons) is lost

    @SETTINGS
    @given(data=st.data())
    def test_any_lines(self, original: FakeRun, data: st.DataObject) -> None:
        lines = all_lines(contents(original))
        gone = data.draw(st.sets(st.integers(0, len(lines) - 1), max_size=6))
        kept = [line for number, line in enumerate(lines) if number not in gone]
        report = assemble(original.spec, Ledger(kept))
        accounts_for_all(report, kept)
        assert report.verdict.green is not any(matters(lines[number]) for number in gone)

    @settings(SETTINGS, max_examples=15)
    @given(data=st.data())
    def test_every_screen_and_file_is_made(self, original: FakeRun, data: st.DataObject) -> None:
        whole = contents(original)
        files = {n: c[: data.draw(st.integers(0, len(c)), label=n)] for n, c in whole.items()}
        folder = with_journal(original, files)
        report = build(folder)
        width = data.draw(st.integers(60, 200))
        assert report.verdict.word.upper() in render(report, width)
        for path in write_all(report, folder):
            assert path.stat().st_size > 0


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
KEYS = [
    "time",
    "attempt",
    "part",
    "slot",
    "tests",
    "deselected",
    "test",
    "nodeid",
    "outcome",
    "when",
    "longrepr",
    "sections",
    "duration",
    "cause",
    "exit_status",
    "signal",
    "seconds",
    "killed",
    "tail",
    "limit_s",
    "reason",
    "devices",
    "log",
    "location",
    "wasxfail",
    "hw_outcome",
    "plan_hash",
    "text",
    "_subtest.context",
    "unit",
    "path",
    "line",
]


class TestJournalsOfAnotherShape:
    """Any JSON value under any key: no exception, and each unit once."""

    @SETTINGS
    @given(data=st.data())
    def test_foreign_values(self, original: FakeRun, data: st.DataObject) -> None:
        lines = all_lines(contents(original))
        for number in data.draw(st.sets(st.integers(0, len(lines) - 1), max_size=6)):
            lines[number][data.draw(st.sampled_from(KEYS))] = data.draw(json_values)
        report = assemble(original.spec, Ledger(lines))
        assert [r.unit.id for r in report.units] == [u.id for u in report.plan.mine]
        render(report)
        for make_text in (report_json, junit_xml, summary_md, timeline_html):
            assert make_text(report)
