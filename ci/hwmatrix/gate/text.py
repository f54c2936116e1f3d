"""Text from outside (labels, branches, paths, inputs) made safe to print and short enough to read.

Nothing of it can move a terminal's cursor, begin a line, or be a command to GitHub's runner, which
obeys `::name::` at the start of a line and `##[name]` anywhere in one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Longer texts tell a person nothing more, and a label may be as long as its sender likes.
SHOWN = 80
# How many labels or paths a reason lists.
LISTED = 5


def quoted(text: str) -> str:
    """Return `text` in single quotes, shortened, with whatever is not printable escaped."""
    cut = text[:SHOWN]
    safe = "".join(_escaped(char) for char in cut).replace("##[", "\\x23#[")
    more = f"... ({len(text)} characters)" if len(text) > len(cut) else ""
    return f"'{safe}{more}'"


def _escaped(char: str) -> str:
    """Line breaks, ESC, bidirectional marks and lone surrogates are not printable."""
    if char in "\\'":
        return "\\" + char
    return char if char.isprintable() else char.encode("unicode_escape").decode("ascii")


def listed(texts: Sequence[str]) -> str:
    """Return the first few of `texts` quoted, and how many more there are."""
    shown = ", ".join(quoted(text) for text in texts[:LISTED])
    rest = len(texts) - LISTED
    return f"{shown} and {rest} more" if rest > 0 else shown


def one_line_json(value: object) -> str:
    """Return `value` as one line of ASCII JSON in which GitHub's runner finds no command."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace("##[", "\\u0023#[")


def error_command(message: str) -> str:
    """Return GitHub's command that marks the run with `message`.

    Escaped as the runner unescapes it, so that no part of it can begin a command of its own.
    """
    data = message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return f"::error title=gate::{data}"
