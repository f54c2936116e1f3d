"""Switched-off registrations: what `disabled` may say, and which of them are overdue."""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING

from hwmatrix.errors import close_match
from hwmatrix.model import Disabled
from hwmatrix.registry.results import RegistrationProblem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hwmatrix.model import Registration

_KEYS = ("owner", "until")
_BRACKET = re.compile(r"(?P<reason>.*?)\s*\[(?P<pairs>[^\[\]]*)\]\s*", re.DOTALL)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def parse(text: str) -> Disabled:
    """Return what `disabled="reason [owner=@x until=2026-12-31]"` says.

    Any other text is a plain reason as it stands, one that ends in a bracket of another kind
    (`flaky [tp=8]`) too: strings written before owners and dates existed keep their meaning.

    Raises:
        ValueError: an empty reason, a misspelt or repeated key, no such date.
    """
    if not text.strip():
        raise ValueError("it is empty; say why the file is not to run, or leave disabled out")
    match = _BRACKET.fullmatch(text)
    pairs = re.split(r"[\s,;]+", match["pairs"].strip(" \t,;")) if match else []
    if match is None or not any(_is_key(pair) for pair in pairs):
        return Disabled(reason=text.strip())
    values: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if key not in _KEYS or not equals or not value:
            hint = close_match(key, _KEYS)
            raise ValueError(f"{pair!r} is not owner=NAME or until=YYYY-MM-DD{_spaced(hint)}")
        if key in values:
            raise ValueError(f"{key} is given twice")
        values[key] = value
    if not match["reason"].strip():
        raise ValueError("it has no reason before the bracket")
    until = values.get("until", "")
    if until:
        _check_date(until)
    return Disabled(reason=match["reason"].strip(), owner=values.get("owner", ""), until=until)


def _is_key(pair: str) -> bool:
    """Return whether `pair` is `owner=` or `until=`, or a near miss of one."""
    key, equals, _ = pair.partition("=")
    return bool(equals) and (key in _KEYS or bool(close_match(key, _KEYS)))


def _check_date(text: str) -> None:
    try:
        if _DATE.fullmatch(text):
            date.fromisoformat(text)
            return
    except ValueError:
        pass
    raise ValueError(f"until={text} is no date of the form YYYY-MM-DD")


def _spaced(hint: str) -> str:
    return f"; {hint[0].lower()}{hint[1:]}" if hint else ""


def expired(registrations: Iterable[Registration], today: date) -> tuple[RegistrationProblem, ...]:
    """Return one problem for each registration whose `until` lies before `today`.

    The date named is the last day on which it may stay off. Planning cannot know the date, so
    this is for lint.
    """
    return tuple(
        RegistrationProblem(
            path=item.path,
            line=item.line,
            column=item.column,
            found=f"register_{item.backend}_ci() is disabled until {item.disabled.until}, "
            f"which is over (today is {today.isoformat()}): {item.disabled.reason}.",
            todo=f"Ask {item.disabled.owner or 'the owner'}: enable it, or set a later date.",
            rule="expired",
            backends=frozenset({item.backend}),
        )
        for item in registrations
        if item.disabled and item.disabled.until and item.disabled.until < today.isoformat()
    )
