from __future__ import annotations

import io

import pytest

from hwmatrix.model import Outcome
from hwmatrix.reporting import Screen, detect
from hwmatrix.reporting.screen import (
    STYLE,
    about,
    clean,
    clock_time,
    columns,
    duration,
    pad,
    plural,
    table,
)


class Stream(io.TextIOWrapper):
    def __init__(self, encoding: str, *, tty: bool) -> None:
        super().__init__(io.BytesIO(), encoding=encoding)
        self._tty = tty

    def isatty(self) -> bool:
        return self._tty


@pytest.mark.parametrize(
    ("tty", "encoding", "env", "expected"),
    [
        (True, "utf-8", {"TERM": "xterm"}, Screen(width=90, color=True, unicode=True, is_tty=True)),
        (True, "UTF-8", {"TERM": "dumb"}, Screen(width=90, unicode=True)),
        (True, "utf-8", {}, Screen(width=90, unicode=True)),
        (True, "ascii", {"TERM": "xterm"}, Screen(width=90, color=True, is_tty=True)),
        (
            True,
            "utf-8",
            {"TERM": "xterm", "NO_COLOR": "1"},
            Screen(width=90, unicode=True, is_tty=True),
        ),
        (False, "utf-8", {"TERM": "xterm"}, Screen(width=100, unicode=True)),
        (False, "utf_8", {}, Screen(width=100, unicode=True)),
        (False, "ascii", {"TERM": "xterm"}, Screen(width=100)),
    ],
)
def test_what_a_stream_can_show(
    *, tty: bool, encoding: str, env: dict[str, str], expected: Screen
) -> None:
    with Stream(encoding, tty=tty) as stream:
        assert detect(stream, env, width=90) == expected


@pytest.mark.parametrize(("width", "used"), [(0, 40), (20, 40), (999, 200)])
def test_width_has_bounds(width: int, used: int) -> None:
    with Stream("utf-8", tty=True) as stream:
        assert detect(stream, {}, width=width).width == used


def test_stream_without_an_encoding_is_ascii() -> None:
    assert not detect(io.StringIO(), {}, width=80).unicode


def test_every_outcome_has_a_style_and_a_word() -> None:
    assert set(STYLE) == set(Outcome)
    for outcome in Outcome:
        assert Screen().mark(outcome) == outcome.value
        assert Screen(unicode=True).mark(outcome)[2:] == outcome.value


def test_paint() -> None:
    assert Screen().paint("x", "red") == "x"
    assert Screen(color=True).paint("x", "red") == "\x1b[31mx\x1b[0m"
    assert Screen(color=True).paint("", "red") == ""
    assert Screen(color=True).paint("x", "sparkling") == "x"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("a\x1b[31mb\x1b[0mc", "abc"),
        ("\x1b]8;;file:///x\x07link\x1b]8;;\x07", "link"),
        ("a\x00\x08b\x9f\ud800", "ab"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("tab\tstays", "tab\tstays"),
    ],
)
def test_clean(words: str, expected: str) -> None:
    assert clean(words) == expected


def test_safe_is_one_line_of_what_the_terminal_has() -> None:
    assert Screen().safe(" é\n 字 ") == "\\xe9 \\u5b57"
    assert Screen(unicode=True).safe(" é\n 字 ") == "é 字"


def test_columns() -> None:
    assert columns("abc") == 3
    assert columns("字é") == 3
    assert columns("e\u0301") == 1
    assert pad("字", 4) == "字  "
    assert pad("a", 3, right=True) == "  a"


def test_clip() -> None:
    assert Screen().clip("abcdef", 6) == "abcdef"
    assert Screen().clip("abcdefg", 6) == "abc..."
    assert Screen().clip("abcdefg", 2) == ".."
    assert Screen(unicode=True).clip("字字字", 4) == "字…"


def test_clip_path_keeps_the_name() -> None:
    assert Screen().clip_path("a/b/test_x.py", 13) == "a/b/test_x.py"
    assert Screen().clip_path("a/b/test_x.py", 12) == "...test_x.py"
    assert Screen(unicode=True).clip_path("a/b/test_x.py", 11) == "…/test_x.py"


def test_wrap_holds_numbers_and_units_together() -> None:
    screen = Screen(width=40)
    lines = screen.wrap("about 35 characters and then we wait 120 s more", "  ")
    assert lines == ["  about 35 characters and then we wait", "  120 s more"]
    assert screen.wrap("", "  ") == [""]
    assert screen.wrap("x " * 30, "  - ")[1].startswith("    x")


def test_table_drops_columns_from_the_right() -> None:
    rows = [["file", "a", "b"], ["test/registered/test_something_long.py", "12", "3"]]
    wide = table(Screen(width=60), rows, flex=0)
    assert wide[0] == ["file".ljust(38), " a", "b"]
    narrow = table(Screen(width=33), rows, flex=0)
    assert narrow[1] == ["...red/test_something_long.py", "12"]
    assert table(Screen(), [], flex=0) == []


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0.00 s"), (0.994, "0.99 s"), (59.94, "59.9 s"), (59.96, "1 m 00 s"), (3600, "1 h 00 m")],
)
def test_duration(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(-1, "0:00"), (42.4, "0:42"), (725, "12:05"), (3723, "1:02:03")]
)
def test_clock_time(seconds: float, shown: str) -> None:
    assert clock_time(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(3, "a few seconds"), (43, "about 45 s"), (100, "about 2 m"), (9000, "about 2.5 h")],
)
def test_about(seconds: float, shown: str) -> None:
    assert about(seconds) == shown


def test_plural() -> None:
    assert [plural(many, "test") for many in (0, 1, 2)] == ["0 tests", "1 test", "2 tests"]
