"""Pure: an event, the table's gate rows and the facts of the moment -> which sessions run, and why.

Three questions, in this order. Does the event start anything at all (`_halt`)? Which rows hold
(`_judge`, once per row)? Which sessions do they reach (`_session`)?
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hwmatrix.errors import GateError, close_match
from hwmatrix.gate.conditions import BY_HAND, Judged, covers, judge
from hwmatrix.gate.decision import Chosen, Decision, Facts, Needs, Skipped
from hwmatrix.gate.selection import Selection, select
from hwmatrix.gate.text import SHOWN, quoted
from hwmatrix.model import Backend, GateEvent, GateRule, Matrix, SessionName

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hwmatrix.gate.events import Event

# What changes the commits of a pull request, or makes it ready to be looked at.
STARTING = ("opened", "reopened", "synchronize", "ready_for_review")


def needs(event: Event, matrix: Matrix) -> Needs:
    """Return what `decide` will ask for on this event; nothing where it starts nothing."""
    if _halt(event, matrix):
        return Needs()
    judged = [
        judge(rule, event, matrix, labels=Facts(), changes=Facts())
        for rule in matrix.gates
        if event.name in rule.events
    ]
    return Needs(
        labels=any(each.asks_labels for each in judged),
        changes=any(each.asks_changes for each in judged),
    )


def decide(
    event: Event,
    matrix: Matrix,
    *,
    sessions: Sequence[SessionName],
    labels: Facts | None = None,
    changes: Facts | None = None,
    registered: Mapping[tuple[Backend, str], Sequence[str]] | None = None,
) -> Decision:
    """Return what `event` starts, with the reason for each session that runs or does not.

    `sessions` are those of the table, in its order. `labels` are those of the pull request now.
    Changed paths that are not known count as if every path had changed. `registered` has the
    files of each suite, for a dispatch that names one.

    Raises:
        GateError: the labels are needed and not known; the table has no gate row, or none for
            this schedule; a dispatch names what does not exist, or what no row starts.
    """
    _check_table(event, matrix)
    halt = _halt(event, matrix)
    if halt:
        skipped = tuple(Skipped(session=s.name, reasons=(halt,)) for s in sessions)
        return Decision(event=event.title, sessions=(), skipped=skipped)
    inputs = event.inputs if event.name in BY_HAND else {}
    selection = select(inputs, matrix, sessions, registered or {})
    question = _Question(
        event=event,
        matrix=matrix,
        selection=selection,
        judged=_judge_all(event, matrix, labels, changes),
    )
    answers = [question.session(session) for session in sessions]
    decision = Decision(
        event=event.title,
        sessions=tuple(answer for answer in answers if isinstance(answer, Chosen)),
        skipped=tuple(answer for answer in answers if isinstance(answer, Skipped)),
        notes=(*selection.notes, *_change_notes(question.judged, changes)),
    )
    _check_asked(selection, sessions, decision)
    return decision


def _judge_all(
    event: Event, matrix: Matrix, labels: Facts | None, changes: Facts | None
) -> tuple[Judged, ...]:
    """Judge every row of this event; labels that are needed must be known."""
    judged = tuple(
        judge(
            rule,
            event,
            matrix,
            labels=labels or Facts(unreadable="nobody asked for them"),
            changes=changes or Facts(unreadable="nobody asked for them"),
        )
        for rule in matrix.gates
        if event.name in rule.events
    )
    unknown = [each for each in judged if each.labels_unknown]
    if unknown:
        rows = ", ".join(each.rule.name for each in unknown)
        raise GateError(
            f"the labels of #{event.number} cannot be read: {unknown[0].labels_unknown}. "
            f"Nothing was started, since these rows need them: {rows}. Run this again once the "
            "API answers, or give the labels with --label."
        )
    return judged


def _change_notes(judged: Iterable[Judged], changes: Facts | None) -> Iterable[str]:
    if changes and changes.unreadable and any(each.asks_changes for each in judged):
        yield f"the changed paths are not known, and so keep nothing back: {changes.unreadable}"


def _check_table(event: Event, matrix: Matrix) -> None:
    if not matrix.gates:
        raise GateError(
            f"{matrix.path} has no [[gate]] row, so no event starts anything. Add one; "
            "docs/gate.md shows how."
        )
    crons = tuple(dict.fromkeys(cron for rule in matrix.gates for cron in rule.cron))
    if event.name is GateEvent.SCHEDULE and event.cron not in crons:
        hint = close_match(event.cron[:SHOWN], crons)
        message = (
            f"no gate row of {matrix.path} has the schedule {quoted(event.cron)}. {hint} "
            f"Schedules: {', '.join(crons) or 'none'}. Make the workflow anew from the table."
        )
        raise GateError(message.replace("  ", " "))
    if event.name in BY_HAND and not any(event.name in r.events for r in matrix.gates):
        raise GateError(
            f"no gate row of {matrix.path} answers to {event.name}. Add it to a row's events."
        )


def _check_asked(selection: Selection, sessions: Iterable[SessionName], decision: Decision) -> None:
    """A person who asked for something gets it, or learns why not."""
    if not selection.chosen or not decision.neutral:
        return
    fitting = {
        session.name
        for session in sessions
        if not (_out_of_use(session) or selection.pick(session).refused)
    }
    if not fitting:
        raise GateError(
            f"no session fits all of {selection.words}. `python -m hwmatrix list` shows sessions, "
            "suites and machines."
        )
    why = [
        f"{each.session}: {'; '.join(each.reasons)}."
        for each in decision.skipped
        if each.session in fitting
    ]
    raise GateError("\n".join([f"nothing starts for {selection.words}.", *why]))


def _halt(event: Event, matrix: Matrix) -> str:
    """Why the event as a whole starts nothing; empty where it may start something."""
    match event.name:
        case GateEvent.PULL_REQUEST:
            return _halt_pull_request(event, matrix)
        case GateEvent.PUSH if event.deleted:
            return "the branch was deleted"
        case GateEvent.MERGE_GROUP if event.action != "checks_requested":
            return f"the merge group's action is {event.action or 'none'}, not checks_requested"
        case _:
            return ""


def _halt_pull_request(event: Event, matrix: Matrix) -> str:
    if event.action in STARTING:
        return ""
    if event.action == "labeled":
        named = dict.fromkeys(
            label
            for rule in matrix.gates
            if GateEvent.PULL_REQUEST in rule.events
            for label in rule.labels
        )
        if event.label in named:
            return ""
        rows = ", ".join(quoted(label) for label in named) or "none"
        return (
            f"the label {quoted(event.label)} was added, which no gate row names (they name {rows})"
        )
    if event.action == "unlabeled":
        return f"taking the label {quoted(event.label)} away starts nothing"
    return (
        f"the action {event.action or 'none'} starts nothing; these do: "
        f"{', '.join((*STARTING, 'labeled'))}"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Question:
    """Everything that the answer for one session depends on."""

    event: Event
    matrix: Matrix
    selection: Selection
    judged: tuple[Judged, ...] = field(default=())

    def session(self, session: SessionName) -> Chosen | Skipped:
        """Return whether `session` runs, and why."""
        pick = self.selection.pick(session)
        refused = _out_of_use(session) or pick.refused
        if refused:
            return _skip(session, refused)
        reaching = [each for each in self.judged if self._covers(each.rule, session)]
        if not reaching:
            return _skip(session, self._unreached(session))
        holding = [each for each in reaching if not each.failed]
        if not holding:
            return _skip(session, *(each.reason for each in reaching))
        suites = self._suites([each.rule for each in holding], session, pick.suites)
        if suites is None:
            return _skip(session, "the rows that reach it start other suites than were asked for")
        return self._chosen(session, holding, suites, pick.paths)

    def _chosen(
        self,
        session: SessionName,
        holding: Sequence[Judged],
        suites: tuple[str, ...],
        paths: tuple[str, ...],
    ) -> Chosen:
        asked = self.selection.continue_on_error
        env: dict[str, str] = {}
        for each in holding:
            env |= each.rule.env
        by_rows = any(self.event.name in each.rule.continue_on_error for each in holding)
        return Chosen(
            session=session.name,
            backend=session.backend,
            tier=session.tier,
            variant=session.variant,
            suites=suites,
            paths=paths,
            continue_on_error=by_rows if asked is None else asked,
            env=env,
            reasons=tuple(each.reason for each in holding),
        )

    def _covers(self, rule: GateRule, session: SessionName) -> bool:
        """Whether `rule` reaches `session`; by hand any variant can be asked for."""
        default = self.matrix.backends[session.backend].default_variant
        if rule.variants:
            fits = session.variant in rule.variants
        else:
            fits = session.variant == default or self.selection.wants_variant(session)
        return fits and covers(rule, session, self.matrix)

    def _unreached(self, session: SessionName) -> str:
        default = self.matrix.backends[session.backend].default_variant
        others = [
            f"{rule.name!r} ({', '.join(rule.events)})"
            for rule in self.matrix.gates
            if covers(rule, session, self.matrix)
            and (session.variant in rule.variants if rule.variants else session.variant == default)
        ]
        if others:
            return f"no gate row starts it on {self.event.name}; elsewhere: {', '.join(others)}"
        if session.variant != default and self.event.name in BY_HAND:
            return f"its variant {session.variant} was not asked for"
        if session.variant != default:
            return f"no gate row names its variant {session.variant}; a dispatch can"
        return "no gate row reaches it"

    def _suites(
        self, rules: Iterable[GateRule], session: SessionName, picked: tuple[str, ...]
    ) -> tuple[str, ...] | None:
        """The suites that run: () for all of the session, None where none is left."""
        own = [s.name for s in self.matrix.suites_of(session.backend, session.tier)]
        allowed = {name for rule in rules for name in (rule.suites or own)}
        left = tuple(name for name in own if name in allowed and (not picked or name in picked))
        if not left:
            return None
        return () if len(left) == len(own) else left


def _out_of_use(session: SessionName) -> str:
    """Why no event starts `session` whatever it says."""
    if session.retired:
        return f"its variant is retired: {session.retired}"
    if not session.variant:
        return f"{session.backend} has no variant: it can be planned, not run"
    return ""


def _skip(session: SessionName, *reasons: str) -> Skipped:
    return Skipped(session=session.name, reasons=tuple(dict.fromkeys(reasons)))
