"""What a terminal can show, and text fitted to it."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from hwmatrix.model import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NARROWEST, WIDEST, DEFAULT = 40, 200, 100
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_MEASURE = re.compile(r"(?<=\d) (?=(?:s|m|h|MiB|GiB)\b)")
_COLORS = {"red": "31", "green": "32", "yellow": "33", "dim": "2", "bold": "1"}

STYLE: dict[Outcome, str] = {
    Outcome.PASSED: "green",
    Outcome.FAILED: "red",
    Outcome.SKIPPED: "yellow",
    Outcome.DESELECTED: "dim",
    Outcome.CRASHED: "red",
    Outcome.TIMED_OUT: "red",
    Outcome.NOT_RUN: "red",
}
_MARKS: dict[Outcome, str] = {
    Outcome.PASSED: "✓",
    Outcome.SKIPPED: "-",
    Outcome.DESELECTED: "-",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Screen:
    """Where text goes: `width` in columns; plain ASCII without colour unless told otherwise.

    `unicode` depends on the stream's encoding; colour and a line that changes (`is_tty`) on the
    terminal.
    """

    width: int = DEFAULT
    color: bool = False
    unicode: bool = False
    is_tty: bool = False

    def paint(self, words: str, style: str) -> str:
        """Return `words` in a style of `red green yellow dim bold`, where colour is on."""
        if not self.color or not words or style not in _COLORS:
            return words
        return f"\x1b[{_COLORS[style]}m{words}\x1b[0m"

    def mark(self, outcome: Outcome) -> str:
        """Return the outcome as a word, with a sign before it where the terminal has signs."""
        if not self.unicode:
            return outcome.value
        return f"{_MARKS.get(outcome, '✗')} {outcome.value}"

    def safe(self, words: str) -> str:
        """Return `words` on one line, without control characters, in what the terminal has."""
        line = " ".join(clean(words).split())
        return line if self.unicode else line.encode("ascii", "backslashreplace").decode()

    def clip(self, words: str, room: int) -> str:
        """Return `words` cut at the end to fit `room` columns."""
        dots = "…" if self.unicode else "..."
        if columns(words) <= room:
            return words
        return _prefix(words, max(0, room - len(dots))) + dots[: max(0, room)]

    def clip_path(self, path: str, room: int) -> str:
        """Return `path` cut at its beginning: the name of the file says the most."""
        dots = "…" if self.unicode else "..."
        if columns(path) <= room:
            return path
        return dots[: max(0, room)] + _prefix(path[::-1], max(0, room - len(dots)))[::-1]

    def wrap(self, words: str, indent: str = "  ") -> list[str]:
        """Return `words` over as many lines as they need, each after `indent`."""
        # A number and its unit stay on one line: no-break spaces hold them until it is cut.
        held = _MEASURE.sub("\u00a0", self.safe(words))
        lines = textwrap.wrap(
            held,
            width=max(self.width, NARROWEST),
            initial_indent=indent,
            subsequent_indent=" " * len(indent),
            break_on_hyphens=False,
        )
        return [line.replace("\u00a0", " ") for line in lines] or [indent.rstrip()]


def detect(stream: TextIO, env: Mapping[str, str], *, width: int) -> Screen:
    """Return what `stream` can show. `width` is the terminal's, asked for by the caller.

    No terminal: no escape codes. `NO_COLOR` (any value) and `TERM=dumb` switch colour off; a
    locale without UTF-8, that is a stream whose encoding is another one, gives ASCII.
    """
    tty = stream.isatty()
    dumb = env.get("TERM", "") in {"", "dumb"}
    encoding = (stream.encoding or "").lower().replace("-", "").replace("_", "")
    return Screen(
        width=max(NARROWEST, min(width, WIDEST)) if tty else DEFAULT,
        color=tty and not dumb and not env.get("NO_COLOR"),
        unicode=encoding == "utf8",
        is_tty=tty and not dumb,
    )


def clean(words: str) -> str:
    """Return `words` without terminal escapes and control characters; line ends stay."""
    plain = _ESCAPES.sub("", words).replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("", plain)


def columns(words: str) -> int:
    """Return how many columns `words` take: wide characters take two, combining ones none."""
    if words.isascii():
        return len(words)
    return sum(_column(char) for char in words)


def _column(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _prefix(words: str, room: int) -> str:
    used, kept = 0, []
    for char in words:
        used += _column(char)
        if used > room:
            break
        kept.append(char)
    return "".join(kept)


def pad(words: str, width: int, *, right: bool = False) -> str:
    """Return `words` filled up with blanks to `width` columns."""
    fill = " " * max(0, width - columns(words))
    return fill + words if right else words + fill


def duration(value: float) -> str:
    """Return seconds as people read them: `0.42 s`, `12.3 s`, `2 m 05 s`, `1 h 02 m`."""
    if value < 1:
        return f"{value:.2f} s"
    if value < 59.95:  # noqa: PLR2004 - 60.0 s would round up to a minute
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 3600:  # noqa: PLR2004 - an hour
        return f"{whole // 60} m {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} m"


def clock_time(value: float) -> str:
    """Return elapsed seconds as a clock shows them: `0:42`, `12:05`, `1:02:03`."""
    minutes, seconds = divmod(max(0, round(value)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def about(value: float) -> str:
    """Return a guess at seconds no finer than it deserves: `about 40 s`, `about 3 m`."""
    if value < 10:  # noqa: PLR2004 - finer than the guess is good
        return "a few seconds"
    if value < 90:  # noqa: PLR2004 - as long as people count seconds
        return f"about {5 * round(value / 5)} s"
    minutes = round(value / 60)
    return f"about {minutes} m" if minutes < 100 else f"about {minutes / 60:.1f} h"  # noqa: PLR2004 - as long as people count minutes


def plural(many: int, noun: str) -> str:
    """Return `1 test`, `3 tests`."""
    return f"{many} {noun}{'' if many == 1 else 's'}"


def table(
    screen: Screen, rows: Sequence[Sequence[str]], *, flex: int, left: int = 0, gap: str = "  "
) -> list[list[str]]:
    """Return the rows padded to columns, the flexible one (a path) cut to what is left.

    Columns up to `flex` are flush left, those after it flush right. From the last column on they
    are dropped while the path would get under 28 columns. `left` columns are kept for an indent.
    """
    if not rows:
        return []
    room = screen.width - left
    widths = [max(columns(row[i]) for row in rows) for i in range(len(rows[0]))]
    least = min(28, widths[flex])
    while len(widths) > flex + 1 and _total(widths, gap) - widths[flex] + least > room:
        widths.pop()
    widths[flex] = max(8, min(widths[flex], room - _total(widths, gap) + widths[flex]))
    found = []
    for row in rows:
        cells = [*row[:flex], screen.clip_path(row[flex], widths[flex]), *row[flex + 1 :]]
        # `widths` may be shorter than the row: columns that do not fit are left out.
        padded = (pad(cells[i], width, right=i > flex) for i, width in enumerate(widths))
        found.append(list(padded))
    return found


def _total(widths: Sequence[int], gap: str) -> int:
    return sum(widths) + len(gap) * (len(widths) - 1)
