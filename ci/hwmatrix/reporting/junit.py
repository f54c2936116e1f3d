"""junit.xml as Jenkins, GitLab and GitHub's readers take it: one testsuite per unit.

Beside the tests there is a case of its own for each unit that has no test to tell of it, and for
each reason for red that belongs to no unit: a reader that knows only this file sees them too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from hwmatrix.model import Outcome
from hwmatrix.reporting.failures import detail_limit
from hwmatrix.reporting.longrepr import shorten
from hwmatrix.reporting.screen import clean
from hwmatrix.reporting.verdict import run_reasons, where

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hwmatrix.reporting.result import Report, TestResult, UnitResult

# Outside XML 1.0's Char production, besides what `clean` takes away.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Which element an outcome becomes: a failure is the test's own verdict, an error is not.
_ELEMENT = {
    Outcome.FAILED: "failure",
    Outcome.CRASHED: "error",
    Outcome.TIMED_OUT: "error",
    Outcome.NOT_RUN: "error",
    Outcome.SKIPPED: "skipped",
    Outcome.DESELECTED: "skipped",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One `testcase`; `element` is failure, error, skipped or empty for a pass."""

    classname: str
    name: str
    file: str
    element: str = ""
    outcome: Outcome = Outcome.PASSED
    message: str = ""
    detail: str = ""
    output: str = ""
    seconds: float = 0.0
    line: int = 0


def junit_xml(report: Report) -> str:
    """Return the text of junit.xml."""
    suites = [(unit, cases(unit)) for unit in report.units]
    limit = detail_limit(report.units)
    extra = _run_cases(report)
    root = ET.Element("testsuites", {"name": _text(report.plan.session), **_numbers(report)})
    for unit, found in suites:
        element = _suite(root, unit.unit.id, found, seconds=unit.seconds, started=_started(unit))
        _properties(element, report, unit)
        for case in found:
            _case(element, case, limit)
    if extra:
        element = _suite(root, "hwmatrix", extra, seconds=0.0, started=report.ended)
        for case in extra:
            _case(element, case, limit)
    ET.indent(root)
    body = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{body}\n'


def totals(report: Report) -> dict[str, int]:
    """Return the counts of junit.xml: tests, failures, errors, skipped."""
    found = [case for unit in report.units for case in cases(unit)] + _run_cases(report)
    return _count(found)


def cases(unit: UnitResult) -> list[Case]:
    """Return the cases of a unit: its tests, or itself where no test shows how it ended."""
    found = [_test_case(test) for test in unit.tests]
    if not found or (unit.is_red and not unit.red_tests):
        path = where(unit)
        module = _module(unit.unit.files[0]) if unit.unit.files else unit.unit.suite
        found.append(
            Case(
                classname=module,
                name="the file as a whole",
                file=path,
                # An import that fails is no test's failure: readers list it under errors.
                element=_ELEMENT[Outcome.CRASHED] if unit.is_red else _ELEMENT[unit.outcome],
                outcome=unit.outcome,
                message=unit.reason,
                detail=unit.tail,
            )
        )
    return found


def _run_cases(report: Report) -> list[Case]:
    return [
        Case(
            classname="hwmatrix",
            name=f"the run as a whole ({number})",
            file="",
            element="error",
            outcome=Outcome.FAILED,
            message=reason,
        )
        for number, reason in enumerate(run_reasons(report.verdict, report.units), start=1)
    ]


def _test_case(test: TestResult) -> Case:
    file, _, rest = test.id.partition("::")
    head, bracket, params = rest.partition("[")
    *classes, name = head.split("::")
    return Case(
        classname=".".join([_module(file), *classes]),
        name=f"{name}{bracket}{params}" or test.id,
        file=file,
        element=_ELEMENT.get(test.outcome, ""),
        outcome=test.outcome,
        message=test.reason,
        detail=test.detail,
        output=test.output,
        seconds=test.seconds,
        line=test.line,
    )


def _module(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".")


def _count(found: Sequence[Case]) -> dict[str, int]:
    return {
        "tests": len(found),
        "failures": sum(case.element == "failure" for case in found),
        "errors": sum(case.element == "error" for case in found),
        "skipped": sum(case.element == "skipped" for case in found),
    }


def _numbers(report: Report) -> dict[str, str]:
    counts = {key: str(value) for key, value in totals(report).items()}
    return {**counts, "time": f"{report.seconds:.3f}"}


def _suite(
    root: ET.Element, name: str, found: Sequence[Case], *, seconds: float, started: float
) -> ET.Element:
    at = datetime.fromtimestamp(started, tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    counts = {key: str(value) for key, value in _count(found).items()}
    attributes = {"name": _text(name), **counts, "time": f"{seconds:.3f}", "timestamp": at}
    return ET.SubElement(root, "testsuite", attributes)


def _started(unit: UnitResult) -> float:
    return unit.spans[0].started if unit.spans else 0.0


def _properties(element: ET.Element, report: Report, unit: UnitResult) -> None:
    values = {
        "session": report.plan.session,
        "suite": unit.unit.suite,
        "outcome": unit.outcome.value,
        "reason": unit.reason,
        "estimate_s": f"{unit.unit.est_s:g}",
        "budget_s": f"{unit.unit.budget_s:g}",
        "slot": "" if unit.slot is None else str(unit.slot),
        "flaky": "true" if unit.flaky else "",
    }
    holder = ET.SubElement(element, "properties")
    for name, value in values.items():
        if value:
            ET.SubElement(holder, "property", {"name": name, "value": _text(value)})


def _case(parent: ET.Element, case: Case, limit: int) -> None:
    attributes = {
        "classname": _text(case.classname),
        "name": _text(case.name),
        "time": f"{case.seconds:.3f}",
    }
    if case.file:
        attributes["file"] = _text(case.file)
    if case.line:
        attributes["line"] = str(case.line)
    element = ET.SubElement(parent, "testcase", attributes)
    if case.element:
        found = ET.SubElement(element, case.element, {"message": _text(case.message)})
        found.set("type", case.outcome.value)
        found.text = _text(shorten(case.detail, limit)) or _text(case.message)
    if case.output:
        ET.SubElement(element, "system-out").text = _text(shorten(case.output, limit))


def _text(words: str) -> str:
    return _ILLEGAL.sub("", clean(words))
