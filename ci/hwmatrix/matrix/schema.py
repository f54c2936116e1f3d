"""A JSON schema of the table, for editors: completion, descriptions, errors while typing.

Made from the model in `table.py` and committed as `ci/matrix.schema.json`, which the first line of
`ci/matrix.toml` names. It knows types, ranges and names, not references between rows.
"""

from __future__ import annotations

import json

from hwmatrix.matrix.spec import Field, Number, Rows, Spec, Table, Tables, Text, Texts
from hwmatrix.matrix.table import TABLE

# The draft that editors' TOML plug-ins read.
_DRAFT = "http://json-schema.org/draft-07/schema#"


def schema() -> dict[str, object]:
    """Return the schema as JSON values."""
    return {"$schema": _DRAFT, "title": "hwmatrix table", **_schema(TABLE)}


def schema_text() -> str:
    """Return the schema as it is committed."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _schema(spec: Spec) -> dict[str, object]:
    if isinstance(spec, Table):
        return _table(spec)
    if isinstance(spec, Rows):
        return {
            "type": "object",
            "propertyNames": _text(spec.key),
            "additionalProperties": _schema(spec.value),
        }
    if isinstance(spec, Tables):
        return {"type": "array", "items": _schema(spec.value)}
    if isinstance(spec, Texts):
        return {
            "type": "array",
            "items": _text(spec.item),
            "uniqueItems": True,
            "minItems": spec.at_least,
        }
    if isinstance(spec, Text):
        return {"type": "string", **_text(spec)}
    return _number(spec) if isinstance(spec, Number) else {"type": "boolean"}


def _table(spec: Table) -> dict[str, object]:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {key: _field(field) for key, field in spec.fields.items()},
        "required": [key for key, field in spec.fields.items() if field.required],
    }


def _field(field: Field) -> dict[str, object]:
    made = {"description": field.about, **_schema(field.spec)}
    if field.default not in (None, "", ()):
        made["default"] = list(field.default) if isinstance(field.default, tuple) else field.default
    return made


def _text(spec: Text) -> dict[str, object]:
    if spec.choices:
        return {"enum": list(spec.choices)}
    return {"pattern": f"^(?:{spec.pattern})$"} if spec.pattern else {}


def _number(spec: Number) -> dict[str, object]:
    made: dict[str, object] = {"type": "integer" if spec.whole else "number"}
    if spec.above is not None:
        made["exclusiveMinimum"] = spec.above
    if spec.at_least is not None:
        made["minimum"] = spec.at_least
    made["maximum"] = spec.at_most
    return made
