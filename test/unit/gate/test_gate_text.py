"""Text from outside, made safe; globs; the answer's JSON and words."""

from __future__ import annotations

import ast
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwmatrix import matrix as matrix_stage
from hwmatrix.errors import GateError
from hwmatrix.gate import Chosen, Decision, Skipped, render
from hwmatrix.gate.globs import taken, takes
from hwmatrix.gate.text import error_command, listed, one_line_json, quoted
from hwmatrix.model import Backend

if TYPE_CHECKING:
    from hwmatrix.model import Matrix


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("run-ci", "'run-ci'"),
        ("grün 🚀", "'grün 🚀'"),
        ("it's", "'it\\'s'"),
        ("a\\nb", "'a\\\\nb'"),
        ("a\nb\r\t", "'a\\nb\\r\\t'"),
        ("\x1b[31m", "'\\x1b[31m'"),
        ("\u202e\u2028", "'\\u202e\\u2028'"),
        ("\ud800", "'\\ud800'"),
        ("##[error]x", "'\\x23#[error]x'"),
        ("a" * 81, f"'{'a' * 80}... (81 characters)'"),
        ("", "''"),
    ],
)
def test_quoted(text: str, shown: str) -> None:
    assert quoted(text) == shown


@given(st.text() | st.text(alphabet="#[]:\n\x1b'\\a"))
def test_quoted_text_is_one_printable_short_line(text: str) -> None:
    shown = quoted(text)
    assert shown.isprintable()
    assert "##[" not in shown
    assert shown[0] == shown[-1] == "'"
    assert len(shown) <= 80 * 10 + 40


@given(st.text(max_size=80))
def test_different_texts_are_shown_differently(text: str) -> None:
    assert ast.literal_eval(quoted(text)) == text


def test_listed_tells_how_many_more() -> None:
    assert listed(["a", "b"]) == "'a', 'b'"
    assert listed([*"abcdefg"]) == "'a', 'b', 'c', 'd', 'e' and 2 more"


@given(st.text(alphabet="#[]x\n\u2028é"))
def test_json_is_one_ascii_line_without_a_command(text: str) -> None:
    line = one_line_json({"reason": text})
    assert re.fullmatch(r"[\x20-\x7e]*", line)
    assert "##[" not in line
    assert json.loads(line) == {"reason": text}


def test_an_error_command_is_one_line() -> None:
    assert error_command("50%\r\n::x::y") == "::error title=gate::50%25%0D%0A::x::y"


# ---------------------------------------------------------------- globs

GLOBS = [
    (["**"], "a/b.py", True),
    (["*"], "a/b.py", False),
    (["*.py"], "b.py", True),
    (["**.py"], "a/b.py", True),
    (["**/b.py"], "b.py", True),
    (["**/b.py"], "a/c/b.py", True),
    (["**/b.py"], "a/cb.py", False),
    (["a/**/b"], "a/b", True),
    (["a/**/b"], "a/x/y/b", True),
    (["a/**"], "a", False),
    (["docs/"], "docs/a/b", True),
    (["docs/"], "docsy", False),
    (["a?.py"], "ab.py", True),
    (["a?.py"], "a/.py", False),
    (["a.py"], "aXpy", False),
    (["a+(b)|$"], "a+(b)|$", True),
    (["**", "!docs/**"], "docs/a", False),
    (["**", "!docs/**", "docs/conf.py"], "docs/conf.py", True),
    (["docs/conf.py", "!docs/**"], "docs/conf.py", False),
    (["**"], "a\nb", True),
    ([], "a", False),
]


@pytest.mark.parametrize(("globs", "path", "result"), GLOBS)
def test_the_last_glob_that_matches_decides(globs: list[str], path: str, *, result: bool) -> None:
    assert takes(globs, path) is result


@given(st.lists(st.sampled_from(["**", "*", "a/**", "*.md", "!a/**", "!**.md"])), st.text("a/.md"))
def test_a_glob_more_changes_only_what_it_matches(globs: list[str], path: str) -> None:
    assert takes([*globs, "**"], path)
    assert not takes([*globs, "!**"], path)
    assert takes([*globs, "nothing-like-it"], path) is takes(globs, path)


def test_taken_keeps_the_order() -> None:
    assert taken(["*.py"], ["b.py", "a.md", "a.py"]) == ("b.py", "a.py")


# ---------------------------------------------------------------- the answer

DECISION = Decision(
    event="push on 'main'",
    sessions=(
        Chosen(
            session="cuda-stage-b",
            backend=Backend.CUDA,
            tier="stage-b",
            variant="cuda-13.0",
            suites=("stage-b-test-1-gpu",),
            paths=("test/registered/a.py",),
            continue_on_error=True,
            env={"A": "1"},
            reasons=("row 'main'", "row 'other'"),
        ),
    ),
    skipped=(
        Skipped(session="amd-stage-b", reasons=("no row",)),
        Skipped(session="cpu-stage-a", reasons=("docs alone",)),
        Skipped(session="amd-extra-a", reasons=("no row",)),
    ),
    notes=("input 'x' says nothing",),
)


def test_words() -> None:
    assert render(DECISION).splitlines() == [
        "event  push on 'main'",
        "note   input 'x' says nothing",
        "",
        (
            "run    cuda-stage-b  suites stage-b-test-1-gpu  paths test/registered/a.py  A=1  "
            "--continue-on-error"
        ),
        "         row 'main'",
        "         row 'other'",
        "skip   amd-stage-b",
        "skip   amd-extra-a",
        "         no row",
        "skip   cpu-stage-a",
        "         docs alone",
        "",
        "1 of 4 sessions to run",
    ]


def test_nothing_to_run_says_so() -> None:
    nothing = Decision(event="x", sessions=(), skipped=DECISION.skipped)
    assert nothing.neutral
    assert render(nothing).endswith(
        "\nNEUTRAL  nothing to run: the event starts none of 3 sessions\n"
    )


def test_json_goes_there_and_back(table: Matrix) -> None:
    plain = json.loads(DECISION.to_json())
    assert list(plain) == ["version", "event", "sessions", "skipped", "notes", "neutral"]
    assert plain["version"] == 1
    assert plain["neutral"] is False
    assert Decision.from_plain(plain, matrix_stage.sessions(table)) == DECISION


BROKEN: dict[str, Any] = {
    "no object": [],
    "another version": {**DECISION.to_plain(), "version": 2},
    "no version": {},
    "no sessions": {"version": 1, "event": "x"},
    "an unknown session": {**DECISION.to_plain(), "sessions": [{"session": "amd-stage-z"}]},
    "a wrong switch": {
        **DECISION.to_plain(),
        "sessions": [{**DECISION.to_plain()["sessions"][0], "continue_on_error": 1}],  # type: ignore[index]  # JSON values are objects to mypy
    },
    "a wrong list": {**DECISION.to_plain(), "notes": "x"},
    "a wrong element": {**DECISION.to_plain(), "notes": [1]},
    "a wrong row": {**DECISION.to_plain(), "sessions": 1},
}


@pytest.mark.parametrize("name", BROKEN)
def test_another_json_is_refused(name: str, table: Matrix) -> None:
    with pytest.raises(GateError, match=r"^a gate's decision cannot be read \(.* of the same com"):
        Decision.from_plain(BROKEN[name], matrix_stage.sessions(table))
