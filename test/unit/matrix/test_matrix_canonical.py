"""One way to write the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hwmatrix.matrix.canonical import canonical
from hwmatrix.matrix.read import parse

if TYPE_CHECKING:
    from collections.abc import Callable


def found(text: str) -> list[str]:
    return [str(problem) for problem in canonical(text, parse(text, "t.toml"))]


def test_a_table_in_order_has_no_problem(good: str) -> None:
    assert found(good) == []


def test_comments_are_free(good: str) -> None:
    assert found(good.replace("[tier.stage-b]", "#x\n  # y = 2\n[tier.stage-b] # [z]")) == []


def test_a_dotted_key_and_a_key_with_the_sign_in_it_are_free(good: str) -> None:
    text = good.replace("budget = { factor = 2 }", "budget.factor = 2\nbudget.grace_s = 9")
    text = text.replace('env = { A = "backend", B = "backend" }', "env = {A=''}")
    assert found(text) == []


MISPLACED = {
    "key": (
        'tier = "stage-b"\nrunner_config = "cpu"',
        'runner_config = "cpu"\ntier = "stage-b"',
        (
            "t.toml:39: suite.cpu.stage-b-test-cpu.tier stands after 'runner_config'. Move it "
            "above 'runner_config'."
        ),
    ),
    "inline key": (
        "budget = { factor = 2 }",
        "budget = { grace_s = 2, factor = 2 }",
        "t.toml:26: tier.extra-a.budget.factor stands after 'grace_s'. Move it above 'grace_s'.",
    ),
    "indented key": (
        "budget = {",
        "  budget = {",
        "t.toml:26: tier.extra-a.budget is indented. Begin it at the first column.",
    ),
    "indented header": (
        "[tier.extra-a]",
        " [tier.extra-a]",
        "t.toml:25: [tier.extra-a] is indented. Begin it at the first column.",
    ),
    "no blank": (
        "version = 1",
        "version=1",
        "t.toml:1: version is not written as `key = value`. Space it so.",
    ),
    "two blanks": (
        "version = 1",
        "version  = 1",
        "t.toml:1: version is not written as `key = value`. Space it so.",
    ),
    "blanks at the end": (
        "version = 1",
        "version = 1 ",
        "t.toml:1: the line ends with blanks. Remove them.",
    ),
    "tab": ("version = 1", "version = 1 #\tx", "t.toml:1: the line holds a tab. Use spaces."),
    "blank lines": (
        "[tier.stage-b]",
        "\n\n[tier.stage-b]",
        "t.toml:23: there are two blank lines in a row. Keep one.",
    ),
}


@pytest.mark.parametrize("name", MISPLACED)
def test_what_is_misplaced_is_told(name: str, spoil: Callable[[str, str], str]) -> None:
    old, new, message = MISPLACED[name]
    assert found(spoil(old, new)) == [message]


def test_backends_keep_their_order(good: str) -> None:
    text = f"{good}\n[suite.cpu.more]\ntier = 'stage-b'\nrunner_config = 'cpu'\n"
    text = text.replace("[suite.cpu.stage-b-test-cpu]", "[suite.amd.x]")
    assert found(text) == [
        "t.toml:50: suite.cpu stands after 'amd'. Move it above 'amd'.",
    ]


def test_tables_keep_their_order(good: str) -> None:
    assert found(f"{good}\n[project]\nroots = ['a']\n") == [
        "t.toml:50: project stands after 'suite'. Move it above 'suite'.",
    ]


def test_suites_of_a_backend_are_sorted_by_tier(good: str) -> None:
    text = f"{good}\n[suite.amd.late]\ntier = 'stage-b'\nrunner_config = '1-gpu'\n"
    assert found(text) == [
        (
            "t.toml:50: suite 'late' of 'stage-b' stands after 'extra-a-test-1-gpu-amd' of a later "
            "tier. Sort the suites of a backend by tier."
        ),
    ]


def test_line_ends_are_those_of_unix(good: str) -> None:
    problems = found(good.replace("\n", "\r\n"))
    assert problems[0] == (
        "t.toml:1: the line ends with a carriage return. Save with Unix line ends."
    )
    assert len(problems) == good.count("\n")
    assert found(good.rstrip("\n")) == [
        "t.toml:48: the file does not end with a line feed. Add one."
    ]
