"""Names of suites and sessions."""

from __future__ import annotations

import pytest

from hwmatrix.errors import UsageError
from hwmatrix.matrix import default_suite_name, find_session, sessions
from hwmatrix.matrix.read import parse
from hwmatrix.model import Backend, Matrix


@pytest.fixture
def matrix(good: str) -> Matrix:
    return parse(good, "ci/matrix.toml")


@pytest.mark.parametrize(
    ("backend", "name"),
    [
        (Backend.CPU, "stage-b-test-1-gpu"),
        (Backend.CUDA, "stage-b-test-1-gpu"),
        (Backend.AMD, "stage-b-test-1-gpu-amd"),
        (Backend.NPU, "stage-b-test-1-gpu-npu"),
    ],
)
def test_only_later_backends_stand_in_the_default_name(backend: Backend, name: str) -> None:
    assert default_suite_name(backend, "stage-b", "1-gpu") == name


def test_there_is_one_session_per_backend_tier_and_variant(matrix: Matrix) -> None:
    assert [session.name for session in sessions(matrix)] == [
        "cpu-stage-b",
        "amd-stage-b",
        "amd-stage-b-rocm-7.0",
        "amd-extra-a",
        "amd-extra-a-rocm-7.0",
    ]


def test_a_session_is_found_by_name(matrix: Matrix) -> None:
    found = find_session(matrix, "amd-extra-a")
    assert (found.backend, found.tier, found.variant) == (Backend.AMD, "extra-a", "rocm-7.2")
    assert not found.retired


def test_a_retired_variant_keeps_its_session_and_its_reason(matrix: Matrix) -> None:
    assert find_session(matrix, "amd-extra-a-rocm-7.0").retired == "too old"


def test_an_unknown_session_brings_the_close_match_and_the_list(matrix: Matrix) -> None:
    message = (
        r"^there is no session 'amd-extra'\. Did you mean 'amd-extra-a'\? "
        r"Sessions: cpu-stage-b, amd-stage-b, amd-extra-a\.$"
    )
    with pytest.raises(UsageError, match=message):
        find_session(matrix, "amd-extra")


def test_a_table_without_suites_has_no_session(good: str) -> None:
    matrix = parse(good.partition("[suite.cpu")[0] + "[suite]\n", "ci/matrix.toml")
    assert sessions(matrix) == ()
    with pytest.raises(UsageError, match=r"'x'\. ci/matrix\.toml declares no suite\.$"):
        find_session(matrix, "x")


def test_a_backend_without_variants_has_sessions_all_the_same(good: str) -> None:
    row = '[backend.musa]\n\n[suite.musa.s]\ntier = "stage-b"\nrunner_config = "1-gpu"\n'
    found = find_session(parse(f"{good}\n{row}", "ci/matrix.toml"), "musa-stage-b")
    assert found.variant == ""
