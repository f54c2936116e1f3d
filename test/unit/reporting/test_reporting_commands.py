from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hwmatrix.reporting import (
    build,
    reproduce,
    reproduce_red,
    session_options,
    session_words,
)

if TYPE_CHECKING:
    from test.unit.reporting.conftest import FakeRun, Maker

    from hwmatrix.model import Unit


def fail(run: FakeRun, unit: Unit, *tests: str) -> None:
    part = run.part(unit)
    part.start()
    part.collected("test_good", *tests)
    part.test("test_good")
    for test in tests:
        part.test(test, "failed", why="E: x")
    part.end(exit_status=1)


def test_failed_tests_are_named_and_quoted(make: Maker) -> None:
    unit = make.unit("a")
    run = make.run(unit)
    fail(run, unit, "test_x", "test_y[a b'c]")
    report = build(run.folder)
    path = "test/registered/test_a.py"
    assert reproduce(report, report.units[0]) == (
        f"nox -s cpu-stage-b -- {path}::test_x '{path}::test_y[a b'\"'\"'c]'"
    )
    assert reproduce(report, report.units[0], report.units[0].tests[1]) == (
        f"nox -s cpu-stage-b -- {path}::test_x"
    )


def test_many_failed_tests_become_their_file(make: Maker) -> None:
    unit = make.unit("a")
    run = make.run(unit)
    fail(run, unit, *(f"test_{number}" for number in range(6)))
    report = build(run.folder)
    assert reproduce(report, report.units[0]) == "nox -s cpu-stage-b -- test/registered/test_a.py"


def test_unit_without_a_red_test_is_its_selectors(make: Maker) -> None:
    unit = make.unit("a", selectors=("test/registered/test_a.py::TestX",))
    report = build(make.run(unit).folder)
    command = "nox -s cpu-stage-b -- test/registered/test_a.py::TestX"
    assert reproduce(report, report.units[0]) == command


def test_all_red_units_in_one_command(make: Maker) -> None:
    a, b, c = make.unit("a"), make.unit("b"), make.unit("c")
    run = make.run(a, b, c)
    fail(run, a, "test_x")
    run.good(b, "test_y")
    report = build(run.folder)
    assert reproduce_red(report) == (
        "nox -s cpu-stage-b -- test/registered/test_a.py::test_x test/registered/test_c.py"
    )


def test_nothing_red_needs_no_command(make: Maker) -> None:
    unit = make.unit("a")
    run = make.run(unit)
    run.good(unit, "test_x")
    assert reproduce_red(build(run.folder)) == ""


def test_command_that_grows_too_long_names_files(make: Maker) -> None:
    units = [make.unit(f"n{number}") for number in range(9)]
    run = make.run(*units)
    for unit in units:
        fail(run, unit, *(f"test_{'x' * 60}_{number}" for number in range(3)))
    command = reproduce_red(build(run.folder))
    assert "::" not in command
    assert command.count("test/registered/") == 9


def test_file_of_two_suites_names_its_suite(make: Maker) -> None:
    a = make.unit("a")
    other = make.unit("a", id="other:a", suite="other")
    report = build(make.run(a, other).folder)
    assert reproduce(report, report.units[1]) == (
        "nox -s cpu-stage-b -- --suite other test/registered/test_a.py"
    )


@pytest.mark.parametrize(
    ("args", "kept"),
    [
        (("-k", "fp8", "-x"), " -x"),
        (("-kfp8", "--tb=short"), " --tb=short"),
        (("--deselect=a", "--lf"), ""),
        (("-m", "slow", "-k", "x"), ""),
    ],
)
def test_pytest_arguments_stay_unless_they_pick(
    make: Maker, args: tuple[str, ...], kept: str
) -> None:
    report = build(make.run(make.unit("a"), pytest_args=args).folder)
    command = f"nox -s cpu-stage-b -- test/registered/test_a.py{kept}"
    assert reproduce(report, report.units[0]) == command


def test_whole_run(make: Maker) -> None:
    unit = make.unit("a")
    assert reproduce(build(make.run(unit).folder)) == "nox -s cpu-stage-b"
    plan = {"shard": 1, "shards": 4, "deselected": (("x.py", "not given"),)}
    report = build(make.run(unit, plan=plan, pytest_args=("-k", "a or b")).folder)
    assert reproduce(report) == (
        "nox -s cpu-stage-b -- --shard 1/4 test/registered/test_a.py -k 'a or b'"
    )


OVERLAID = session_options(no_venv=True, overlay="a dir")


def test_options_of_a_session() -> None:
    assert session_options() == ()
    assert OVERLAID == ("--no-venv", "--overlay", "a dir")
    assert session_options(suites=("s", "t"), slots=2, continue_on_error=True) == (
        "--suite",
        "s",
        "--suite",
        "t",
        "--slots",
        "2",
        "--continue-on-error",
    )


@pytest.mark.parametrize(
    ("nox", "lead", "whole"),
    [
        (True, "nox -s cpu-stage-b --", "nox -s cpu-stage-b"),
        (False, *["python -m hwmatrix session cpu-stage-b"] * 2),
    ],
)
def test_command_is_the_one_that_was_given(
    make: Maker, *, nox: bool, lead: str, whole: str
) -> None:
    words = session_words("cpu-stage-b", nox=nox)
    unit = make.unit("a")
    report = build(make.run(unit, command=words, options=OVERLAID).folder)
    command = f"{lead} --no-venv --overlay 'a dir'"
    assert reproduce(report) == command
    assert reproduce(report, report.units[0]) == f"{command} test/registered/test_a.py"
    assert reproduce_red(report) == f"{command} test/registered/test_a.py"
    assert reproduce(build(make.run(unit, command=words).folder)) == whole


def test_suites_asked_for_are_repeated_once(make: Maker) -> None:
    a = make.unit("a")
    other = make.unit("a", id="other:a", suite="other")
    options = session_options(suites=(make.suite, "other"), no_venv=True)
    report = build(make.run(a, other, options=options).folder)
    assert reproduce(report) == (
        f"nox -s cpu-stage-b -- --suite {make.suite} --suite other --no-venv"
    )
    assert reproduce(report, report.units[1]) == (
        "nox -s cpu-stage-b -- --no-venv --suite other test/registered/test_a.py"
    )
