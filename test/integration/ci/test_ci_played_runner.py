"""The generated workflow, played: plan -> three shards on real sessions -> finish."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from test.integration.ci.conftest import Played

NAMES = [f"cpu-stage-b (cpu) {n}" for n in (1, 2, 3)]


def test_a_killed_shard_is_red_with_its_reason_and_command(played: Played) -> None:
    done = played.first
    assert [run.result for run in done["plan"]] == ["success"], done["plan"][0].log
    assert [run.result for run in done["checks"]] == ["success"], done["checks"][0].log
    assert [run.name for run in done["test"]] == NAMES
    assert [run.result for run in done["test"]] == ["success", "failure", "success"], done["test"]
    finish = done["finish"][0]
    assert finish.name == "hwmatrix"
    assert finish.result == "failure"
    assert "shard 2/3: " in finish.log
    assert "the run has no end" in finish.log or "the run was stopped" in finish.log, finish.log
    again = [line for line in finish.summary.splitlines() if "session cpu-stage-b" in line]
    assert any("--no-venv" in line and "test/test_b.py" in line for line in again), finish.summary
    assert "❌ hwmatrix: red" in finish.summary
    # No report.json was written: finish made the report from plan and journal.
    uploaded = played.first_uploads["report+cpu-stage-b+cpu+2"]
    assert "plan.json" in uploaded
    assert "report.json" not in uploaded


def test_three_shards_come_to_one_green_verdict(played: Played) -> None:
    done = played.second
    assert [run.result for run in done["test"]] == ["success"] * 3, done["test"][1].log
    finish = done["finish"][0]
    assert finish.result == "success", finish.log
    assert "GREEN  3 reports, 3 units" in finish.log
    assert "✅ hwmatrix: green" in finish.summary
    # A project without git: no commit to compare, and that is told.
    assert "no report tells its commit" in finish.log


def test_a_report_that_never_came_is_red(played: Played, tmp_path: Path) -> None:
    reports = played.reports(tmp_path / "reports")
    shutil.rmtree(reports / "report+cpu-stage-b+cpu+3")
    decision = str(reports / "decision" / "decision.json")
    ended = played.runner.project.hwmatrix("finish", str(reports), "--decision", decision)
    assert ended.status == 1
    assert "cpu-stage-b (cpu) 3: its report is missing (1 units)" in ended.err
    # Without a decision too: the reports themselves say how many there should be.
    alone = played.runner.project.hwmatrix("finish", str(reports))
    assert alone.status == 1
    assert "missing: shard 3 of 3" in alone.err


def test_doubled_and_foreign_reports_are_red(played: Played, tmp_path: Path) -> None:
    reports = played.reports(tmp_path / "reports")
    one = reports / "report+cpu-stage-b+cpu+1"
    shutil.copytree(one, reports / "again")
    two = reports / "report+cpu-stage-b+cpu+2" / "report.json"
    two.write_text(json.dumps({**json.loads(two.read_text()), "plan_hash": "0" * 16}))
    decision = str(reports / "decision" / "decision.json")
    ended = played.runner.project.hwmatrix("finish", str(reports), "--decision", decision, "--json")
    assert ended.status == 1
    told = json.loads(ended.out)
    assert told["verdict"] == "red"
    assert any("cpu-stage-b (cpu) 1: 2 reports" in reason for reason in told["reasons"])
    assert any("cpu-stage-b (cpu) 2: its report is missing" in r for r in told["reasons"])
    assert any("foreign report" in r and "it is of plan 0000" in r for r in told["reasons"])


def test_nothing_chosen_is_neutral(played: Played, tmp_path: Path) -> None:
    decision = {"version": 1, "sessions": [], "skipped": [], "neutral": True}
    file = tmp_path / "decision.json"
    file.write_text(json.dumps(decision))
    made = played.runner.project.hwmatrix("matrix", "--decision", str(file))
    assert made.status == 0, made.err
    assert json.loads(made.out)["count"] == 0
    ended = played.runner.project.hwmatrix("finish", "--decision", str(file))
    assert ended.status == 0, ended.err
    assert "NEUTRAL" in ended.err
    assert "the gate chose nothing" in ended.err


def test_a_job_s_words_reach_the_session_through_nox(played: Played) -> None:
    """Outside containers the same step runs nox, which hands the variables on."""
    project = played.runner.project
    words = ["--suite", "stage-b-test-cpu", "--shard", "2/3", "--plan", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "nox", "-s", "cpu-stage-b"],
        cwd=project.root,
        env={**project.env(), "HWMATRIX_ARGS": json.dumps(words)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert (plan["shard"], plan["shards"]) == (2, 3)
    assert "HWMATRIX_ARGS: --suite stage-b-test-cpu --shard 2/3 --plan --json" in done.stderr
