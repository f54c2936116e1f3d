"""The reference part of `docs/table.md`: one section per kind of table, one line per key."""

from __future__ import annotations

from dataclasses import dataclass

from hwmatrix.matrix.spec import Field, Flag, Number, Rows, Spec, Table, Tables, Text, Texts
from hwmatrix.matrix.table import TABLE

BEGIN = "<!-- begin: python -m hwmatrix.matrix reference -->"
END = "<!-- end -->"


@dataclass(frozen=True, slots=True)
class _Section:
    title: str
    about: str
    table: Table


def reference() -> str:
    """Return the reference as Markdown, sections in the order of the model."""
    return "\n".join([*(_section(section) for section in _sections()), _words()])


def update(text: str) -> str:
    """Return the document `text` with the part between the marks made anew."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    assert begin, f"the document lacks the mark {BEGIN}"
    assert end, f"the document lacks the mark {END}"
    return f"{head}{BEGIN}\n\n{reference()}\n{END}{tail}"


def _words() -> str:
    """Return what the words in the second column allow."""
    lines = ["### Words in `takes`", "", "| word | allowed |", "|---|---|"]
    lines += [f"| {word} | {what} |" for word, what in sorted(_texts(TABLE).items())]
    return "\n".join(lines) + "\n"


def _texts(spec: Spec) -> dict[str, str]:
    """Return word and meaning of every kind of string in `spec` that is no list of choices."""
    if isinstance(spec, Text):
        return {} if spec.choices else {spec.word: spec.what}
    if isinstance(spec, Texts):
        return _texts(spec.item)
    found: dict[str, str] = {}
    if isinstance(spec, Rows):
        found |= _texts(spec.key) | _texts(spec.value)
    elif isinstance(spec, Tables):
        found |= _texts(spec.value)
    elif isinstance(spec, Table):
        for field in spec.fields.values():
            found |= _texts(field.spec)
    return found


def _sections() -> list[_Section]:
    """Return the top level, then each table below it, outer ones first."""
    found = [_Section("top level", "", TABLE)]
    for key, field in TABLE.fields.items():
        found += _below(key, field.about, field.spec)
    return found


def _below(title: str, about: str, spec: Spec) -> list[_Section]:
    while isinstance(spec, Rows):
        title, spec = f"{title}.<{spec.noun}>", spec.value
    if isinstance(spec, Tables):
        title, spec = f"[{title}]", spec.value
    if not isinstance(spec, Table):
        return []
    found = [_Section(f"[{title}]", about, spec)]
    for key, field in spec.fields.items():
        if key != "budget":  # the same keys as the general one
            found += _below(f"{title}.{key}", field.about, field.spec)
    return found


def _section(section: _Section) -> str:
    lines = [f"### `{section.title}`", ""]
    if section.about:
        lines += [section.about, ""]
    lines += ["| key | takes | default | meaning |", "|---|---|---|---|"]
    lines += [
        f"| `{key}` | {_takes(field.spec)} | {_default(field)} | {field.about} |"
        for key, field in section.table.fields.items()
    ]
    return "\n".join(lines) + "\n"


def _default(field: Field) -> str:
    if field.required:
        return "required"
    value = field.default
    if isinstance(value, tuple):
        return f"`[{', '.join(repr(item) for item in value)}]`".replace("'", '"')
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, (int, float)) else ""


def _takes(spec: Spec) -> str:
    if isinstance(spec, Text):
        return _text(spec)
    if isinstance(spec, Texts):
        return f"array of: {_text(spec.item)}"
    if isinstance(spec, Flag):
        return "`true` or `false`"
    if isinstance(spec, Number):
        return _number(spec)
    if isinstance(spec, Tables):
        return f"array of tables, one per {spec.noun}, see below"
    return "table, see below" if isinstance(spec, Table) else _rows(spec)


def _rows(spec: Rows) -> str:
    if isinstance(spec.value, (Table, Rows)):
        return f"a table per {spec.noun}, see below"
    return f"table: {spec.noun} = {_takes(spec.value)}"


def _text(spec: Text) -> str:
    return " ".join(f"`{choice}`" for choice in spec.choices) or spec.word


def _number(spec: Number) -> str:
    if spec.at_least == spec.at_most:
        return f"`{spec.at_most:g}`"
    bounds = []
    if spec.above is not None:
        bounds.append(f"above {spec.above:g}")
    if spec.at_least is not None:
        bounds.append(f"at least {spec.at_least:g}")
    bounds.append(f"at most {spec.at_most:.10g}")
    return f"{'whole number' if spec.whole else 'number'} {', '.join(bounds)}"
