"""`ci/matrix.toml` from disk to Matrix: all that is wrong with it in one error."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, NoReturn

from hwmatrix.errors import MatrixError, Problem
from hwmatrix.matrix.build import build
from hwmatrix.matrix.check import Checker
from hwmatrix.matrix.positions import find_positions
from hwmatrix.matrix.table import TABLE

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from pathlib import Path

    from hwmatrix.model import Matrix

_BOM = "\ufeff"


def load(path: Path, *, root: Path | None = None) -> Matrix:
    """Return the table at `path`, complete and valid.

    Messages name the file from `root`, the project's root. Left out, that is the folder above the
    one that holds the file, as in `ci/matrix.toml`.

    Raises:
        MatrixError: with every problem, each with its line and column.
    """
    shown = _shown(path, root)
    return parse(_text(path, shown), shown)


def parse(text: str, shown: str) -> Matrix:
    """Return the table that `text` spells; `shown` is the path that messages give.

    Raises:
        MatrixError: with every problem, each with its line and column.
    """
    if text.startswith(_BOM):
        _refuse(
            shown,
            "begins with a byte order mark.",
            allowed="TOML is UTF-8 without one.",
            todo="Save the file as 'UTF-8' rather than 'UTF-8 with BOM'.",
            line=1,
        )
    try:
        parsed = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        _refuse_syntax(shown, text, str(error))
    except RecursionError:
        _refuse(shown, "nests arrays or tables too deeply to be read.", todo="Flatten it.")
    checker = Checker(shown, find_positions(text))
    matrix = build(checker.table(TABLE, parsed, ()), checker)
    if checker.problems:
        raise MatrixError(checker.problems)
    return matrix


def _shown(path: Path, root: Path | None) -> str:
    base = root if root is not None else path.parent.parent
    try:
        return path.relative_to(base).as_posix()
    except ValueError:
        return path.as_posix()


def _text(path: Path, shown: str) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        _refuse(shown, "does not exist.", todo="Run from the project's root, or write the table.")
    except IsADirectoryError:
        _refuse(shown, "is a folder.", allowed="It must be a TOML file.")
    except OSError as error:
        _refuse(shown, f"cannot be read: {error.strerror or error}.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        found = f"is not UTF-8: byte 0x{data[error.start]:02x} cannot be read."
        _refuse(shown, found, todo="Save the file as UTF-8.", line=line, column=column)


def _refuse_syntax(shown: str, text: str, message: str) -> NoReturn:
    """Tell of a syntax error; tomllib puts the place at the end of its message."""
    place = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", message)
    if place is None:
        line, column, reason = 0, 0, message
    else:
        reason = message[: place.start()]
        line = int(place[1] or len(text.splitlines()) or 1)
        column = int(place[2] or 1)
    _refuse(shown, f"is not valid TOML: {reason}.", line=line, column=column)


def _refuse(
    shown: str, found: str, *, allowed: str = "", todo: str = "", line: int = 0, column: int = 0
) -> NoReturn:
    raise MatrixError(
        [
            Problem(
                path=shown,
                found=found,
                line=line,
                column=column,
                allowed=allowed,
                todo=todo,
                rule="matrix",
            )
        ]
    )
