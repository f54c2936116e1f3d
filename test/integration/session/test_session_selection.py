"""What a person narrows, and what is refused before anything runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from test.integration.session.conftest import Project

GOOD = "def test_a():\n    pass\ndef test_b():\n    pass\n"
BAD = "def test_a():\n    assert 1 == 2\ndef test_b():\n    pass\n"


def test_a_keyword_deselects_files_and_only_red_when_nothing_ran(project: Project) -> None:
    project.file("test_one.py", "def test_wanted():\n    pass\ndef test_other():\n    pass\n")
    project.file("test_two.py", GOOD)
    ended = project.session("cpu-stage-b", "-k", "wanted")
    assert ended.status == 0, ended.err
    assert project.outcomes()["test_two.py"][0] == "deselected"
    nothing = project.session("cpu-stage-b", "-k", "nowhere")
    assert nothing.status == 1, nothing.err


def test_one_file_and_one_test(project: Project) -> None:
    one = project.file("test_one.py", BAD)
    project.file("test_two.py", GOOD)
    ended = project.session("cpu-stage-b", f"{one}::test_b")
    assert ended.status == 0, ended.err
    (unit,) = project.report()["units"]
    assert [test["id"] for test in unit["tests"]] == [f"{one}::test_b"]


def test_the_first_failure_stops_the_rest_and_the_rest_is_accounted_for(project: Project) -> None:
    project.file("test_one.py", "import time\n" + BAD)
    for n in range(4):
        project.file(f"test_slow_{n}.py", "import time\ndef test_a():\n    time.sleep(1)\n")
    ended = project.session("cpu-stage-b", "-x", "--slots", "1")
    assert ended.status == 1, ended.err
    outcomes = project.outcomes()
    assert len(outcomes) == 5
    assert outcomes["test_one.py"][0] == "failed"
    left = [reason for outcome, reason in outcomes.values() if outcome == "not run"]
    assert left
    assert all("first failure" in reason for reason in left)


def test_a_tier_that_stops_at_the_first_failure_can_be_told_to_go_on(project: Project) -> None:
    project.add_rows("fast")
    project.file("test_b.py", GOOD)
    for name, body in (("test_0.py", BAD), ("test_1.py", GOOD), ("test_2.py", GOOD)):
        path = project.root / project.file(name, body)
        path.write_text(path.read_text().replace("stage-b-test-cpu", "stage-c-test-cpu"))
    assert project.session("cpu-stage-c", "--slots", "1").status == 1
    assert {o for o, _ in project.outcomes().values()} == {"failed", "not run"}
    assert project.session("cpu-stage-c", "--slots", "1", "--continue-on-error").status == 1
    assert {o for o, _ in project.outcomes().values()} == {"failed", "passed"}


def test_shards_run_every_file_once(project: Project) -> None:
    for n in range(3):
        project.file(f"test_{n}.py", GOOD)
    ran: list[str] = []
    hashes = set()
    for shard in ("1/2", "2/2"):
        assert project.session("cpu-stage-b", "--shard", shard).status == 0
        ran += project.outcomes()
        hashes.add(project.report()["plan_hash"])
    assert sorted(ran) == ["test_0.py", "test_1.py", "test_2.py"]
    assert len(hashes) == 1


def test_missing_hardware_is_refused_before_anything_is_made_and_the_plan_shows(
    project: Project,
) -> None:
    project.add_rows("amd")
    project.file("test_cpu.py", GOOD)
    project.file("test_amd.py", GOOD, register="register_amd_ci")
    refused = project.hwmatrix("session", "amd-stage-b")
    assert refused.status == 7
    for words in ("1-gpu-large needs 1 amd device", "70 GiB", "Looked for", "--plan"):
        assert words in refused.err, refused.err
    assert not list((project.root / ".hwmatrix").glob("envs/*"))
    assert not list((project.root / ".hwmatrix").glob("runs/*"))
    planned = project.hwmatrix("session", "amd-stage-b", "--plan", "--json")
    assert planned.status == 0
    assert json.loads(planned.out)["units"][0]["files"] == ["test/test_amd.py"]


def test_nothing_selected_is_a_failure_unless_allowed(project: Project) -> None:
    path = project.root / project.file("test_a.py", GOOD)
    path.write_text(path.read_text().replace("est_time=1", "est_time=1, disabled='flaky'"))
    ended = project.session("cpu-stage-b")
    assert ended.status == 6
    assert "1 files registered" in ended.err
    assert "flaky" in ended.err
    allowed = project.session("cpu-stage-b", "--allow-empty")
    assert allowed.status == 0
    assert "Nothing was run." in allowed.err


def test_names_that_do_not_exist_get_their_close_match(project: Project) -> None:
    project.file("test_a.py", GOOD)
    ended = project.session("cpu-stage-bb")
    assert ended.status == 2
    assert "cpu-stage-b" in ended.err
    suite = project.session("cpu-stage-b", "--suite", "stage-b-test-cp")
    assert suite.status == 2
    assert "stage-b-test-cpu" in suite.err


def test_a_registration_that_cannot_be_read_stops_its_own_backend_alone(project: Project) -> None:
    project.add_rows("amd")
    project.file("test_good.py", GOOD)
    path = project.root / project.file("test_amd.py", GOOD, register="register_amd_ci")
    path.write_text(path.read_text().replace("est_time=1", "est_time=60 * 5"))
    cpu = project.session("cpu-stage-b", "--plan")
    assert cpu.status == 0
    assert "problem(s) elsewhere" in cpu.err
    amd = project.session("amd-stage-b", "--plan")
    assert amd.status == 3
    assert "test/test_amd.py:2" in amd.err


def test_lint_and_list_tell_everything_at_once(project: Project) -> None:
    project.add_rows("amd")
    project.file("test_good.py", GOOD)
    (project.root / "test" / "test_nowhere.py").write_text("def test_a():\n    pass\n")
    ended = project.hwmatrix("lint")
    assert ended.status == 3
    assert "test/test_nowhere.py: registers for no backend" in ended.out
    assert "amd suite 'stage-b-test-1-gpu-large-amd' is declared" in ended.out
    rows = json.loads(project.hwmatrix("lint", "--json").out)
    assert len(rows["problems"]) == 2
    listed = json.loads(project.hwmatrix("list", "--json").out)
    assert [row["session"] for row in listed] == ["cpu-stage-b", "amd-stage-b"]
    assert listed[0]["suites"][0]["files"] == 1


def test_lint_sees_ahead_what_no_environment_and_no_plan_can_hold(project: Project) -> None:
    project.file("test_good.py", GOOD)
    project.add_rows("fast")
    for name, seconds in (("test_long.py", 4000), ("test_small.py", 5), ("test_longer.py", 5000)):
        path = project.root / project.file(name, GOOD)
        text = path.read_text().replace("est_time=1", f"est_time={seconds}")
        path.write_text(text.replace("stage-b-test-cpu", "stage-c-test-cpu"))
    table = project.table.read_text()
    project.table.write_text(
        table.replace('requirements = "requirements.in"', 'requirements = "gone.in"', 1)
        + '\n[backend.amd.variant.old]\nretired = "withdrawn"\n'
    )
    (project.root / "requirements.in").write_text("-r absent.in\n")
    ended = project.hwmatrix("lint")
    assert ended.status == 3
    rows = json.loads(project.hwmatrix("lint", "--json").out)["problems"]
    files = [row for row in rows if row["rule"] == "missing-file"]
    assert "cpu variant 'cpu': its requirements file 'gone.in' does not exist" in files[0]["found"]
    assert "cannot read absent.in" in files[1]["found"]
    assert [table.splitlines()[row["line"] - 1][:15] for row in files] == ["requirements = "] * 2
    over = [row for row in rows if row["rule"] == "nesting"]
    assert [row["path"] for row in over] == ["ci/matrix.toml"] * 2
    assert all("cpu-stage-c: one file alone in its job may take" in row["found"] for row in over)
    assert sorted("test_longer" in row["todo"] for row in over) == [False, True]
    assert len(rows) == 4
