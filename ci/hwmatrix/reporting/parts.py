"""What the end of one process means: for its unit, for the test it ran, for those it never reached.

The exit statuses are pytest's documented ones: 2 interrupted, 3 internal error, 4 usage error,
5 no tests collected.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hwmatrix.model import Outcome
from hwmatrix.reporting.ledger import Trace, number, text
from hwmatrix.reporting.longrepr import reason
from hwmatrix.reporting.said import cause, ended_by, last_line
from hwmatrix.reporting.tests import Fate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hwmatrix.reporting.ledger import Line, Part

OK, TESTS_FAILED, INTERRUPTED, INTERNAL, USAGE, NO_TESTS = range(6)
_MEANING = {
    TESTS_FAILED: "pytest reported failure though no test failed",
    INTERRUPTED: "pytest was interrupted",
    INTERNAL: "pytest had an internal error",
    USAGE: "pytest refused its arguments",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class RunState:
    """What holds for the whole run: whether it ended in order, and why it stopped early.

    `running` is true while it goes on; `lost` says what of the journal is missing, '' if nothing.
    """

    ended: bool
    running: bool = False
    lost: str = ""
    stop: str = ""
    end_reason: str = ""
    selection: bool = False
    stops_early: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that a process came to; `test` is the test that `text` already names."""

    outcome: Outcome
    text: str
    test: str = ""


def seconds(value: float) -> str:
    """Return a limit as people write it: `90 s`, `0.5 s`."""
    return f"{value:g} s"


def empty_trace() -> Trace:
    """Return the trace of a test of which only its process's end tells."""
    return Trace()


def never_started(told: str, state: RunState) -> str:
    """Return why a unit without any process was not run."""
    if told:
        return told
    if state.stop:
        return f"not started: the run was stopped ({state.stop})"
    if state.running:
        return "not started yet"
    if not state.ended:
        if state.lost:
            return f"unaccounted for: {state.lost}"
        return "not started: the run was killed before its turn"
    why = f" ({state.end_reason})" if state.end_reason else ""
    return f"unaccounted for: the run ended{why} and the journal says nothing of it"


def how_it_died(end: Line) -> str:
    """Return `killed by SIGSEGV` or `exited with status 0` for a process that ended early."""
    raw = end.get("signal")
    if isinstance(raw, str) and raw:
        return f"killed by {raw}"
    if raw and number(raw):
        code = abs(int(number(raw)))
        try:
            return f"killed by {signal.Signals(code).name}"
        except ValueError:
            return f"killed by signal {code}"
    status = end.get("exit_status")
    if isinstance(status, int):
        return f"exited with status {status}"
    return last_line(text(end.get("tail"))) or "ended without an exit status"


def _expired(part: Part) -> bool:
    """Whether the process was killed at its budget, or the last word was that it would be."""
    if part.end is None:
        return part.expired is not None
    return part.end.get("cause") == "budget"


def _budget(part: Part) -> str:
    limit = number((part.expired or {}).get("limit_s"))
    return f" of {seconds(limit)}" if limit else ""


def fate_of_running(part: Part, state: RunState) -> Fate:
    """Return what became of the test that ran when the process (or the journal) ended."""
    outcome, how = Outcome.NOT_RUN, "pytest ended while it ran"
    quit_ = _quit(part, "it")
    if quit_:
        outcome, how = Outcome.FAILED, quit_
    elif _expired(part):
        outcome, how = Outcome.TIMED_OUT, f"killed at the file's budget{_budget(part)}"
    elif part.end is None:
        outcome, how = _cut_short(state, "it ran", "still running")
    elif part.end.get("cause") == "crashed":
        outcome, how = Outcome.CRASHED, how_it_died(part.end)
    elif part.end.get("cause") == "stopped":
        how = f"the run was stopped while it ran{_why(state, part)}"
    return Fate(outcome=outcome, reason=how)


def fate_of_unreached(part: Part, told: str, state: RunState) -> Fate:
    """Return why a collected test has no closing report and was not running."""
    how = "unaccounted for: pytest ended and no report tells of it"
    if told:
        how = told
    elif quit_ := _quit(part):
        how = f"pytest was ended before it: {quit_}"
    elif _expired(part):
        how = "the file was killed at its budget before it"
    elif part.end is None:
        how = _cut_short(state, "its file ran", "not reached yet")[1]
    elif part.end.get("cause") == "crashed":
        taken = "no other took over yet" if state.running else "no other took over"
        how = f"its process {_was(how_it_died(part.end))} before it and {taken}"
    elif part.end.get("cause") == "stopped":
        how = f"the run was stopped before it{_why(state, part)}"
    elif state.stops_early:
        how = "pytest stopped before it (first failure or --maxfail)"
    return Fate(outcome=Outcome.NOT_RUN, reason=how)


def _cut_short(state: RunState, while_: str, yet: str) -> tuple[Outcome, str]:
    """Return what a process without a recorded end came to, and how people say it.

    `yet` is how they say it while the run goes on.
    """
    if state.stop:
        return Outcome.NOT_RUN, f"the run was stopped while {while_}{_why(state)}"
    if state.ended:
        return Outcome.CRASHED, f"its worker died while {while_}; no end was recorded"
    if state.running:
        return Outcome.NOT_RUN, yet
    if state.lost:
        return Outcome.NOT_RUN, f"no end was recorded while {while_}: {state.lost}"
    return Outcome.NOT_RUN, f"the run was killed while {while_}"


