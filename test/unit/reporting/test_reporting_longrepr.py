from __future__ import annotations

import pytest

from hwmatrix.reporting.ledger import number
from hwmatrix.reporting.longrepr import detail, reason, shorten


@pytest.mark.parametrize(
    ("longrepr", "expected"),
    [
        (None, ""),
        (3, ""),
        ("", ""),
        ([], ""),
        ("one\ntwo\n\n", "two"),
        ("E   first\n>  x\nE   last\nafter", "last"),
        (["f.py", 3, "Skipped: no gpu"], "no gpu"),
        (["f.py", 3, 4], ""),
        ({"reprcrash": {"message": "ValueError: a\nb"}}, "ValueError: a"),
        ({"reprcrash": None, "chain": "x"}, ""),
        ({"reprcrash": {"message": 3}}, ""),
    ],
)
def test_reason(longrepr: object, expected: str) -> None:
    assert reason(longrepr) == expected


def test_reason_is_bounded() -> None:
    assert len(reason("x" * 1000)) == 300
    assert reason("x" * 1000).endswith("...")


def entry(*lines: str, place: object = None) -> dict[str, object]:
    return {"data": {"lines": list(lines), "reprfileloc": place}}


def test_detail_has_the_whole_chain() -> None:
    first = {"reprentries": [entry("a", place={"path": "f.py", "lineno": 3, "message": "E"})]}
    second = {"reprentries": [entry("b"), entry()]}
    why = "The above exception was the direct cause:"
    chain = [[first, None, why], [second, None, None], [], "odd"]
    assert detail({"chain": chain}) == f"a\n\nf.py:3: E\n\n\n{why}\n\nb"


@pytest.mark.parametrize(
    "longrepr",
    [
        {"chain": [[None]]},
        {"chain": [[{"reprentries": 3}]]},
        {"chain": [[{"reprentries": [3, {"data": 4}, {"data": {"lines": 5}}]}]]},
        {"reprtraceback": 3},
        {},
    ],
)
def test_odd_shapes_give_nothing(longrepr: object) -> None:
    assert detail(longrepr) == ""


def test_traceback_without_a_chain() -> None:
    assert detail({"reprtraceback": {"reprentries": [entry("a", "b")]}}) == "a\nb"
    assert detail(["f.py", 3, "Skipped: x"]) == "Skipped: x"


@pytest.mark.parametrize(
    ("value", "expected"),
    [(3, 3.0), (True, 0.0), ("3", 0.0), (float("nan"), 0.0), (10**400, 0.0), (None, 0.0)],
)
def test_numbers_of_a_journal_are_finite(value: object, expected: float) -> None:
    assert number(value) == expected


def test_shorten_keeps_both_ends() -> None:
    assert shorten("abc", 3) == "abc"
    short = shorten("a" * 50 + "b" * 50, 30)
    assert short == f"{'a' * 10}\n[... 70 characters left out ...]\n{'b' * 20}"
