"""How a test ended, from its reports in one process and from how that process ended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hwmatrix.model import Outcome
from hwmatrix.reporting.ledger import Trace, count, is_subtest, number, text
from hwmatrix.reporting.longrepr import detail, place, reason, shorten
from hwmatrix.reporting.result import RED, TestResult, worst

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hwmatrix.reporting.ledger import Line

OUTPUT_LIMIT = 16_000
# The property in which a test's measured values travel; hwmatrix.kit.measure writes it.
MEASURED = "hwmatrix_measurement"
_OUTCOMES = {outcome.value: outcome for outcome in Outcome}


@dataclass(frozen=True, kw_only=True, slots=True)
class Fate:
    """What a process's end means for the test that was running in it, or that it never reached."""

    outcome: Outcome
    reason: str


def judge(test: str, trace: Trace, *, interrupted: Fate | None, unreached: Fate) -> TestResult:
    """Return how `test` ended in the process that left `trace`.

    `interrupted` is set when the process ended while this test ran; `unreached` tells why a test
    without a closing report has none.
    """
    subtests = [report for report in trace.reports if is_subtest(report)]
    tries = _tries([report for report in trace.reports if not is_subtest(report)])
    final = tries[-1] if tries else []
    result = _from_reports(test, final)
    if subtests:
        result = _with_subtests(result, subtests)
    for once in tries[:-1]:
        # pytest-rerunfailures calls a failure that it repeats `rerun`; a plain failure stays one.
        if not any(report.get("outcome") == "rerun" for report in once):
            result = _worse(result, _from_reports(test, once))
    if interrupted is not None:
        result = _worse(result, _fated(test, interrupted))
    elif trace.open or not final:
        result = _worse(result, _fated(test, unreached))
    elif _lacks_call(final):
        lost = Fate(outcome=Outcome.NOT_RUN, reason="the journal holds no report of its call")
        result = _worse(result, _fated(test, lost))
    if len(tries) <= 1 and result.outcome not in RED:
        return result
    flaky = len(tries) > 1 and result.outcome is Outcome.PASSED
    return replace(result, tries=max(1, len(tries)), flaky=flaky, output=_output(trace, result))


def _fated(test: str, fate: Fate) -> TestResult:
    return TestResult(id=test, outcome=fate.outcome, reason=fate.reason)


def _worse(one: TestResult, other: TestResult) -> TestResult:
    """Return `one` with the graver outcome of both; equal outcomes keep the first reason."""
    outcome = worst(one.outcome, other.outcome)
    if outcome is one.outcome:
        return one
    return replace(
        one,
        outcome=outcome,
        reason=other.reason,
        detail=other.detail or one.detail,
        place=other.place or one.place,
    )


def _tries(reports: Sequence[Line]) -> list[list[Line]]:
    """Split reports into tries: each setup after a teardown begins another."""
    tries: list[list[Line]] = []
    for report in reports:
        if not tries or report.get("when") == "setup":
            tries.append([])
        tries[-1].append(report)
    return tries


def _lacks_call(reports: Sequence[Line]) -> bool:
    phases = {text(report.get("when")): text(report.get("outcome")) for report in reports}
    if "setup" not in phases:
        return True
    return phases["setup"] == "passed" and "call" not in phases


def _from_reports(test: str, reports: Sequence[Line]) -> TestResult:
    location = reports[0].get("location") if reports else None
    result = TestResult(
        id=test,
        outcome=Outcome.PASSED,
        reason=next((_expectation(report) for report in reports if "wasxfail" in report), ""),
        seconds=sum(number(report.get("duration")) for report in reports),
        line=count(location[1]) + 1 if isinstance(location, list) and len(location) > 1 else 0,
        measurements=_measurements(reports),
    )
    for report in reports:
        if report.get("outcome") != "passed" or "hw_outcome" in report:
            result = _worse(result, _phase(test, report))
    return result


def _measurements(reports: Sequence[Line]) -> tuple[Mapping[str, object], ...]:
    """Return what the test measured; each later report of a try holds those of the earlier too."""
    for report in reversed(reports):
        pairs = report.get("user_properties")
        found = [
            pair[1]
            for pair in (pairs if isinstance(pairs, list) else [])
            if isinstance(pair, list) and pair[:1] == [MEASURED] and isinstance(pair[-1], dict)
        ]
        if found:
            return tuple(found)
    return ()


def _expectation(report: Line) -> str:
    """Return why a pass is no plain one: an expected failure, or an unexpected pass."""
    why = text(report.get("wasxfail")).removeprefix("reason: ")
    if report.get("outcome") == "skipped":
        return f"expected failure: {why or 'no reason given'}"
    return f"passed though expected to fail: {why or 'no reason given'}"


def _phase(test: str, report: Line) -> TestResult:
    found = text(report.get("outcome"))
    longrepr = report.get("longrepr")
    # `rerun` is pytest-rerunfailures' word for a failure; an unknown word is no pass either.
    outcome = Outcome.PASSED if found == "passed" else Outcome.FAILED
    if found == "skipped":
        outcome = Outcome.PASSED if "wasxfail" in report else Outcome.SKIPPED
    special = _OUTCOMES.get(text(report.get("hw_outcome")))
    if special is not None:
        outcome = worst(outcome, special)
    if outcome is Outcome.PASSED:
        return TestResult(id=test, outcome=outcome)
    why = reason(longrepr) or f"{found or 'no outcome'} without a reason"
    when = text(report.get("when"))
    if when in {"setup", "teardown"} and outcome in RED:
        why = f"in {when}: {why}"
    return TestResult(
        id=test, outcome=outcome, reason=why, detail=detail(longrepr), place=place(longrepr)
    )


def _with_subtests(result: TestResult, reports: Sequence[Line]) -> TestResult:
    """Return `result` with its subtests counted in: one that failed fails the test.

    A failed subtest's message says more than pytest's own "contains 1 failed subtest".
    """
    failed = [report for report in reports if _phase(result.id, report).outcome in RED]
    result = replace(result, subtests=len(reports))
    if not failed:
        return result
    whys = [f"subtest {subtest_name(r)}: {_phase(result.id, r).reason}" for r in failed]
    more = f" (and {len(whys) - 1} more subtests)" if len(whys) > 1 else ""
    return replace(
        result,
        outcome=worst(result.outcome, Outcome.FAILED),
        reason=whys[0] + more,
        place=place(failed[0].get("longrepr")),
        detail="\n\n".join(detail(r.get("longrepr")) for r in failed[:5]),
    )


def subtest_name(report: Line) -> str:
    """Return a subtest's message and values, `?` when it has neither."""
    context = report.get("_subtest.context")
    if not isinstance(context, dict):
        return "?"
    message = text(context.get("msg"))
    values = context.get("kwargs")
    inner = ", ".join(f"{k}={v}" for k, v in values.items()) if isinstance(values, dict) else ""
    return " ".join(part for part in (message, f"({inner})" if inner else "") if part) or "?"


def _output(trace: Trace, result: TestResult) -> str:
    """Return what a test that did not pass wrote (its last report holds all sections)."""
    if result.outcome not in RED:
        return ""
    for report in reversed(trace.reports):
        sections = report.get("sections")
        if isinstance(sections, list) and sections:
            pairs = [s for s in sections if isinstance(s, list) and len(s) == 2]  # noqa: PLR2004 - [title, text]
            whole = "\n".join(f"--- {pair[0]} ---\n{pair[1]}" for pair in pairs)
            return shorten(whole, OUTPUT_LIMIT)
    return ""
