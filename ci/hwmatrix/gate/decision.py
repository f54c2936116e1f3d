"""The answer of the gate, and what it rests on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hwmatrix.errors import GateError
from hwmatrix.gate.text import one_line_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hwmatrix.model import Backend, SessionName

VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """Labels, or changed paths, as they are now; `unreadable` says why they are not known."""

    names: tuple[str, ...] = ()
    unreadable: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """What must be fetched before the gate can decide."""

    labels: bool = False
    changes: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """A session that runs.

    `session` is what `nox -s` takes, the variant included. Empty `suites` and `paths` mean all of
    it. `env` is to be set on its jobs, `continue_on_error` to be handed on to the session.
    """

    session: str
    backend: Backend
    tier: str
    variant: str
    suites: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    continue_on_error: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Skipped:
    """A session that does not run."""

    session: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What an event starts. Sessions keep the order of the table, and each is in one of the two.

    `event` says in one line what happened; `notes` tell what concerns no session in particular.
    """

    event: str
    sessions: tuple[Chosen, ...]
    skipped: tuple[Skipped, ...]
    notes: tuple[str, ...] = ()

    @property
    def neutral(self) -> bool:
        """Whether nothing runs, rightly."""
        return not self.sessions

    def to_plain(self) -> dict[str, object]:
        """Return the JSON form that the jobs of a workflow hand on."""
        return {
            "version": VERSION,
            "event": self.event,
            "sessions": [_chosen_plain(chosen) for chosen in self.sessions],
            "skipped": [
                {"session": each.session, "reasons": list(each.reasons)} for each in self.skipped
            ],
            "notes": list(self.notes),
            "neutral": self.neutral,
        }

    def to_json(self) -> str:
        """Return `to_plain` as one line of ASCII."""
        return one_line_json(self.to_plain())

    @classmethod
    def from_plain(cls, plain: object, sessions: Sequence[SessionName]) -> Decision:
        """Return the decision that `to_plain` wrote; `sessions` are those of the table.

        Raises:
            GateError: it was written by another version, or names what the table lacks.
        """
        known = {session.name: session for session in sessions}
        try:
            return _from_plain(plain, known)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise GateError(
                f"a gate's decision cannot be read ({type(error).__name__}: {error}). It must be "
                "what `python -m hwmatrix gate --json` wrote, of the same commit."
            ) from error


def _chosen_plain(chosen: Chosen) -> dict[str, object]:
    return {
        "session": chosen.session,
        "suites": list(chosen.suites),
        "paths": list(chosen.paths),
        "continue_on_error": chosen.continue_on_error,
        "env": dict(chosen.env),
        "reasons": list(chosen.reasons),
    }


def _from_plain(plain: object, known: Mapping[str, SessionName]) -> Decision:
    if not isinstance(plain, dict) or plain["version"] != VERSION:
        message = f"version {VERSION} is what this hwmatrix reads"
        raise ValueError(message)
    return Decision(
        event=str(plain["event"]),
        sessions=tuple(_chosen(row, known[row["session"]]) for row in plain["sessions"]),
        skipped=tuple(
            Skipped(session=str(row["session"]), reasons=_texts(row["reasons"]))
            for row in plain["skipped"]
        ),
        notes=_texts(plain["notes"]),
    )


def _chosen(row: Mapping[str, object], session: SessionName) -> Chosen:
    env = row["env"]
    if not isinstance(env, dict) or not isinstance(row["continue_on_error"], bool):
        message = "a session's switches have the wrong type"
        raise TypeError(message)
    return Chosen(
        session=session.name,
        backend=session.backend,
        tier=session.tier,
        variant=session.variant,
        suites=_texts(row["suites"]),
        paths=_texts(row["paths"]),
        continue_on_error=row["continue_on_error"],
        env={str(name): str(value) for name, value in env.items()},
        reasons=_texts(row["reasons"]),
    )


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        message = "expected a list of texts"
        raise TypeError(message)
    return tuple(value)
