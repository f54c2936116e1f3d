"""`matrix`, what it reads and writes; what a job hands to its session; where a run comes from."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix.app import ci, decision, jobpart, origin
from hwmatrix.errors import HwMatrixError, JobsError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from test.unit.workflows.conftest import Project

    from hwmatrix.app.place import Place

DECISION: dict[str, Any] = {
    "version": 1,
    "event": "push to main",
    "sessions": [
        {
            "session": "cpu-stage-b",
            "suites": ["stage-b-test-cpu"],
            "paths": [],
            "continue_on_error": True,
            "env": {"A": "b"},
            "reasons": ["row every-change"],
        }
    ],
    "skipped": [],
    "neutral": False,
}


def told(place: Place) -> tuple[str, str]:
    return place.out.getvalue(), place.err.getvalue()  # type: ignore[attr-defined]  # the fixture's streams


def run(place: Place, *names: str, file: Path | None = None, engine: str = "github") -> int:
    return ci.run_matrix(place, names=names, decision=file, engine=engine, as_json=False)


# ---------------------------------------------------------------- decisions
def write(project: Project, value: object) -> Path:
    path = project.root / "decision.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def test_a_decision_is_read_back(project: Project) -> None:
    found = decision.read(write(project, DECISION))
    (chosen,) = found.sessions
    assert (chosen.session, chosen.suites) == ("cpu-stage-b", ("stage-b-test-cpu",))
    assert chosen.continue_on_error
    assert chosen.env == {"A": "b"}
    assert (found.event, found.neutral) == ("push to main", False)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "no decision can be read"),
        ("[]", "an object is needed"),
        ("{}", "version"),
        ({**DECISION, "version": 2}, "version 2; this reads version 1"),
        ({**DECISION, "neutral": "no"}, "neutral is no truth value"),
        ({**DECISION, "neutral": True}, r"neutral is True with 1 session"),
        ({**DECISION, "sessions": []}, r"neutral is False with 0 session"),
        ({**DECISION, "sessions": {}}, "a list is needed"),
        ({**DECISION, "sessions": [{"session": 3}]}, "a text is needed"),
        ({**DECISION, "sessions": [{}]}, "session"),
    ],
)
def test_what_is_no_decision_is_refused(project: Project, value: object, message: str) -> None:
    with pytest.raises(JobsError, match=message):
        decision.read(write(project, value))


def test_a_missing_decision_is_refused(project: Project) -> None:
    with pytest.raises(JobsError, match=r"no decision can be read there"):
        decision.read(project.root / "nowhere.json")


# ---------------------------------------------------------------- the command
def test_outputs_are_appended_to_github_s_file(project: Project) -> None:
    file = project.root / "output"
    file.write_text("before=1\n")
    place = project.place(GITHUB_OUTPUT=str(file))
    assert run(place, file=write(project, DECISION)) == 0
    lines = file.read_text().splitlines()
    assert lines[0] == "before=1"
    name, _, word = lines[1].partition("<<")
    assert (name, lines[2], lines[3]) == ("count", "1", word)
    assert len(word) > 32
    out, err = told(place)
    assert out == ""
    assert "cpu-stage-b (cpu) 1: 6 units, about 3.0 min after 1.0 min of set-up" in err
    assert "nox -s cpu-stage-b -- --suite stage-b-test-cpu --continue-on-error" in err


def test_without_that_file_the_jobs_go_to_standard_output(project: Project) -> None:
    place = project.place()
    assert run(place, "cpu-stage-b", "amd-extra-a") == 0
    assert json.loads(told(place)[0])["count"] == 4
    assert "note: amd-extra-a on 1-gpu: target of 20 min out of reach" in told(place)[1]


def test_other_engines_never_write_github_s_file(project: Project) -> None:
    file = project.root / "output"
    place = project.place(GITHUB_OUTPUT=str(file))
    assert run(place, "cpu-stage-b", engine="plain") == 0
    assert not file.exists()
    assert json.loads(told(place)[0])["jobs"][0]["session"] == "cpu-stage-b"


def test_a_fault_is_told_and_the_rest_starts(project: Project) -> None:
    place = project.place()
    assert run(place, "amd-extra-a-rocm-7.1", "cpu-stage-b") == 0
    assert json.loads(told(place)[0])["count"] == 1
    assert "amd-extra-a-rocm-7.1: no job is started for it; finish will be red." in told(place)[1]


def test_with_nothing_but_faults_it_fails(project: Project) -> None:
    with pytest.raises(HwMatrixError, match="is retired: too old"):
        run(project.place(), "amd-extra-a-rocm-7.1")


def test_sessions_or_a_decision_but_not_both(project: Project) -> None:
    with pytest.raises(UsageError, match=r"name sessions, or give --decision FILE; one of them"):
        run(project.place())
    with pytest.raises(UsageError, match=r"one of them"):
        run(project.place(), "cpu-stage-b", file=write(project, DECISION))


def test_a_file_that_cannot_be_written_is_told(project: Project) -> None:
    with pytest.raises(JobsError, match="cannot be written"):
        run(project.place(GITHUB_OUTPUT=str(project.root)), "cpu-stage-b")


# ---------------------------------------------------------------- a job's part in its session
def test_a_job_hands_words_and_switches_past_the_shell(project: Project) -> None:
    file = project.root / "output"
    place = project.place(
        HWMATRIX_ARGS=json.dumps(["--suite", "a b'$(x)", "--shard", "1/2"]),
        HWMATRIX_ENV='{"SWITCH": "$(id)"}',
        GITHUB_OUTPUT=str(file),
        OTHER="stays",
    )
    part = jobpart.job_part(place)
    assert part.words == ("--suite", "a b'$(x)", "--shard", "1/2")
    assert part.place.env == {"SWITCH": "$(id)", "OTHER": "stays", "GITHUB_OUTPUT": str(file)}
    part.announce(project.root / "run\nfolder=evil")
    name, value, more, *_ = file.read_text().splitlines()
    assert name.startswith("folder<<")
    assert (value, more) == (f"{project.root}/run", "folder=evil")


def test_without_variables_a_session_is_as_typed(project: Project) -> None:
    file = project.root / "output"
    part = jobpart.job_part(project.place(GITHUB_OUTPUT=str(file), HWMATRIX_ENV="null"))
    assert part.words == ()
    part.announce(project.root)
    assert not file.exists()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("HWMATRIX_ARGS", "[", "HWMATRIX_ARGS is no JSON"),
        ("HWMATRIX_ARGS", '"--plan"', "must be a JSON list of texts"),
        ("HWMATRIX_ARGS", "[1]", "must be a JSON list of texts"),
        ("HWMATRIX_ENV", "[]", "must be a JSON object of texts"),
        ("HWMATRIX_ENV", '{"A": 1}', "must be a JSON object of texts"),
    ],
)
def test_variables_of_another_shape_are_refused(
    project: Project, name: str, value: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        jobpart.job_part(project.place(**{name: value}))


# ---------------------------------------------------------------- where a run comes from
def git(root: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org", *words]
    done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_the_commit_is_git_s_with_a_mark_for_changes(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("one")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-q", "-m", "first")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert origin.commit(tmp_path, {"GITHUB_SHA": "other"}) == head
    (tmp_path / "more").write_text("untracked files change nothing that is tested")
    assert origin.commit(tmp_path, {}) == head
    (tmp_path / "file").write_text("two")
    assert origin.commit(tmp_path, {}) == f"{head}+changes"


def test_without_git_an_engine_says_it(tmp_path: Path) -> None:
    assert origin.commit(tmp_path / "nowhere", {"CI_COMMIT_SHA": "abc"}) == "abc"
    assert origin.commit(tmp_path / "nowhere", {}) == ""


def test_the_table_s_hash_is_that_of_its_bytes(tmp_path: Path) -> None:
    table = tmp_path / "matrix.toml"
    assert origin.table_hash(table) == ""
    table.write_text("a")
    first = origin.table_hash(table)
    table.write_text("b")
    assert len(first) == 16
    assert origin.table_hash(table) != first
