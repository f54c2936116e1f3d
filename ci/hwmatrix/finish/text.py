"""Text from reports made safe: for a log, for Markdown, for a fence.

GitHub's runner obeys `::name::` at the start of a log's line and `##[name]` anywhere in one.
"""

from __future__ import annotations

import html
import re

# Escape sequences of terminals, whole: CSI, OSC, and two-character ones.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_LONGEST = 1000


def line(words: str) -> str:
    """Return `words` on one line: no escapes, no control characters, no command to a runner."""
    bare = _ESCAPES.sub("", words)
    shown = "".join(char if char.isprintable() else " " for char in bare)
    shown = " ".join(shown.split())
    if len(shown) > _LONGEST:
        shown = f"{shown[:_LONGEST]}... ({len(shown)} characters)"
    shown = shown.replace("##[", "## [")
    # The runner skips blanks before the colons: they have to come apart.
    return f": {shown[1:]}" if shown.startswith("::") else shown


def inline(words: str) -> str:
    """Return `words` for a line of Markdown: nothing in them is acted on."""
    safe = html.escape(line(words), quote=False)
    return "".join(f"\\{char}" if char in "\\`*_[]#|~@" else char for char in safe)


def fenced(words: str) -> list[str]:
    """Return `words` as a block of code that ends where it should."""
    shown = line(words)
    fence = "```"
    while fence in shown:
        fence += "`"
    return [f"{fence}sh", shown, fence]


def duration(seconds: float) -> str:
    """Return `3 m 05 s`, `12.3 s` or `1 h 02 m`."""
    if seconds < 60:  # noqa: PLR2004 - a minute
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:  # noqa: PLR2004 - an hour
        return f"{minutes} m {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} m"


def plural(count: int, noun: str) -> str:
    """Return `1 shard`, `2 shards`."""
    return f"{count} {noun}{'s' * (count != 1)}"
