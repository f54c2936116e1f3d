"""Expressions of `-k` and `-m`: what is surely wrong is told before anything is made or started.

Only what every pytest refuses: a parenthesis or a quote without its other half. Names and operators
are left to the pytest of the environment under test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwmatrix.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_OPTIONS = ("-k", "-m")


def check(pytest_args: Sequence[str]) -> None:
    """Return where every expression in `pytest_args` is balanced.

    Raises:
        UsageError: one is not.
    """
    for option, text in _expressions(pytest_args):
        if fault := _fault(text):
            raise UsageError(
                f"{option} {text!r}: {fault} Allowed: names joined by and, or, not and "
                "parentheses, as in -k 'fork and not (slow or gpu)'."
            )


def _expressions(pytest_args: Sequence[str]) -> Iterator[tuple[str, str]]:
    words = iter(pytest_args)
    for word in words:
        if word in _OPTIONS:
            yield word, next(words, "")
        elif word.startswith(_OPTIONS):
            yield word[:2], word[2:].removeprefix("=")


def _fault(text: str) -> str:
    """Return what is unbalanced; what stands between quotes counts for nothing."""
    depth, quote = 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if depth < 0:
                return "a ')' has no '(' before it."
    if quote:
        return f"a quote ({quote}) is not closed."
    return "a '(' is not closed." if depth else ""
