"""What a report may claim of a run that left no end: nothing without evidence."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hwmatrix.model import Outcome
from hwmatrix.reporting import Live, build, render, report_json
from hwmatrix.reporting.ledger import Ledger
from hwmatrix.reporting.presence import supervisor
from hwmatrix.reporting.summary import summary_md

if TYPE_CHECKING:
    from collections.abc import Iterator

    from test.unit.reporting.conftest import FakeRun, Maker

SLEEP = "import sys; print('up', flush=True); sys.stdin.read()"
NO_SUPERVISOR = "the journal has no lines of the supervisor: files were removed or never written"
linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


def test_empty_journal_claims_no_kill(make: Maker) -> None:
    report = build(make.run(make.unit("a"), make.unit("b")).folder)
    missing = "the journal is missing or empty: its files were removed or never written"
    assert {unit.reason for unit in report.units} == {f"unaccounted for: {missing}"}
    assert missing in report.verdict.reasons
    assert "killed" not in render(report) + summary_md(report)


def test_journal_without_the_supervisor_claims_no_kill(make: Maker) -> None:
    a, b, c = make.unit("a"), make.unit("b"), make.unit("c")
    run = make.run(a, b, c)
    run.start()
    run.good(a, "test_a")
    part = run.part(b, slot=1)
    part.start()
    part.collected("test_x", "test_y")
    part.test_start("test_x")
    (run.folder / "journal" / "supervisor.jsonl").unlink()
    report = build(run.folder)
    assert report.units[0].outcome is Outcome.PASSED
    assert report.units[1].reason.startswith(
        f"no end was recorded while test_x ran: {NO_SUPERVISOR}"
    )
    assert report.units[2].reason == f"unaccounted for: {NO_SUPERVISOR}"
    assert NO_SUPERVISOR in report.verdict.reasons
    assert "killed" not in render(report)


def test_start_without_end_and_process_is_a_kill(make: Maker) -> None:
    run = make.run(make.unit("a"))
    run.start()
    assert build(run.folder).units[0].reason == "not started: the run was killed before its turn"


@pytest.fixture
def other(make: Maker) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that has the first run's folder among its arguments."""
    command = [sys.executable, "-c", SLEEP, str(make.folder / "run0")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as found:
        assert found.stdout is not None
        assert found.stdout.readline() == "up\n"
        yield found
        found.kill()


def under_way(make: Maker, pid: int) -> FakeRun:
    a, b, c, d = (make.unit(name) for name in "abcd")
    run = make.run(a, b, c, d)
    run.now = time.time()
    run.write("supervisor", "RunStart", plan_hash=run.spec.plan.hash, pid=pid)
    part = run.part(a)
    part.start()
    part.collected("test_f")
    part.test("test_f", "failed", why="E: x")
    part.end(exit_status=1)
    part = run.part(b)
    part.start()
    part.collected("test_x", "test_y")
    part.test_start("test_x")
    part = run.part(c, slot=1)
    part.start()
    return run


@linux
def test_run_that_goes_on_is_pending(make: Maker, other: subprocess.Popen[str]) -> None:
    report = build(under_way(make, other.pid).folder)
    assert not report.verdict.green
    assert report.running == other.pid
    assert f"still running (pid {other.pid}): 1 of 4 files done" in report.verdict.reasons
    assert [unit.reason for unit in report.units[1:]] == [
        "still running: test_x; 1 of 2 tests not run: test_y",
        "still running",
        "not started yet",
    ]
    assert [test.reason for test in report.units[1].tests] == ["still running", "not reached yet"]
    text = render(report) + summary_md(report)
    assert "killed" not in text
    assert "again:" not in render(report)
    assert "no test passed" not in text
    assert f'"running": {other.pid}' in report_json(report)


@linux
def test_crash_while_the_run_goes_on_may_be_taken_over(
    make: Maker, other: subprocess.Popen[str]
) -> None:
    run = under_way(make, other.pid)
    part = run.part(make.unit("d"))
    part.start()
    part.collected("test_x", "test_y")
    part.test_start("test_x")
    part.end("crashed", None, signal="SIGSEGV", test=part.id("test_x"))
    report = build(run.folder)
    assert report.units[3].tests[1].reason.endswith("and no other took over yet")


@linux
def test_process_that_ended_is_not_running(make: Maker, other: subprocess.Popen[str]) -> None:
    run = under_way(make, other.pid)
    other.kill()
    other.wait()
    assert build(run.folder).running == 0


@linux
def test_pid_of_another_process_is_not_the_supervisor(other: subprocess.Popen[str]) -> None:
    start = {"$report_type": "RunStart", "pid": other.pid, "time": time.time()}
    assert supervisor(Ledger([start]), "run0") == other.pid
    assert supervisor(Ledger([start]), "another-run") == 0
    assert supervisor(Ledger([{**start, "time": time.time() - 3600}]), "run0") == 0
    end = {"$report_type": "RunEnd", "time": time.time()}
    assert supervisor(Ledger([start, end]), "run0") == 0
    assert supervisor(Ledger(), "run0") == 0


def fake_proc(folder: Path, *, stat: str, boot: str = "btime 1000") -> Path:
    (folder / "7").mkdir(parents=True)
    (folder / "stat").write_text(f"cpu 1 2\n{boot}\n", encoding="utf-8")
    (folder / "7" / "stat").write_text(stat, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("stat", "boot"),
    [
        ("7 (a) b) Z 1 " + "0 " * 30, "btime 1000"),
        ("7 (python) S 1", "btime 1000"),
        ("7 (python) S 1 " + "0 " * 30, "none"),
        ("7 (python) S 1 " + "0 " * 30, "btime 1000"),  # no cmdline
    ],
)
def test_proc_that_tells_too_little(tmp_path: Path, stat: str, boot: str) -> None:
    start = {"$report_type": "RunStart", "pid": 7, "time": 2000.0}
    proc = fake_proc(tmp_path / "proc", stat=stat, boot=boot)
    assert supervisor(Ledger([start]), "run0", proc=proc) == 0


def test_slot_that_was_retired_is_told(make: Maker, capsys: pytest.CaptureFixture[str]) -> None:
    a, b, c = make.unit("a"), make.unit("b"), make.unit("c")
    run = make.run(a, b, c)
    run.start()
    run.good(a, "test_a")
    gone = {"slot": 1, "worker": "gw1", "reason": "3 GiB still in use"}
    run.write("worker-1", "SlotRetired", **gone, given=b.id)
    assert build(run.folder).infrastructure == (
        f"slot 1 was retired: 3 GiB still in use; {b.id} was not run yet",
    )
    run.good(b, "test_b")
    run.write("worker-1", "SlotRetired", **gone, given=c.id)
    run.write("worker-1", "SlotRetired", slot=1)
    run.end(1)
    report = build(run.folder)
    assert report.infrastructure == (
        f"slot 1 was retired: 3 GiB still in use; {b.id} ran on slot 0",
        f"slot 1 was retired: 3 GiB still in use; {c.id} was run by no other slot",
        "slot 1 was retired: no reason given",
    )
    assert "infrastructure: slot 1 was retired: no reason given" in render(report)
    assert "### Infrastructure\n\n- slot 1 was retired: 3 GiB still in use;" in summary_md(report)
    live = Live(run.folder, run.spec, sys.stdout)
    live.finish()
    assert "slot 1 was retired: 3 GiB still in use\n" in capsys.readouterr().out


def resumed(make: Maker) -> FakeRun:
    a, b, c = make.unit("a"), make.unit("b"), make.unit("c")
    run = make.run(a, b, c, resumed=1, done=(a.id,))
    run.start()
    run.good(a, "test_a")
    part = run.part(b)
    part.start()
    part.collected("test_b")
    part.test_start("test_b")
    part.end("stopped", None, test=part.id("test_b"), tail="SIGTERM")
    run.stop("SIGTERM")
    run.not_run(c, "SIGTERM")
    run.write("guard", "RunEnd", exit_status=2, reason="SIGTERM")
    run.now += 100
    run.write("supervisor", "RunStart", plan_hash=run.spec.plan.hash, pid=7, resumed=1)
    part = run.part(b, attempt=2)
    part.start()
    part.collected("test_b")
    part.test("test_b")
    part.end()
    run.good(c, "test_c")
    return run


def test_resumed_run_is_judged_by_its_last_part(make: Maker) -> None:
    run = resumed(make)
    assert build(run.folder).verdict.reasons == (
        "the run has no end: it was killed, or it still runs",
    )
    run.end()
    report = build(run.folder)
    assert report.verdict.green
    assert (report.verdict.flaky_units, report.verdict.flaky_tests) == (0, 0)
    told = "resumed: part 2; 1 file settled in earlier parts"
    assert render(report).splitlines()[1] == told
    assert f"{told}." in summary_md(report)


def test_stop_of_the_last_part_counts(make: Maker) -> None:
    run = resumed(make)
    run.stop("deadline")
    run.end(2)
    assert build(run.folder).verdict.reasons == ("the run was stopped: deadline",)


def test_run_that_was_not_resumed_says_nothing_of_it(make: Maker) -> None:
    assert "resumed" not in render(build(make.bad_day().folder))


def test_own_process_is_no_supervisor(make: Maker) -> None:
    assert build(under_way(make, os.getpid()).folder).running == 0
