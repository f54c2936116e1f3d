"""What a person picks: suites, files, folders, node ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hwmatrix.errors import NothingToDoError, UsageError
from hwmatrix.model import Backend

if TYPE_CHECKING:
    from collections.abc import Callable

    from hwmatrix.model import Plan, Registration

CUDA = Backend.CUDA


@pytest.fixture
def rows(register: Callable[..., Registration]) -> list[Registration]:
    return [
        register("test/a/test_one.py"),
        register("test/a/test_two.py", 20),
        register("test/ab/test_three.py", 30, disabled="broken"),
        register("test/c/test_night.py", suite="nightly-cpu", nightly=True),
        register("test/a/test_one.py", suite="stage-b-test-1-gpu", backend=CUDA),
        register("test/a/test_two.py", suite="stage-b-test-2-gpu", backend=CUDA),
    ]


@pytest.mark.parametrize(
    ("paths", "selectors"),
    [
        (["test/a/test_one.py"], ["test/a/test_one.py"]),
        (["./test/a//test_one.py"], ["test/a/test_one.py"]),
        (["test\\a\\test_one.py"], ["test/a/test_one.py"]),
        (["test/a"], ["test/a/test_two.py", "test/a/test_one.py"]),
        (["test/a/"], ["test/a/test_two.py", "test/a/test_one.py"]),
        (["."], ["test/a/test_two.py", "test/a/test_one.py"]),
        (["test/a/test_one.py::T::test_a[x::y/z]"], ["test/a/test_one.py::T::test_a[x::y/z]"]),
        (
            ["test/a/test_one.py::T", "test/a/test_one.py::B", "test/a/test_one.py::T"],
            ["test/a/test_one.py::B", "test/a/test_one.py::T"],
        ),
        (["test/a/test_one.py::T", "test/a/test_one.py"], ["test/a/test_one.py"]),
    ],
)
def test_paths_narrow_the_units(
    paths: list[str], selectors: list[str], rows: list[Registration], plan_of: Callable[..., Plan]
) -> None:
    plan = plan_of(rows, paths=paths)
    assert [selector for unit in plan.units for selector in unit.selectors] == selectors


def test_what_is_not_picked_is_deselected(
    rows: list[Registration], plan_of: Callable[..., Plan]
) -> None:
    plan = plan_of(rows, paths=["test/a/test_one.py"])
    assert plan.deselected == (
        ("stage-b-test-cpu:test/a/test_two.py", "not under the paths given"),
        ("stage-b-test-cpu:test/ab/test_three.py", "not under the paths given"),
    )
    assert plan.disabled == ()


def test_a_path_that_picks_disabled_files_alone_says_so(
    rows: list[Registration], plan_of: Callable[..., Plan]
) -> None:
    message = (
        r"^cpu-stage-b: nothing selected: 3 files registered, 1 disabled \(reasons below\), "
        r"2 deselected\. Pass --allow-empty if intended\.\n"
        r"  stage-b-test-cpu:test/ab/test_three\.py: broken$"
    )
    with pytest.raises(NothingToDoError, match=message):
        plan_of(rows, paths=["test/ab"])


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "test/a/test_on.py",
            (
                r"^cpu-stage-b: test/a/test_on\.py is no file or folder with registrations\. Did "
                r"you mean 'test/a/test_one\.py'\? `--plan` lists"
            ),
        ),
        (
            "a_rather_long_folder/that_is_elsewhere/test_one.py",
            r"is no file or folder with registrations\. Did you mean 'test/a/test_one\.py'\?",
        ),
        ("zz", r"^cpu-stage-b: zz is no file or folder with registrations\. `--plan` lists"),
        (
            "test/c",
            (
                r"^cpu-stage-b: test/c is not registered in what was selected here\. It is "
                r"registered in cpu-nightly \(suite nightly-cpu\)\.$"
            ),
        ),
        ("test/a::T", r"is not registered in what was selected here\. It is registered in cpu-"),
        ("../x.py", r"\.\./x\.py is no file or folder"),
    ],
)
def test_a_path_that_picks_nothing_is_an_error(
    path: str, message: str, rows: list[Registration], plan_of: Callable[..., Plan]
) -> None:
    with pytest.raises(UsageError, match=message):
        plan_of(rows, paths=["test/a/test_one.py", path])


def test_all_wrong_paths_are_told(rows: list[Registration], plan_of: Callable[..., Plan]) -> None:
    with pytest.raises(UsageError, match=r"(?s)zz is no file.*yy is no file"):
        plan_of(rows, paths=["zz", "yy"])


def test_suites_are_picked_by_name_and_alias(
    rows: list[Registration], plan_of: Callable[..., Plan]
) -> None:
    assert plan_of(rows, suites=["old-cpu"]).suites == ("stage-b-test-cpu",)
    both = plan_of(rows, "cuda-stage-b")
    assert both.suites == ("stage-b-test-1-gpu", "stage-b-test-2-gpu")
    one = plan_of(rows, "cuda-stage-b", suites=["stage-b-test-2-gpu"])
    assert [unit.id for unit in one.units] == ["stage-b-test-2-gpu:test/a/test_two.py"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "stage-b-test-cp",
            (
                r"^cpu-stage-b: has no suite 'stage-b-test-cp'\. Did you mean 'stage-b-test-cpu'\? "
                r"Suites here: stage-b-test-cpu\.$"
            ),
        ),
        ("nightly-cpu", r"has no suite 'nightly-cpu'\. It belongs to cpu-nightly\. Suites here"),
        ("old-amd", r"has no suite 'old-amd'\. It belongs to amd-stage-b\."),
        ("zzz", r"has no suite 'zzz'\. Suites here: stage-b-test-cpu\."),
    ],
)
def test_an_unknown_suite_is_told(
    name: str, message: str, rows: list[Registration], plan_of: Callable[..., Plan]
) -> None:
    with pytest.raises(UsageError, match=message):
        plan_of(rows, suites=[name])


def test_a_path_of_another_suite_of_the_session_is_told(
    rows: list[Registration], plan_of: Callable[..., Plan]
) -> None:
    message = r"It is registered in cuda-stage-b \(suite stage-b-test-2-gpu\)\.$|suite stage-b"
    with pytest.raises(UsageError, match=message):
        plan_of(rows, "cuda-stage-b", suites=["stage-b-test-1-gpu"], paths=["test/a/test_two.py"])
