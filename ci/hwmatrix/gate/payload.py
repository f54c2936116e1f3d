"""Reads of a payload by path: what is absent comes out empty, what has another type is an error."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hwmatrix.errors import GateError
from hwmatrix.gate.text import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class Payload:
    """One parsed payload. Every read raises GateError where the type is not the one asked for."""

    def __init__(self, value: Mapping[str, object]) -> None:
        self._value = value

    def has(self, key: str) -> bool:
        """Return whether there is anything under `key`."""
        return self._value.get(key) is not None

    def get(self, *path: str) -> object:
        """Return what stands at `path`, None where it is absent."""
        value: object = self._value
        for index, key in enumerate(path):
            if value is None:
                return None
            if not isinstance(value, dict):
                where = ".".join(path[:index])
                raise GateError(f"the event's {where} is {kind_of(value)}; it must be an object.")
            value = value.get(key)
        return value

    def text(self, *path: str) -> str:
        """Return a text, empty where it is absent."""
        value = self.get(*path)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise GateError(f"the event's {'.'.join(path)} is {kind_of(value)}; it must be a text.")
        return value

    def word(self, *path: str) -> str:
        """Return a text of letters and underscores (an action); any other comes out quoted."""
        text = self.text(*path)
        return text if re.fullmatch(r"[a-z_]{0,40}", text) else quoted(text)

    def whole(self, *path: str) -> int:
        """Return a whole number from 0 on, 0 where it is absent."""
        value = self.get(*path)
        if value is None:
            return 0
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
            raise GateError(f"the event's {'.'.join(path)} must be a whole number.")
        return value

    def flag(self, *path: str) -> bool:
        """Return a truth value, False where it is absent."""
        value = self.get(*path)
        if value is not None and not isinstance(value, bool):
            raise GateError(f"the event's {'.'.join(path)} must be true or false.")
        return bool(value)

    def sha(self, *path: str) -> str:
        """Return the name of a commit, empty where it is absent."""
        text = self.text(*path)
        if text and not _SHA.fullmatch(text):
            raise GateError(f"the event's {'.'.join(path)} is {quoted(text)}, which is no commit.")
        return text


def kind_of(value: object) -> str:
    """Return what JSON calls the type of a value."""
    kinds = {bool: "a truth value", int: "a number", float: "a number", str: "a text"}
    return {**kinds, list: "an array", dict: "an object"}.get(type(value), "null")
