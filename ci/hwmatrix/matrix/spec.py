"""The vocabulary in which the table's model is written down (see `table.py`).

From one model come the checks, the JSON schema for editors and the reference in the docs, so that
none of the three can drift from the others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """A string. `pattern` must match the whole of it; `what` says the same in words.

    `word` is what the reference calls such a string.
    """

    word: str = "text"
    what: str = "text"
    pattern: str = ""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Number:
    """A finite number between `at_least` and `at_most`; `above` excludes the bound itself."""

    whole: bool = False
    above: float | None = None
    at_least: float | None = None
    at_most: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Flag:
    """`true` or `false`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Texts:
    """An array of strings, none of them twice."""

    item: Text
    at_least: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows:
    """A table whose keys people choose: names of tiers, variables ... `noun` says what they are."""

    noun: str
    key: Text
    value: Text | Texts | Table | Rows


@dataclass(frozen=True, kw_only=True, slots=True)
class Tables:
    """An array of tables, `[[gate]]`: rows in the order of the file. `noun` says what they are."""

    noun: str
    value: Table


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """One key of a table: what it takes, what it means, what holds without it."""

    spec: Text | Number | Flag | Texts | Rows | Tables | Table
    about: str
    required: bool = False
    default: str | float | bool | tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table with a closed list of keys, in the order in which people should write them."""

    fields: Mapping[str, Field] = field(default_factory=dict)


Spec = Text | Number | Flag | Texts | Rows | Tables | Table
