"""The generated workflow files: golden, small, pinned, no word of an event in a shell line."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own

from hwmatrix import matrix as matrix_stage
from hwmatrix import workflows
from hwmatrix.app import workflow
from hwmatrix.workflows.pins import PINS

if TYPE_CHECKING:
    from test.unit.workflows.conftest import Project

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "test" / "data" / "workflows"
MAIN = ".github/workflows/hwmatrix.yml"
# The bound, whatever the table's size.
MOST_LINES = 150


def files(project: Project) -> dict[str, str]:
    return workflows.workflow_files(matrix_stage.load(project.root / "ci" / "matrix.toml"))


def main(project: Project) -> Any:
    return yaml.safe_load(files(project)[MAIN])


def events(plain: Any) -> Any:
    return plain[True]  # YAML 1.1 reads `on` as a truth value


@pytest.mark.parametrize("name", ["hwmatrix.yml", "hwmatrix-nights-1.yml", "hwmatrix-nights-2.yml"])
def test_files_are_as_they_were(project: Project, name: str) -> None:
    made = files(project)
    assert len(made) == 3
    text = made[f".github/workflows/{name}"]
    path = GOLDEN / name
    known = path.read_text(encoding="utf-8") if path.exists() else ""
    if text != known and os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
        pytest.fail(f"{path} was rewritten: look at the difference, then run the tests again")
    assert text == known


def test_this_repository_s_files_are_those_of_its_table() -> None:
    made = workflows.workflow_files(matrix_stage.load(ROOT / "ci" / "matrix.toml"))
    for name, text in made.items():
        assert (ROOT / name).read_text(encoding="utf-8") == text, "python -m hwmatrix workflow"


def test_a_large_table_makes_no_longer_file(project: Project) -> None:
    before = len(files(project)[MAIN].splitlines())
    table = project.root / "ci" / "matrix.toml"
    rows = [
        f'[suite.amd.suite-{n}]\ntier = "extra-a"\nrunner_config = "1-gpu"\n' for n in range(300)
    ]
    text = table.read_text(encoding="utf-8")
    table.write_text(text.replace("[[gate]]", "\n".join(rows) + "\n[[gate]]", 1), encoding="utf-8")
    project.rewrite("[ci]\n", '[ci]\npython = "3.12"\nchecks = ["a", "b", "c"]\n')
    after = files(project)[MAIN].splitlines()
    assert before < len(after) <= MOST_LINES
    assert len(after) - before == 9  # setup-python, in four jobs


# Rows of every kind for lanes that a public project has.
ROWS = """
[[gate]]
name = "labelled"
events = ["pull_request", "push", "merge_group", "workflow_dispatch", "workflow_call"]
labels = ["run-ci"]
bypass_labels = ["push", "merge_group", "workflow_dispatch"]

[[gate]]
name = "nights"
events = ["schedule"]
cron = ["0 */6 * * *", "30 2 * * 1-5"]

