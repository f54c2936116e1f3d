from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

import pytest

from hwmatrix.redact import redactor
from hwmatrix.reporting import Live, Screen
from hwmatrix.reporting.eta import left_s, ratio
from hwmatrix.reporting.tail import Tail

if TYPE_CHECKING:
    from collections.abc import Callable

    from test.unit.reporting.conftest import FakePart, FakeRun, Maker

WIPE = "\r\x1b[K"


class Watched:
    """A run and the live view of it, on one clock."""

    def __init__(self, run: FakeRun, screen: Screen, width: Callable[[], int] | None = None):
        self.run = run
        self.stream = io.StringIO()
        redact = redactor({"HF_TOKEN": "s3cr3t-v4lue"})
        self.live = Live(
            run.folder,
            run.spec,
            self.stream,
            screen=screen,
            width=width,
            clock=lambda: run.now,
            redact=redact,
        )

    def said(self) -> list[str]:
        """Return the lines printed since the last call."""
        text = self.stream.getvalue()
        self.stream.seek(0)
        self.stream.truncate()
        return text.splitlines()

    def tick(self, after: float = 0.0) -> list[str]:
        self.run.now += after
        self.live.tick()
        return self.said()


def begin(run: FakeRun, number: int, *tests: str, slot: int = 0) -> FakePart:
    part = run.part(run.spec.plan.units[number], slot=slot)
    part.start()
    part.collected(*tests)
    return part


@pytest.fixture
def plain(make: Maker) -> Watched:
    run = make.run(*(make.unit(name) for name in ("a", "b", "c", "d")))
    run.start()
    return Watched(run, Screen())


def test_nothing_to_say_says_nothing(plain: Watched) -> None:
    assert plain.tick() == []


def test_one_line_per_unit_and_per_failed_test(plain: Watched) -> None:
    part = begin(plain.run, 0, "test_x", "test_y")
    part.test("test_x", seconds=2)
    assert plain.tick() == []
    part.test("test_y", "failed", why="AssertionError: 1 != 2")
    failed = "FAILED  test/registered/test_a.py::test_y: AssertionError: 1 != 2"
    assert plain.tick() == [failed]
    part.end(exit_status=1)
    ended = "[1/4] failed     test/registered/test_a.py (3.0 s, 2 tests)"
    assert plain.tick() == [f"{ended}: 1 of 2 tests failed: test_y"]
    assert plain.tick() == []


def test_test_that_fails_in_two_phases_is_said_once(plain: Watched) -> None:
    part = begin(plain.run, 0, "test_x")
    part.report("test_x", "setup")
    part.report("test_x", "call", "failed", longrepr="E  one")
    part.report("test_x", "teardown", "failed", longrepr="E  two")
    assert plain.tick() == ["FAILED  test/registered/test_a.py::test_x: one"]


def test_failed_subtest_is_said_and_its_test_not_again(plain: Watched) -> None:
    part = begin(plain.run, 0, "test_x")
    part.write(
        "SubTestReport",
        nodeid=part.id("test_x"),
        when="call",
        outcome="failed",
        longrepr="E  bad",
        **{"_subtest.context": {"msg": "fp8", "kwargs": {}}},
    )
    part.report("test_x", "call", "failed", longrepr="contains 1 failed subtest")
    assert plain.tick() == ["FAILED  test/registered/test_a.py::test_x fp8: bad"]


def test_timed_out_test(plain: Watched) -> None:
    part = begin(plain.run, 0, "test_x")
    part.report("test_x", "call", "failed", longrepr="E  Timeout", hw_outcome="timed out")
    assert plain.tick() == ["TIMED OUT  test/registered/test_a.py::test_x: Timeout"]


def test_broken_import(plain: Watched) -> None:
    part = begin(plain.run, 0)
    path = part.unit.files[0]
    part.write("CollectReport", nodeid=path, outcome="failed", longrepr="E  No module 'x'")
    part.end(exit_status=2)
    assert plain.tick() == [
        f"FAILED  {path}: cannot be collected: No module 'x'",
        f"[1/4] failed     {path} (0.00 s): cannot be imported: No module 'x'",
    ]


def test_all_done_has_no_time_left(plain: Watched) -> None:
    for unit in plain.run.spec.plan.units:
        plain.run.good(unit, "test_x", seconds=1)
    plain.tick()
    assert plain.tick(30) == ["0:34 | 4/4 files"]


def test_stop_is_said_once(plain: Watched) -> None:
    plain.run.stop("deadline")
    plain.run.stop("deadline")
    assert plain.tick() == ["stopping: deadline"]


