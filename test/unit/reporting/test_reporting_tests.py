from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hwmatrix.model import Outcome
from hwmatrix.reporting import TestResult, build

if TYPE_CHECKING:
    from collections.abc import Callable

    from test.unit.reporting.conftest import FakePart, Maker


def result_of(
    make: Maker, write: Callable[[FakePart], None], *, exit_status: int | None = 0
) -> TestResult:
    """Return how the one test `test_x` ended whose reports `write` wrote."""
    unit = make.unit("one")
    run = make.run(unit)
    run.start()
    part = run.part(unit)
    part.start()
    part.collected("test_x")
    write(part)
    part.end(exit_status=exit_status)
    run.end()
    (test,) = build(run.folder).units[0].tests
    return test


def test_pass_has_the_time_of_all_phases_and_its_line(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.test_start("test_x")
        part.report("test_x", "setup", duration=1.0)
        part.report("test_x", "call", duration=2.0)
        part.report("test_x", "teardown", duration=0.5)

    test = result_of(make, write)
    assert (test.outcome, test.seconds, test.line, test.reason) == (Outcome.PASSED, 3.5, 7, "")
    assert not test.flaky


def test_failure_has_reason_detail_and_output(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.test("test_x", "failed", why="AssertionError: 1 != 2", sections=[["stdout", "hi"]])

    test = result_of(make, write, exit_status=1)
    assert test.outcome is Outcome.FAILED
    assert test.reason == "AssertionError: 1 != 2"
    assert ">       assert x" in test.detail
    assert "test/registered/test_one.py:7: AssertionError" in test.detail
    assert test.output == "--- stdout ---\nhi"


@pytest.mark.parametrize("when", ["setup", "teardown"])
def test_error_outside_the_call_fails_the_test(make: Maker, when: str) -> None:
    def write(part: FakePart) -> None:
        part.test_start("test_x")
        bad = make.failure("f.py", "OSError: no")
        if when == "setup":
            part.report("test_x", "setup", "failed", longrepr=bad)
            part.report("test_x", "teardown")
        else:
            part.report("test_x", "setup")
            part.report("test_x", "call")
            part.report("test_x", "teardown", "failed", longrepr=bad)

    test = result_of(make, write, exit_status=1)
    assert (test.outcome, test.reason) == (Outcome.FAILED, f"in {when}: OSError: no")


def test_skip_gives_its_reason(make: Maker) -> None:
    test = result_of(make, lambda part: part.test("test_x", "skipped", why="no gfx950"))
    assert (test.outcome, test.reason) == (Outcome.SKIPPED, "no gfx950")


def test_skip_in_setup_needs_no_call(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.test_start("test_x")
        part.report("test_x", "setup", "skipped", longrepr=["f.py", 3, "Skipped: no"])
        part.report("test_x", "teardown")

    assert result_of(make, write).outcome is Outcome.SKIPPED


def test_expected_failure_is_a_pass_that_says_so(make: Maker) -> None:
    test = result_of(make, lambda part: part.test("test_x", "skipped", wasxfail="reason: bug 7"))
    assert (test.outcome, test.reason) == (Outcome.PASSED, "expected failure: bug 7")


def test_unexpected_pass_is_a_pass_that_says_so(make: Maker) -> None:
    test = result_of(make, lambda part: part.test("test_x", "passed", wasxfail=""))
    assert test.outcome is Outcome.PASSED
    assert test.reason == "passed though expected to fail: no reason given"


def test_strict_unexpected_pass_fails(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.test("test_x", "failed", longrepr="[XPASS(strict)] bug 2")

    test = result_of(make, write, exit_status=1)
    assert (test.outcome, test.reason) == (Outcome.FAILED, "[XPASS(strict)] bug 2")


def subtest(part: FakePart, outcome: str, *, message: str | None = None, **kwargs: str) -> None:
    why = part.failure("f.py", "AssertionError: bad") if outcome == "failed" else None
    part.write(
        "SubTestReport",
        nodeid=part.id("test_x"),
        when="call",
        outcome=outcome,
        longrepr=why,
        **{"_subtest.context": {"msg": message, "kwargs": kwargs}},
    )


def test_failed_subtest_fails_a_test_whose_own_report_passed(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.test_start("test_x")
        part.report("test_x", "setup")
        subtest(part, "passed", i="0")
        subtest(part, "failed", i="1")
        subtest(part, "failed", message="dtype", i="2")
        part.report("test_x", "call")
        part.report("test_x", "teardown")

    test = result_of(make, write, exit_status=1)
    assert (test.outcome, test.subtests) == (Outcome.FAILED, 3)
    assert test.reason == "subtest (i=1): AssertionError: bad (and 1 more subtests)"


def test_subtests_reason_beats_pytests_own_summary(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.test_start("test_x")
        part.report("test_x", "setup")
        subtest(part, "failed", message="a")
        part.report("test_x", "call", "failed", longrepr="contains 1 failed subtest")
        part.report("test_x", "teardown")

    assert result_of(make, write, exit_status=1).reason == "subtest a: AssertionError: bad"


def test_skipped_subtest_leaves_the_test_as_it_is(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.test_start("test_x")
        part.report("test_x", "setup")
        subtest(part, "skipped")
        part.report("test_x", "call")
        part.report("test_x", "teardown")

    assert result_of(make, write).outcome is Outcome.PASSED


def test_subtest_without_context_has_a_name_all_the_same(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.test_start("test_x")
        part.report("test_x", "setup")
        part.write(
            "SubTestReport",
            nodeid=part.id("test_x"),
            when="call",
            outcome="failed",
            longrepr="E  x",
        )
        part.report("test_x", "call")
        part.report("test_x", "teardown")

    assert result_of(make, write, exit_status=1).reason == "subtest ?: x"


def test_rerun_that_passes_is_flaky(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.test("test_x", "rerun", longrepr="E   OSError: once")
        part.test("test_x", "passed")

    test = result_of(make, write)
    assert (test.outcome, test.flaky, test.tries) == (Outcome.PASSED, True, 2)


def test_second_report_does_not_hide_a_failure_that_no_plugin_reran(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.test("test_x", "failed", why="ValueError: first")
        part.test("test_x", "passed")

    test = result_of(make, write, exit_status=1)
    assert (test.outcome, test.reason, test.flaky) == (Outcome.FAILED, "ValueError: first", False)


def test_timed_out_report(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.test("test_x", "failed", why="Failed: Timeout (>30.0s)", hw_outcome="timed out")

    test = result_of(make, write, exit_status=1)
    assert (test.outcome, test.reason) == (Outcome.TIMED_OUT, "Failed: Timeout (>30.0s)")


def test_missing_call_report_is_no_pass(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.test_start("test_x")
        part.report("test_x", "setup")
        part.report("test_x", "teardown")

    test = result_of(make, write)
    assert test.outcome is Outcome.NOT_RUN
    assert test.reason == "the journal holds no report of its call"


@pytest.mark.parametrize("phases", [["teardown"], ["call", "teardown"]])
def test_missing_setup_report_is_no_pass(make: Maker, phases: list[str]) -> None:
    def write(part: FakePart) -> None:
        for when in phases:
            part.report("test_x", when)

    assert result_of(make, write).outcome is Outcome.NOT_RUN


def test_missing_teardown_report_is_no_pass(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.test_start("test_x")
        part.report("test_x", "setup")
        part.report("test_x", "call")

    test = result_of(make, write)
    assert test.outcome is Outcome.NOT_RUN
    assert test.reason == "unaccounted for: pytest ended and no report tells of it"


def test_odd_outcome_is_a_failure(make: Maker) -> None:
    test = result_of(make, lambda part: part.test("test_x", "perhaps"))
    assert (test.outcome, test.reason) == (Outcome.FAILED, "perhaps without a reason")


def test_reason_without_a_message_says_so(make: Maker) -> None:
    test = result_of(make, lambda part: part.test("test_x", "failed", longrepr=None))
    assert test.reason == "failed without a reason"
