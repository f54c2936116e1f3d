"""Parsed TOML held against the model: clean rows come out, and every problem with its place.

What is wrong is left out of the rows (its default stands in), so that later checks can go on and
a person sees all problems in one run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

from hwmatrix.errors import Problem, close_match
from hwmatrix.matrix.spec import Flag, Number, Rows, Spec, Table, Tables, Text, Texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hwmatrix.matrix.positions import KeyPath, Positions

_MISSING = object()
# How much of an offending value a message quotes.
_QUOTED = 60

T = TypeVar("T")


def spell(path: KeyPath) -> str:
    """Return a key path as people write it: `suite.amd."odd name".aliases[0]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            bare = re.fullmatch(r"[A-Za-z0-9_-]+", part)
            text += ("." if text else "") + (part if bare else quote(part))
    return text or "the file"


def quote(value: object) -> str:
    """Return a value as TOML would spell it, shortened and safe to print."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        shown = value if len(value) <= _QUOTED else value[:_QUOTED] + "..."
        return '"' + repr(shown)[1:-1].replace('"', '\\"') + '"'
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list):
        return "an array"
    try:
        return str(value)[:_QUOTED]
    except ValueError:  # an integer with more digits than Python converts
        return "an enormous number"


@dataclass(frozen=True, slots=True)
class Row:
    """A table of the file, clean: each key of the model with a value of its type."""

    at: KeyPath
    values: Mapping[str, object]
    given: frozenset[str]  # the keys that the file gives, and gives rightly

    def text(self, key: str) -> str:
        """Return a text, empty where it is absent."""
        return cast("str", self.values[key] or "")

    def number(self, key: str) -> float:
        """Return a number, 0 where a required one is missing (a problem tells of it)."""
        return cast("float", self.values[key] or 0)

    def flag(self, key: str) -> bool:
        """Return a truth value."""
        return bool(self.values[key])

    def texts(self, key: str) -> tuple[str, ...]:
        """Return an array of texts."""
        return cast("tuple[str, ...]", self.values[key] or ())

    def row(self, key: str) -> Row:
        """Return a table with a closed list of keys."""
        return cast("Row", self.values[key])

    def rows(self, key: str) -> Mapping[str, Row]:
        """Return a table whose keys people choose and whose values are tables."""
        return cast("Mapping[str, Row]", self.values[key])

    def tables(self, key: str) -> tuple[Row, ...]:
        """Return an array of tables."""
        return cast("tuple[Row, ...]", self.values[key] or ())

    def rows_of_rows(self, key: str) -> Mapping[str, Mapping[str, Row]]:
        """Return a table of such tables."""
        return cast("Mapping[str, Mapping[str, Row]]", self.values[key])

    def text_map(self, key: str) -> Mapping[str, str]:
        """Return a table of texts."""
        return cast("Mapping[str, str]", self.values[key])

    def texts_map(self, key: str) -> Mapping[str, tuple[str, ...]]:
        """Return a table of arrays of texts."""
        return cast("Mapping[str, tuple[str, ...]]", self.values[key])


class Checker:
    """Gathers problems of one file; `problems` grows as it is used."""

    def __init__(self, path: str, positions: Positions) -> None:
        self.path = path
        self.positions = positions
        self.problems: list[Problem] = []

    def line(self, at: KeyPath) -> int:
        """Return the line on which `at` stands."""
        return self.positions.of(at).line

    def has(self, at: KeyPath) -> bool:
        """Return whether the file has the key `at`, right or wrong."""
        return at in self.positions.keys

    def refer(self, at: KeyPath, name: str, noun: str, known: Mapping[str, object]) -> None:
        """Note that `at` refers to a `noun` that is not among `known`."""
        allowed = f"Declared: {', '.join(known)}." if known else "None is declared."
        found = f"is {quote(name)}, which is no {noun}."
        self.problem(at, found, allowed, close_match(name, tuple(known)))

    def problem(self, at: KeyPath, found: str, allowed: str = "", todo: str = "") -> None:
        """Note a problem with the key (or element) at `at`."""
        position = self.positions.of(at)
        self.problems.append(
            Problem(
                path=self.path,
                found=f"{spell(at)} {found}",
                line=position.line,
                column=position.column,
                allowed=allowed,
                todo=todo,
                rule="matrix",
            )
        )

    def table(self, spec: Table, value: object, at: KeyPath) -> Row:
        """Return the clean form of a table with a closed list of keys."""
        given = value if isinstance(value, Mapping) else {}
        if value is not _MISSING and not isinstance(value, Mapping):
            self._wrong_type(at, value, "a table")
        elif at or value is not _MISSING:
            self._unknown_keys(spec, given, at)
        values: dict[str, object] = {}
        right = set()
        for key, field in spec.fields.items():
            raw = given.get(key, _MISSING)
            if raw is _MISSING and field.required and isinstance(value, Mapping):
                self.problem(at, f"lacks the key {key!r}.", f"It is required: {field.about}")
            clean = self._clean(field.spec, raw, (*at, key))
            if raw is not _MISSING and clean is not _MISSING:
                right.add(key)
            values[key] = field.default if clean is _MISSING else clean
        return Row(at, values, frozenset(right))

    def _unknown_keys(self, spec: Table, given: Mapping[str, object], at: KeyPath) -> None:
        for key in given:
            if key not in spec.fields:
                self.problem(
                    (*at, key),
                    "is no key of the table.",
                    f"Keys here: {', '.join(spec.fields)}.",
                    close_match(key, tuple(spec.fields)),
                )

    def _clean(self, spec: Spec, value: object, at: KeyPath) -> object:
        """Return the clean value, or `_MISSING`; tables are never missing, only empty."""
        if isinstance(spec, Table):
            return self.table(spec, value, at)
        if isinstance(spec, Rows):
            return self._rows(spec, value, at)
        if isinstance(spec, Tables):
            return self._tables(spec, value, at)
        return _MISSING if value is _MISSING else self._leaf(spec, value, at)

    def _leaf(self, spec: Text | Texts | Flag | Number, value: object, at: KeyPath) -> object:
        if isinstance(spec, Text):
            return self._text(spec, value, at)
        if isinstance(spec, Texts):
            return self._texts(spec, value, at)
        if isinstance(spec, Number):
            return self._number(spec, value, at)
        return value if isinstance(value, bool) else self._wrong_type(at, value, "true or false")

    def _rows(self, spec: Rows, value: object, at: KeyPath) -> Mapping[str, object]:
        """Return the rows; one whose key is wrong is reported and left out."""
        if value is _MISSING:
            return {}
        if not isinstance(value, Mapping):
            self._wrong_type(at, value, "a table")
            return {}
        rows = {}
        for key, raw in value.items():
            known = self._key(spec, key, (*at, key))
            clean = self._clean(spec.value, raw, (*at, key))
            if known and clean is not _MISSING:
                rows[key] = clean
        return rows

    def _tables(self, spec: Tables, value: object, at: KeyPath) -> tuple[Row, ...]:
        """Return the elements that are tables; any other is reported and left out."""
        if not isinstance(value, list):
            if value is not _MISSING:
                self._wrong_type(at, value, "an array of tables", f"Write [[{spell(at)}]].")
            return ()
        rows = [self.table(spec.value, raw, (*at, index)) for index, raw in enumerate(value)]
        return tuple(row for row, raw in zip(rows, value, strict=True) if isinstance(raw, Mapping))

    def _key(self, spec: Rows, key: str, at: KeyPath) -> bool:
        if spec.key.choices:
            if key in spec.key.choices:
                return True
            self.problem(
                at,
                f"names no {spec.noun}.",
                f"Allowed: {', '.join(spec.key.choices)}.",
                close_match(key, spec.key.choices),
            )
            return False
        if re.fullmatch(spec.key.pattern, key):
            return True
        self.problem(at, f"is no name for a {spec.noun}.", f"Allowed: {spec.key.what}.")
        return False

    def _text(self, spec: Text, value: object, at: KeyPath) -> object:
        if not isinstance(value, str):
            hint = f"Write {quote(str(value))}." if isinstance(value, (int, float)) else ""
            return self._wrong_type(at, value, "a string", hint)
        if spec.choices and value not in spec.choices:
            allowed = f"Allowed: {', '.join(spec.choices)}."
            self.problem(at, f"is {quote(value)}.", allowed, close_match(value, spec.choices))
            return _MISSING
        if spec.pattern and not re.fullmatch(spec.pattern, value):
            self.problem(at, f"is {quote(value)}.", f"Allowed: {spec.what}.")
            return _MISSING
        return value

    def _texts(self, spec: Texts, value: object, at: KeyPath) -> object:
        if not isinstance(value, list):
            hint = f"Write [{quote(value)}]." if isinstance(value, str) else ""
            return self._wrong_type(at, value, "an array of strings", hint)
        if len(value) < spec.at_least:
            self.problem(at, "is empty.", f"At least {spec.at_least} element is needed.")
        clean: list[str] = []
        for index, raw in enumerate(value):
            item = self._text(spec.item, raw, (*at, index))
            if isinstance(item, str) and item in clean:
                self.problem((*at, index), f"says {quote(item)} a second time.", todo="Remove it.")
            elif isinstance(item, str):
                clean.append(item)
        return tuple(clean)

    def _number(self, spec: Number, value: object, at: KeyPath) -> object:
        kind = "a whole number" if spec.whole else "a number"
        fits = isinstance(value, int) if spec.whole else isinstance(value, (int, float))
        if isinstance(value, bool) or not fits:
            return self._wrong_type(at, value, kind)
        number = cast("float", value)
        bounds = [f"at most {spec.at_most:g}"]
        bad = number > spec.at_most or not math.isfinite(min(number, spec.at_most))
        if spec.at_least is not None:
            bounds.insert(0, f"at least {spec.at_least:g}")
            bad = bad or number < spec.at_least
        if spec.above is not None:
            bounds.insert(0, f"above {spec.above:g}")
            bad = bad or number <= spec.above
        if bad:
            self.problem(at, f"is {quote(value)}.", f"Allowed: {kind}, {', '.join(bounds)}.")
            return _MISSING
        return number if spec.whole else float(number)

    def _wrong_type(self, at: KeyPath, value: object, wanted: str, hint: str = "") -> object:
        kind = _type_name(value)
        self.problem(at, f"is {kind} ({quote(value)}).", f"Allowed: {wanted}.", hint)
        return _MISSING


def _type_name(value: object) -> str:
    """Return what TOML calls the type of a parsed value."""
    kinds = {bool: "a boolean", int: "an integer", float: "a float", str: "a string"}
    kinds |= {list: "an array", dict: "a table"}
    return kinds.get(type(value), "a date or time")


def each(rows: Mapping[str, Mapping[str, T]]) -> Iterator[tuple[str, str, T]]:
    """Yield (outer key, inner key, value) of a table of tables, in the order of the file."""
    for outer, inner in rows.items():
        for key, value in inner.items():
            yield outer, key, value
