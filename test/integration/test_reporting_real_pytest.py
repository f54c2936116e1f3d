"""Real pytest reports, as pytest-reportlog writes them, come to the outcomes that pytest counts."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from hwmatrix import codec
from hwmatrix.journal import Journal
from hwmatrix.model import Backend, Outcome, Plan, RunSpec, Slot, Unit
from hwmatrix.reporting import Report, build
from hwmatrix.reporting.junit import junit_xml

if TYPE_CHECKING:
    from pathlib import Path

SAMPLE = """
import unittest

import pytest


def test_ok():
    pass


@pytest.mark.parametrize("x", ["a.b", "c::d", "[e]"])
def test_parametrised(x):
    pass


def test_fails():
    assert 1 == 2, "one is not two"


@pytest.mark.skip(reason="no gpu")
def test_skipped():
    pass


def test_skips_itself():
    pytest.skip("too old")


@pytest.mark.xfail(reason="bug 1")
def test_expected_failure():
    assert 0


@pytest.mark.xfail(reason="bug 2", strict=True)
def test_strict_unexpected_pass():
    pass


@pytest.mark.xfail(reason="bug 3", strict=False)
def test_unexpected_pass():
    pass


@pytest.fixture
def breaks_after():
    yield
    raise RuntimeError("after")


@pytest.fixture
def breaks_before():
    raise RuntimeError("before")


def test_teardown_error(breaks_after):
    pass


def test_setup_error(breaks_before):
    pass


def test_chained():
    try:
        raise ValueError("inner")
    except ValueError as error:
        raise RuntimeError("outer") from error


def test_subtests(subtests):
    with subtests.test("fp8", i=1):
        assert 0, "sub"
    with subtests.test("fp16"):
        pass


class TestCase(unittest.TestCase):
    def test_unittest_subtests(self):
        for i in range(2):
            with self.subTest(i=i):
                self.assertEqual(i, 0)

    @unittest.skip("nope")
    def test_unittest_skip(self):
        pass

    @unittest.expectedFailure
    def test_unittest_expected(self):
        raise AssertionError
