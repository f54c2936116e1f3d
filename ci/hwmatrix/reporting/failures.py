"""What failed in a unit, for people: tests that failed for one reason stand together."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hwmatrix.model import Outcome
from hwmatrix.reporting.screen import clean, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hwmatrix.reporting.result import TestResult, UnitResult

_NAMED = 3
_EXCERPT = 8
_FATAL = "Fatal Python error"
# Reasons (said.py) that the unit's own reason gives with the test's name.
_NAMED_BY_UNIT = ("KeyboardInterrupt in it", "pytest.exit was called in it")
_EXPLAINED = ("cannot be imported", "cannot be collected")
# What pytest prints before and around the tests of a file: titles, settings, a line of dots.
_HEADING = re.compile(
    r"=+ .* =+$|platform |(rootdir|configfile|plugins|cachedir|hypothesis profile|timeout.*?): "
    r"|collect(ed|ing) |\S+\.py [.sxXFERp]*\s*(\[ *\d+%\])?$"
)
_DETAIL = 24_000
_ALL_DETAILS = 8_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Tests of one unit with one outcome and one reason, in order of collection."""

    tests: tuple[TestResult, ...]
    text: str

    def title(self, name: Callable[[TestResult], str]) -> str:
        """Return the first tests, each as `name` writes it, and how many more there are."""
        first = ", ".join(name(test) for test in self.tests[:_NAMED])
        rest = len(self.tests) - _NAMED
        return f"{first} and {rest} more" if rest > 0 else first


def groups(unit: UnitResult) -> list[Group]:
    """Return the red tests that say more than their unit's reason, those of one reason together.

    Not run says nothing of a test, and the unit's reason names the one that ran at the end.
    """
    found: dict[str, list[TestResult]] = {}
    for test in unit.red_tests:
        if _tells_more(test):
            outcome = "" if test.outcome is Outcome.FAILED else f"{test.outcome}: "
            found.setdefault(f"{outcome}{test.reason or 'no reason given'}", []).append(test)
    return [Group(tests=tuple(tests), text=text) for text, tests in found.items()]


def _tells_more(test: TestResult) -> bool:
    if test.reason.startswith(_NAMED_BY_UNIT):
        return False
    if test.outcome is Outcome.FAILED or test.detail:
        return True
    return test.outcome is Outcome.TIMED_OUT and "budget" not in test.reason


def excerpt(unit: UnitResult) -> list[str]:
    """Return the telling lines of a process that did not end in order, at most eight.

    From "Fatal Python error" on, where that stands: the innermost frames come first there. Else
    the last lines, without pytest's own headings. None where a report already gives the reason.
    """
    if unit.outcome is Outcome.FAILED and any(word in unit.reason for word in _EXPLAINED):
        return []
    lines = [line for line in clean(unit.tail).splitlines() if line.strip()]
    start = next((n for n, line in enumerate(lines) if _FATAL in line), None)
    if start is not None:
        first = lines[start][lines[start].index(_FATAL) :]
        return [first, *lines[start + 1 :]][:_EXCERPT]
    return [line for line in lines if not _HEADING.match(line)][-_EXCERPT:]


def detail_limit(units: Sequence[UnitResult]) -> int:
    """Return how many characters of text one red test may have, so that a file stays readable.

    A build that breaks thousands of tests must not make reports that no reader takes.
    """
    red = sum(len(unit.red_tests) for unit in units)
    return max(500, min(_DETAIL, _ALL_DETAILS // max(1, red)))


def below(path: str, root: str) -> str:
    """Return `path` relative to the project's root where it lies below it."""
    return path.removeprefix(f"{root.rstrip('/')}/")


def never_started(units: Sequence[UnitResult]) -> dict[str, list[UnitResult]]:
    """Return the units without any process by the reason for it: after a stop they are many."""
    found: dict[str, list[UnitResult]] = {}
    for unit in units:
        if unit.outcome is Outcome.NOT_RUN and not unit.spans:
            found.setdefault(unit.reason, []).append(unit)
    return found


def more(many: int, noun: str) -> str:
    """Return `and 3 more tests`, or nothing for none."""
    return f"and {plural(many, f'more {noun}')}" if many > 0 else ""
