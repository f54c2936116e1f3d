"""Sessions to jobs: how many shards, which limits, labels, arguments and containers."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import pytest

from hwmatrix.app import ci
from hwmatrix.app.decision import Decision, by_hand
from hwmatrix.errors import JobsError, NothingToDoError, PlanError, UsageError
from hwmatrix.model import Chosen, Container
from hwmatrix.workflows import ENGINES, GITHUB_JOBS, lines_for

if TYPE_CHECKING:
    from test.unit.workflows.conftest import Project

    from hwmatrix.model import Job


def fault_of(project: Project, chosen: Chosen | str) -> Exception:
    row = chosen if isinstance(chosen, Chosen) else by_hand([chosen]).sessions[0]
    made = ci.jobs_of(Decision(sessions=(row,)), project.place())
    assert made.jobs == ()
    ((name, error),) = made.faults
    assert name == row.session
    return error


# ---------------------------------------------------------------- shards
def test_without_a_target_one_machine_does_all_that_fits(project: Project) -> None:
    (job,) = project.jobs("cpu-stage-b")
    assert (job.shard, job.shards) == (1, 1)
    assert job.args == ("--suite", "stage-b-test-cpu")
    assert job.run_s == 180  # six files of 60 s on two slots
    assert len(job.units) == 6


def test_a_target_makes_as_few_shards_as_it_needs(project: Project) -> None:
    # 20 min less 10 of set-up and 5 around it leave 5; the longest file takes 10: that is the aim.
    jobs = project.jobs("amd-extra-a")
    assert [job.name for job in jobs] == [f"amd-extra-a (1-gpu) {n}" for n in (1, 2, 3)]
    assert max(job.run_s for job in jobs) == 600
    assert all(job.shards == 3 for job in jobs)
    assert sorted(unit for job in jobs for unit in job.units) == sorted(
        f"extra-a-{'more' if n % 2 else 'test-1-gpu'}-amd:test/amd/test_a{n}.py" for n in range(5)
    )
    assert {job.plan_hash for job in jobs} == {jobs[0].plan_hash}


def test_a_target_that_a_file_makes_unreachable_is_told(project: Project) -> None:
    made = ci.jobs_of(by_hand(["amd-extra-a"]), project.place())
    assert made.notes == (
        "amd-extra-a on 1-gpu: target of 20 min out of reach: one file alone is estimated at 600 s",
    )


@pytest.mark.parametrize(("minutes", "shards"), [(9, 1), (8, 2), (7.5, 3), (7, 3), (6.5, 3)])
def test_shards_follow_the_target_of_all_tiers(
    project: Project, minutes: float, shards: int
) -> None:
    # 1 min of set-up and 5 around it: 9 min leave 3 for six files on two slots. 7 min leave 1:
    # one file a slot. 6.5 min leave less than one file takes, which is then the aim.
    project.rewrite("[ci]\n", f"[ci]\ntarget_minutes = {minutes}\n")
    assert len(project.jobs("cpu-stage-b")) == shards


def test_a_target_below_set_up_costs_no_more_machines(project: Project) -> None:
    project.rewrite("[ci]\n", "[ci]\ntarget_minutes = 5\n")
    made = ci.jobs_of(by_hand(["cpu-stage-b"]), project.place())
    assert len(made.jobs) == 1
    assert "left out of account: set-up alone takes 6.0 min" in made.notes[0]


def test_what_one_job_cannot_hold_is_split_until_it_fits(project: Project) -> None:
    project.rewrite("target_minutes = 20\n", "")
    jobs = project.jobs("amd-extra-a")
    # 1800 s of tests may take 2 x 1800 + 1220 s: one job of 60 min cannot hold them.
    assert len(jobs) > 1
    for job in jobs:
        assert job.deadline_s + 300 <= 3600
        assert job.deadline_s < job.timeout_minutes * 60 <= 3600


def test_limits_nest_even_with_nothing_around_the_session(project: Project) -> None:
    project.rewrite("overhead_s = 300", "overhead_s = 0")
    for job in project.jobs("cpu-stage-b", "amd-extra-a"):
        assert job.timeout_minutes * 60 > job.deadline_s > job.setup_s + job.run_s


def test_what_no_number_of_shards_fits_is_a_plan_error(project: Project) -> None:
    project.file("amd/test_a9.py", 3000, "register_amd_ci", "extra-a-more-amd")
    error = fault_of(project, "amd-extra-a")
    assert isinstance(error, PlanError)
    assert "split the file or raise max_job_minutes" in str(error)


def test_the_time_around_a_session_counts_too(project: Project) -> None:
    project.rewrite("overhead_s = 300", "overhead_s = 1200")
    error = fault_of(project, "amd-extra-a")
    assert isinstance(error, PlanError)
    assert "and 1200 s around it; a job on 1-gpu may take 3600 s" in str(error)


# ---------------------------------------------------------------- arguments, labels, containers
def test_each_runner_config_has_jobs_of_its_own(project: Project) -> None:
    project.rewrite(
        '[[gate]]\nname = "every-change"',
        '[suite.cpu.stage-b-wide]\ntier = "stage-b"\nrunner_config = "2-gpu"\n\n'
        '[[gate]]\nname = "every-change"',
    )
    project.rewrite(
        "devices = 2\nmax_job_minutes = 60",
        'devices = 2\nmax_job_minutes = 60\nlabels = { cpu = ["wide"] }',
    )
    project.file("test_wide.py", 30, "register_cpu_ci", "stage-b-wide")
    jobs = project.jobs("cpu-stage-b")
    assert [(job.runner_config, job.labels) for job in jobs] == [
        ("cpu", ("ubuntu-24.04",)),
        ("2-gpu", ("wide",)),
    ]
    assert [job.report for job in jobs] == [
        "report+cpu-stage-b+cpu+1",
        "report+cpu-stage-b+2-gpu+1",
    ]


def test_a_machine_without_labels_is_refused(project: Project) -> None:
    project.rewrite('labels = { cpu = ["ubuntu-24.04"] }\n', "")
    error = fault_of(project, "cpu-stage-b")
    assert isinstance(error, JobsError)
    assert "runner config cpu has no labels for cpu" in str(error)


def test_a_container_comes_from_the_table(project: Project) -> None:
    job = project.jobs("amd-extra-a")[0]
    assert job.container == Container(
        image="example/rocm:7.2",
        volumes=("/models:/models:ro",),
        options="--device=/dev/kfd --device=/dev/dri --shm-size=16g",
        overlay=".hwmatrix/overlay",
        requirements="requirements.in",
    )
    assert job.args[-3:] == ("--no-venv", "--overlay", ".hwmatrix/overlay")
    assert project.jobs("cpu-stage-b")[0].container is None


def test_a_decision_s_wishes_reach_the_session(project: Project) -> None:
    chosen = Chosen(
        session="cpu-stage-b",
        suites=("stage-b-test-cpu",),
        paths=("test/test_c1.py::test_it",),
        continue_on_error=True,
        env={"SWITCH": "1"},
    )
    (job,) = project.jobs(chosen)
    assert job.args == (
        "--suite", "stage-b-test-cpu", "--continue-on-error", "test/test_c1.py::test_it",
    )  # fmt: skip
    assert job.units == ("stage-b-test-cpu:test/test_c1.py",)
    assert job.env == {"SWITCH": "1"}
    assert job.command == (
        "nox -s cpu-stage-b -- --suite stage-b-test-cpu --continue-on-error "
        "test/test_c1.py::test_it"
    )


def test_paths_go_only_to_the_machines_that_have_them(project: Project) -> None:
    chosen = Chosen(session="amd-extra-a", paths=("test/amd",))
    assert len(project.jobs(chosen)) == 3
    error = fault_of(project, Chosen(session="amd-extra-a", paths=("test/test_c1.py",)))
    assert isinstance(error, UsageError)
    assert "test/test_c1.py is not registered in what was selected here" in str(error)


def test_disabled_files_make_no_job(project: Project) -> None:
    for number in range(6):
        project.file(
            f"test_c{number}.py", 60, "register_cpu_ci", "stage-b-test-cpu", ", disabled='broken'"
        )
    error = fault_of(project, "cpu-stage-b")
    assert isinstance(error, NothingToDoError)
    assert "was chosen, and has nothing to run" in str(error)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("amd-extra-a-rocm-7.1", "is retired: too old"),
        ("amd-extra-b", "there is no session 'amd-extra-b'"),
    ],
)
def test_sessions_that_cannot_run_are_faults(project: Project, name: str, message: str) -> None:
    assert message in str(fault_of(project, name))


def test_a_fault_of_one_session_stops_no_other(project: Project) -> None:
    project.file("test_x.py", 5, "register_amd_ci", "extra-a-test-1-gpu-amb")
    made = ci.jobs_of(by_hand(["amd-extra-a", "cpu-stage-b"]), project.place())
    assert [job.session for job in made.jobs] == ["cpu-stage-b"]
    assert "extra-a-test-1-gpu-amb" in str(made.faults[0][1])


def test_a_session_stands_in_a_decision_once(project: Project) -> None:
    with pytest.raises(JobsError, match=r"jobs of the same name: cpu-stage-b \(cpu\) 1"):
        project.jobs("cpu-stage-b", "cpu-stage-b")


# ---------------------------------------------------------------- engines
def test_github_reads_the_jobs_as_a_matrix(project: Project) -> None:
    jobs = project.jobs("amd-extra-a", "cpu-stage-b")
    outputs = ENGINES["github"].outputs(jobs, max_parallel=2)
    assert (outputs["count"], outputs["max_parallel"]) == ("4", "2")
    entries = json.loads(outputs["matrix"])["include"]
    assert entries[0] == {
        "name": "amd-extra-a (1-gpu) 1",
        "session": "amd-extra-a",
        "args": list(jobs[0].args),
        "env": {},
        "runs_on": ["linux-amd-1", "self-hosted"],
        "timeout": jobs[0].timeout_minutes,
        "container": {
            "image": "example/rocm:7.2",
            "volumes": ["/models:/models:ro"],
            "options": "--device=/dev/kfd --device=/dev/dri --shm-size=16g",
        },
        "overlay": ".hwmatrix/overlay",
        "requirements": "requirements.in",
        "report": "report+amd-extra-a+1-gpu+1",
    }
    assert entries[3]["container"] == ""
    assert ENGINES["github"].outputs(jobs, max_parallel=0)["max_parallel"] == "4"
    assert ENGINES["github"].outputs((), max_parallel=0)["max_parallel"] == "1"


def many(job: Job, count: int) -> tuple[Job, ...]:
    return tuple(dataclasses.replace(job, shard=n, shards=count) for n in range(1, count + 1))


def test_github_s_limits_are_kept(project: Project) -> None:
    (job,) = project.jobs("cpu-stage-b")
    github = ENGINES["github"]
    assert github.outputs(many(job, GITHUB_JOBS), max_parallel=0)["count"] == "256"
    with pytest.raises(JobsError, match=r"257 jobs; GitHub runs 256.*cpu-stage-b 257"):
        github.outputs(many(job, GITHUB_JOBS + 1), max_parallel=0)
    long = dataclasses.replace(job, args=("x" * 140_000,))
    with pytest.raises(JobsError, match=r"its arguments take 140004 bytes"):
        github.outputs((long,), max_parallel=0)
    wide = dataclasses.replace(job, args=("x" * 50_000,))
    with pytest.raises(JobsError, match=r"GitHub takes 524288 from a job"):
        github.outputs(many(wide, 20), max_parallel=0)


def test_other_engines_get_each_command_as_words(project: Project) -> None:
    jobs = project.jobs("amd-extra-a")
    plain = json.loads(ENGINES["plain"].outputs(jobs, max_parallel=0)["jobs"])
    assert plain[1]["command"][:5] == ["python3", "-m", "hwmatrix", "session", "amd-extra-a"]
    assert (plain[1]["shard"], plain[1]["shards"]) == (2, 3)


# Names that would do harm in a shell line, in a log or in the file of outputs.
EVIL = (
    "'; rm -rf / #",
    "$(touch /tmp/x) `id`",
    "a\nmatrix=evil",
    "x\n::set-output name=matrix::evil",
    "##[set-env name=PATH;]evil",
    "\x1b[2J\x1b]0;title\x07",
    "${{ github.token }}",
    "\u2028\u202e",
)


@pytest.mark.parametrize("evil", EVIL)
def test_no_name_ends_a_line_of_the_outputs(project: Project, evil: str) -> None:
    (job,) = project.jobs("cpu-stage-b")
    spoilt = dataclasses.replace(job, args=(evil,), env={"A": evil})
    outputs = ENGINES["github"].outputs((spoilt,), max_parallel=0)
    text = lines_for(outputs, "word")
    assert text.isascii()
    assert "##[" not in text
    assert "\x1b" not in text
    lines = text.splitlines()
    assert lines[0::3] == ["count<<word", "matrix<<word", "max_parallel<<word"]
    assert lines[2::3] == ["word"] * 3
    assert json.loads(lines[4])["include"][0]["args"] == [evil]


def test_a_value_with_the_delimiter_is_refused() -> None:
    with pytest.raises(JobsError, match="holds the delimiter 'word'"):
        lines_for({"a": "one\nword\nb=evil"}, "word")
