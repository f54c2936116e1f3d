"""Gate rows and suites held against each other, both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwmatrix.errors import Problem
from hwmatrix.gate.conditions import BY_HAND

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hwmatrix.model import GateRule, Matrix, Suite


def unreached(matrix: Matrix) -> tuple[Problem, ...]:
    """Return suites that no gate row reaches, and gate rows that reach no suite, by line.

    A row that waits for a person (dispatches and calls alone) counts for a suite only where it
    names it: one row for everything by hand would otherwise hide what runs nowhere by itself.
    Nothing where the table has no gate row: another CI may start its sessions.
    """
    if not matrix.gates:
        return ()
    return tuple(sorted([*_suites(matrix), *_rules(matrix)], key=lambda problem: problem.line))


def _reaches(rule: GateRule, suite: Suite) -> bool:
    return (
        (not rule.backends or suite.backend in rule.backends)
        and (not rule.tiers or suite.tier in rule.tiers)
        and (not rule.suites or suite.name in rule.suites)
    )


def _starts(rule: GateRule, suite: Suite) -> bool:
    waits = BY_HAND.issuperset(rule.events) and suite.name not in rule.suites
    return _reaches(rule, suite) and not waits


def _suites(matrix: Matrix) -> Iterator[Problem]:
    for suite in matrix.suites:
        if not any(_starts(rule, suite) for rule in matrix.gates):
            yield Problem(
                path=matrix.path,
                line=suite.line,
                found=f"{suite.backend} suite {suite.name!r} is started by no [[gate]] row, so CI "
                "never runs it.",
                allowed="A row for dispatches alone counts only for the suites that it names.",
                todo=f"Add {suite.tier!r} or {suite.backend.value!r} to a row, or a row for it.",
                rule="gate",
            )


def _rules(matrix: Matrix) -> Iterator[Problem]:
    for rule in matrix.gates:
        if not any(_reaches(rule, suite) for suite in matrix.suites):
            yield Problem(
                path=matrix.path,
                line=rule.line,
                found=f"gate row {rule.name!r} reaches no suite, so it never starts anything.",
                allowed="Its backends, tiers and suites must have a suite in common.",
                todo="Mend or remove it.",
                rule="gate",
            )
