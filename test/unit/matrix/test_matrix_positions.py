"""Positions: every key of a document is found, where it stands."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwmatrix.matrix.positions import Position, find_positions

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hwmatrix.matrix.positions import KeyPath


def paths_of(value: object, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the key path of everything inside a parsed document."""
    pairs: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = list(enumerate(value))
    for key, inner in pairs:
        yield (*path, key)
        yield from paths_of(inner, (*path, key))


DOCUMENTS = {
    "plain": ("a = 1\nb = 'x'\n", ("b",), Position(2, 1)),
    "indented": ("[t]\n   a = 1\n", ("t", "a"), Position(2, 4)),
    "dotted": ("a.b . c = 1\n", ("a", "b", "c"), Position(1, 7)),
    "quoted": ('[x."a b".\'c.d\']\n"e\\u0041#" = 1\n', ("x", "a b", "c.d", "eA#"), Position(2, 1)),
    "header": ("\n[a.b]\n[a]\nc = 1\n", ("a",), Position(3, 2)),
    "inline": ("a = { b = 1, c = { d = [1, 2] } }\n", ("a", "c", "d", 1), Position(1, 28)),
    "array over lines": (
        "a = [\n  1, # one, [\n  # ]\n  'x',\n]\nb = 1\n",
        ("a", 1),
        Position(4, 3),
    ),
    "after an array": ("a = [\n  1,\n  2\n]\nb = 1\n", ("b",), Position(5, 1)),
    "multi-line basic": ('a = """\nb = 1\n\\""" c ""\n"""\nd = 1\n', ("d",), Position(5, 1)),
    "five quotes": ('a = """x"""""\nd = 1\n', ("d",), Position(2, 1)),
    "empty multi-line": ('a = """"""\nd = 1\n', ("d",), Position(2, 1)),
    "multi-line literal": ("a = '''\n[b]\n\\'''''\nd = 1\n", ("d",), Position(4, 1)),
    "hash in string": ("a = '#[' # b = 1\nd = '' # '\n", ("d",), Position(2, 1)),
    "date with a blank": ("a = 1979-05-27 07:32:00 # x\nd = 1\n", ("d",), Position(2, 1)),
    "array of tables": ("[[g]]\na = 1\n[[g]]\na = 2\n", ("g", 1, "a"), Position(4, 1)),
    "table in it": (
        "[[g]]\n[g.h]\na = 1\n[[g]]\n[g.h]\na = 2\n",
        ("g", 1, "h", "a"),
        Position(6, 1),
    ),
    "array of tables below": (
        "[[g.h]]\n[[g.h.i]]\n[[g.h.i]]\na = 2\n",
        ("g", "h", 0, "i", 1, "a"),
        Position(4, 1),
    ),
    "windows": ("a = 1\r\nb = '''\r\n'''\r\nc = 2\r\n", ("c",), Position(4, 1)),
    "no line end": ("a = 1\nb = 2", ("b",), Position(2, 1)),
    "arrays in arrays": ("a = [[1], [\n2, {b = 3}]]\n", ("a", 1, 1, "b"), Position(2, 5)),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_key_is_found_where_it_stands(name: str) -> None:
    text, path, position = DOCUMENTS[name]
    assert find_positions(text).keys[path] == position


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_key_is_found_and_no_other(name: str) -> None:
    text = DOCUMENTS[name][0]
    assert set(find_positions(text).keys) == set(paths_of(tomllib.loads(text)))


def test_what_is_absent_stands_where_its_table_does() -> None:
    found = find_positions("[a]\nb = 1\n[c]\n")
    assert found.of(("c", "missing", "deep")) == Position(3, 2)
    assert found.of(("nowhere",)) == Position(1, 1)


def test_headers_keep_the_order_of_the_file() -> None:
    assert find_positions("[b]\n[[a]]\n[[a]]\n").headers == (("b",), ("a", 0), ("a", 1))


def spell(value: object) -> str:
    """Return a value as TOML on one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return (
            '"'
            + "".join(
                f"\\U{ord(c):08x}" if c in '"\\' or ord(c) < 32 or ord(c) == 127 else c
                for c in value
            )
            + '"'
        )
    if isinstance(value, list):
        return "[" + ", ".join(spell(item) for item in value) + "]"
    if isinstance(value, dict):
        return (
            "{ " + ", ".join(f"{spell(key)} = {spell(item)}" for key, item in value.items()) + " }"
        )
    return str(value)


keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
scalars = st.integers(-9, 9) | st.booleans() | keys
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(keys, values, max_size=4)


@settings(max_examples=60, deadline=None)
@given(documents, st.dictionaries(keys, documents, max_size=3))
def test_every_key_of_any_document_is_found(
    top: dict[str, object], tables: dict[str, dict[str, object]]
) -> None:
    lines = [f"{spell(key)} = {spell(value)}" for key, value in top.items() if key not in tables]
    for name, table in tables.items():
        lines += [
            f"[ {spell(name)} ]  # {name!r}",
            *(f"{spell(k)}={spell(v)}" for k, v in table.items()),
        ]
    text = "\n".join(lines)
    found = find_positions(text).keys
    assert set(found) == set(paths_of(tomllib.loads(text)))
    for path, position in found.items():
        if isinstance(path[-1], str):
            assert text.split("\n")[position.line - 1][position.column - 1 :].startswith(
                spell(path[-1])
            )
