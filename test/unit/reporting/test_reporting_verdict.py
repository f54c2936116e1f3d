from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from hwmatrix.errors import RunFolderError
from hwmatrix.model import Outcome
from hwmatrix.redact import redactor
from hwmatrix.reporting import Verdict, build, render, write_all

if TYPE_CHECKING:
    from pathlib import Path

    from test.unit.reporting.conftest import FakeRun, Maker

    from hwmatrix.model import Unit


def skip_all(run: FakeRun, unit: Unit) -> None:
    part = run.part(unit)
    part.start()
    part.collected("test_a")
    part.test("test_a", "skipped", why="no gpu")
    part.end()


def pick_nothing(run: FakeRun, unit: Unit) -> None:
    part = run.part(unit)
    part.start()
    part.collected(deselected=2)
    part.end(exit_status=5)


def verdict_of(run: FakeRun) -> Verdict:
    return build(run.folder).verdict


def test_green(make: Maker) -> None:
    a, b = make.unit("a"), make.unit("b")
    run = make.run(a, b)
    run.start()
    run.good(a, "test_a", "test_b")
    skip_all(run, b)
    run.end()
    report = build(run.folder)
    assert report.verdict == Verdict(
        green=True,
        units={Outcome.PASSED: 1, Outcome.SKIPPED: 1},
        tests={Outcome.PASSED: 2, Outcome.SKIPPED: 1},
    )
    assert (report.started, report.seconds, report.complete) == (make.t0, 11.0, True)


def test_red_unit_is_named_with_its_reason(make: Maker) -> None:
    a, b = make.unit("a"), make.unit("b")
    run = make.run(a, b)
    run.start()
    run.good(a, "test_a")
    part = run.part(b)
    part.start()
    part.collected("test_b")
    part.test("test_b", "failed", why="E: x")
    part.end(exit_status=1)
    run.end(1)
    verdict = verdict_of(run)
    reason = "test/registered/test_b.py: failed: 1 of 1 test failed: test_b"
    assert (verdict.green, verdict.reasons) == (False, (reason,))


def test_empty_shard_is_red(make: Maker) -> None:
    run = make.run(make.unit("a", shard=2), plan={"shards": 2})
    run.start()
    run.end()
    assert verdict_of(run).reasons == ("nothing ran: the plan holds no unit for this shard",)


def test_all_skipped_is_red(make: Maker) -> None:
    a, b = make.unit("a"), make.unit("b")
    run = make.run(a, b)
    run.start()
    skip_all(run, a)
    skip_all(run, b)
    run.end()
    assert verdict_of(run).reasons == ("nothing ran: all 2 units were skipped or deselected",)


def test_nothing_picked_anywhere_is_red(make: Maker) -> None:
    a = make.unit("a")
    run = make.run(a, selection=True, pytest_args=("-k", "nothing"))
    run.start()
    pick_nothing(run, a)
    run.end()
    assert verdict_of(run).reasons == ("nothing ran: the only unit was skipped or deselected",)


def test_file_in_which_a_selection_picks_nothing_is_fine(make: Maker) -> None:
    a, b = make.unit("a"), make.unit("b", suite="other")
    run = make.run(a, b, selection=True)
    run.start()
    run.good(a, "test_a")
    pick_nothing(run, b)
    run.end()
    verdict = verdict_of(run)
    assert verdict.green
    assert verdict.tests == {Outcome.PASSED: 1, Outcome.DESELECTED: 2}


@pytest.mark.parametrize("count", [1, 2])
def test_suite_in_which_every_file_ran_nothing_is_red(make: Maker, count: int) -> None:
    good = make.unit("good")
    idle = [make.unit(f"idle{i}", suite="idle") for i in range(count)]
    run = make.run(good, *idle)
    run.start()
    run.good(good, "test_a")
    for unit in idle:
        skip_all(run, unit)
    run.end()
    (reason,) = verdict_of(run).reasons
    assert reason.startswith("suite idle ran nothing: ")
    assert ("its only file" in reason) is (count == 1)


def test_suite_of_which_this_shard_has_only_a_part_is_not_judged(make: Maker) -> None:
    good, here = make.unit("good"), make.unit("here", suite="idle")
    there = make.unit("there", suite="idle", shard=2)
    run = make.run(good, here, there, plan={"shards": 2})
    run.start()
    run.good(good, "test_a")
    skip_all(run, here)
    run.end()
    report = build(run.folder)
    assert report.verdict.green
    assert [unit.unit.id for unit in report.units] == [good.id, here.id]


def green_run(make: Maker) -> FakeRun:
    unit = make.unit("a")
    run = make.run(unit)
    run.start()
    run.good(unit, "test_a")
    return run


def test_missing_end_is_red(make: Maker) -> None:
    run = green_run(make)
    assert verdict_of(run).reasons == ("the run has no end: it was killed, or it still runs",)


def test_torn_line_is_red_and_placed(make: Maker) -> None:
    run = green_run(make)
    run.end()
    assert verdict_of(run).green
    with (run.folder / "journal" / "worker-0.jsonl").open("a") as file:
        file.write('{"$report_type": "TestRep')
    (reason,) = verdict_of(run).reasons
    assert reason.startswith("the journal is torn at worker-0.jsonl:8")