"""

EXPECTED = {
    "test_ok": (Outcome.PASSED, ""),
    "test_parametrised[a.b]": (Outcome.PASSED, ""),
    "test_parametrised[c::d]": (Outcome.PASSED, ""),
    "test_parametrised[[e]]": (Outcome.PASSED, ""),
    "test_fails": (Outcome.FAILED, "AssertionError: one is not two"),
    "test_skipped": (Outcome.SKIPPED, "no gpu"),
    "test_skips_itself": (Outcome.SKIPPED, "too old"),
    "test_expected_failure": (Outcome.PASSED, "expected failure: bug 1"),
    "test_strict_unexpected_pass": (Outcome.FAILED, "[XPASS(strict)] bug 2"),
    "test_unexpected_pass": (Outcome.PASSED, "passed though expected to fail: bug 3"),
    "test_teardown_error": (Outcome.FAILED, "in teardown: RuntimeError: after"),
    "test_setup_error": (Outcome.FAILED, "in setup: RuntimeError: before"),
    "test_chained": (Outcome.FAILED, "RuntimeError: outer"),
    "test_subtests": (Outcome.FAILED, "subtest fp8 (i=1): AssertionError: sub"),
    "TestCase::test_unittest_subtests": (
        Outcome.FAILED,
        "subtest (i=1): AssertionError: 1 != 0",
    ),
    "TestCase::test_unittest_skip": (Outcome.SKIPPED, "nope"),
    "TestCase::test_unittest_expected": (Outcome.PASSED, "expected failure: no reason given"),
}


def run_pytest(folder: Path, name: str, source: str, *args: str) -> tuple[Report, int]:
    """Run plain pytest on a file and return our report of what pytest-reportlog wrote."""
    (folder / name).write_text(source, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n")
    log = folder / "log.jsonl"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly"]
    command += [f"--report-log={log}", "--junitxml=pytest.xml", "-q", *args, name]
    ended = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    unit = Unit(
        id=name,
        suite="s",
        files=(name,),
        selectors=(name,),
        est_s=1.0,
        test_limit_s=30.0,
        budget_s=100.0,
        devices=1,
        shard=1,
    )
    plan = Plan(
        session="cpu-stage-b",
        backend=Backend.CPU,
        variant="cpu",
        tier="stage-b",
        suites=("s",),
        units=(unit,),
        shard=1,
        shards=1,
        hash="h",
    )
    spec = RunSpec(
        run_id="r",
        plan=plan,
        root=str(folder),
        folder=str(folder),
        python=sys.executable,
        slots=(Slot(index=0, devices=()),),
    )
    (folder / "plan.json").write_text(codec.dumps(spec))
    write_journal(folder, name, log, ended.returncode, tail=ended.stdout)
    return build(folder), ended.returncode


def write_journal(folder: Path, name: str, log: Path, status: int, *, tail: str) -> None:
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    tests = [line["nodeid"] for line in lines if line["$report_type"].endswith("TestReport")]
    journal = Journal(folder, "worker")
    keys = {"unit": name, "attempt": 1, "part": 1}
    journal.write("RunStart", plan_hash="h")
    journal.write("UnitStart", slot=0, **keys)
    journal.write("UnitCollected", tests=list(dict.fromkeys(tests)), deselected=0, **keys)
    for line in lines:
        kind = line.pop("$report_type")
        if kind in {"TestReport", "SubTestReport", "WarningMessage"} or (
            kind == "CollectReport" and line["outcome"] != "passed"
        ):
            journal.write(kind, **{**line, **keys})
    end = {"cause": "finished", "exit_status": status, "test": None, "seconds": 1.0, "tail": tail}
    journal.write("UnitEnd", **keys, **end)
    journal.write("RunEnd", exit_status=int(status != 0), reason=None)
    journal.close()


def test_every_kind_of_report(tmp_path: Path) -> None:
    report, _ = run_pytest(tmp_path, "test_sample.py", SAMPLE)
    (unit,) = report.units
    assert {test.name: (test.outcome, test.reason) for test in unit.tests} == EXPECTED
    assert unit.outcome is Outcome.FAILED
    details = {test.name: test.detail for test in unit.tests}
    assert "direct cause of the following exception" in details["test_chained"]
    assert 'assert 1 == 2, "one is not two"' in details["test_fails"]


def test_names_are_those_of_pytests_own_junit_file(tmp_path: Path) -> None:
    report, _ = run_pytest(tmp_path, "test_sample.py", SAMPLE)

    def names(root: ET.Element) -> set[tuple[str | None, str | None]]:
        return {(case.get("classname"), case.get("name")) for case in root.iter("testcase")}

    own = names(ET.fromstring(junit_xml(report)))
    theirs = names(ET.parse(tmp_path / "pytest.xml").getroot())
    # pytest adds a case of its own for each subtest that did not pass.
    assert own == {pair for pair in theirs if pair in own}
    assert len(theirs - own) <= 2


@pytest.mark.parametrize(
    ("source", "args", "outcome", "reason"),
    [
        (
            "import nowhere_to_be_found",
            (),
            Outcome.FAILED,
            "cannot be imported: ModuleNotFoundError: No module named 'nowhere_to_be_found'",
        ),
        ("def f(:", (), Outcome.FAILED, "cannot be imported: SyntaxError: invalid syntax"),
        ("x = 1", (), Outcome.FAILED, "ran nothing: no tests collected"),
        (
            "import pytest\npytest.skip('no triton', allow_module_level=True)",
            (),
            Outcome.SKIPPED,
            "ran nothing: the file skips itself (no triton)",
        ),
        (
            "def test_a(): pass",
            ("--no-such-option",),
            Outcome.FAILED,
            "pytest refused its arguments (exit status 4)",
        ),
        (
            "def test_a(): raise KeyboardInterrupt",
            (),
            Outcome.FAILED,
            "KeyboardInterrupt; 1 of 1 test not run: test_a",
        ),
    ],
)
def test_files_that_run_nothing(
    tmp_path: Path, source: str, args: tuple[str, ...], outcome: Outcome, reason: str
) -> None:
    (tmp_path / "log.jsonl").touch()
    report, status = run_pytest(tmp_path, "test_bad.py", source, *args)
    assert status != 0
    assert report.units[0].outcome is outcome
    assert reason in report.units[0].reason
    assert not report.verdict.green
