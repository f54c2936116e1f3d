"""Reasons come from the line in which pytest says why it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hwmatrix.model import Outcome
from hwmatrix.reporting import build, render, reproduce
from hwmatrix.reporting.said import cause, ended_by, last_line, plain_exit

if TYPE_CHECKING:
    from test.unit.reporting.conftest import Maker

    from hwmatrix.reporting import UnitResult

# What pytest 9 wrote, shortened.
HEAD = """\
============================= test session starts ==============================
platform linux -- Python 3.11.7, pytest-9.2.0, pluggy-1.7.0
collected 3 items

test/registered/test_a.py .

"""
INTERRUPT = """\
!!!!!!!!!!!!!!!!!!!!!!!!!!!!!! KeyboardInterrupt !!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!
/project/test/registered/test_a.py:4: KeyboardInterrupt
(to show a full traceback on KeyboardInterrupt use --full-trace)
============================== 1 passed in 4.93s ===============================
"""
EXIT = """\
!!!!!!!!!!!!!!!!!!!!!!!!!! _pytest.outcomes.Exit: bye !!!!!!!!!!!!!!!!!!!!!!!!!!
============================== 1 passed in 2.80s ===============================
"""
EXIT_7 = """\
============================ no tests ran in 1.61s =============================
!!!!!!!!!!!!!!!!!!!!!!!!! _pytest.outcomes.Exit: bye !!!!!!!!!!!!!!!!!!!!!!!!!!
"""
UNKNOWN = """\
ERROR: usage: python -m pytest [options] [file_or_dir] [file_or_dir] [...]
python -m pytest: error: unrecognized arguments: --no-such
  inifile: /project/pyproject.toml
  rootdir: /project

"""
EXPRESSION = """\
============================ no tests ran in 0.89s =============================
ERROR: Wrong expression passed to '-k': x(: at column 3: expected identifier; got end of input

"""
INTERRUPTED = "Interrupted: 1 error during collection"
PLUGIN = "ERROR: Error importing plugin \"nosuch\": No module named 'nosuch'\n\n"


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        (UNKNOWN, "unrecognized arguments: --no-such"),
        (
            EXPRESSION,
            (
                "Wrong expression passed to '-k': x(: at column 3: expected identifier; got end of "
                "input"
            ),
        ),
        (PLUGIN, "Error importing plugin \"nosuch\": No module named 'nosuch'"),
        (INTERRUPT, "KeyboardInterrupt"),
        (
            "!!! Interrupted: 1 error during collection !!!\n=== 1 error in 3 s ===",
            INTERRUPTED,
        ),
        (f"!!! {INTERRUPTED} !!!\nlater output", INTERRUPTED),
        ("some words\n=== 1 passed in 3 s ===\n", "some words"),
        ("=== 1 passed in 3 s ===\n", ""),
        ("some words\n1 passed, 2 warnings in 0.03s\n", "some words"),
        ("no tests ran in 2.67s\n", ""),
        ("", ""),
        ("x" * 400, "x" * 300),
    ],
)
def test_cause(tail: str, expected: str) -> None:
    assert cause(tail, refused=True) == expected


def test_error_of_a_test_is_not_pytests() -> None:
    assert cause(f"x.c:3: error: no semicolon\n!!! {INTERRUPTED} !!!") == INTERRUPTED


@pytest.mark.parametrize(
    ("tail", "test", "expected"),
    [
        (INTERRUPT, "test_k", "KeyboardInterrupt in test_k"),
        (INTERRUPT, "", "KeyboardInterrupt"),
        (EXIT, "test_k", "pytest.exit was called in test_k: bye"),
        ("!!! _pytest.outcomes.Exit:  !!!", "", "pytest.exit was called"),
        ("!!! Interrupted: 1 error during collection !!!", "", ""),
        ("KeyboardInterrupt", "", ""),
    ],
)
def test_ended_by(tail: str, test: str, expected: str) -> None:
    assert ended_by(tail, test) == expected


def test_small_ones() -> None:
    assert last_line("a\n b \n\n") == "b"
    assert last_line("") == ""
    assert plain_exit("_pytest.outcomes.Exit: bye") == "pytest.exit: bye"
    assert plain_exit("E: x") == "E: x"


def ended(make: Maker, tail: str, status: int, *, running: str = "") -> UnitResult:
    unit = make.unit("a")
    run = make.run(unit)
    run.start()
    part = run.part(unit)
    part.start()
    if running:
        part.collected("test_a", running, "test_z")
        part.test("test_a")
        part.test_start(running)
        part.report(running, "setup")
    test = part.id(running) if running else None
    part.end(exit_status=status, tail=HEAD + tail, test=test)
    run.end(status)
    return build(run.folder).units[0]


@pytest.mark.parametrize(
    ("tail", "status", "why"),
    [
        (INTERRUPT, 2, "KeyboardInterrupt in {}"),
        (EXIT, 2, "pytest.exit was called in {}: bye"),
        (EXIT_7, 7, "pytest.exit was called in {}: bye"),
    ],
)
def test_who_ended_pytest_is_named(make: Maker, tail: str, status: int, why: str) -> None:
    unit = ended(make, tail, status, running="TestK::test_k")
    named = why.format("TestK::test_k")
    assert unit.outcome is Outcome.FAILED
    assert unit.reason == f"{named}; 1 of 3 tests not run: test_z"
    assert [(test.outcome, test.reason) for test in unit.tests] == [
        (Outcome.PASSED, ""),
        (Outcome.FAILED, why.format("it")),
        (Outcome.NOT_RUN, f"pytest was ended before it: {named}"),
    ]
    report = build(make.runs[-1].folder)
    assert " in it" not in render(report)
    assert reproduce(report, unit).endswith("test_a.py::TestK::test_k")


def test_exit_between_tests(make: Maker) -> None:
    assert ended(make, EXIT, 2).reason == "pytest.exit was called: bye"


def test_words_in_the_output_of_a_good_run_mean_nothing(make: Maker) -> None:
    unit = make.unit("a")
    run = make.run(unit)
    run.start()
    part = run.part(unit)
    part.start()
    part.collected("test_a")
    part.test("test_a")
    part.end(exit_status=0, tail=INTERRUPT)
    run.end()
    assert build(run.folder).verdict.green


def test_exit_while_collecting(make: Maker) -> None:
    unit = make.unit("a")
    run = make.run(unit)
    run.start()
    part = run.part(unit)
    part.start()
    long = "test_a.py:4: in <module>\nE   _pytest.outcomes.Exit: bye"
    part.write("CollectReport", nodeid=unit.files[0], outcome="failed", longrepr=long)
    part.end(exit_status=2, tail="!!! Interrupted: 1 error during collection !!!")
    assert build(run.folder).units[0].reason == "cannot be imported: pytest.exit: bye"


def test_refused_arguments(make: Maker) -> None:
    assert ended(make, UNKNOWN, 4).reason == (
        "pytest refused its arguments (exit status 4): unrecognized arguments: --no-such"
    )
