from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix.model import Outcome
from hwmatrix.reporting import UnitResult, build

if TYPE_CHECKING:
    from collections.abc import Callable

    from test.unit.reporting.conftest import FakePart, FakeRun, Maker

    Write = Callable[[FakePart], None]
    Spec = dict[str, object]


def unit_of(
    make: Maker, *writes: Write, ended: bool = True, stop: str = "", spec: Spec | None = None
) -> UnitResult:
    """Return how a unit ended of which each of `writes` wrote one part."""
    unit = make.unit("one")
    run = make.run(unit, **(spec or {}))
    run.start()
    for number, write in enumerate(writes, start=1):
        part = run.part(unit, part=number)
        part.start()
        write(part)
    if stop:
        run.stop(stop)
    if ended:
        run.end()
    return build(run.folder).units[0]


def told(unit: UnitResult) -> tuple[Outcome, str]:
    return unit.outcome, unit.reason


def test_passed(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.collected("test_a", "test_b")
        part.test("test_a", seconds=2)
        part.test("test_b", seconds=3)
        part.end()

    unit = unit_of(make, write)
    assert told(unit) == (Outcome.PASSED, "")
    assert (unit.slot, unit.seconds, unit.flaky) == (0, 5.0, False)
    assert [test.name for test in unit.tests] == ["test_a", "test_b"]
    assert unit.log == "logs/test_one.py.1.1.log"
    assert unit.spans[0].devices == ("rank0",)


def test_failed_tests_are_named_up_to_three(make: Maker) -> None:
    names = [f"test_{i}" for i in range(5)]

    def write(part: FakePart) -> None:
        part.collected(*names)
        part.test(names[0])
        for name in names[1:]:
            part.test(name, "failed", why="E: x")
        part.end(exit_status=1)

    reason = "4 of 5 tests failed: test_1, test_2, test_3 and 1 more"
    assert told(unit_of(make, write)) == (Outcome.FAILED, reason)


def test_broken_import(make: Maker) -> None:
    def write(part: FakePart) -> None:
        long = "ImportError while importing\nTraceback:\nE   ModuleNotFoundError: No module 'x'\n"
        part.write(
            "CollectReport", nodeid=part.unit.files[0], outcome="failed", longrepr=long, result=None
        )
        part.end(exit_status=2)

    reason = "cannot be imported: ModuleNotFoundError: No module 'x'"
    assert told(unit_of(make, write)) == (Outcome.FAILED, reason)


def test_class_that_cannot_be_collected(make: Maker) -> None:
    def write(part: FakePart) -> None:
        node = f"{part.unit.files[0]}::TestX"
        part.write("CollectReport", nodeid=node, outcome="failed", longrepr="", result=None)
        part.end(exit_status=2)

    reason = "TestX cannot be collected: no reason given"
    assert told(unit_of(make, write)) == (Outcome.FAILED, reason)


@pytest.mark.parametrize(
    ("selection", "deselected", "outcome", "reason"),
    [
        (False, 0, Outcome.FAILED, "ran nothing: no tests collected"),
        (False, 4, Outcome.FAILED, "ran nothing: all 4 tests deselected"),
        (True, 0, Outcome.FAILED, "ran nothing: no tests collected"),  # no selection's doing
        (True, 4, Outcome.DESELECTED, "the selection picks nothing here (all 4 tests deselected)"),
    ],
)
def test_file_without_tests(
    make: Maker, *, selection: bool, deselected: int, outcome: Outcome, reason: str
) -> None:
    def write(part: FakePart) -> None:
        part.collected(deselected=deselected)
        part.end(exit_status=5)

    unit = unit_of(make, write, spec={"selection": selection})
    assert told(unit) == (outcome, reason)
    assert unit.count(Outcome.DESELECTED) == deselected


def test_module_that_skips_itself(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.write(
            "CollectReport",
            nodeid=part.unit.files[0],
            outcome="skipped",
            longrepr=["f.py", 1, "Skipped: no triton"],
        )
        part.collected()
        part.end(exit_status=5)

    reason = "ran nothing: the file skips itself (no triton)"
    assert told(unit_of(make, write)) == (Outcome.SKIPPED, reason)


def test_all_tests_skipped(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.collected("test_a", "test_b")
        part.test("test_a", "skipped", why="no gpu")
        part.test("test_b", "skipped", why="no gpu")
        part.end()

    reason = "ran nothing: all 2 tests skipped (no gpu)"
    assert told(unit_of(make, write)) == (Outcome.SKIPPED, reason)


def test_only_test_skipped_the_rest_deselected(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.collected("test_a", deselected=3)
        part.test("test_a", "skipped", why="no gpu")
        part.end()

    reason = "ran nothing: its only test skipped (no gpu), 3 deselected"
    assert told(unit_of(make, write)) == (Outcome.SKIPPED, reason)


def test_class_that_skipped_everything_is_noted(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.collected("TestA::test_a[1]", "TestA::test_a[2]", "TestB::test_b", "test_c")
        part.test("TestA::test_a[1]", "skipped", why="no fp8")
        part.test("TestA::test_a[2]", "skipped", why="no fp4")
        part.test("TestB::test_b")
        part.test("test_c", "skipped", why="x")
        part.end()

    unit = unit_of(make, write)
    assert unit.outcome is Outcome.PASSED
    assert unit.notes == ("class TestA ran nothing: all 2 tests skipped (no fp8; no fp4)",)


def crash_in(part: FakePart, test: str, **keys: object) -> None:
    part.test_start(test)
    part.report(test, "setup")
    status = keys.pop("exit_status", None)
    assert status is None or isinstance(status, int)
    part.end("crashed", status, test=part.id(test), **keys)


@pytest.mark.parametrize(
    ("keys", "died"),
    [
        ({"signal": "SIGSEGV"}, "killed by SIGSEGV"),
        ({"signal": 9}, "killed by SIGKILL"),
        ({"signal": 200}, "killed by signal 200"),
        ({"exit_status": 0}, "exited with status 0"),
        ({"exit_status": None}, "ended without an exit status"),
        ({"tail": "\nits worker died (EOF)\n"}, "its worker died (EOF)"),
    ],
)
def test_crash_names_the_test_and_how(make: Maker, keys: dict[str, object], died: str) -> None:
    def write(part: FakePart) -> None:
        part.collected("test_a", "test_b")
        part.test("test_a")
        crash_in(part, "test_b", **keys)

    unit = unit_of(make, write)
    assert told(unit) == (Outcome.CRASHED, f"{died} while test_b ran")
    assert [(t.outcome, t.reason) for t in unit.tests] == [
        (Outcome.PASSED, ""),
        (Outcome.CRASHED, died),
    ]


def test_rest_of_the_file_after_a_crash_makes_it_no_pass(make: Maker) -> None:
    def first(part: FakePart) -> None:
        part.collected("test_a", "test_b", "test_c")
        part.test("test_a")
        crash_in(part, "test_b", signal="SIGSEGV")

    def second(part: FakePart) -> None:
        part.collected("test_c")
        part.test("test_c")
        part.end()

    unit = unit_of(make, first, second)
    assert told(unit) == (Outcome.CRASHED, "killed by SIGSEGV while test_b ran")
    outcomes = [test.outcome for test in unit.tests]
    assert outcomes == [Outcome.PASSED, Outcome.CRASHED, Outcome.PASSED]
    assert [span.outcome for span in unit.spans] == [Outcome.CRASHED, Outcome.PASSED]
    assert unit.log == "logs/test_one.py.1.1.log"
    assert not unit.flaky


def test_second_part_with_nothing_left_is_no_file_without_tests(make: Maker) -> None:
    def first(part: FakePart) -> None:
        part.collected("test_b")
        crash_in(part, "test_b", signal="SIGSEGV")

    def second(part: FakePart) -> None:
        part.collected(deselected=1)
        part.end(exit_status=5)

    unit = unit_of(make, first, second)
    assert told(unit) == (Outcome.CRASHED, "killed by SIGSEGV while test_b ran")


def test_crash_that_no_other_process_took_over(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.collected("test_a", "test_b")
        crash_in(part, "test_a", signal="SIGSEGV")

    unit = unit_of(make, write)
    why = "killed by SIGSEGV while test_a ran; 1 of 2 tests not run: test_b"
    assert told(unit) == (Outcome.CRASHED, why)
    assert unit.tests[1].reason == (
        "its process was killed by SIGSEGV before it and no other took over"
    )


def test_crash_before_collection(make: Maker) -> None:
    unit = unit_of(make, lambda part: part.end("crashed", 3))
    why = "exited with status 3 before its tests were collected"
    assert told(unit) == (Outcome.CRASHED, why)


def test_crash_after_the_last_test(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.collected("test_a")
        part.test("test_a")
        part.end("crashed", None, signal="SIGABRT")

    assert told(unit_of(make, write)) == (Outcome.CRASHED, "killed by SIGABRT after its last test")


def test_crash_between_tests(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.collected("test_a", "test_b")
        part.test("test_a")
        part.end("crashed", 9)

    unit = unit_of(make, write)
    why = "exited with status 9 between tests; 1 of 2 tests not run: test_b"
    assert told(unit) == (Outcome.CRASHED, why)
    assert "its process exited with status 9 before it" in unit.tests[1].reason


def test_budget(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.collected("test_a", "test_b")
        part.test_start("test_a")
        part.write("UnitExpired", limit_s=120.0, test=part.id("test_a"))
        part.end("budget", None, signal="SIGKILL", test=part.id("test_a"), killed=3)

    unit = unit_of(make, write)
    why = "killed at its budget of 120 s while test_a ran; 1 of 2 tests not run: test_b"
    assert told(unit) == (Outcome.TIMED_OUT, why)
    assert unit.tests[0].reason == "killed at the file's budget of 120 s"
    assert unit.tests[1].reason == "the file was killed at its budget before it"
    assert unit.notes == ("3 processes killed",)


def test_budget_without_an_expiry_line(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.collected("test_a")
        part.end("budget", None, killed=[1])

    unit = unit_of(make, write)
    assert unit.reason.startswith("killed at its budget; 1 of 1 test not run")


def test_expiry_whose_killer_died_too(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.collected("test_a")
        part.test_start("test_a")
        part.write("UnitExpired", limit_s=120.0, test=part.id("test_a"))

    unit = unit_of(make, write, ended=False)
    assert told(unit) == (Outcome.TIMED_OUT, "killed at its budget of 120 s while test_a ran")


def test_killed_run_names_what_ran(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.collected("test_a", "test_b", "test_c")
        part.test("test_a")
        part.test_start("test_b")

    unit = unit_of(make, write, ended=False)
    why = "the run was killed while test_b ran; 1 of 3 tests not run: test_c"
    assert told(unit) == (Outcome.NOT_RUN, why)
    assert [test.reason for test in unit.tests[1:]] == [
        "the run was killed while it ran",
        "the run was killed while its file ran",
    ]


def test_killed_run_keeps_what_failed_before(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.collected("test_a", "test_b")
        part.test("test_a", "failed", why="E: x")

    unit = unit_of(make, write, ended=False)
    assert unit.outcome is Outcome.FAILED
    assert "1 of 2 tests failed: test_a; 1 of 2 tests not run: test_b" in unit.reason


def test_worker_that_died_without_a_word(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.collected("test_a")
        part.test_start("test_a")

    unit = unit_of(make, write)
    why = "its worker died while test_a ran; no end was recorded"
    assert told(unit) == (Outcome.CRASHED, why)


def test_stopped_run(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.collected("test_a", "test_b")
        part.test_start("test_a")
        part.end("stopped", None, signal="SIGTERM", test=part.id("test_a"))

    unit = unit_of(make, write, stop="SIGINT")
    why = "the run was stopped while test_a ran (SIGINT); 1 of 2 tests not run: test_b"
    assert told(unit) == (Outcome.NOT_RUN, why)
    assert unit.tests[0].reason == "the run was stopped while it ran (SIGINT)"
    assert unit.tests[1].reason == "the run was stopped before it (SIGINT)"


def test_stopped_run_whose_worker_had_no_time_to_say_so(make: Maker) -> None:
    unit = unit_of(make, lambda part: part.collected("test_a"), stop="deadline")
    why = "the run was stopped while it ran (deadline); 1 of 1 test not run: test_a"
    assert told(unit) == (Outcome.NOT_RUN, why)


@pytest.mark.parametrize(
    ("status", "keys", "reason"),
    [
        (1, {}, "pytest reported failure though no test failed (exit status 1)"),
        (2, {"tail": "!! stop\n"}, "pytest was interrupted (exit status 2): !! stop"),
        (3, {}, "pytest had an internal error (exit status 3)"),
        (4, {"tail": "a\nno option --x"}, "pytest refused its arguments (exit status 4): no opt"),
        (6, {}, "pytest ended in a way it does not document (exit status 6)"),
        (None, {}, "pytest ended in a way it does not document (exit status None)"),
    ],
)
def test_exit_status_is_named(
    make: Maker, status: int | None, keys: dict[str, Any], reason: str
) -> None:
    def write(part: FakePart) -> None:
        part.collected("test_a")
        part.test("test_a")
        part.end(exit_status=status, **keys)

    unit = unit_of(make, write)
    assert unit.outcome is Outcome.FAILED
    assert unit.reason.startswith(reason)


def test_internal_error_gives_its_text(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.write("InternalError", text="INTERNALERROR> x\nRuntimeError: plugin")
        part.end(exit_status=3)

    reason = "pytest had an internal error (exit status 3): RuntimeError: plugin"
    assert told(unit_of(make, write)) == (Outcome.FAILED, reason)


@pytest.mark.parametrize(
    "spec", [{"fail_fast": True}, {"max_failures": 1}, {"pytest_args": ("--maxfail=1",)}]
)
@pytest.mark.parametrize("status", [1, 2])
def test_first_failure_leaves_the_rest_not_run(
    make: Maker, spec: dict[str, object], status: int
) -> None:
    def write(part: FakePart) -> None:
        part.collected("test_a", "test_b")
        part.test("test_a", "failed", why="E: x")
        part.end(exit_status=status)

    unit = unit_of(make, write, spec=spec)
    why = "1 of 2 tests failed: test_a; 1 of 2 tests not run: test_b"
    assert told(unit) == (Outcome.FAILED, why)
    assert unit.tests[1].reason == "pytest stopped before it (first failure or --maxfail)"


def test_collected_test_without_a_report_is_unaccounted_for(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.collected("test_a", "test_b")
        part.test("test_a")
        part.end()

    unit = unit_of(make, write)
    assert told(unit) == (Outcome.NOT_RUN, "1 of 2 tests not run: test_b")
    assert unit.tests[1].reason.startswith("unaccounted for")


def test_report_of_a_test_that_nobody_collected(make: Maker) -> None:
    def write(part: FakePart) -> None:
        for name in ("test_a", "test_b", "test_c", "test_d"):
            part.test(name)
        part.end()

    unit = unit_of(make, write)
    assert unit.outcome is Outcome.NOT_RUN
    assert unit.reason.startswith("4 reported without having been collected: test/registered/")
    assert unit.reason.endswith(" ...")


def test_no_test_reported_though_pytest_was_content(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.collected()
        part.end(exit_status=0)

    reason = "ran nothing: no test was reported"
    assert told(unit_of(make, write)) == (Outcome.FAILED, reason)


def test_unknown_cause(make: Maker) -> None:
    unit = unit_of(make, lambda part: part.end("melted"))
    assert told(unit) == (Outcome.NOT_RUN, "its end gives no known cause (melted)")


def test_test_left_running_by_a_finished_pytest(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.collected("test_a")
        part.test_start("test_a")
        part.end(test=part.id("test_a"))

    unit = unit_of(make, write)
    assert (unit.outcome, unit.tests[0].reason) == (Outcome.NOT_RUN, "pytest ended while it ran")


def test_running_test_that_left_no_line_is_listed(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.collected("test_a")
        part.end("crashed", None, signal="SIGSEGV", test=part.id("test_a"))

    assert unit_of(make, write).tests[0].outcome is Outcome.CRASHED


def test_units_that_never_started_say_why(make: Maker) -> None:
    a, b = make.unit("a"), make.unit("b")
    run = make.run(a, b)
    run.start()
    assert build(run.folder).units[1].reason == "not started: the run was killed before its turn"
    run.not_run(a, "slot 1 was retired")
    run.stop("deadline")
    units = build(run.folder).units
    assert [unit.reason for unit in units] == [
        "slot 1 was retired",
        "not started: the run was stopped (deadline)",
    ]
    assert units[0].slot is None


def test_unit_that_the_journal_never_mentions_is_unaccounted_for(make: Maker) -> None:
    run = make.run(make.unit("a"))
    run.start()
    run.end(3, reason="the controller died")
    (unit,) = build(run.folder).units
    why = "unaccounted for: the run ended (the controller died) and the journal says nothing of it"
    assert told(unit) == (Outcome.NOT_RUN, why)


def test_not_run_reason_of_the_rest_after_a_crash(make: Maker) -> None:
    unit = make.unit("a")
    run = make.run(unit)
    part = run.part(unit)
    part.start()
    part.collected("test_a", "test_b")
    crash_in(part, "test_a", signal="SIGBUS")
    run.not_run(unit, "the device was lost")
    result = build(run.folder).units[0]
    assert result.tests[1].reason == "the device was lost"
    assert result.outcome is Outcome.CRASHED


def test_contradiction_in_the_journal_is_told(make: Maker) -> None:
    unit = make.unit("a")
    run = make.run(unit)
    run.good(unit, "test_a")
    run.not_run(unit, "no slot")
    result = build(run.folder).units[0]
    assert result.outcome is Outcome.NOT_RUN
    assert result.reason == "the journal also says that it was not run: no slot"


class TestAttempts:
    def run(self, make: Maker) -> tuple[FakeRun, FakePart, FakePart]:
        unit = make.unit("a")
        run = make.run(unit)
        run.start()
        first = run.part(unit)
        first.start()
        first.collected("test_a", "test_b")
        return run, first, run.part(unit, attempt=2, slot=1)

    def test_pass_at_the_second_is_flaky_with_both_listed(self, make: Maker) -> None:
        run, first, second = self.run(make)
        first.test("test_a")
        first.test("test_b", "failed", why="OSError: port taken")
        first.end(exit_status=1)
        second.start()
        second.collected("test_a", "test_b")
        second.test("test_a")
        second.test("test_b", seconds=4)
        second.end(seconds=4.5)
        (unit,) = build(run.folder).units
        assert told(unit) == (Outcome.PASSED, "")
        assert (unit.flaky, unit.seconds, unit.slot) == (True, 4.5, 1)
        assert unit.notes == ("attempt 1 failed: 1 of 2 tests failed: test_b",)
        assert [(test.flaky, test.tries) for test in unit.tests] == [(False, 2), (True, 2)]
        assert [(span.attempt, span.outcome) for span in unit.spans] == [
            (1, Outcome.FAILED),
            (2, Outcome.PASSED),
        ]

    def test_failure_at_the_second_too_is_no_flake(self, make: Maker) -> None:
        run, first, second = self.run(make)
        for part in (first, second):
            if part is second:
                part.start()
                part.collected("test_a", "test_b")
            part.test("test_a")
            part.test("test_b", "failed", why="OSError: port taken")
            part.end(exit_status=1)
        (unit,) = build(run.folder).units
        assert (unit.outcome, unit.flaky) == (Outcome.FAILED, False)

    def test_second_that_runs_only_what_failed_keeps_the_rest(self, make: Maker) -> None:
        run, first, second = self.run(make)
        first.test("test_a")
        first.test("test_b", "failed", why="E: x")
        first.end(exit_status=1)
        second.start()
        second.collected("test_b")
        second.test("test_b")
        second.end()
        (unit,) = build(run.folder).units
        assert [test.outcome for test in unit.tests] == [Outcome.PASSED, Outcome.PASSED]

    def test_second_that_leaves_out_what_failed_stays_red(self, make: Maker) -> None:
        run, first, second = self.run(make)
        first.test("test_a")
        first.test("test_b", "failed", why="E: x")
        first.end(exit_status=1)
        second.start()
        second.collected("test_a")
        second.test("test_a")
        second.end()
        assert build(run.folder).units[0].outcome is Outcome.FAILED

    def test_lost_attempt_or_part_is_missed(self, make: Maker) -> None:
        unit = make.unit("a")
        run = make.run(unit)
        part = run.part(unit, attempt=10**12, part=3)
        part.start()
        part.collected("test_a")
        part.test("test_a")
        part.end()
        (result,) = build(run.folder).units
        assert result.outcome is Outcome.NOT_RUN
        assert "one of 1000000000000 attempts left no record in the journal" in result.reason
        assert "one of 3 parts of attempt 1000000000000 left no record" in result.reason


def test_part_without_a_start_is_no_pass(make: Maker) -> None:
    unit = make.unit("a")
    run = make.run(unit)
    part = run.part(unit)
    part.collected("test_a")
    part.test("test_a")
    part.end()
    (result,) = build(run.folder).units
    assert told(result) == (Outcome.NOT_RUN, "the journal lacks its start")
    assert result.slot is None


def test_warnings_are_counted(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.collected("test_a")
        part.test("test_a")
        part.write("WarningMessage", message="deprecated")
        part.end()

    assert unit_of(make, write).warnings == 1


def test_seconds_come_from_the_lines_where_the_end_is_missing(make: Maker) -> None:
    def write(part: FakePart) -> None:
        part.collected("test_a")
        part.test("test_a", seconds=7)

    assert unit_of(make, write, ended=False).seconds == 7.0
