"""How a unit ended, from all that the journal tells of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hwmatrix.model import Outcome
from hwmatrix.reporting import parts as parts_
from hwmatrix.reporting.ledger import UnitRecord, count, moment, number, text, texts
from hwmatrix.reporting.result import RED, SEVERITY, Span, TestResult, UnitResult, worst
from hwmatrix.reporting.tests import judge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hwmatrix.model import Unit
    from hwmatrix.reporting.ledger import Part
    from hwmatrix.reporting.parts import Finding, RunState

# How many test names one line of a reason lists.
NAMED = 3


def judge_unit(unit: Unit, record: UnitRecord | None, state: RunState) -> UnitResult:
    """Return how `unit` ended. Never raises, whatever the record lacks; nothing is assumed.

    Tests: the latest attempt that collected a test decides; within an attempt the gravest of its
    processes. The unit: the gravest of its tests and of what its processes came to.
    """
    if record is None or not record.parts:
        why = parts_.never_started(record.not_run if record else "", state)
        return UnitResult(unit=unit, outcome=Outcome.NOT_RUN, reason=why)
    attempts = _by_attempt(record.ordered())
    results = [_judge_attempt(parts, record.not_run, state) for parts in attempts]
    tests = _merge(results)
    findings = [*_gaps(record), *results[-1].findings, *_contradiction(record, results[-1])]
    outcome, reason = _conclude(tests, findings, results[-1].deselected)
    spans = tuple(_span(part, state) for part in record.ordered())
    flaky = outcome is Outcome.PASSED and (
        any(attempt.verdict()[0] is not Outcome.NOT_RUN for attempt in results[:-1])
        or any(test.flaky for test in tests.values())
    )
    return UnitResult(
        unit=unit,
        outcome=outcome,
        reason=reason,
        tests=tuple(tests.values()),
        spans=spans,
        seconds=sum(_seconds(part) for part in attempts[-1]),
        flaky=flaky,
        deselected=results[-1].deselected,
        warnings=sum(part.warnings for part in record.ordered()),
        notes=_notes(tests, results, spans, outcome),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Attempt:
    tests: dict[str, TestResult]
    findings: tuple[Finding, ...]
    deselected: int

    def verdict(self) -> tuple[Outcome, str]:
        return _conclude(self.tests, self.findings, self.deselected)


def _by_attempt(parts: Sequence[Part]) -> list[list[Part]]:
    numbers = sorted({part.attempt for part in parts})
    return [[part for part in parts if part.attempt == number] for number in numbers]


def _judge_attempt(parts: Sequence[Part], not_run: str, state: RunState) -> _Attempt:
    """Judge the processes of one attempt: each takes up what the one before left undone."""
    findings: list[Finding] = []
    tests: dict[str, TestResult] = {}
    collected: set[str] = set()
    for part in parts:
        findings += parts_.findings(part, state, first=part is parts[0])
        collected.update(part.collected or ())
        for test in _touched(part):
            fate = parts_.fate_of_running(part, state) if part.running == test else None
            left = parts_.fate_of_unreached(part, not_run, state)
            trace = part.traces.get(test) or parts_.empty_trace()
            found = judge(test, trace, interrupted=fate, unreached=left)
            before = tests.get(test)
            graver = before is not None and worst(before.outcome, found.outcome) is before.outcome
            tests[test] = before if before is not None and graver else found
    last = parts[-1]
    for part in parts:
        for test in part.collected or ():
            if test not in tests:
                left = parts_.fate_of_unreached(last, not_run, state)
                tests[test] = TestResult(id=test, outcome=left.outcome, reason=left.reason)
    findings += parts_.uncollected([test for test in tests if test not in collected])
    deselected = next((part.deselected for part in parts if part.collected is not None), 0)
    order = {test: n for part in reversed(parts) for n, test in enumerate(part.collected or ())}
    ordered = sorted(tests, key=lambda test: order.get(test, len(order)))
    return _Attempt(
        tests={test: tests[test] for test in ordered},
        findings=tuple(findings),
        deselected=deselected,
    )


def _touched(part: Part) -> list[str]:
    running = part.running
    return [*part.traces, *([running] if running and running not in part.traces else [])]


def _merge(attempts: Sequence[_Attempt]) -> dict[str, TestResult]:
    merged: dict[str, TestResult] = {}
    for attempt in attempts:
        for test, result in attempt.tests.items():
            before = merged.get(test)
            if before is None:
                merged[test] = result
                continue
            flaky = result.outcome is Outcome.PASSED and (
                result.flaky
                or before.flaky
                # Cut short with an earlier part of the run says nothing of the test.
                or (before.outcome in RED and before.outcome is not Outcome.NOT_RUN)
            )
            merged[test] = replace(result, flaky=flaky, tries=before.tries + result.tries)
    return merged


def _gaps(record: UnitRecord) -> list[Finding]:
    """Return a finding for each attempt or part that must have been but left no record."""
    # Numbers come from a file that may be damaged: a huge one must not fill the memory, so what is
    # there is counted and nothing that is missing.
    missing = []
    attempts = sorted({attempt for attempt, _ in record.parts})
    if attempts[-1] != len(attempts):
        missing.append(f"one of {attempts[-1]} attempts")
    missing += [
        f"the {what} of attempt {part.attempt}"
        for part in record.ordered()
        if part.attempt != attempts[-1]
        for what, line in (("start", part.start), ("end", part.end))
        if line is None
    ]
    for attempt in attempts:
        parts = [part for number_, part in record.parts if number_ == attempt]
        if max(parts) != len(parts):
            missing.append(f"one of {max(parts)} parts of attempt {attempt}")
    return [
        parts_.Finding(outcome=Outcome.NOT_RUN, text=f"{name} left no record in the journal")
        for name in missing
    ]


def _contradiction(record: UnitRecord, last: _Attempt) -> list[Finding]:
    """Return a finding where the journal calls a unit not run that ran and ended well."""
    if not record.not_run or last.verdict()[0] in RED:
        return []
    what = f"the journal also says that it was not run: {record.not_run}"
    return [parts_.Finding(outcome=Outcome.NOT_RUN, text=what)]


def _conclude(
    tests: dict[str, TestResult], findings: Sequence[Finding], deselected: int
) -> tuple[Outcome, str]:
    grave = [found for found in findings if found.outcome in RED]
    outcomes = [found.outcome for found in grave] + [t.outcome for t in tests.values()]
    red = [outcome for outcome in outcomes if outcome in RED]
    if red:
        outcome = max(red, key=SEVERITY.index)
        ordered = sorted(grave, key=lambda found: -SEVERITY.index(found.outcome))
        return outcome, "; ".join(
            dict.fromkeys([*(f.text for f in ordered), *_summary(tests, grave)])
        )
    mild = [found for found in findings if found.outcome is not Outcome.PASSED]
    if not tests and mild:
        return mild[0].outcome, mild[0].text
    if not tests:
        return Outcome.FAILED, "ran nothing: no test was reported"
    if all(test.outcome is Outcome.SKIPPED for test in tests.values()):
        left_out = f", {deselected} deselected" if deselected else ""
        return Outcome.SKIPPED, f"ran nothing: {_all_skipped(list(tests.values()))}{left_out}"
    return Outcome.PASSED, ""


def _summary(tests: dict[str, TestResult], findings: Sequence[Finding]) -> list[str]:
    """Return `2 of 7 tests failed: a, b` for each red outcome that no finding has told yet."""
    told = {finding.test for finding in findings if finding.test}
    lines = []
    for outcome in reversed(SEVERITY):
        named = [t.name for t in tests.values() if t.outcome is outcome and t.id not in told]
        if outcome not in RED or not named:
            continue
        more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
        verb = outcome.value
        total = f"{len(named)} of {len(tests)} test{'s' if len(tests) > 1 else ''} {verb}"
        lines.append(f"{total}: {', '.join(named[:NAMED])}{more}")
    return lines


def _all_skipped(tests: Sequence[TestResult]) -> str:
    reasons = list(dict.fromkeys(test.reason for test in tests if test.reason))
    more = "; ..." if len(reasons) > NAMED else ""
    why = f" ({'; '.join(reasons[:NAMED])}{more})" if reasons else ""
    many = f"all {len(tests)} tests" if len(tests) > 1 else "its only test"
    return f"{many} skipped{why}"


def _notes(
    tests: dict[str, TestResult],
    attempts: Sequence[_Attempt],
    spans: Sequence[Span],
    outcome: Outcome,
) -> tuple[str, ...]:
    notes = []
    for number_, attempt in enumerate(attempts[:-1], start=1):
        ended, why = attempt.verdict()
        notes.append(f"attempt {number_} {ended}: {why}" if why else f"attempt {number_} {ended}")
    if outcome is not Outcome.SKIPPED:
        notes += _idle_classes(tests)
    killed = sum(span.killed for span in spans)
    if killed:
        notes.append(f"{killed} process{'es' if killed > 1 else ''} killed")
    return tuple(notes)


def _idle_classes(tests: dict[str, TestResult]) -> list[str]:
    """Return a note for each class all of whose tests skipped: it looks tested and is not."""
    classes: dict[str, list[TestResult]] = {}
    for test in tests.values():
        holder, _, name = test.id.partition("[")[0].rpartition("::")
        if name and "::" in holder:
            classes.setdefault(holder, []).append(test)
    return [
        f"class {holder.partition('::')[2]} ran nothing: {_all_skipped(members)}"
        for holder, members in classes.items()
        if all(member.outcome is Outcome.SKIPPED for member in members)
    ]


def _seconds(part: Part) -> float:
    if part.end is not None and "seconds" in part.end:
        return max(0.0, number(part.end.get("seconds")))
    started = moment(part.start.get("time")) if part.start is not None else 0.0
    return max(0.0, part.last_time - started) if started else 0.0


def _span(part: Part, state: RunState) -> Span:
    start = part.start or {}
    end = part.end or {}
    started = moment(start.get("time"))
    grave = [f for f in parts_.findings(part, state, first=True) if f.outcome in RED]
    failed = [r for t in part.traces.values() for r in t.reports if r.get("outcome") == "failed"]
    late = any(report.get("hw_outcome") == Outcome.TIMED_OUT.value for report in failed)
    told = Outcome.TIMED_OUT if late else Outcome.FAILED if failed else Outcome.PASSED
    outcome = worst(told, *(finding.outcome for finding in grave))
    return Span(
        attempt=part.attempt,
        part=part.part,
        slot=count(start.get("slot")) if "slot" in start else None,
        started=started,
        ended=moment(end.get("time")) or part.last_time,
        outcome=outcome,
        reason="; ".join(finding.text for finding in grave),
        log=text(start.get("log")),
        devices=texts(start.get("devices")),
        tail=text(end.get("tail")),
        killed=count(end.get("killed")) or len(texts(end.get("killed"))),
    )