def test_stopped_run_is_red_though_all_passed(make: Maker) -> None:
    run = green_run(make)
    run.stop("SIGTERM")
    run.stop("SIGTERM")
    run.end()
    assert verdict_of(run).reasons == ("the run was stopped: SIGTERM",)


def test_foreign_unit_is_red(make: Maker) -> None:
    run = green_run(make)
    run.good(make.unit("other"), "test_x")
    run.end()
    report = build(run.folder)
    assert report.strangers == (make.unit("other").id,)
    assert "which the plan of this shard does not hold" in report.verdict.reasons[0]


def test_journal_of_another_plan_is_red(make: Maker) -> None:
    run = green_run(make)
    run.write("supervisor", "RunStart", plan_hash="ffff")
    run.end()
    expected = ("the journal is of plan ffff, not of 0123456789abcdef",)
    assert verdict_of(run).reasons == expected


def test_missing_start_is_red(make: Maker) -> None:
    unit = make.unit("a")
    run = make.run(unit)
    run.good(unit, "test_a")
    run.end()
    assert verdict_of(run).reasons == ("the journal lacks the start of the run",)


@pytest.mark.parametrize(("status", "shown"), [(3, "3: boom"), (None, "unknown: boom")])
def test_end_that_disagrees_is_red(make: Maker, status: int | None, shown: str) -> None:
    run = green_run(make)
    run.end(status, reason="boom")
    expected = (f"every unit is well but the run ended with status {shown}",)
    assert verdict_of(run).reasons == expected


@pytest.mark.parametrize("flaky", [True, False])
def test_status_one_is_right_beside_a_flaky_unit_only(make: Maker, *, flaky: bool) -> None:
    unit = make.unit("a")
    run = make.run(unit)
    run.start()
    if flaky:
        part = run.part(unit)
        part.start()
        part.collected("test_a")
        part.test("test_a", "failed", why="E: x")
        part.end(exit_status=1)
    part = run.part(unit, attempt=2 if flaky else 1)
    part.start()
    part.collected("test_a")
    part.test("test_a")
    part.end()
    run.end(1)
    verdict = verdict_of(run)
    assert verdict.green is flaky
    assert (verdict.flaky_units, verdict.flaky_tests) == (int(flaky), int(flaky))


def test_processes_killed_at_the_end_are_noted(make: Maker) -> None:
    run = green_run(make)
    run.end(killed=2)
    report = build(run.folder)
    assert report.notes == ("2 left-over processes killed at the end",)
    assert "note: 2 left-over processes killed at the end" in render(report)


def test_files_that_could_not_be_forked_are_noted_once_with_their_number(make: Maker) -> None:
    units = [make.unit(name) for name in "abc"]
    run = make.run(*units)
    run.start()
    for unit, note in zip(units, ("why", "why", ""), strict=True):
        part = run.part(unit)
        part.start(note=note)
        part.collected("test_a")
        part.test("test_a")
        part.end()
    run.end()
    report = build(run.folder)
    assert report.verdict.green
    assert report.notes == ("why (2 files)",)


def test_folder_without_a_plan(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"plan\.json: not found; .* is no folder of a run"):
        build(tmp_path)


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"run_id": 3}'])
def test_unreadable_plan(tmp_path: Path, content: str) -> None:
    (tmp_path / "plan.json").write_text(content)
    with pytest.raises(RunFolderError, match="cannot be read as the plan of a run"):
        build(tmp_path)


def test_unreadable_journal(make: Maker) -> None:
    run = green_run(make)
    (run.folder / "journal" / "x.jsonl").mkdir()
    with pytest.raises(RunFolderError, match="its journal cannot be read"):
        build(run.folder)


def test_run_that_has_not_begun_is_red(make: Maker) -> None:
    report = build(make.run(make.unit("a")).folder)
    assert not report.verdict.green
    assert (report.seconds, report.units[0].outcome) == (0.0, Outcome.NOT_RUN)


def test_secrets_reach_no_file_and_no_screen(make: Maker) -> None:
    secret = "s3cr3t-v4lue"
    unit = make.unit(f"a_{secret}")
    run = make.run(unit, env={"HF_TOKEN": secret}, pytest_args=(f"--token={secret}",))
    run.start()
    part = run.part(unit)
    part.start()
    part.collected(f"test_a[{secret}]")
    sections = [["Captured stdout call", f"logged in with {secret}"]]
    part.test(f"test_a[{secret}]", "failed", why=f"E: {secret}", sections=sections)
    part.end(exit_status=1, tail=secret)
    run.end(1)
    report = build(run.folder, secrets=redactor({"HF_TOKEN": secret}))
    written = "".join(path.read_text() for path in write_all(report, run.folder))
    assert secret not in written + render(report)
    assert json.loads((run.folder / "report.json").read_text())["units"][0]["outcome"] == "failed"
    assert "logged in with ***" in written
    assert "nox -s cpu-stage-b -- 'test/registered/test_a_***.py::test_a[***]' '--token=***'" in (
        written
    )
