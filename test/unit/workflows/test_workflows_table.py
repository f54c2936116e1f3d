"""The rows of the table that CI reads: `[ci]`, `target_minutes`, containers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from hwmatrix import matrix as matrix_stage
from hwmatrix.errors import MatrixError
from hwmatrix.model import Backend, CiRow

if TYPE_CHECKING:
    from test.unit.workflows.conftest import Project

    from hwmatrix.model import Matrix


def load(project: Project) -> Matrix:
    return matrix_stage.load(project.root / "ci" / "matrix.toml")


def test_rows_reach_the_model(project: Project) -> None:
    project.rewrite(
        "[ci]\n",
        '[ci]\nlabels = ["self-hosted", "small"]\npython = "3.12"\nchecks = ["lint", "tests"]\n'
        "target_minutes = 15\nmax_parallel = 8\nretention_days = 3\n",
    )
    matrix = load(project)
    assert matrix.ci == CiRow(
        labels=("self-hosted", "small"),
        python="3.12",
        checks=("lint", "tests"),
        target_minutes=15,
        overhead_s=300,
        max_parallel=8,
        retention_days=3,
    )
    assert matrix.tiers["extra-a"].target_minutes == 20
    assert matrix.tiers["stage-b"].target_minutes == 0


def test_without_a_row_the_model_s_own_defaults_hold(project: Project) -> None:
    project.rewrite("[ci]\noverhead_s = 300\n", "")
    assert load(project).ci == CiRow()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"rocm-7.2" = "example', '"rocm-9" = "example', "which is no variant of this backend"),
        ("example/rocm:7.2", "example/rocm", "a container image with its tag"),
        ("example/rocm:7.2", "example/rocm:latest", "a container image with its tag"),
        ("example/rocm:7.2", "${{ github.token }}:1", "a container image with its tag"),
        ("example/rocm:7.2", "a b:1", "a container image with its tag"),
        ('overlay = ".hwmatrix/overlay"\n', "", "has nowhere to go: `overlay` is not given"),
        (".hwmatrix/overlay", "$(id)", "overlay is"),
        (".hwmatrix/overlay", "a/../../b", "overlay is"),
        ("--shm-size=16g", "--shm-size=16g; id", "options of `docker create`"),
        ("--shm-size=16g", '--env=\\"A\\"', "options of `docker create`"),
        ("/models:/models:ro", "models", "source:target"),
        ("/models:/models:ro", "/a:/b:exec", "source:target"),
        ("overhead_s = 300", 'python = "3.12; id"', "a version such as 3.12"),
        ("overhead_s = 300", 'checks = ["lint; id"]', "a name of letters"),
        ("overhead_s = 300", "checks = []", "At least 1 element"),
        ("overhead_s = 300", "max_parallel = 257", "at most 256"),
        ("target_minutes = 20", "target_minutes = -1", "at least 0"),
    ],
)
def test_a_wrong_row_is_refused(project: Project, old: str, new: str, message: str) -> None:
    project.rewrite(old, new)
    with pytest.raises(MatrixError, match=re.escape(message)):
        load(project)


def test_an_image_may_be_pinned_by_digest(project: Project) -> None:
    digest = f"example/rocm@sha256:{'a' * 64}"
    project.rewrite("example/rocm:7.2", digest)
    assert load(project).backends[Backend.AMD].container.images == {"rocm-7.2": digest}
