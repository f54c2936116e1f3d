"""Model values to JSON and back, driven by their type hints.

Two interpreters meet in `plan.json`; both use this module. Standard library only, Python 3.10.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")


def to_plain(value: object) -> object:
    """Return `value` as dicts, lists and scalars that `json.dumps` takes."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(to_plain(key)): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [to_plain(item) for item in value]
        return sorted(items, key=str) if isinstance(value, (set, frozenset)) else items
    return value


def dumps(value: object, *, indent: int | None = None) -> str:
    """Return canonical JSON: sorted keys, so equal values give equal text."""
    separators = (",", ": ") if indent else (",", ":")
    return json.dumps(to_plain(value), sort_keys=True, indent=indent, separators=separators)


@cache
def _hints(cls: type) -> dict[str, object]:
    return typing.get_type_hints(cls)


def from_plain(cls: type[T], value: object) -> T:
    """Return a `cls` from what `to_plain` gave; unknown keys are ignored.

    Raises:
        TypeError: `value` does not fit the hints of `cls`.
    """
    return cast("T", _decode(cls, value))


def _decode(hint: object, value: object) -> object:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        inner = next(arg for arg in typing.get_args(hint) if arg is not type(None))
        return None if value is None else _decode(inner, value)
    if origin is tuple:
        return _decode_tuple(typing.get_args(hint), value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _decode_mapping(typing.get_args(hint), value)
    return _decode_plain(hint, value) if isinstance(hint, type) else value


def _decode_plain(hint: type, value: object) -> object:
    if dataclasses.is_dataclass(hint):
        return _decode_dataclass(hint, value)
    if issubclass(hint, Enum):
        return hint(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint):
        message = f"expected {hint.__name__}, found {value!r}"
        raise TypeError(message)
    return value


def _decode_tuple(args: tuple[object, ...], value: object) -> object:
    if not isinstance(value, list):
        message = f"expected a list, found {value!r}"
        raise TypeError(message)
    if len(args) == 2 and args[1] is Ellipsis:  # noqa: PLR2004 - the shape of tuple[X, ...]
        return tuple(_decode(args[0], item) for item in value)
    return tuple(_decode(arg, item) for arg, item in zip(args, value, strict=True))


def _decode_mapping(args: tuple[object, ...], value: object) -> object:
    if not isinstance(value, dict):
        message = f"expected an object, found {value!r}"
        raise TypeError(message)
    return {_decode(args[0], key): _decode(args[1], item) for key, item in value.items()}


def _decode_dataclass(cls: type, value: object) -> object:
    if not isinstance(value, dict):
        message = f"{cls.__name__}: expected an object, found {value!r}"
        raise TypeError(message)
    hints = _hints(cls)
    known = {key: item for key, item in value.items() if key in hints}
    return cls(**{key: _decode(hints[key], item) for key, item in known.items()})


def load(cls: type[T], path: Path) -> T:
    """Return the value that the JSON file at `path` holds.

    Raises:
        OSError, ValueError, TypeError: unreadable, not JSON, or of another shape.
    """
    return from_plain(cls, json.loads(path.read_text(encoding="utf-8")))
