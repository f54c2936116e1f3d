"""The one command that runs it again, quoted for a shell."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from hwmatrix.model import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hwmatrix.reporting.result import Report, TestResult, UnitResult

# A line that people still copy; past it, or past so many tests of one file, files stand for tests.
_LONGEST = 1500
_MOST_TESTS = 5
_SUITE = "--suite"
# Options that pick tests: they have no place beside the test that is named.
_PICKS = ("-k", "-m", "--deselect", "--lf", "--last-failed", "--ff", "--failed-first", "--sw")
_PICKS_WITH_VALUE = ("-k", "-m", "--deselect")


def session_words(name: str, *, nox: bool) -> tuple[str, ...]:
    """Return the words that start session `name`, through nox or without it."""
    return ("nox", "-s", name) if nox else ("python", "-m", "hwmatrix", "session", name)


def session_options(
    *,
    suites: Sequence[str] = (),
    no_venv: bool = False,
    overlay: str = "",
    slots: int | None = None,
    continue_on_error: bool = False,
) -> tuple[str, ...]:
    """Return the options that a part of the session needs too, as words of its command."""
    return (
        *(word for suite in suites for word in (_SUITE, suite)),
        *(["--no-venv"] if no_venv else []),
        *(["--overlay", overlay] if overlay else []),
        *(["--slots", str(slots)] if slots else []),
        *(["--continue-on-error"] if continue_on_error else []),
    )


def reproduce(
    report: Report, unit: UnitResult | None = None, test: TestResult | None = None
) -> str:
    """Return the command that runs the whole run, one unit or one test again."""
    plan = report.plan
    if unit is None:
        shard = ["--shard", f"{plan.shard}/{plan.shards}"] if plan.shards > 1 else []
        paths = _dict(file for u in plan.units for file in u.selectors) if plan.deselected else []
        return _command(report, [*shard, *paths, *report.spec.pytest_args])
    targets = [test.id] if test is not None else _targets(unit)
    return _command(report, [*_suite_of(report, [unit]), *targets, *_args(report)])


def reproduce_red(report: Report) -> str:
    """Return the command that runs all that did not end well again; '' when all did."""
    red = [unit for unit in report.units if unit.is_red]
    if not red:
        return ""
    lead, args = _suite_of(report, red), _args(report)
    command = _command(report, [*lead, *_dict(t for u in red for t in _targets(u)), *args])
    if len(command) > _LONGEST:
        files = _dict(file for unit in red for file in unit.unit.files)
        command = _command(report, [*lead, *files, *args])
    return command


def _command(report: Report, args: Sequence[str]) -> str:
    spec = report.spec
    lead = spec.command or session_words(spec.plan.session, nox=True)
    options = list(spec.options)
    if _SUITE in args:  # these units' own suites, in place of all that were asked for
        while _SUITE in options:
            at = options.index(_SUITE)
            del options[at : at + 2]
    words = [*options, *args]
    # All behind nox's `--` is the session's; the command itself needs no such mark.
    mark = ["--"] if words and lead[0] == "nox" else []
    return " ".join(shlex.quote(word) for word in [*lead, *mark, *words])


def _targets(unit: UnitResult) -> list[str]:
    """Return the tests that failed, or the files where that says less than the whole.

    A test that never ran says nothing of itself, so a file with nothing worse runs as a whole.
    """
    red = [test.id for test in unit.red_tests if test.outcome is not Outcome.NOT_RUN]
    covers = all("::" in test for test in red)
    return (
        red
        if red and covers and len(red) <= _MOST_TESTS
        else list(unit.unit.selectors or unit.unit.files)
    )


def _suite_of(report: Report, units: Sequence[UnitResult]) -> list[str]:
    """Return `--suite NAME` where the session has a file of these units in another suite too."""
    names = {unit.unit.suite for unit in units}
    files = {file for unit in units for file in unit.unit.files}
    others = any(
        unit.suite not in names and files.intersection(unit.files) for unit in report.plan.units
    )
    return [word for name in sorted(names) for word in (_SUITE, name)] if others else []


def _args(report: Report) -> list[str]:
    """Return the run's own pytest arguments without those that pick tests."""
    kept: list[str] = []
    skip = False
    for arg in report.spec.pytest_args:
        if skip:
            skip = False
        elif arg in _PICKS_WITH_VALUE:
            skip = True
        elif arg.split("=")[0] not in _PICKS and not _glued(arg):
            kept.append(arg)
    return kept


def _glued(arg: str) -> bool:
    return len(arg) > 2 and arg[:2] in {"-k", "-m"}  # noqa: PLR2004 - `-kEXPR` is one word


def _dict(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))
