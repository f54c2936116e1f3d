"""The model of `[[gate]]` rows: which events start which sessions (docs/gate.md)."""

from __future__ import annotations

from hwmatrix.matrix.spec import Field, Flag, Table, Text, Texts
from hwmatrix.matrix.words import BACKEND, ENV, LINE, NAME, SOME
from hwmatrix.model import GateEvent

_EVENTS = tuple(member.value for member in GateEvent)
_EVENT = Text(word="event", what="an event of GitHub", choices=_EVENTS)
# A pull request always has labels to look at: what bypassed them would bypass the gate itself.
_UNLABELLED = Text(
    word="event",
    what="an event that has no labels of its own",
    choices=tuple(name for name in _EVENTS if name != GateEvent.PULL_REQUEST.value),
)
# Brackets, braces and backslashes mean different things to different globs: they are refused.
_GLOB = Text(
    word="glob",
    what="a path from the project's root with `*` (within a folder), `**` (any depth) and `?`; "
    "`!` before it takes paths out again; no brackets, braces or backslashes",
    pattern=r"!?(?![/!])[^\x00-\x1f\x7f\\\[\]{}]+",
)
_CRON_FIELD = r"[0-9A-Za-z*,/-]+"
_CRON = Text(
    word="cron",
    what="five fields with one blank between them, exactly as in the workflow (0 */6 * * *)",
    pattern=rf"{_CRON_FIELD}( {_CRON_FIELD}){{4}}",
)

GATE = Table(
    fields={
        "name": Field(spec=NAME, about="What reasons call this row.", required=True),
        "about": Field(spec=LINE, about="Why it is there.", default=""),
        "events": Field(
            spec=Texts(item=_EVENT, at_least=1), about="Events that it answers to.", required=True
        ),
        "cron": Field(
            spec=Texts(item=_CRON),
            about="Which schedules it answers to; required with the event `schedule`.",
            default=(),
        ),
        "backends": Field(
            spec=Texts(item=BACKEND), about="Backends that it starts; all where empty.", default=()
        ),
        "tiers": Field(
            spec=Texts(item=NAME), about="Tiers that it starts; all where empty.", default=()
        ),
        "suites": Field(
            spec=Texts(item=NAME),
            about="Suites that it starts; all of its backends and tiers where empty.",
            default=(),
        ),
        "variants": Field(
            spec=Texts(item=NAME),
            about="Variants that it starts; the default of each backend where empty. A dispatch "
            "may name any other.",
            default=(),
        ),
        "labels": Field(
            spec=Texts(item=SOME),
            about="Labels that a pull request needs, all of them.",
            default=(),
        ),
        "bypass_labels": Field(
            spec=Texts(item=_UNLABELLED),
            about="Events of this row that need none of `labels`.",
            default=(),
        ),
        "drafts": Field(
            spec=Flag(), about="Whether a draft pull request starts it.", default=False
        ),
        "branches": Field(
            spec=Texts(item=_GLOB),
            about="Branches pushed to, or that a pull request is to go into; any where empty.",
            default=(),
        ),
        "paths": Field(
            spec=Texts(item=_GLOB),
            about="Runs where a changed path is taken by these globs, of which the last that "
            "matches decides; whatever changed where empty. Schedules, dispatches and calls run "
            "whatever changed.",
            default=(),
        ),
        "continue_on_error": Field(
            spec=Texts(item=_EVENT),
            about="Events on which a failure does not stop the rest of a tier that stops. The "
            "verdict stays the same.",
            default=(GateEvent.SCHEDULE.value,),
        ),
        "env": Field(spec=ENV, about="Environment switches of the jobs that it starts."),
    }
)
