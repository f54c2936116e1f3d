"""Every form of a registration: read, or refused by the name of the construct."""

from __future__ import annotations

import ast
import math
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hwmatrix.model import Backend, Disabled, Registration
from hwmatrix.registry import reader
from hwmatrix.registry.markers import BACKEND_OF

if TYPE_CHECKING:
    from hwmatrix.registry.results import FileResult

DATA = Path(__file__).parents[2] / "data/registry"


def read(source: str | bytes, *, thorough: bool = False) -> FileResult:
    data = source.encode() if isinstance(source, str) else source
    return reader.read("test_x.py", data, thorough=thorough)


def facts(source: str | bytes) -> list[tuple[int, str, float, str]]:
    """Return line, backend, estimate and suite of each registration; there must be no problem."""
    result = read(source)
    assert result.problems == ()
    assert result.remarks == ()
    return [
        (r.line, r.backend.value, r.est_s, r.suite or f"{r.stage}/{r.runner_config}")
        for r in result.registrations
    ]


def sections(name: str) -> list[object]:
    """Return source and expected lines of each section of a data file."""
    found: list[object] = []
    for section in (DATA / name).read_text("utf-8").split("=== ")[1:]:
        form, _, rest = section.partition("\n")
        source, _, expected = rest.partition("---\n")
        found.append(pytest.param(source, expected.strip().splitlines(), id=form))
    return found


@pytest.mark.parametrize(("source", "messages"), sections("refused_forms.txt"))
def test_refused(source: str, messages: list[str]) -> None:
    assert messages
    assert [str(problem) for problem in read(source).problems] == messages
    assert [str(problem) for problem in read(source, thorough=True).problems] == messages


@pytest.mark.parametrize(("source", "expected"), sections("accepted_forms.txt"))
def test_read(source: str, expected: object) -> None:
    assert [" ".join(map(str, fact)) for fact in facts(source)] == expected
    assert read(source, thorough=True) == read(source)


def test_the_last_line_needs_no_end() -> None:
    assert facts('x = 1\nregister_amd_ci(5, "s")') == [(2, "amd", 5.0, "s")]


@pytest.mark.parametrize("backend", Backend)
def test_read_for_each_backend(backend: Backend) -> None:
    assert facts(f'register_{backend}_ci(5, "s")\n') == [(1, backend.value, 5.0, "s")]


def test_there_is_one_marker_per_backend() -> None:
    assert list(BACKEND_OF.values()) == list(Backend)


def test_every_argument_is_kept() -> None:
    result = read(
        "x = 1\n"
        'if x: register_npu_ci(1.5, "s", True, "broken [owner=@me until=2026-12-31]", '
        'in_process_group="g")\n'
    )
    assert result.registrations == (
        Registration(
            path="test_x.py",
            line=2,
            column=7,
            backend=Backend.NPU,
            est_s=1.5,
            suite="s",
            nightly=True,
            disabled=Disabled(reason="broken", owner="@me", until="2026-12-31"),
            in_process_group="g",
        ),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("flaky", Disabled(reason="flaky")),
        (" flaky \n", Disabled(reason="flaky")),
        ("flaky [owner=@x]", Disabled(reason="flaky", owner="@x")),
        ("flaky [until=2026-12-31]", Disabled(reason="flaky", until="2026-12-31")),
        (
            "flaky [until=2026-12-31, owner=team/x]",
            Disabled(reason="flaky", owner="team/x", until="2026-12-31"),
        ),
        ("flaky [tp=8]", Disabled(reason="flaky [tp=8]")),
        ("flaky [see #12]", Disabled(reason="flaky [see #12]")),
        ("[gfx942] flaky", Disabled(reason="[gfx942] flaky")),
        ("flaky []", Disabled(reason="flaky []")),
        ("list[int] is broken [owner=@x]", Disabled(reason="list[int] is broken", owner="@x")),
        ("two\nlines [owner=@x]", Disabled(reason="two\nlines", owner="@x")),
    ],
)
def test_disabled_is_a_reason_with_an_owner_and_a_date(text: str, expected: object) -> None:
    source = f'register_amd_ci(5, "s", disabled={text!r})\n'
    assert read(source).registrations[0].disabled == expected


def test_all_problems_of_a_call_come_in_one_go() -> None:
    result = read('register_amd_ci(-1, f"x", 3, "", stage=S, wrong=1)\n')
    assert len(result.problems) == 7
    assert result.registrations == ()


