"""Payloads to events: names, guesses, calls, wrong shapes."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix import gate
from hwmatrix import matrix as matrix_stage
from hwmatrix.errors import GateError
from hwmatrix.gate.events import LARGEST
from hwmatrix.model import GateEvent

if TYPE_CHECKING:
    from collections.abc import Callable

    from hwmatrix.model import Matrix

PULL = {"action": "opened", "pull_request": {"number": 7, "base": {"ref": "main"}}}


def read(payload: object, name: str = "", **more: Any) -> gate.Event:
    return gate.read_event(json.dumps(payload).encode(), name=name, **more)


def test_a_recorded_pull_request(payload: Callable[[str], bytes]) -> None:
    event = gate.read_event(payload("pr-labeled-run-ci"), name="pull_request")
    assert event == gate.Event(
        name=GateEvent.PULL_REQUEST,
        action="labeled",
        repository="ada-example/kernels",
        branch="main",
        number=7,
        label="run-ci",
        labels=("bug", "run-ci"),
        changed_files=2,
    )
    assert event.title == "pull_request labeled 'run-ci' of #7 into 'main'"


TITLES = {
    "push-main": "push on 'main'",
    "push-tag": "push on 'refs/tags/v1.2.0'",
    "schedule-accuracy": "schedule '0 */6 * * *'",
    "dispatch-continue": "workflow_dispatch on 'feature/rope'",
    "merge-group-requested": "merge_group checks_requested on 'main'",
    "pr-draft-opened": "pull_request opened of #7 into 'main'",
}


@pytest.mark.parametrize("name", TITLES)
def test_the_payload_tells_which_event_it_is_of(name: str, payload: Callable[[str], bytes]) -> None:
    assert gate.read_event(payload(name)).title == TITLES[name]


def test_a_repository_that_the_payload_lacks() -> None:
    assert read(PULL).repository == ""
    assert read(PULL, repository="o/r").repository == "o/r"
    own = {**PULL, "repository": {"full_name": "a/b"}}
    assert read(own, repository="o/r").repository == "a/b"


def test_what_a_pull_request_does_not_say() -> None:
    event = read({"action": "opened", "number": 3, "pull_request": {"labels": None}})
    assert (event.number, event.changed_files, event.labels, event.draft) == (3, -1, (), False)


WRONG = {
    "no JSON": (b"{", "the event cannot be read as JSON"),
    "no UTF-8": (b'{"a": "\xff"}', "the event cannot be read as JSON"),
    "too deep": (b"[" * 200_000, "the event cannot be read as JSON"),
    "an enormous number": (b'{"number": 1' + b"0" * 5000 + b"}", "the event cannot be read"),
    "no object": (b"[]", "the event is an array; a payload is an object."),
    "null": (b"null", "the event is null; a payload is an object."),
    "nothing known": (b'{"zen": "x"}', "nothing in the payload tells which event it is of. Say --"),
    "no number": (b'{"pull_request": {}}', "the pull_request event has no number"),
    "a text as number": (
        b'{"pull_request": {"number": "7"}}',
        "pull_request.number must be a whol",
    ),
    "a truth value as number": (b'{"pull_request": {"number": true}}', "must be a whole number."),
    "a negative number": (b'{"pull_request": {"number": -1}}', "must be a whole number."),
    "a text as pull request": (b'{"pull_request": "x"}', "event's pull_request is a text; it must"),
    "a number as branch": (
        b'{"pull_request": {"number": 7, "base": {"ref": 1}}}',
        "the event's pull_request.base.ref is a number; it must be a text.",
    ),
    "a text as draft": (
        b'{"pull_request": {"number": 7, "draft": "no"}}',
        "the event's pull_request.draft must be true or false.",
    ),
    "labels that are none": (
        b'{"pull_request": {"number": 7, "labels": {"a": 1}}}',
        "the event's labels are an object; they must be an array.",
    ),
    "a label that is none": (
        b'{"pull_request": {"number": 7, "labels": [1]}}',
        "the event's label is a number; it must be an object.",
    ),
    "a commit that is none": (
        b'{"before": "$(x)", "ref": "refs/heads/main"}',
        "the event's before is '$(x)', which is no commit.",
    ),
    "no schedule": (b'{"schedule": " "}', "does not say which schedule it is of."),
    "a repository that is none": (
        b'{"schedule": "0 0 * * *", "repository": {"full_name": "../../x"}}',
        "the event's repository is '../../x'; it must be owner/name.",
    ),
    "inputs that are none": (
        b'{"inputs": [1]}',
        "the event's inputs are an array; they must be an",
    ),
    "an input that is none": (
        b'{"inputs": {"tier": ["a"]}}',
        "the event's inputs: 'tier' is an array; it must be a text.",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_payload_is_told(name: str) -> None:
    data, message = WRONG[name]
    with pytest.raises(GateError, match=r"^(the|nothing)") as caught:
        gate.read_event(data)
    assert message in str(caught.value)


def test_a_payload_beyond_githubs_limit_is_not_read() -> None:
    with pytest.raises(GateError, match=r"the event has \d+ bytes; GitHub sends \d+ at most"):
        gate.read_event(b" " * (LARGEST + 1))


@pytest.mark.parametrize("name", ["push", "schedule", "workflow_dispatch"])
def test_a_name_that_contradicts_the_payload_is_refused(name: str) -> None:
    with pytest.raises(GateError, match=f"said to be {name}, but its payload is that of pull_req"):
        read(PULL, name)


def test_a_name_that_is_nearly_right() -> None:
    with pytest.raises(GateError, match=r"no event 'pull-request'\. Did you mean 'pull_request'\?"):
        read(PULL, "pull-request")


# ---------------------------------------------------------------- inputs and calls


def test_inputs_as_the_context_spells_them() -> None:
    assert gate.read_inputs("") == gate.read_inputs("null") == gate.read_inputs("{}") == {}
    text = '{"tier": "stage-b", "fast": true, "count": 2, "file": null}'
    assert gate.read_inputs(text) == {"tier": "stage-b", "fast": "true", "count": "2", "file": ""}


@pytest.mark.parametrize("text", ["{", "[" * 200_000, "tier=x"])
def test_inputs_that_are_no_json(text: str) -> None:
    with pytest.raises(GateError, match="the workflow's inputs are no JSON: "):
        gate.read_inputs(text)


def test_inputs_that_are_no_object() -> None:
    with pytest.raises(GateError, match="the workflow's inputs are a text; they must be an object"):
        gate.read_inputs('"x"')


@pytest.mark.parametrize(
    "inputs",
    [
        {"tier": "stage-b", "fast": "true"},
        {"tier": "stage-b", "fast": "true", "suite": "", "slow": "false"},
    ],
)
def test_a_dispatch_with_its_own_inputs_is_no_call(inputs: dict[str, str]) -> None:
    own = {"inputs": {"tier": "stage-b", "fast": "true"}, "ref": "refs/heads/main"}
    event = read(own, "workflow_dispatch", inputs=inputs)
    assert event.name is GateEvent.DISPATCH
    assert event.inputs == {"tier": "stage-b", "fast": "true"}


def test_inputs_that_are_not_the_events_own_are_a_call() -> None:
    event = read(PULL, "pull_request", inputs={"tier": "stage-b"})
    assert (event.name, event.caller, event.number) == (GateEvent.CALL, "pull_request", 7)
    assert event.title == "workflow_call from 'pull_request' opened of #7 into 'main'"


def test_a_call_by_name() -> None:
    event = read({**PULL, "inputs": {"tier": "stage-b"}}, "workflow_call")
    assert (event.name, event.caller, event.number) == (GateEvent.CALL, "workflow_call", 7)
    assert event.inputs == {"tier": "stage-b"}
    assert read({"ref": "x"}, "workflow_call").number == 0


@pytest.mark.parametrize("inputs", [{"tier": ""}, {"tier": "", "continue_on_error": "false"}])
def test_a_call_that_chooses_nothing_is_its_callers_event(inputs: dict[str, str]) -> None:
    event = read({"schedule": "0 */6 * * *"}, "schedule", inputs=inputs)
    assert event == gate.Event(name=GateEvent.SCHEDULE, cron="0 */6 * * *")
    dispatched = read({"inputs": {"release": "1.2"}}, "workflow_dispatch", inputs=inputs)
    assert (dispatched.name, dispatched.inputs) == (GateEvent.DISPATCH, {"release": "1.2"})


def test_a_workflow_can_be_called_on_any_event_but_one() -> None:
    payload = {"action": "published", "release": {"tag_name": "v1"}}
    event = read(payload, "release", inputs={"tier": "stage-b"})
    assert (event.name, event.title) == (GateEvent.CALL, "workflow_call from 'release'")
    assert read(payload, "release", inputs={"tier": ""}).name is GateEvent.CALL
    with pytest.raises(GateError, match=r"no event 'pull_request_target'\. It hands a fork's code"):
        read(PULL, "pull_request_target", inputs={"tier": "stage-b"})


def test_inputs_of_other_events_are_nobodys() -> None:
    assert read({"schedule": "0 0 * * *", "inputs": {"tier": "x"}}).inputs == {}


# ---------------------------------------------------------------- what cannot be decided


def decide(table: Matrix, event: gate.Event, **more: Any) -> gate.Decision:
    return gate.decide(event, table, sessions=matrix_stage.sessions(table), **more)


def test_a_table_without_rows_says_how_to_get_one(table: Matrix) -> None:
    bare = dataclasses.replace(table, gates=())
    with pytest.raises(GateError, match=r"matrix.toml has no \[\[gate\]\] row, so no event starts"):
        decide(bare, read(PULL))


@pytest.mark.parametrize("kind", [GateEvent.DISPATCH, GateEvent.CALL])
def test_a_dispatch_that_no_row_answers_to(kind: GateEvent, table: Matrix) -> None:
    kept = tuple(rule for rule in table.gates if kind not in rule.events)
    with pytest.raises(GateError, match=f"matrix.toml answers to {kind}. Add it to a row's events"):
        decide(dataclasses.replace(table, gates=kept), gate.Event(name=kind))


def test_labels_that_nobody_fetched_are_not_none(table: Matrix) -> None:
    with pytest.raises(GateError, match="labels of #7 cannot be read: nobody asked for them"):
        decide(table, read(PULL), changes=gate.Facts(names=("src/a.py",)))


def test_changes_that_nobody_fetched_keep_nothing_back(table: Matrix) -> None:
    decision = decide(table, read(PULL), labels=gate.Facts())
    assert [each.session for each in decision.sessions] == ["cpu-stage-a", "cpu-stage-b"]


def test_a_pull_request_into_a_table_without_labels(table: Matrix) -> None:
    kept = tuple(rule for rule in table.gates if not rule.labels)
    bare = dataclasses.replace(table, gates=kept)
    event = read({**PULL, "action": "labeled", "label": {"name": "x"}})
    decision = decide(bare, event)
    assert decision.neutral
    assert "which no gate row names (they name none)" in decision.skipped[0].reasons[0]


def test_a_suite_that_no_row_reaches_says_so(table: Matrix) -> None:
    kept = tuple(rule for rule in table.gates if rule.name == "cpu")
    decision = decide(dataclasses.replace(table, gates=kept), read(PULL))
    reasons = {each.session: each.reasons for each in decision.skipped}
    assert reasons["amd-stage-b"] == ("no gate row reaches it",)
