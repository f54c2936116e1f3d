"""Where each key of a TOML file stands: key path -> line and column.

`tomllib` keeps no positions, so this reads the same text a second time. It relies on tomllib
having accepted the text before, and therefore checks nothing.

A *key path* is a tuple: `("runner", "cpu", "devices")`. Elements of arrays and of arrays of tables
are counted from 0: `("gate", 1, "labels", 0)`.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

KeyPath = tuple["str | int", ...]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
# Blanks; `_GAP` also takes line breaks and comments, as stand between elements and statements.
_BLANKS = re.compile(r"[ \t]*")
_GAP = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_SCALAR = re.compile(r"[^,\]}#\n]+")
_BASIC = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_LITERAL = re.compile(r"'[^'\n]*'")
# A multi-line string ends with the last three of up to five quotes in a row.
_BASIC_LINES = re.compile(r'"""(?:[^"\\]|\\[\s\S]|"{1,2}(?!"))*?"{3,5}')
_LITERAL_LINES = re.compile(r"'''[\s\S]*?'{3,5}")


@dataclass(frozen=True, slots=True)
class Position:
    """Line and column, both counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Positions:
    """Where keys stand (`keys`), and the table headers in the order of the file (`headers`)."""

    keys: dict[KeyPath, Position]
    headers: tuple[KeyPath, ...]

    def of(self, path: KeyPath) -> Position:
        """Return where `path` stands; for a key that is absent, where its table stands."""
        for length in range(len(path), 0, -1):
            found = self.keys.get(path[:length])
            if found:
                return found
        return Position(1, 1)


def find_positions(text: str) -> Positions:
    """Return the positions of all keys and array elements of `text`, which must be valid TOML."""
    scanner = _Scanner(text.replace("\r\n", "\n"))
    scanner.document()
    return Positions(scanner.keys, tuple(scanner.headers))


class _Scanner:
    """A cursor over the text that notes each key it passes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.keys: dict[KeyPath, Position] = {}
        self.headers: list[KeyPath] = []
        self._lengths: dict[KeyPath, int] = {}  # elements so far of each array of tables
        self._line = 1
        self._line_start = 0
        self._counted = 0

    def document(self) -> None:
        """Read headers and statements up to the end of the text."""
        table: KeyPath = ()
        while self._skip(_GAP) < len(self.text):
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._statement(table)

    def _skip(self, pattern: re.Pattern[str]) -> int:
        match = pattern.match(self.text, self.at)
        assert match is not None, f"invalid TOML at offset {self.at}"
        self.at = match.end()
        return self.at

    def _next(self) -> str:
        """Skip to the next element or mark inside brackets, and return its first character."""
        return self.text[self._skip(_GAP)]

    def _here(self) -> Position:
        """Return the cursor's position; line breaks are counted once, going forward."""
        passed = self.text.count("\n", self._counted, self.at)
        if passed:
            self._line += passed
            self._line_start = self.text.rfind("\n", 0, self.at) + 1
        self._counted = self.at
        return Position(self._line, self.at - self._line_start + 1)

    def _key(self) -> list[tuple[str, Position]]:
        """Read a dotted key; return its parts with their positions."""
        parts = []
        while True:
            self._skip(_BLANKS)
            position = self._here()
            start, quote = self.at, self.text[self.at]
            self._skip({'"': _BASIC, "'": _LITERAL}.get(quote, _BARE_KEY))
            parts.append((_decoded(self.text[start : self.at]), position))
            self._skip(_BLANKS)
            if self.text[self.at : self.at + 1] != ".":
                return parts
            self.at += 1

    def _header(self) -> KeyPath:
        several = self.text.startswith("[[", self.at)
        self.at += 2 if several else 1
        parts = self._key()
        self.at += 2 if several else 1
        path: KeyPath = ()
        for index, (name, position) in enumerate(parts):
            path += (name,)
            self.keys.setdefault(path, position)
            if several and index == len(parts) - 1:
                self._lengths[path] = self._lengths.get(path, 0) + 1
            if path in self._lengths:
                path += (self._lengths[path] - 1,)
                self.keys.setdefault(path, position)
        if not several:
            # The header proper says more than an earlier header of one of its sub-tables did.
            self.keys[path] = parts[-1][1]
        self.headers.append(path)
        return path

    def _statement(self, table: KeyPath) -> None:
        """Read `key = value` inside `table`."""
        path = table
        for name, position in self._key():
            path += (name,)
            self.keys.setdefault(path, position)
        self.at += 1  # the equals sign
        self._skip(_BLANKS)
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        mark = self.text[self.at]
        if mark == "[":
            self._array(path)
        elif mark == "{":
            self._inline_table(path)
        elif self.text.startswith('"""', self.at):
            self._skip(_BASIC_LINES)
        elif self.text.startswith("'''", self.at):
            self._skip(_LITERAL_LINES)
        else:
            self._skip({'"': _BASIC, "'": _LITERAL}.get(mark, _SCALAR))

    def _array(self, path: KeyPath) -> None:
        self.at += 1
        index = 0
        while self._next() != "]":
            self.keys[(*path, index)] = self._here()
            self._value((*path, index))
            index += 1
            if self._next() == ",":
                self.at += 1
        self.at += 1

    def _inline_table(self, path: KeyPath) -> None:
        self.at += 1
        while self._next() != "}":
            self._statement(path)
            if self._next() == ",":
                self.at += 1
        self.at += 1


def _decoded(raw: str) -> str:
    """Return the name that a bare or quoted key spells; tomllib knows the escapes."""
    if raw[0] not in "\"'":
        return raw
    return str(tomllib.loads(f"key = {raw}")["key"])
