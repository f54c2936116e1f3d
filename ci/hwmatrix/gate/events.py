"""GitHub's event payload to an Event: only what the gate looks at, and all of it checked.

Shapes are those of GitHub's page "Webhook events and payloads"; that of a schedule is
`{"schedule": "0 5 * * *", ...}`. In a called workflow both name and payload are the caller's, and
only the `inputs` context is the call's own.
"""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hwmatrix.errors import GateError, close_match
from hwmatrix.gate.payload import Payload, kind_of
from hwmatrix.gate.text import SHOWN, quoted
from hwmatrix.model import GateEvent

if TYPE_CHECKING:
    from collections.abc import Mapping

# GitHub's own limit on a payload is 25 MB.
LARGEST = 32 * 1024 * 1024
_REPOSITORY = re.compile(r"[A-Za-z0-9._-]{1,100}/[A-Za-z0-9._-]{1,100}")
_HEADS = "refs/heads/"
_NAMES = tuple(member.value for member in GateEvent)
_REFUSED = "pull_request_target"
# What tells one payload from another where nobody says which event it is of.
_MARKS = (
    ("pull_request", GateEvent.PULL_REQUEST),
    ("merge_group", GateEvent.MERGE_GROUP),
    ("schedule", GateEvent.SCHEDULE),
    ("inputs", GateEvent.DISPATCH),
    ("before", GateEvent.PUSH),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """What happened.

    `branch` is the one pushed to, or that a pull request is to go into; a tag keeps its `refs/`.
    `label` is the one that was just added or removed, `labels` are those of that moment. `before`
    and `after` are commits; `changed_files` is what GitHub counts, -1 where it does not say.
    `caller` is GitHub's name of the event behind a call, empty where nobody says.
    """

    name: GateEvent
    action: str = ""
    repository: str = ""
    branch: str = ""
    number: int = 0
    draft: bool = False
    label: str = ""
    labels: tuple[str, ...] = ()
    changed_files: int = -1
    before: str = ""
    after: str = ""
    forced: bool = False
    deleted: bool = False
    cron: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)
    caller: str = ""

    @property
    def title(self) -> str:
        """One line for people, safe to print."""
        parts = [self.name.value]
        if self.caller and self.caller != self.name.value:
            parts.append(f"from {quoted(self.caller)}")
        if self.action:
            parts.append(self.action)
        if self.label:
            parts.append(quoted(self.label))
        if self.number:
            parts.append(f"of #{self.number}")
        if self.branch:
            parts.append(f"{'into' if self.number else 'on'} {quoted(self.branch)}")
        return " ".join([*parts, quoted(self.cron)] if self.cron else parts)


def read_event(
    data: bytes, *, name: str = "", inputs: Mapping[str, str] | None = None, repository: str = ""
) -> Event:
    """Return the event that the payload `data` tells of.

    `name` is GitHub's name of the event; left out, the payload says. `inputs` are those of the
    workflow: where they are not the payload's own, this is a call from another workflow.
    `repository` stands in for one that the payload lacks.

    Raises:
        GateError: the payload is no such event's.
    """
    payload = Payload(_parsed(data))
    kind = _kind(name, payload, called=bool(inputs))
    event = _READERS[kind](payload)
    found = payload.text("repository", "full_name") or repository
    if found and not _REPOSITORY.fullmatch(found):
        raise GateError(f"the event's repository is {quoted(found)}; it must be owner/name.")
    event = dataclasses.replace(event, repository=found)
    own = _flat(payload.get("inputs"), "the event's inputs")
    if kind is GateEvent.CALL or _is_call(kind, own, inputs or {}):
        caller = name if kind is GateEvent.CALL else kind.value
        return dataclasses.replace(
            event, name=GateEvent.CALL, inputs=inputs or own, caller=caller, label=""
        )
    return dataclasses.replace(event, inputs=own if kind is GateEvent.DISPATCH else {})


def _is_call(kind: GateEvent, own: Mapping[str, str], inputs: Mapping[str, str]) -> bool:
    """Whether `inputs` choose something that the event's own did not.

    The context lists declared inputs that were left empty or off as well. A call that chooses
    nothing hands on its caller's event: that is how schedules share one workflow.
    """
    said, told = (
        {key: value for key, value in each.items() if value not in {"", "false"}}
        for each in (inputs, own)
    )
    return bool(said) and not (kind is GateEvent.DISPATCH and said == told)


def read_inputs(text: str) -> dict[str, str]:
    """Return the inputs that `${{ toJSON(inputs) }}` spells; none for an empty text or `null`.

    Raises:
        GateError: it is no JSON object of texts, numbers and truth values.
    """
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise GateError(
            f"the workflow's inputs are no JSON: {quoted(text)}. Set HWMATRIX_INPUTS to "
            "${{ toJSON(inputs) }}."
        ) from None
    return _flat(value, "the workflow's inputs")