def test_problems_concern_the_backend_of_their_call() -> None:
    result = read('register_amd_ci(0, "s")\nregister_cpu_ci(5, "s")\nregister_hip_ci(5, "s")\n')
    known, unknown = result.problems
    assert known.backends == {Backend.AMD}
    assert known.concerns(Backend.AMD)
    assert not known.concerns(Backend.CPU)
    assert unknown.backends == frozenset()
    assert unknown.concerns(Backend.MLX)
    assert [r.backend for r in result.registrations] == [Backend.CPU]


def test_columns_count_characters() -> None:
    (found,) = read('"é"; register_amd_ci(5, "s")\n').registrations
    assert (found.line, found.column) == (1, 6)
    (found,) = read('x = "é"\nif x: register_amd_ci(5, "s")\n').registrations
    assert (found.line, found.column) == (2, 7)


def test_deep_expressions_are_no_crash() -> None:
    for depth in (50, 90, 1_000, 100_000):
        source = f'register_amd_ci(5, "s")\nx = {"(" * depth}1{")" * depth}\n# register_cpu_ci\n'
        result = read(source)
        assert len(result.registrations) + len(result.problems) == 1


@pytest.mark.parametrize("link", ["-", "a.", "1+", "not ", "f(lambda: "])
def test_long_chains_are_no_crash(link: str) -> None:
    source = f"register_amd_ci({link * 30_000}1)\n"
    result = read(source)
    assert len(result.problems) >= 1
    assert result.problems[0].backends == {Backend.AMD}


def test_what_is_too_long_to_quote_is_left_out() -> None:
    (problem,) = read(f'register_amd_ci({"a." * 500}b, "s")\n').problems
    assert problem.found == "register_amd_ci() has est_time=..., an attribute."


def test_deep_blocks_are_no_crash() -> None:
    lines = [f"{' ' * depth}if x:" for depth in range(95)]
    body = "\n".join([*lines, f'{" " * 95}register_amd_ci(5, "s")\n'])
    assert len(read(body).registrations) == 1
    lines = [f"{' ' * depth}if x:" for depth in range(101)]
    body = "\n".join([*lines, f'{" " * 101}register_amd_ci(5, "s")\n'])
    (problem,) = read(body).problems
    assert str(problem) == (
        "test_x.py:101: the file does not parse (too many levels of indentation). "
        "Fix the syntax; it is read by the Python that runs this command."
    )


def test_too_deep_to_parse_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    # What each Python's parser bears differs; the sentence must not.
    def give_up(*_args: object, **_kwargs: object) -> None:
        raise RecursionError

    monkeypatch.setattr(ast, "parse", give_up)
    (problem,) = read('register_amd_ci(5, "s")\n').problems
    assert str(problem) == (
        "test_x.py: the file is nested too deeply for Python's parser. "
        "Break the expression or the blocks up."
    )


def test_a_parser_error_of_another_kind_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(*_args: object, **_kwargs: object) -> None:
        raise ValueError("odd")

    monkeypatch.setattr(ast, "parse", give_up)
    (problem,) = read('register_amd_ci(5, "s")\n').problems
    assert str(problem) == "test_x.py: the file does not parse (odd). Fix the syntax."


def test_estimates_are_finite_floats() -> None:
    (found,) = read('register_amd_ci(10, "s")\n').registrations
    assert isinstance(found.est_s, float)
    assert math.isfinite(found.est_s)


def test_a_syntax_error_above_the_registration_is_a_problem() -> None:
    (problem,) = read('x = (\nregister_amd_ci(5, "s")\n').problems
    assert problem.rule == "syntax"
    assert problem.line == 1
    assert problem.backends == {Backend.AMD}
    assert str(problem).startswith("test_x.py:1: the file does not parse ('(' was never closed).")


def test_a_syntax_error_below_is_left_to_the_run_unless_thorough() -> None:
    source = 'register_amd_ci(5, "s")\n\n\ndef test():\n    return (\n'
    assert facts(source) == [(1, "amd", 5.0, "s")]
    result = read(source, thorough=True)
    assert result.registrations == ()
    assert result.problems[0].line == 5


def test_what_only_the_compiler_finds_is_a_problem_when_thorough() -> None:
    (problem,) = read('register_amd_ci(5, "s")\nreturn\n', thorough=True).problems
    assert "'return' outside function" in str(problem)


def test_a_broken_file_without_markers_is_a_remark() -> None:
    assert read("def broken(:\n") == ((), (), ())
    result = read("def broken(:\n", thorough=True)
    assert result.problems == ()
    assert result.remarks[0].rule == "syntax"


def test_the_same_marker_taken_from_a_call_inside_a_function_is_one_problem() -> None:
    (problem,) = read('def f():\n    g().register_amd_ci(5, "s")\n').problems
    assert "the function 'f'" in problem.found