def findings(part: Part, state: RunState, *, first: bool) -> list[Finding]:
    """Return what this process came to, apart from its tests' own results.

    `first` is false for a process that goes on after a crash: nothing left to run is no fault then.
    """
    found = _collection(part)
    if part.start is None:
        found.append(Finding(outcome=Outcome.NOT_RUN, text="the journal lacks its start"))
    if part.end is not None and part.end.get("cause") == "finished":
        return found + _exit_status(part, part.end, state, first=first, explained=bool(found))
    outcome, how = _ending(part, state)
    return [*found, Finding(outcome=outcome, text=how, test=part.running)]


def _ending(part: Part, state: RunState) -> tuple[Outcome, str]:
    """Return what a process came to that did not finish."""
    running = _name(part.running)
    while_ = f" while {running} ran" if running else ""
    if _expired(part):
        return Outcome.TIMED_OUT, f"killed at its budget{_budget(part)}{while_}"
    if part.end is None:
        yet = f"still running: {running}" if running else "still running"
        return _cut_short(state, f"{running} ran" if running else "it ran", yet)
    cause = text(part.end.get("cause"))
    if cause == "crashed":
        return Outcome.CRASHED, f"{how_it_died(part.end)}{while_ or _idle(part)}"
    if cause == "stopped":
        return Outcome.NOT_RUN, f"the run was stopped{while_ or ' while it ran'}{_why(state, part)}"
    return Outcome.NOT_RUN, f"its end gives no known cause ({cause or 'none'})"


def uncollected(tests: Sequence[str]) -> list[Finding]:
    """Return a finding for tests that reported but that no collection had announced."""
    if not tests:
        return []
    names = ", ".join(tests[:3]) + (" ..." if len(tests) > 3 else "")  # noqa: PLR2004 - one line
    what = f"{len(tests)} reported without having been collected: {names}"
    return [Finding(outcome=Outcome.NOT_RUN, text=what)]


def _collection(part: Part) -> list[Finding]:
    found = []
    for report in part.collect_reports:
        node, why = text(report.get("nodeid")), reason(report.get("longrepr"))
        inner = node.partition("::")[2]
        if report.get("outcome") == "failed":
            what = f"{inner} cannot be collected" if inner else "cannot be imported"
            found.append(
                Finding(outcome=Outcome.FAILED, text=f"{what}: {why or 'no reason given'}")
            )
        elif report.get("outcome") == "skipped":
            what = f"ran nothing: {inner or 'the file'} skips itself ({why or 'no reason given'})"
            found.append(Finding(outcome=Outcome.SKIPPED, text=what))
    return found


def _exit_status(
    part: Part, end: Line, state: RunState, *, first: bool, explained: bool
) -> list[Finding]:
    """Return a finding where pytest's exit status says what no report does."""
    status = end.get("exit_status")
    told = explained or _any_failed(part)
    if status == OK or (status == TESTS_FAILED and told):
        return []
    if status == INTERRUPTED and (explained or (state.stops_early and told)):
        return []
    if status == NO_TESTS:
        return _no_tests(part, state, first=first, explained=explained)
    quit_ = _quit(part, _name(part.running))
    if quit_:
        return [Finding(outcome=Outcome.FAILED, text=quit_, test=part.running)]
    said = last_line(part.internal_error) or cause(text(end.get("tail")), refused=status == USAGE)
    meaning = _MEANING.get(status) if isinstance(status, int) else None
    what = meaning or "pytest ended in a way it does not document"
    why = f": {said}" if said else ""
    return [Finding(outcome=Outcome.FAILED, text=f"{what} (exit status {status}){why}")]


def _quit(part: Part, test: str | None = None) -> str:
    """Return who ended pytest though it finished in order: an interrupt or `pytest.exit`, or ''."""
    end = part.end or {}
    if end.get("cause") != "finished" or end.get("exit_status") in (OK, TESTS_FAILED):
        return ""
    return ended_by(text(end.get("tail")), _name(part.running) if test is None else test)


def _name(test: str) -> str:
    return test.partition("::")[2] or test


def _no_tests(part: Part, state: RunState, *, first: bool, explained: bool) -> list[Finding]:
    if explained or not first:
        return []
    left_out = f"all {part.deselected} tests deselected" if part.deselected else ""
    # A file that has no test at all, or whose own configuration leaves all out, is no selection.
    if part.left_out or (state.selection and part.deselected):
        what = f"the selection picks nothing here{f' ({left_out})' if left_out else ''}"
        return [Finding(outcome=Outcome.DESELECTED, text=what)]
    what = f"ran nothing: {left_out or 'no tests collected'}"
    return [Finding(outcome=Outcome.FAILED, text=what)]


def _any_failed(part: Part) -> bool:
    return any(
        report.get("outcome") == "failed"
        for trace in part.traces.values()
        for report in trace.reports
    )


def _idle(part: Part) -> str:
    if part.collected is None:
        return " before its tests were collected"
    return (
        " between tests"
        if any(t not in part.traces for t in part.collected)
        else " after its last test"
    )


def _was(died: str) -> str:
    return f"was {died}" if died.startswith("killed") else died


def _why(state: RunState, part: Part | None = None) -> str:
    """Return the reason of a stop in brackets: the run's, else what the process's end says."""
    said = text((part.end or {}).get("tail")) if part is not None else ""
    why = state.stop or last_line(said)
    return f" ({why})" if why else ""
