"""What a dispatch asks for: names, files, switches, and what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hwmatrix import gate
from hwmatrix import matrix as matrix_stage
from hwmatrix.errors import GateError
from hwmatrix.gate.selection import select
from hwmatrix.model import Backend, GateEvent

if TYPE_CHECKING:
    from hwmatrix.model import Matrix

REGISTERED = {
    (Backend.CUDA, "stage-b-test-1-gpu"): ("test/registered/moe/test_a.py", "test/x $(y)/t.py"),
    (Backend.CUDA, "stage-b-test-4-gpu"): ("test/registered/moe/test_b.py",),
    (Backend.AMD, "extra-a-test-1-gpu-amd"): ("test/registered/moe/test_a.py",),
}


def start(table: Matrix, **inputs: str) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    decision = gate.decide(
        gate.Event(name=GateEvent.DISPATCH, inputs=inputs),
        table,
        sessions=matrix_stage.sessions(table),
        registered=REGISTERED,
    )
    return {each.session: (each.suites, each.paths) for each in decision.sessions}


@pytest.mark.parametrize("value", ["extra-a,nightly", "extra-a nightly", " extra-a ,\nnightly "])
def test_several_names(value: str, table: Matrix) -> None:
    assert list(start(table, tier=value, backend="cuda")) == ["cuda-extra-a", "cuda-nightly"]


@pytest.mark.parametrize("value", ["", "all", "All", "*", " "])
def test_no_choice(value: str, table: Matrix) -> None:
    assert len(start(table, tier=value, session="")) == 9


def test_a_folder_narrows_to_the_suites_with_a_file_in_it(table: Matrix) -> None:
    assert start(table, file="test/registered/moe/") == {
        "cuda-stage-b": ((), ("test/registered/moe",)),
        "amd-extra-a": ((), ("test/registered/moe",)),
    }


def test_files_go_where_they_are_registered(table: Matrix) -> None:
    found = start(table, file="test/registered/moe/test_a.py test/registered/moe/test_b.py")
    both = ("test/registered/moe/test_a.py", "test/registered/moe/test_b.py")
    assert found == {"cuda-stage-b": ((), both), "amd-extra-a": ((), both[:1])}


def test_suite_and_runner_narrow_together(table: Matrix) -> None:
    found = start(table, runner="1-gpu", suite="stage-b-test-1-gpu stage-b-test-4-gpu")
    assert found == {"cuda-stage-b": (("stage-b-test-1-gpu",), ())}


def test_a_session_by_name_brings_its_variant(table: Matrix) -> None:
    names = "amd-extra-a-rocm-7.1 cpu-stage-a"
    assert list(start(table, session=names)) == ["cpu-stage-a", "amd-extra-a-rocm-7.1"]


WRONG = {
    "session": (
        {"session": "amd-extra-aa"},
        "has no session 'amd-extra-aa'. Did you mean 'amd-ext",
    ),
    "backend": ({"backend": "rocm"}, "has no backend 'rocm'. There are: cpu, cuda, amd, musa."),
    "tier": ({"tier": "extra"}, "has no tier 'extra'. Did you mean 'extra-a'?"),
    "variant": ({"variant": "rocm-7.9"}, "has no variant 'rocm-7.9'. Did you mean 'rocm-7."),
    "runner": ({"runner": "5-gpu"}, "has no runner '5-gpu'. Did you mean '4-gpu'?"),
    "retired session": (
        {"session": "amd-extra-a-rocm-7.0"},
        "input 'session': amd-extra-a-rocm-7.0 is retired: Take ROCm 7.1 or 7.2.",
    ),
    "file outside": ({"file": "../../etc/passwd"}, "is no file or folder with registrations."),
    "absolute file": ({"file": "/etc/passwd"}, "is no file or folder with registrations."),
    "option": ({"file": "--json"}, "'--json' is no file or folder with registrations."),
    "folder with a test": (
        {"file": "test/registered/moe::test_x"},
        "'test/registered/moe::test_x' names no test. Allowed: FILE::test",
    ),
    "test with a quote": (
        {"file": "test/registered/moe/test_a.py::test_x['a']"},
        "names no test. Allowed: FILE::test",
    ),
    "test with a command": (
        {"file": "test/registered/moe/test_a.py::test_x[$(touch)]"},
        "names no test. Allowed: FILE::test",
    ),
    "nearly an input": ({"suites": "x"}, "there is no input 'suites'. Did you mean 'suite'?"),
    "no switch": ({"continue_on_error": "yes"}, "'yes'; it must be true or false."),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_input_is_told(name: str, table: Matrix) -> None:
    inputs, message = WRONG[name]
    with pytest.raises(GateError, match=r"input") as caught:
        start(table, **inputs)
    assert message in str(caught.value)


def test_all_that_is_wrong_comes_at_once(table: Matrix) -> None:
    with pytest.raises(GateError, match="tier") as caught:
        start(table, tier="x", suite="y", file="z", continue_on_error="w")
    assert len(str(caught.value).splitlines()) == 4


def test_a_file_that_no_command_line_should_hold_is_refused(table: Matrix) -> None:
    registered = {(Backend.CPU, "stage-a-test-cpu"): ("test/$(x).py",)}
    with pytest.raises(GateError, match=r"'test/\$\(x\).py' cannot be named here: rename the file"):
        select({"file": "test/$(x).py"}, table, matrix_stage.sessions(table), registered)


def test_other_inputs_are_mentioned_once(table: Matrix) -> None:
    decision = gate.decide(
        gate.Event(name=GateEvent.DISPATCH, inputs={"reason": "curious", "empty": ""}),
        table,
        sessions=matrix_stage.sessions(table),
    )
    assert decision.notes == ("input 'reason' says nothing to the gate",)


def test_suites_that_the_row_leaves_out_cannot_be_had(table: Matrix) -> None:
    import dataclasses

    rule = next(rule for rule in table.gates if rule.name == "by-hand")
    narrow = dataclasses.replace(rule, suites=("stage-b-test-1-gpu",))
    small = dataclasses.replace(table, gates=(narrow,))
    assert start(small) == {"cuda-stage-b": (("stage-b-test-1-gpu",), ())}
    with pytest.raises(GateError, match="the rows that reach it start other suites than were ask"):
        start(small, suite="stage-b-test-4-gpu")


def test_a_row_with_variants_of_its_own_offers_no_other(table: Matrix) -> None:
    import dataclasses

    rule = next(rule for rule in table.gates if rule.name == "by-hand")
    narrow = dataclasses.replace(rule, backends=(Backend.AMD,), variants=("rocm-7.1",))
    small = dataclasses.replace(table, gates=(narrow,))
    assert list(start(small, tier="extra-a")) == ["amd-extra-a-rocm-7.1"]
    with pytest.raises(GateError, match=r"nothing starts for variant='rocm-7\.2'"):
        start(small, variant="rocm-7.2")


def test_continue_on_error_is_the_rows_choice_unless_it_is_said(table: Matrix) -> None:
    def going_on(**inputs: str) -> bool:
        decision = gate.decide(
            gate.Event(name=GateEvent.DISPATCH, inputs={"tier": "stage-a", **inputs}),
            table,
            sessions=matrix_stage.sessions(table),
        )
        return decision.sessions[0].continue_on_error

    assert not going_on()
    assert going_on(continue_on_error="TRUE")
    assert not going_on(continue_on_error="false")
