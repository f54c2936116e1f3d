"""What is typed after `nox -s NAME --`."""

from __future__ import annotations

import pytest

from hwmatrix.app.request import OWNED, SessionRequest, parse
from hwmatrix.errors import UsageError

FILES = {"test/a.py", "test/sub", "b.py"}


def ask(*words: str) -> SessionRequest:
    return parse(words, exists=FILES.__contains__)


def test_a_bare_name_asks_for_everything() -> None:
    assert ask("cpu-stage-b") == SessionRequest(name="cpu-stage-b")


def test_own_options() -> None:
    asked = ask(
        *[
            "cpu-stage-b",
            "--suite",
            "one",
            "--suite",
            "two",
            "--shard",
            "2/5",
            "--plan",
            "--json",
            "--allow-empty",
        ],
        *["--no-venv", "--overlay", "somewhere", "--slots", "3", "--continue-on-error"],
    )
    assert asked == SessionRequest(
        name="cpu-stage-b",
        suites=("one", "two"),
        shard=2,
        shards=5,
        plan_only=True,
        json=True,
        allow_empty=True,
        no_venv=True,
        overlay="somewhere",
        slots=3,
        continue_on_error=True,
    )


def test_paths_and_pytest_options_are_told_apart() -> None:
    asked = ask("s", "test/a.py::T::test_x", "-k", "a and not b", "--tb=short", "test/sub", "-vs")
    assert asked.paths == ("test/a.py::T::test_x", "test/sub")
    assert asked.pytest_args == ("-k", "a and not b", "--tb=short", "-vs")
    assert asked.selects


def test_a_separator_inside_is_no_path() -> None:
    assert ask("s", "--", "b.py").paths == ("b.py",)


@pytest.mark.parametrize(
    ("words", "limit"),
    [
        (["-x"], 1),
        (["-vx"], 1),
        (["--exitfirst"], 1),
        (["--maxfail", "3"], 3),
        (["--maxfail=4"], 4),
        (["-k", "x"], 0),
        (["-v"], 0),
    ],
)
def test_first_failures_are_counted(words: list[str], limit: int) -> None:
    assert ask("s", *words).max_failures == limit


@pytest.mark.parametrize(
    ("words", "selects"),
    [
        (["-m", "slow"], True),
        (["--lf"], False),  # the files that it leaves out say so themselves
        (["--deselect=b.py::t"], True),
        (["--maxfail=2"], False),
        (["b.py"], False),
        (["b.py::t"], True),
    ],
)
def test_what_may_pick_nothing_from_a_file(words: list[str], selects: bool) -> None:  # noqa: FBT001 - parametrised
    assert ask("s", *words).selects is selects


@pytest.mark.parametrize("option", sorted(OWNED))
def test_options_that_belong_to_the_engine_are_refused(option: str) -> None:
    with pytest.raises(UsageError, match=rf"{option} cannot be given to a session\. \w+"):
        ask("s", option)


def test_a_joined_worker_count_is_refused_too() -> None:
    with pytest.raises(UsageError, match=r"-n cannot be given to a session\. Use --slots N"):
        ask("s", "-n4")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--shrad=1/2"], r"unknown option --shrad\. Did you mean '--shard'\?"),
        (["--shard", "3"], r"'3' is no shard; write I/N, as in 2/5"),
        (["--shard", "3/2"], r"'3/2': I runs from 1 to N"),
        (["--shard", "0/2"], r"'0/2': I runs from 1 to N"),
        (["--slots", "0"], r"'0' is not a whole number above 0"),
        (["--slots", "two"], r"'two' is not a whole number above 0"),
        (["nowhere.py"], r"no such file or folder: nowhere\.py"),
        (["-k"], r"-k needs a value"),
        (["--maxfail", "many"], r"--maxfail 'many' is not a whole number"),
        (["--maxfail="], r"--maxfail '' is not a whole number"),
        (["--maxfail", "-1"], r"--maxfail -1 is not allowed; 1 or more"),
        (["--maxfail=0"], r"--maxfail 0 is not allowed; 1 or more"),
        (["--shard", "3"], r"^session: argument --shard"),
        (["-k", "a and (b"], r"-k 'a and \(b': a '\(' is not closed"),
        (["-ka)"], r"-k 'a\)': a '\)' has no '\(' before it"),
        (["-m=mark(x='1)"], r"-m .*: a quote \('\) is not closed"),
        (["-x", "--continue-on-error"], r"--continue-on-error contradicts -x/--maxfail"),
        (["--overlay", "d"], r"--overlay belongs to --no-venv"),
    ],
)
def test_wrong_words_are_named(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ask("s", *words)


@pytest.mark.parametrize("text", ["", "a and not (b or c)", "mark(x=')')", "t[1-2]", "(a) or (b)"])
def test_balanced_expressions_are_left_to_pytest(text: str) -> None:
    assert ask("s", "-k", text).pytest_args == ("-k", text)
    assert ask("s", f"-m={text}").pytest_args == (f"-m={text}",)


def test_a_session_needs_a_name() -> None:
    with pytest.raises(UsageError, match="required: NAME"):
        ask()