def test_unit_that_is_not_run(plain: Watched) -> None:
    plain.run.not_run(plain.run.spec.plan.units[2], "slot 0 was retired")
    line = "[1/4] not run    test/registered/test_c.py (0.00 s): slot 0 was retired"
    assert plain.tick() == [line]


def test_foreign_units_are_left_to_the_report(plain: Watched, make: Maker) -> None:
    plain.run.good(make.unit("other"), "test_x")
    assert plain.tick() == []


def crash(part: FakePart, test: str) -> None:
    part.test_start(test)
    part.end("crashed", None, signal="SIGSEGV", test=part.id(test))


def test_crash_waits_for_the_rest_of_its_file(plain: Watched) -> None:
    first = begin(plain.run, 0, "test_x", "test_y")
    crash(first, "test_x")
    assert plain.tick() == []
    second = plain.run.part(plain.run.spec.plan.units[0], part=2)
    second.start()
    second.collected("test_y")
    second.test("test_y")
    second.end()
    (line,) = plain.tick()
    assert line.endswith("(1.0 s, 2 tests): killed by SIGSEGV while test_x ran")


def test_crash_in_the_last_test_is_said_at_once(plain: Watched) -> None:
    crash(begin(plain.run, 0, "test_x"), "test_x")
    (line,) = plain.tick()
    assert line.startswith("[1/4] crashed    test/registered/test_a.py")


def test_crash_is_said_when_its_slot_goes_on(plain: Watched) -> None:
    crash(begin(plain.run, 0, "test_x", "test_y"), "test_x")
    assert plain.tick(1) == []
    begin(plain.run, 1, "test_z", slot=1)
    assert plain.tick(1) == []
    begin(plain.run, 2, "test_z")
    (line,) = plain.tick()
    assert "test_a.py" in line


def test_retry_ends_its_unit_once_more(plain: Watched) -> None:
    part = begin(plain.run, 0, "test_x")
    part.test("test_x", "failed", why="E: x")
    part.end(exit_status=1)
    assert [line.split()[1] for line in plain.tick()] == [
        "test/registered/test_a.py::test_x:",
        "failed",
    ]
    again = plain.run.part(part.unit, attempt=2)
    again.start()
    again.collected("test_x")
    again.test("test_x")
    again.end()
    passed = "[1/4] passed     test/registered/test_a.py (1.0 s, 1 test, flaky)"
    assert plain.tick() == [passed]
    assert "failure" not in plain.tick(30)[0]


def test_heartbeat_without_a_terminal(plain: Watched) -> None:
    assert plain.tick(29) == []
    (line,) = plain.tick(1)
    assert line == "0:30 | 0/4 files | about 20 s estimated"
    part = begin(plain.run, 0, "test_x", "test_y")
    part.test("test_x", "failed", why="E: x", seconds=2)
    part.test_start("test_y")
    plain.tick()
    (line,) = plain.tick(30)
    assert line == (
        "1:02 | 0/4 files | 1 failure | about 20 s estimated | 0: test_a.py 32/10 s in test_y"
    )


def test_left_time_is_scaled_by_what_was_measured(plain: Watched) -> None:
    plain.run.good(plain.run.spec.plan.units[0], "test_x", seconds=50)
    lines = plain.tick()
    # One measured at 5 x its estimate, one more counted as it was estimated: 3 x; 3 files, 2 slots.
    assert lines[-1] == "0:50 | 1/4 files | about 60 s left"


def test_secrets_and_escapes_stay_out(plain: Watched) -> None:
    part = begin(plain.run, 0, "test_x")
    part.test("test_x", "failed", why="E: \x1b[31ms3cr3t-v4lue é")
    (line,) = plain.tick()
    assert line == "FAILED  test/registered/test_a.py::test_x: E: *** \\xe9"


def test_finish_tells_the_rest(plain: Watched) -> None:
    begin(plain.run, 0, "test_x").test_start("test_x")
    crash(begin(plain.run, 1, "test_x", "test_y", slot=1), "test_x")
    assert plain.tick() == []
    plain.live.finish()
    first, second = plain.said()
    assert first.startswith("[1/4] not run    test/registered/test_a.py")
    assert second.startswith("[2/4] crashed    test/registered/test_b.py")