def _flat(value: object, what: str) -> dict[str, str]:
    """Inputs as texts: GitHub writes the same choice as `true` in one place, "true" in another."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise GateError(f"{what} are {kind_of(value)}; they must be an object.")
    flat = {}
    for key, raw in value.items():
        if isinstance(raw, bool):
            flat[key] = str(raw).lower()
        elif raw is None or isinstance(raw, (str, int, float)):
            flat[key] = "" if raw is None else str(raw)
        else:
            raise GateError(f"{what}: {quoted(key)} is {kind_of(raw)}; it must be a text.")
    return flat


def _parsed(data: bytes) -> Mapping[str, object]:
    if len(data) > LARGEST:
        raise GateError(f"the event has {len(data)} bytes; GitHub sends {LARGEST} at most.")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        reason = "too deep" if isinstance(error, RecursionError) else quoted(str(error))
        raise GateError(
            f"the event cannot be read as JSON ({reason}). Give GitHub's payload: "
            "$GITHUB_EVENT_PATH names it in a workflow."
        ) from None
    if not isinstance(value, dict):
        raise GateError(f"the event is {kind_of(value)}; a payload is an object.")
    return value


def _kind(name: str, payload: Payload, *, called: bool) -> GateEvent:
    """The event's kind. A workflow can be called on events that start nothing by themselves."""
    told = next((kind for mark, kind in _MARKS if payload.has(mark)), None)
    if not name:
        if told is None:
            raise GateError(
                "nothing in the payload tells which event it is of. Say --event-name NAME: "
                f"{', '.join(GateEvent)}."
            )
        return told
    if name == _REFUSED or (name not in _NAMES and not called):
        why = (
            "It hands a fork's code the secrets of this repository; use pull_request."
            if name == _REFUSED
            else close_match(name[:SHOWN], _NAMES)
        )
        message = f"the gate knows no event {quoted(name)}. {why} Events: {', '.join(GateEvent)}."
        raise GateError(message.replace("  ", " "))
    if name not in _NAMES:
        return GateEvent.CALL
    kind = GateEvent(name)
    if told in (GateEvent.PULL_REQUEST, GateEvent.MERGE_GROUP) and kind not in (
        told,
        GateEvent.CALL,
    ):
        raise GateError(f"the event is said to be {kind}, but its payload is that of {told}.")
    return kind


def _pull_request(payload: Payload) -> Event:
    number = payload.whole("pull_request", "number") or payload.whole("number")
    if number < 1:
        raise GateError("the pull_request event has no number of a pull request.")
    if payload.get("pull_request", "changed_files") is None:
        changed = -1
    else:
        changed = payload.whole("pull_request", "changed_files")
    return Event(
        name=GateEvent.PULL_REQUEST,
        action=payload.word("action"),
        branch=payload.text("pull_request", "base", "ref"),
        number=number,
        draft=payload.flag("pull_request", "draft"),
        label=payload.text("label", "name"),
        labels=_labels(payload.get("pull_request", "labels")),
        changed_files=changed,
    )


def _labels(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise GateError(f"the event's labels are {kind_of(value)}; they must be an array.")
    return tuple(Payload({"label": row}).text("label", "name") for row in value)


def _push(payload: Payload) -> Event:
    return Event(
        name=GateEvent.PUSH,
        branch=payload.text("ref").removeprefix(_HEADS),
        before=payload.sha("before"),
        after=payload.sha("after"),
        forced=payload.flag("forced"),
        deleted=payload.flag("deleted"),
    )


def _merge_group(payload: Payload) -> Event:
    return Event(
        name=GateEvent.MERGE_GROUP,
        action=payload.word("action"),
        branch=payload.text("merge_group", "base_ref").removeprefix(_HEADS),
        before=payload.sha("merge_group", "base_sha"),
        after=payload.sha("merge_group", "head_sha"),
    )


def _schedule(payload: Payload) -> Event:
    cron = " ".join(payload.text("schedule").split())
    if not cron:
        raise GateError("the schedule event does not say which schedule it is of.")
    return Event(name=GateEvent.SCHEDULE, cron=cron)


def _dispatch(payload: Payload) -> Event:
    return Event(name=GateEvent.DISPATCH, branch=payload.text("ref").removeprefix(_HEADS))


def _call(payload: Payload) -> Event:
    """A call by name: the payload is the caller's, which may be a pull request's."""
    made = _pull_request(payload) if payload.has("pull_request") else Event(name=GateEvent.CALL)
    return dataclasses.replace(made, name=GateEvent.CALL)


_READERS = {
    GateEvent.PULL_REQUEST: _pull_request,
    GateEvent.PUSH: _push,
    GateEvent.MERGE_GROUP: _merge_group,
    GateEvent.SCHEDULE: _schedule,
    GateEvent.DISPATCH: _dispatch,
    GateEvent.CALL: _call,
}
