"""Which shard this machine runs, from the variables of the engine that started it."""

from __future__ import annotations

import pytest

from hwmatrix.app.request import parse
from hwmatrix.app.shards import shard_of
from hwmatrix.errors import UsageError

SLURM = {"SLURM_ARRAY_TASK_ID": "6", "SLURM_ARRAY_TASK_COUNT": "4", "SLURM_ARRAY_TASK_MIN": "2"}
KNOWN = {
    "slurm, steps of two": ({**SLURM, "SLURM_ARRAY_TASK_STEP": "2"}, (3, 4)),
    "slurm from 0": ({"SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_TASK_COUNT": "8"}, (1, 8)),
    "buildkite": ({"BUILDKITE_PARALLEL_JOB": "1", "BUILDKITE_PARALLEL_JOB_COUNT": "5"}, (2, 5)),
    "gitlab": ({"CI_NODE_INDEX": "2", "CI_NODE_TOTAL": "5"}, (2, 5)),
    "circle": ({"CIRCLE_NODE_INDEX": "4", "CIRCLE_NODE_TOTAL": "5"}, (5, 5)),
    "circle, not spread": ({"CIRCLE_NODE_INDEX": "0", "CIRCLE_NODE_TOTAL": "1"}, (1, 1)),
    "gitlab, not spread": ({"CI_NODE_TOTAL": "1"}, (1, 1)),
    "slurm, an array of one": (
        {"SLURM_ARRAY_TASK_ID": "5", "SLURM_ARRAY_TASK_COUNT": "1", "SLURM_ARRAY_TASK_MIN": "5"},
        (1, 1),
    ),
    "empty is unset": ({"CI_NODE_INDEX": "", "CI_NODE_TOTAL": ""}, (1, 1)),
    "a slurm job that is no array": ({"SLURM_ARRAY_TASK_COUNT": "4"}, (1, 1)),
    "nothing": ({}, (1, 1)),
}
REFUSED = {
    "not a number": ({"CI_NODE_INDEX": "1; ls", "CI_NODE_TOTAL": "2"}, "no whole number"),
    "negative": ({"CIRCLE_NODE_INDEX": "-1", "CIRCLE_NODE_TOTAL": "2"}, "no whole number"),
    "other digits": ({"CIRCLE_NODE_INDEX": "²", "CIRCLE_NODE_TOTAL": "2"}, "no whole number"),
    "half": ({"BUILDKITE_PARALLEL_JOB": "1"}, "BUILDKITE_PARALLEL_JOB_COUNT is not"),
    "half, first": ({"BUILDKITE_PARALLEL_JOB": "0"}, "BUILDKITE_PARALLEL_JOB_COUNT is not"),
    "other half": ({"CIRCLE_NODE_TOTAL": "3"}, "CIRCLE_NODE_INDEX is not"),
    "slurm without count": ({"SLURM_ARRAY_TASK_ID": "1"}, "SLURM_ARRAY_TASK_COUNT is not"),
    "from 0 on gitlab": ({"CI_NODE_INDEX": "0", "CI_NODE_TOTAL": "2"}, "GitLab counts from 1"),
    "past the end": ({"CIRCLE_NODE_INDEX": "2", "CIRCLE_NODE_TOTAL": "2"}, "0 to 1 are allowed"),
    "no machines": ({"CIRCLE_NODE_INDEX": "0", "CIRCLE_NODE_TOTAL": "0"}, "0 machine"),
    "between steps": (
        {**SLURM, "SLURM_ARRAY_TASK_ID": "5", "SLURM_ARRAY_TASK_STEP": "2"},
        "no step of 2 from 2",
    ),
    "a step of 0": ({**SLURM, "SLURM_ARRAY_TASK_STEP": "0"}, "no step of 0"),
    "a sparse array": ({**SLURM, "SLURM_ARRAY_TASK_ID": "9"}, "counts from 0"),
    "before the first": ({**SLURM, "SLURM_ARRAY_TASK_ID": "1"}, "counts from 0"),
    "two engines": (
        {**SLURM, "CI_NODE_INDEX": "2", "CI_NODE_TOTAL": "5"},
        "Slurm says 5/4|counts from 0|GitLab says 2/5",
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_an_engine_says_which_shard(name: str) -> None:
    env, expected = KNOWN[name]
    assert shard_of(None, env) == expected


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name: str) -> None:
    env, message = REFUSED[name]
    with pytest.raises(UsageError, match=message):
        shard_of(None, env)


def test_the_flag_and_the_engine_must_agree() -> None:
    env = {"CI_NODE_INDEX": "2", "CI_NODE_TOTAL": "5"}
    assert shard_of((2, 5), env) == (2, 5)
    with pytest.raises(UsageError, match=r"--shard says 3/5, GitLab says 2/5\. They must agree"):
        shard_of((3, 5), env)


def test_engines_that_agree_are_fine() -> None:
    env = {"CI_NODE_INDEX": "2", "CI_NODE_TOTAL": "5"}
    env |= {"CIRCLE_NODE_INDEX": "1", "CIRCLE_NODE_TOTAL": "5"}
    assert shard_of(None, env) == (2, 5)


def test_a_session_takes_its_shard_from_the_environment() -> None:
    env = {"CIRCLE_NODE_INDEX": "1", "CIRCLE_NODE_TOTAL": "3"}
    asked = parse(["cpu-stage-b"], exists=lambda _: True, env=env)
    assert (asked.shard, asked.shards) == (2, 3)
    assert parse(["cpu-stage-b"], exists=lambda _: True).shards == 1
