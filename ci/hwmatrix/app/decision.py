"""A gate's decision, read back from its file; and sessions named by hand."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hwmatrix.errors import JobsError
from hwmatrix.model import Chosen

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What is to run. `neutral` says that nothing is, on purpose; `event` is what it was about."""

    sessions: tuple[Chosen, ...]
    neutral: bool = False
    event: str = ""


def by_hand(names: Iterable[str]) -> Decision:
    """Return the decision that starts the sessions of these names, whole."""
    return Decision(sessions=tuple(Chosen(session=name) for name in names), event="by hand")


def read(path: Path) -> Decision:
    """Return the decision in the file at `path`, as `hwmatrix gate --json` writes it.

    Raises:
        JobsError: it cannot be read, or is of another shape.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise JobsError(
            f"{path}: no decision can be read there ({error}). It is what "
            "`python -m hwmatrix gate --json` prints."
        ) from error
    try:
        return _decision(value)
    except (KeyError, TypeError, ValueError) as error:
        raise JobsError(
            f"{path}: is no decision of a gate: {type(error).__name__} {error}."
        ) from error


def _decision(value: object) -> Decision:
    plain = _object(value)
    if plain["version"] != VERSION:
        message = f"version {plain['version']!r}; this reads version {VERSION}"
        raise ValueError(message)
    neutral = plain["neutral"]
    if not isinstance(neutral, bool):
        message = "neutral is no truth value"
        raise TypeError(message)
    sessions = tuple(_chosen(_object(item)) for item in _list(plain["sessions"]))
    if neutral == bool(sessions):
        message = f"neutral is {neutral} with {len(sessions)} session(s)"
        raise ValueError(message)
    return Decision(sessions=sessions, neutral=neutral, event=_text(plain.get("event", "")))


def _chosen(plain: dict[str, object]) -> Chosen:
    go_on = plain.get("continue_on_error", False)
    return Chosen(
        session=_text(plain["session"]),
        suites=_texts(plain.get("suites", [])),
        paths=_texts(plain.get("paths", [])),
        continue_on_error=go_on is True,
        env={name: _text(text) for name, text in _object(plain.get("env", {})).items()},
        reasons=_texts(plain.get("reasons", [])),
    )


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        message = f"an object is needed, not {str(value)[:40]!r}"
        raise TypeError(message)
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        message = f"a list is needed, not {str(value)[:40]!r}"
        raise TypeError(message)
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        message = f"a text is needed, not {str(value)[:40]!r}"
        raise TypeError(message)
    return value


def _texts(value: object) -> tuple[str, ...]:
    return tuple(_text(item) for item in _list(value))
