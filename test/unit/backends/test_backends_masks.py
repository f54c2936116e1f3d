"""Inherited masks: what each value leaves, or why it is refused."""

from __future__ import annotations

import pytest

from hwmatrix.backends import masks
from hwmatrix.errors import VisibilityError

IDS = [("GPU-aa11",), ("GPU-aa22",), ("GPU-bb33",), ("GPU-cc44",)]


@pytest.mark.parametrize(
    ("value", "positions"),
    [
        ("", ()),
        ("   ", ()),
        ("0", (0,)),
        ("2,0", (2, 0)),
        (" 1 , 3 ", (1, 3)),
        ("1-3", (1, 2, 3)),
        ("3,0-1", (3, 0, 1)),
        ("2-2", (2,)),
        ("-1", ()),
        ("0,-1,1", (0,)),
        ("GPU-bb33", (2,)),
        ("gpu-BB33,GPU-aa11", (2, 0)),
        ("GPU-b", (2,)),
        ("GPU-aa2,GPU-c", (1, 3)),
    ],
)
def test_a_list_leaves(value: str, positions: tuple[int, ...]) -> None:
    assert masks.select("V", value, IDS) == positions


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("4", r"V=4: there is no index 4; found 4 devices \(allowed: 0 to 3\)"),
        ("0-4", r"there is no index 4"),
        ("0,0", r"'0' names a device that is already in the list"),
        ("GPU-aa11,GPU-aa11", r"already in the list"),
        ("0-1,1", r"'1' names a device that is already"),
        ("0,,1", r"an entry is empty"),
        ("0,", r"an entry is empty"),
        ("3-1", r"the range '3-1' is not ascending"),
        ("0-99999", r"far too long"),
        ("0,GPU-bb33", r"indices and ids are mixed"),
        ("GPU-zz", r"'GPU-zz' is none of the devices found here \(GPU-aa11, GPU-aa22"),
        ("GPU-aa", r"'GPU-aa' fits several of the devices"),
        ("two", r"'two' is none of"),
    ],
)
def test_a_list_is_refused_because(value: str, reason: str) -> None:
    with pytest.raises(VisibilityError, match=reason):
        masks.select("V", value, IDS)


def test_an_index_is_refused_where_there_is_nothing() -> None:
    with pytest.raises(VisibilityError, match=r"found 0 devices \(allowed: none\)"):
        masks.select("V", "0", [])


def test_what_follows_a_negative_index_is_not_looked_at() -> None:
    assert masks.select("V", "1,-1,77", IDS) == (1,)


@pytest.mark.parametrize(
    ("env", "agreed"),
    [
        ({}, None),
        ({"B": "0,1"}, ("B", "0,1")),
        ({"A": "1,0", "B": "0, 1"}, ("A", "1,0")),
        ({"A": "", "B": ""}, ("A", "")),
    ],
)
def test_variables_of_one_level_agree(env: dict[str, str], agreed: tuple[str, str] | None) -> None:
    assert masks.agreed(env, ("A", "B")) == agreed


@pytest.mark.parametrize("other", ["", "1", "0,1,2"])
def test_variables_of_one_level_that_differ_are_refused(other: str) -> None:
    with pytest.raises(VisibilityError, match=rf"A=0,1 and B={other} contradict each other"):
        masks.agreed({"A": "0,1", "B": other}, ("A", "B"))


@pytest.mark.parametrize(
    ("value", "ids"), [("", False), ("0", False), ("-1", False), ("GPU-1", True)]
)
def test_ids_are_told_from_indices(value: str, *, ids: bool) -> None:
    assert masks.uses_ids(value) is ids
