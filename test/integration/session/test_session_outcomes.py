"""Files that break in six ways: each is named as what it is, and the rest goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from test.integration.session.conftest import Project

BAD = {
    "test_broken_import.py": "import no_such_package\ndef test_a():\n    pass\n",
    "test_segv.py": "import ctypes\ndef test_a():\n    pass\n"
    "def test_b():\n    ctypes.string_at(0)\ndef test_c():\n    pass\n",
    "test_exit.py": "import os\ndef test_a():\n    os._exit(0)\ndef test_b():\n    pass\n",
    # All signals blocked and the GIL held: only the budget ends it.
    "test_hang.py": "import ctypes, signal\ndef test_a():\n"
    "    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n"
    "    ctypes.PyDLL(None).sleep(600)\ndef test_b():\n    pass\n",
    "test_empty.py": "VALUE = 1\n",
    "test_skips.py": "import pytest\n@pytest.mark.skip(reason='no such chip')\ndef test_a():\n"
    "    pass\n@pytest.mark.skip(reason='no such chip')\ndef test_b():\n    pass\n",
}
GOOD = "def test_a():\n    pass\ndef test_b():\n    pass\n"
# file -> (outcome of the unit, what its reason says, outcomes of its tests)
EXPECTED = {
    "test_broken_import.py": ("failed", "No module named 'no_such_package'", {}),
    "test_segv.py": ("crashed", "SIGSEGV", {"passed": 2, "crashed": 1}),
    "test_exit.py": ("crashed", "status 0", {"crashed": 1, "passed": 1}),
    # The budget is the whole file's: what it left no time for did not run.
    "test_hang.py": ("timed out", "test_a", {"timed out": 1, "not run": 1}),
    "test_empty.py": ("failed", "ran nothing: no tests collected", {}),
    "test_skips.py": ("skipped", "ran nothing: all 2 tests skipped", {"skipped": 2}),
}


def check(project: Project, name: str) -> None:
    unit = next(u for u in project.report()["units"] if u["files"][0].endswith(name))
    outcome, reason, tests = EXPECTED[name]
    assert unit["outcome"] == outcome, unit
    assert reason in unit["reason"], unit
    found: dict[str, int] = {}
    for test in unit["tests"]:
        found[test["outcome"]] = found.get(test["outcome"], 0) + 1
    assert found == tests, unit


@pytest.mark.parametrize("name", sorted(BAD))
def test_a_bad_file_alone_is_red(project: Project, name: str) -> None:
    project.file(name, BAD[name])
    if name == "test_hang.py":
        project.hurry()
    ended = project.session("cpu-stage-b")
    assert ended.status == 1, ended.err
    check(project, name)
    assert project.report()["verdict"]["green"] is False
    assert "RED" in ended.err
    assert name in ended.err


def test_bad_files_together_with_good_ones(project: Project) -> None:
    project.hurry()
    for name, body in BAD.items():
        project.file(name, body)
    project.file("test_good.py", GOOD)
    project.file("test_also_good.py", GOOD)
    ended = project.session("cpu-stage-b", "--json")
    assert ended.status == 1, ended.err
    for name in BAD:
        check(project, name)
    assert project.outcomes()["test_good.py"][0] == "passed"
    assert project.outcomes()["test_also_good.py"][0] == "passed"
    report = project.report()
    assert report["verdict"]["units"] == {
        "passed": 2,
        "failed": 2,
        "crashed": 2,
        "timed out": 1,
        "skipped": 1,
    }
    assert report["verdict"]["tests"] == {
        "passed": 7,
        "crashed": 2,
        "timed out": 1,
        "skipped": 2,
        "not run": 1,
    }
    assert str(report["plan_hash"]) in ended.out
    suites = project.junit()
    assert {k: int(suites.attrib[k]) for k in ("tests", "failures", "errors", "skipped")} == (
        report["junit"]
    )
    cases = list(suites.iter("testcase"))
    assert len(cases) == report["junit"]["tests"]
    assert sum(case.find("skipped") is not None for case in cases) == 2
    broken = [
        case for case in cases if case.find("error") is not None or case.find("failure") is not None
    ]
    assert len(broken) == 6  # import, crash, exit, hang and what it left no time for, empty


def test_good_files_are_green(project: Project) -> None:
    project.file("test_good.py", GOOD)
    ended = project.session("cpu-stage-b")
    assert ended.status == 0, ended.err
    assert "GREEN" in ended.err
    assert project.outcomes() == {"test_good.py": ("passed", "")}


def test_a_skipping_file_beside_a_good_one_is_told_and_green(project: Project) -> None:
    project.file("test_good.py", GOOD)
    project.file("test_skips.py", BAD["test_skips.py"])
    ended = project.session("cpu-stage-b")
    assert ended.status == 0, ended.err
    assert "ran nothing: all 2 tests skipped" in ended.err.replace("\n", " ").replace("  ", " ")


def test_the_verdict_can_be_told_again_later(project: Project) -> None:
    project.file("test_good.py", GOOD)
    project.file("test_empty.py", BAD["test_empty.py"])
    assert project.session("cpu-stage-b").status == 1
    before = project.report()
    again = project.hwmatrix("report", "latest")
    assert again.status == 1
    assert project.report() == before
