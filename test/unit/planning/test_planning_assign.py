"""Names checked both ways, on every backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hwmatrix.model import Backend
from hwmatrix.planning import assign

if TYPE_CHECKING:
    from collections.abc import Callable

    from hwmatrix.model import Matrix, Registration

AMD = Backend.AMD


def told(registrations: list[Registration], matrix: Matrix) -> list[str]:
    """Return the problems that stand in test files."""
    problems = assign(registrations, matrix).problems
    return [str(problem) for problem in problems if problem.path != matrix.path]


def names(
    registrations: list[Registration], matrix: Matrix
) -> dict[tuple[Backend, str], list[str]]:
    """Return the paths of each suite that has any."""
    found = assign(registrations, matrix).by_suite
    return {key: [r.path for r in rows] for key, rows in found.items() if rows}


def test_a_suite_is_meant_by_its_name_or_an_alias(
    matrix: Matrix, register: Callable[..., Registration]
) -> None:
    rows = [register("b.py"), register("a.py", suite="old-cpu")]
    assert names(rows, matrix) == {(Backend.CPU, "stage-b-test-cpu"): ["a.py", "b.py"]}
    assert told(rows, matrix) == []


def test_a_suite_is_meant_by_stage_and_runner_config(
    matrix: Matrix, register: Callable[..., Registration]
) -> None:
    row = register("a.py", suite="", stage="nightly", runner_config="cpu", nightly=True)
    assert names([row], matrix) == {(Backend.CPU, "nightly-cpu"): ["a.py"]}


def test_of_several_the_one_with_the_default_name_is_meant(
    matrix: Matrix, register: Callable[..., Registration]
) -> None:
    row = register("a.py", suite="", stage="stage-b", runner_config="1-gpu", backend=AMD)
    assert names([row], matrix) == {(AMD, "stage-b-test-1-gpu-amd"): ["a.py"]}


def test_several_without_the_default_name_are_ambiguous(
    matrix: Matrix, register: Callable[..., Registration]
) -> None:
    row = register("a.py", suite="", stage="extra-a", runner_config="1-gpu", backend=AMD)
    assert told([row], matrix) == [
        (
            "a.py:3: amd has 2 suites with stage 'extra-a' and runner_config '1-gpu', none of them "
            "with the default name. They are 'extra-a-first', 'extra-a-second'. Name one with "
            "suite=, or give one the default name in ci/matrix.toml."
        )
    ]


UNKNOWN = {
    "close match": (
        {"suite": "stage-b-test-1-gpu-amdd", "backend": AMD},
        (
            "a.py:3: amd has no suite 'stage-b-test-1-gpu-amdd'. Did you mean "
            "'stage-b-test-1-gpu-amd'? Suites are declared in ci/matrix.toml."
        ),
        "stage-b-test-1-gpu-amd",
    ),
    "alias is near": (
        {"suite": "old-am", "backend": AMD},
        (
            "a.py:3: amd has no suite 'old-am'. Did you mean 'old-amd'? Suites are declared in "
            "ci/matrix.toml."
        ),
        "stage-b-test-1-gpu-amd",
    ),
    "other backend": (
        {"suite": "stage-b-test-1-gpu", "backend": Backend.CPU},
        (
            "a.py:3: cpu has no suite 'stage-b-test-1-gpu'. It is a suite of cuda. Did you mean "
            "'stage-b-test-cpu'? Suites are declared in ci/matrix.toml."
        ),
        "stage-b-test-cpu",
    ),
    "nothing near": (
        {"suite": "zzz"},
        (
            "a.py:3: cpu has no suite 'zzz'. Its suites: stage-b-test-cpu, nightly-cpu. Suites are "
            "declared in ci/matrix.toml."
        ),
        "",
    ),
    "no suite at all": (
        {"suite": "x", "backend": Backend.XPU},
        (
            "a.py:3: xpu has no suite 'x'. ci/matrix.toml declares no suite for xpu. Suites are "
            "declared in ci/matrix.toml."
        ),
        "",
    ),
    "stage": (
        {"suite": "", "stage": "stage-bb", "runner_config": "cpu"},
        (
            "a.py:3: cpu has no suite with stage 'stage-bb' and runner_config 'cpu'. Did you mean "
            "'stage-b'? Its stages with suites: nightly, stage-b. Suites are declared in "
            "ci/matrix.toml."
        ),
        "stage-b-test-cpu",
    ),
    "runner config": (
        {"suite": "", "stage": "stage-b", "runner_config": "cpus"},
        (
            "a.py:3: cpu has no suite with stage 'stage-b' and runner_config 'cpus'. Did you mean "
            "'cpu'? Runner configs there: cpu. Suites are declared in ci/matrix.toml."
        ),
        "stage-b-test-cpu",
    ),
    "stage of a backend without suites": (
        {"suite": "", "stage": "s", "runner_config": "r", "backend": Backend.NPU},
        (
            "a.py:3: npu has no suite with stage 's' and runner_config 'r'. Its stages with "
            "suites: none. Suites are declared in ci/matrix.toml."
        ),
        "",
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_name_that_no_suite_has_is_told(
    name: str, matrix: Matrix, register: Callable[..., Registration]
) -> None:
    facts, message, near = UNKNOWN[name]
    row = register("a.py", **facts)
    assert told([row], matrix) == [message]
    problem = next(p for p in assign([row], matrix).problems if p.path == "a.py")
    assert (problem.rule, problem.backend, problem.suite) == ("unknown-suite", row.backend, near)


def test_a_suite_without_registrations_is_told_by_its_row(
    matrix: Matrix, register: Callable[..., Registration]
) -> None:
    problems = assign([register("a.py")], matrix).problems
    assert [(p.backend, p.suite, p.rule) for p in problems] == [
        (s.backend, s.name, "empty-suite")
        for s in sorted(matrix.suites, key=lambda s: (s.backend.value, s.name))
        if s.name != "stage-b-test-cpu"
    ]
    assert str(problems[0]) == (
        "ci/matrix.toml:7: amd suite 'extra-a-first' is declared, but no file registers for it. "
        "Add register_amd_ci(..., suite='extra-a-first') to a file, or remove the row."
    )


def test_a_suite_of_disabled_files_alone_is_idle_and_not_empty(
    matrix: Matrix, register: Callable[..., Registration]
) -> None:
    rows = [register(f"{name}.py", disabled="flaky") for name in "ab"]
    found = assign(rows, matrix)
    assert "stage-b-test-cpu" not in {problem.suite for problem in found.problems}
    assert [str(problem) for problem in found.idle] == [
        (
            "ci/matrix.toml:7: cpu suite 'stage-b-test-cpu' runs nothing: 2 registered, all "
            "disabled. Enable a file, or remove the row and its registrations."
        )
    ]
    assert assign([*rows, register("c.py")], matrix).idle == ()


@pytest.mark.parametrize(
    ("suite", "nightly", "message"),
    [
        (
            "stage-b-test-cpu",
            True,
            (
                "a.py:3: registers for cpu suite 'stage-b-test-cpu' with nightly=True, but its "
                "tier 'stage-b' is not nightly. Remove nightly=True, or name a suite of another "
                "tier."
            ),
        ),
        (
            "nightly-cpu",
            False,
            (
                "a.py:3: registers for cpu suite 'nightly-cpu' with nightly=False, but its tier "
                "'nightly' is nightly. Add nightly=True, or name a suite of another tier."
            ),
        ),
    ],
)
def test_nightly_agrees_with_the_tier(
    suite: str,
    *,
    nightly: bool,
    message: str,
    matrix: Matrix,
    register: Callable[..., Registration],
) -> None:
    assert told([register("a.py", suite=suite, nightly=nightly)], matrix) == [message]
    assert told([register("a.py", suite=suite, nightly=not nightly)], matrix) == []


def test_one_suite_named_in_two_ways_is_told_and_kept_once(
    matrix: Matrix, register: Callable[..., Registration]
) -> None:
    rows = [register("a.py", line=9, suite="old-cpu"), register("a.py", line=4, est_s=7)]
    assert told(rows, matrix) == [
        (
            "a.py:9: registers a second time for cpu suite 'stage-b-test-cpu' (the first is on "
            "line 4). A file registers once per suite; aliases count as the suite. Remove one of "
            "them."
        )
    ]
    (kept,) = assign(rows, matrix).by_suite[Backend.CPU, "stage-b-test-cpu"]
    assert kept.est_s == 7


def test_one_suite_named_twice_in_one_way_is_the_scans_to_tell(
    matrix: Matrix, register: Callable[..., Registration]
) -> None:
    rows = [register("a.py", line=4), register("a.py", line=9)]
    assert told(rows, matrix) == []
    assert len(assign(rows, matrix).by_suite[Backend.CPU, "stage-b-test-cpu"]) == 1


def test_a_file_may_register_for_several_suites(
    matrix: Matrix, register: Callable[..., Registration]
) -> None:
    rows = [
        register("a.py"),
        register("a.py", suite="nightly-cpu", nightly=True),
        register("a.py", suite="old-amd", backend=AMD),
    ]
    assert told(rows, matrix) == []
    assert len(names(rows, matrix)) == 3


def test_the_order_of_registrations_is_irrelevant(
    matrix: Matrix, register: Callable[..., Registration]
) -> None:
    rows = [
        register("b.py"),
        register("a.py", suite="zzz"),
        register("a.py", line=9, suite="old-cpu"),
        register("a.py", line=5),
    ]
    assert assign(rows, matrix) == assign(reversed(rows), matrix)
