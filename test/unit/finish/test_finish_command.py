"""`finish` the command: finding reports, planning again what should have run, where it tells."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix.app import ci, decision, finish
from hwmatrix.app.place import Place
from hwmatrix.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

TABLE = """\
version = 1

[project]
roots = ["test"]

[backend.cpu]
default_variant = "cpu"
setup_s = 60

[backend.cpu.variant.cpu]
torch = "2.13.0+cpu"
index = "https://index.example/cpu"
requirements = "requirements.in"

[tier.stage-b]

[runner.cpu]
devices = 1
max_job_minutes = 60
labels = { cpu = ["here"] }

[suite.cpu.stage-b-test-cpu]
tier = "stage-b"
runner_config = "cpu"
"""
WELL = '{"plan": "success", "checks": "success", "test": "success"}'
DECISION = {"version": 1, "sessions": [{"session": "cpu-stage-b"}], "neutral": False}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci" / "matrix.toml").write_text(TABLE)
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "test_a.py").write_text(
        "from hwmatrix import register_cpu_ci\n"
        "register_cpu_ci(est_time=10, suite='stage-b-test-cpu')\n"
    )
    (tmp_path / "decision.json").write_text(json.dumps(DECISION))
    return tmp_path


def at(root: Path, **env: str) -> Place:
    return Place(
        root=root, cwd=root, state=root / ".hwmatrix", env=env, out=io.StringIO(), err=io.StringIO()
    )


def report(root: Path, name: str, **more: Any) -> Path:
    """Write the report that the one job of the decision would leave."""
    (job,) = ci.jobs_of(decision.by_hand(["cpu-stage-b"]), at(root)).jobs
    unit = {
        "id": job.units[0],
        "suite": "stage-b-test-cpu",
        "files": ["test/test_a.py"],
        "outcome": "passed",
        "reason": "",
        "flaky": False,
        "seconds": 9.0,
        "est_s": 10.0,
        "budget_s": 90.0,
        "command": "nox -s cpu-stage-b -- test/test_a.py",
        "tests": [],
    }
    plain = {
        "version": 1,
        "kind": "verdict",
        "run": name,
        "session": "cpu-stage-b",
        "backend": "cpu",
        "suites": list(job.suites),
        "plan_hash": job.plan_hash,
        "shard": 1,
        "shards": 1,
        "planned": [list(job.units)],
        "commit": "",
        "table_hash": "",
        "verdict": {"green": True, "reasons": [], "tests": {"passed": 1}},
        "command": "nox -s cpu-stage-b",
        "command_red": "",
        "seconds": 12.0,
        "units": [unit],
        **more,
    }
    folder = root / "reports" / name
    folder.mkdir(parents=True)
    (folder / "report.json").write_text(json.dumps(plain))
    return folder


def run(place: Place, *reports: Path, with_decision: bool = True) -> tuple[int, str]:
    file = place.root / "decision.json" if with_decision else None
    status = finish.run(place, reports=reports, decision=file, as_json=False)
    return status, place.err.getvalue()  # type: ignore[attr-defined]  # the fixture's stream


def test_a_folder_of_reports_is_searched_and_the_page_written(root: Path) -> None:
    folder = report(root, "one")
    (folder / "logs").mkdir()
    (folder / "logs" / "report.json").write_text("what a test wrote inside a run is its own")
    (root / "reports" / "latest").symlink_to(folder)
    page = root / "page.md"
    page.write_text("before\n")
    place = at(root, HWMATRIX_NEEDS=WELL, GITHUB_STEP_SUMMARY=str(page))
    status, said = run(place, root / "reports", folder)
    assert (status, said.splitlines()[0]) == (0, "GREEN  1 report, 1 unit")
    assert page.read_text().startswith("before\n## ✅ hwmatrix: green\n")


def test_the_plan_is_made_again_here(root: Path) -> None:
    folder = report(root, "one")
    text = (root / "test" / "test_a.py").read_text()
    (root / "test" / "test_a.py").write_text(text.replace("10", "20"))
    status, said = run(at(root), folder)
    assert status == 1
    assert "foreign report" in said
    assert "its report is missing" in said


def test_without_a_decision_the_reports_stand_for_themselves(root: Path) -> None:
    status, said = run(at(root), report(root, "one"), with_decision=False)
    assert status == 0
    assert "note: no decision was given" in said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read as a report"),
        ('{"version": 1, "kind": "usage"}', "its kind is 'usage'"),
        ("[" * 100_000, "cannot be read as a report"),
    ],
)
def test_a_report_that_cannot_be_read_is_red(root: Path, text: str, message: str) -> None:
    folder = report(root, "one")
    other = root / "reports" / "two"
    other.mkdir()
    (other / "report.json").write_text(text)
    status, said = run(at(root), folder, other)
    assert status == 1
    assert message in said


def test_a_run_folder_without_a_plan_that_can_be_read_is_red(root: Path) -> None:
    folder = report(root, "one")
    (folder / "report.json").unlink()
    (folder / "plan.json").write_text("{}")
    status, said = run(at(root), folder)
    assert status == 1
    assert "cannot be read as a report" in said


def test_a_place_with_nothing_is_red(root: Path) -> None:
    status, said = run(at(root), root / "nowhere")
    assert status == 1
    assert "there is no such file or folder" in said
    (root / "empty").mkdir()
    assert run(at(root), root / "empty")[0] == 1


def test_a_failed_gate_needs_no_decision(root: Path) -> None:
    (root / "decision.json").write_text("")
    needs = '{"plan": "failure", "checks": "success", "test": "skipped"}'
    (root / "reports").mkdir()
    status, said = run(at(root, HWMATRIX_NEEDS=needs), root / "reports")
    assert status == 1
    assert "the gate or the plan failed: see the job 'plan'" in said
    assert "no decision" not in said


def test_a_decision_that_cannot_be_read_is_red(root: Path) -> None:
    folder = report(root, "one")
    (root / "decision.json").write_text("")
    status, said = run(at(root, HWMATRIX_NEEDS=WELL), folder)
    assert status == 1
    assert "what was to run cannot be told" in said


def test_a_session_that_could_not_be_planned_is_red(root: Path) -> None:
    folder = report(root, "one")
    sessions = [*DECISION["sessions"], {"session": "cpu-stage-z"}]  # type: ignore[misc]  # a list
    (root / "decision.json").write_text(json.dumps({**DECISION, "sessions": sessions}))
    status, said = run(at(root), folder)
    assert status == 1
    assert "cpu-stage-z: could not be planned: there is no session 'cpu-stage-z'" in said


@pytest.mark.parametrize("needs", ["{", "[]", '{"plan": 1}'])
def test_results_of_another_shape_are_refused(root: Path, needs: str) -> None:
    with pytest.raises(UsageError, match="HWMATRIX_NEEDS"):
        run(at(root, HWMATRIX_NEEDS=needs), report(root, "one"))


def test_nothing_given_is_refused(root: Path) -> None:
    with pytest.raises(UsageError, match="name reports, or folders that hold some"):
        run(at(root), with_decision=False)


def test_json_goes_to_standard_output(root: Path) -> None:
    place = at(root)
    folder = report(root, "one")
    assert finish.run(place, reports=[folder], decision=None, as_json=True) == 0
    out = place.out.getvalue()  # type: ignore[attr-defined]  # the fixture's stream
    assert json.loads(out)["verdict"] == "green"
