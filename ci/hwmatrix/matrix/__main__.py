"""`python -m hwmatrix.matrix schema|reference|check [FILE]`: what is made from the table's model.

`schema` prints what `ci/matrix.schema.json` holds, `reference DOC` prints DOC with its reference
part made anew, `check [FILE]` tells what in the table is not where it should be.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix.errors import HwMatrixError
from hwmatrix.matrix.canonical import canonical
from hwmatrix.matrix.read import load
from hwmatrix.matrix.reference import update
from hwmatrix.matrix.schema import schema_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

_USAGE = "usage: python -m hwmatrix.matrix schema | reference [DOC] | check [FILE]\n"


def main(arguments: Sequence[str], out: TextIO) -> int:
    """Write what was asked for to `out`; return the exit status (1: `check` found something)."""
    word, *rest = arguments or ("",)
    path = Path(rest[0]) if rest else None
    if word == "schema" and not rest:
        out.write(schema_text())
        return 0
    if word == "reference":
        out.write(update((path or Path("docs/table.md")).read_text(encoding="utf-8")))
        return 0
    if word == "check":
        return _check(path or Path("ci/matrix.toml"), out)
    out.write(_USAGE)
    return 2


def _check(path: Path, out: TextIO) -> int:
    try:
        matrix = load(path.resolve())
    except HwMatrixError as error:
        out.write(f"{error}\n")
        return error.exit_code
    problems = canonical(path.read_bytes().decode("utf-8"), matrix)
    out.writelines(f"{problem}\n" for problem in problems)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdout))