class TestTerminal:
    @pytest.fixture
    def tty(self, make: Maker) -> Watched:
        run = make.run(*(make.unit(name) for name in ("a", "b", "c", "d")))
        run.start()
        screen = Screen(width=120, color=True, unicode=True, is_tty=True)
        return Watched(run, screen, width=lambda: self.width)

    width = 120

    def test_status_line_rewrites_itself(self, tty: Watched) -> None:
        tty.live.tick()
        first = tty.stream.getvalue()
        assert first == f"{WIPE}\x1b[2m0:00 | 0/4 files | about 20 s estimated\x1b[0m"
        tty.live.tick()
        assert tty.stream.getvalue() == first  # nothing new, nothing written
        begin(tty.run, 0, "test_x")
        tty.run.now += 3
        tty.live.tick()
        last = tty.stream.getvalue().removeprefix(first)
        assert last == (
            f"{WIPE}\x1b[2m0:03 | 0/4 files | about 20 s estimated | 0: test_a.py 3/10 s\x1b[0m"
        )

    def test_lines_that_stay_go_above_it(self, tty: Watched) -> None:
        tty.live.tick()
        tty.said()
        tty.run.good(tty.run.spec.plan.units[0], "test_x", seconds=10)
        tty.live.tick()
        written = tty.stream.getvalue()
        line = f"[1/4] \x1b[32m✓ passed    \x1b[0m {tty.run.spec.plan.units[0].files[0]}"
        assert written.startswith(f"{WIPE}{line} (10.0 s, 1 test)\n{WIPE}\x1b[2m0:00")
        assert "1/4 files | about 20 s left" in written

    def test_narrow_terminal_cuts_it(self, tty: Watched) -> None:
        self.width = 30
        watched = Watched(tty.run, Screen(is_tty=True), width=lambda: 30)
        watched.live.tick()
        assert watched.stream.getvalue() == f"{WIPE}0:00 | 0/4 files | about 2..."

    def test_finish_takes_it_away(self, tty: Watched) -> None:
        tty.live.tick()
        tty.live.finish()
        assert tty.stream.getvalue().endswith(f"\x1b[0m{WIPE}")


def test_closed_pipe_ends_the_printing_only(make: Maker) -> None:
    run = make.run(make.unit("a"))
    run.start()
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w", closefd=True) as stream:
        live = Live(run.folder, run.spec, stream, clock=lambda: run.now)
        run.stop("x")
        live.tick()
        run.stop("y")
        live.tick()
        live.finish()
        os.dup2(os.open(os.devnull, os.O_WRONLY), write)  # what is buffered has to go somewhere


class TestTail:
    def test_reads_what_is_new_by_time(self, make: Maker) -> None:
        run = make.run(make.unit("a"))
        tail = Tail(run.folder)
        assert tail.read() == []
        run.now = make.t0 + 2
        run.write("b", "X", n=2)
        run.now = make.t0 + 1
        run.write("c", "X", n=1)
        assert [line["n"] for line in tail.read()] == [1, 2]
        assert tail.read() == []
        run.write("b", "X", n=3)
        assert [line["n"] for line in tail.read()] == [3]

    def test_waits_for_the_rest_of_a_line_and_skips_foreign_ones(self, make: Maker) -> None:
        run = make.run(make.unit("a"))
        path = run.folder / "journal" / "x.jsonl"
        path.parent.mkdir()
        path.write_text('{"n": 1}\n[1]\nno json\n{"n":')
        tail = Tail(run.folder)
        assert [line["n"] for line in tail.read()] == [1]
        with path.open("a") as file:
            file.write(" 2}\n")
        assert [line["n"] for line in tail.read()] == [2]

    def test_unreadable_file_is_tried_again(self, make: Maker) -> None:
        run = make.run(make.unit("a"))
        folder = run.folder / "journal" / "x.jsonl"
        folder.mkdir(parents=True)
        tail = Tail(run.folder)
        assert tail.read() == []
        folder.rmdir()
        folder.write_text('{"n": 1}\n')
        assert [line["n"] for line in tail.read()] == [1]


class TestTimeLeft:
    def test_nothing_measured(self) -> None:
        assert ratio([]) == 1.0
        assert ratio([(5.0, 0.0)]) == 1.0

    def test_first_file_does_not_decide_alone(self) -> None:
        assert ratio([(1.0, 10.0)]) == pytest.approx(0.55)
        assert ratio([(20.0, 10.0)] * 9) == pytest.approx(1.9)

    @pytest.mark.parametrize(
        ("elapsed_s", "scale", "left"),
        [(4, 1.0, 6), (4, 2.0, 16), (40, 1.0, 10), (96, 1.0, 4), (120, 1.0, 0)],
    )
    def test_overdue_unit_takes_a_quarter_more_until_its_budget(
        self, elapsed_s: float, scale: float, left: float
    ) -> None:
        assert left_s(elapsed_s=elapsed_s, est_s=10, budget_s=100, scale=scale) == left
