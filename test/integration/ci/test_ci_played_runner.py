"""The generated workflow, played: plan -> three shards on real sessions -> finish."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from test.integration.ci.conftest import Runner

NAMES = [f"cpu-stage-b (cpu) {n}" for n in (1, 2, 3)]


def test_three_shards_come_to_one_green_verdict(runner: Runner) -> None:
    done = runner.run()
    assert [run.result for run in done["plan"]] == ["success"], done["plan"][0].log
    assert [run.name for run in done["test"]] == NAMES
    assert [run.result for run in done["test"]] == ["success"] * 3, done["test"][0].log
    finish = done["finish"][0]
    assert finish.name == "hwmatrix"
    assert finish.result == "success", finish.log
    assert "GREEN  3 reports, 3 units" in finish.log
    assert "✅ hwmatrix: green" in finish.summary
    # A project without git: no commit to compare, and that is told.
    assert "no report tells its commit" in finish.log


def test_a_killed_shard_is_red_with_its_reason_and_command(runner: Runner) -> None:
    body = "import time\n\ndef test_it():\n    time.sleep(8)\n"
    for letter in "abc":
        runner.project.file(f"test_{letter}.py", body)
    runner.kill = NAMES[1]
    text = runner.project.table.read_text()
    runner.project.table.write_text(text.replace("floor_s = 4", "floor_s = 20"))
    entries = [run for run in runner.run().items() if run[0] in {"test", "finish"}]
    done = dict(entries)
    assert [run.result for run in done["test"]] == ["success", "failure", "success"]
    finish = done["finish"][0]
    assert finish.result == "failure"
    assert "shard 2/3: the run has no end" in finish.log or "stopped" in finish.log
    assert "nox -s cpu-stage-b" in finish.summary
    assert "❌ hwmatrix: red" in finish.summary
    uploaded = runner.artifacts / "report+cpu-stage-b+cpu+2"
    assert (uploaded / "plan.json").is_file()


def test_a_report_that_never_came_is_red(runner: Runner) -> None:
    done = runner.run()
    assert done["finish"][0].result == "success", done["finish"][0].log
    shutil.rmtree(runner.root / "reports" / "report+cpu-stage-b+cpu+3")
    decision = "reports/decision/decision.json"
    ended = runner.project.hwmatrix("finish", "reports", "--decision", decision)
    assert ended.status == 1
    assert "cpu-stage-b (cpu) 3: its report is missing (1 units)" in ended.err


def test_doubled_and_foreign_reports_are_red(runner: Runner) -> None:
    runner.run()
    reports = runner.root / "reports"
    one = reports / "report+cpu-stage-b+cpu+1"
    shutil.copytree(one, reports / "again")
    two = reports / "report+cpu-stage-b+cpu+2" / "report.json"
    text = json.loads(two.read_text())
    two.write_text(json.dumps({**text, "plan_hash": "0" * 16}))
    ended = runner.project.hwmatrix(
        "finish", "reports", "--decision", "reports/decision/decision.json", "--json"
    )
    assert ended.status == 1
    told = json.loads(ended.out)
    assert told["verdict"] == "red"
    assert any("cpu-stage-b (cpu) 1: 2 reports" in reason for reason in told["reasons"])
    assert any("cpu-stage-b (cpu) 2: its report is missing" in r for r in told["reasons"])
    assert any("foreign report" in r and "it is of plan 0000" in r for r in told["reasons"])


def test_nothing_chosen_is_neutral(runner: Runner) -> None:
    decision = {"version": 1, "sessions": [], "skipped": [], "neutral": True}
    (runner.root / "decision.json").write_text(json.dumps(decision))
    made = runner.project.hwmatrix("matrix", "--decision", "decision.json")
    assert made.status == 0, made.err
    assert json.loads(made.out)["count"] == 0
    ended = runner.project.hwmatrix("finish", "--decision", "decision.json")
    assert ended.status == 0, ended.err
    assert "NEUTRAL" in ended.err
    assert "the gate chose nothing" in ended.err