[ci]
python = "3.12"
"""


def test_the_real_lanes_take_as_few_lines_as_the_docs_say(tmp_path: Path) -> None:
    real = (ROOT / "test" / "data" / "matrix" / "real.toml").read_text(encoding="utf-8")
    (tmp_path / "ci").mkdir()
    table = tmp_path / "ci" / "matrix.toml"
    table.write_text(real + ROWS, encoding="utf-8")
    matrix = matrix_stage.load(table)
    counts = sorted(len(text.splitlines()) for text in workflows.workflow_files(matrix).values())
    docs = " ".join((ROOT / "docs" / "ci.md").read_text(encoding="utf-8").split())
    assert f"come to {counts[2]} lines, and {counts[0]} for each schedule" in docs
    assert counts[2] <= MOST_LINES
    backends = {suite.backend for suite in matrix.suites}
    assert f"{len(matrix.suites)} suites of {len(backends)} backends" in docs
    assert f"{len(matrix_stage.sessions(matrix))} sessions" in docs


def steps(plain: Any) -> list[Any]:
    return [step for job in plain["jobs"].values() for step in job.get("steps", [])]


def test_no_shell_line_holds_an_expression(project: Project) -> None:
    for step in steps(main(project)):
        assert "${{" not in step.get("run", "")


def test_permissions_are_the_least(project: Project) -> None:
    plain = main(project)
    assert plain["permissions"] == {}
    for name, job in plain["jobs"].items():
        asked = {"contents": "read"} | ({"pull-requests": "read"} if name == "plan" else {})
        assert job["permissions"] == asked


def test_actions_are_pinned_by_commit_with_their_version(project: Project) -> None:
    lines = [line for text in files(project).values() for line in text.splitlines()]
    used = [line.split("uses: ")[1] for line in lines if "uses: " in line and "./" not in line]
    assert len(used) == 7
    for line in used:
        assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line
    for step in steps(main(project)):
        if step.get("uses", "").startswith("actions/checkout"):
            assert step["with"] == {"persist-credentials": False}
    assert len({commit for _, commit, _ in PINS.values()}) == len(PINS)


def test_results_are_never_masked(project: Project) -> None:
    text = files(project)[MAIN]
    assert "continue-on-error:" not in text
    assert "|| true" not in text
    finish = main(project)["jobs"]["finish"]
    assert finish["needs"] == ["plan", "checks", "test"]
    assert finish["if"].startswith("${{ always() && (")
    upload = next(s for s in main(project)["jobs"]["test"]["steps"] if "matrix.report" in str(s))
    assert upload["if"] == "${{ always() && steps.session.outputs.folder }}"


def test_events_are_those_of_the_gate_rows(project: Project) -> None:
    on = events(main(project))
    assert list(on) == [
        "pull_request", "push", "merge_group", "workflow_dispatch", "workflow_call",
    ]  # fmt: skip
    assert on["push"] == {"branches": ["main"]}
    assert set(on["workflow_dispatch"]["inputs"]) == set(on["workflow_call"]["inputs"])
    project.rewrite('branches = ["main"]\n', "")
    assert events(main(project))["push"] == {"branches": ["**"]}


def test_without_gate_rows_a_person_starts_it(project: Project) -> None:
    table = project.root / "ci" / "matrix.toml"
    head, _, _ = table.read_text(encoding="utf-8").partition("[[gate]]")
    table.write_text(head, encoding="utf-8")
    made = files(project)
    assert list(made) == [MAIN]
    assert list(events(yaml.safe_load(made[MAIN]))) == ["workflow_dispatch"]


def test_each_schedule_calls_the_one_workflow(project: Project) -> None:
    made = files(project)
    plain = yaml.safe_load(made[".github/workflows/hwmatrix-nights-2.yml"])
    assert events(plain) == {"schedule": [{"cron": "30 2 * * 1-5"}]}
    assert plain["jobs"]["run"]["uses"] == f"./{MAIN}"


def test_one_cron_of_two_rows_is_one_file(project: Project) -> None:
    project.rewrite(
        '[[gate]]\nname = "by-hand"',
        '[[gate]]\nname = "again"\nevents = ["schedule"]\ncron = ["0 */6 * * *"]\n\n'
        '[[gate]]\nname = "by-hand"',
    )
    assert len(files(project)) == 3


def test_rows_of_like_names_keep_files_of_their_own(project: Project) -> None:
    project.rewrite(
        '[[gate]]\nname = "by-hand"',
        '[[gate]]\nname = "nights-1"\nevents = ["schedule"]\ncron = ["5 5 * * *"]\n\n'
        '[[gate]]\nname = "by-hand"',
    )
    made = files(project)
    assert len(made) == 4
    assert '"5 5 * * *"' in made[".github/workflows/hwmatrix-nights-1-again.yml"]


@pytest.mark.parametrize(
    "label", ["a'b", 'a"b', "a: b", "a #b", "}}", "é", "${{ x }}", "\\", "@DAYS@"]
)
def test_a_label_stays_a_label(project: Project, label: str) -> None:
    quoted = label.replace("\\", "\\\\").replace('"', '\\"')
    project.rewrite('"run-ci"', f'"{quoted}"')
    text = files(project)[MAIN]
    condition = yaml.safe_load(text)["jobs"]["plan"]["if"]
    listed = re.search(r"fromJSON\('([^']*)'\)", condition)
    assert listed
    assert label in json.loads(listed[1])
    assert len(text.splitlines()) <= MOST_LINES


# ---------------------------------------------------------------- the command
def test_the_command_writes_and_then_finds_nothing_to_do(project: Project) -> None:
    assert workflow.run(project.place(), check=True) == 1
    assert workflow.run(project.place(), check=False) == 0
    assert sorted(p.name for p in (project.root / ".github" / "workflows").iterdir()) == [
        "hwmatrix-nights-1.yml", "hwmatrix-nights-2.yml", "hwmatrix.yml",
    ]  # fmt: skip
    assert workflow.run(project.place(), check=True) == 0


def test_a_change_by_hand_is_shown_as_a_difference(project: Project) -> None:
    workflow.run(project.place(), check=False)
    file = project.root / MAIN
    file.write_text(file.read_text().replace("fail-fast: false", "fail-fast: true"))
    place = project.place()
    assert workflow.run(place, check=True) == 1
    out = place.out.getvalue()  # type: ignore[attr-defined]  # the fixture's stream
    assert "-      fail-fast: true\n+      fail-fast: false\n" in out
    assert "run `python -m hwmatrix workflow`" in place.err.getvalue()  # type: ignore[attr-defined]  # as above


def test_a_file_that_no_row_makes_is_found_and_removed(project: Project) -> None:
    workflow.run(project.place(), check=False)
    project.rewrite(', "30 2 * * 1-5"', "")
    mine = project.root / ".github" / "workflows" / "hwmatrix-own.yml"
    mine.write_text("name: made by hand\n")
    place = project.place()
    assert workflow.run(place, check=True) == 1
    assert "hwmatrix-nights-2.yml: nothing in the table makes it now" in place.out.getvalue()  # type: ignore[attr-defined]  # as above
    assert workflow.run(project.place(), check=False) == 0
    assert not (mine.parent / "hwmatrix-nights-2.yml").exists()
    assert mine.exists()
