"""`python -m hwmatrix workflow`: the workflow files from the table, written or held against it."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from hwmatrix import matrix as matrix_stage
from hwmatrix import workflows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hwmatrix.app.place import Place


def run(place: Place, *, check: bool) -> int:
    """Write the workflow files, or with `check` tell how they differ; return 1 if they do.

    Files that an earlier table made and this one does not are removed; others are left alone.
    """
    wanted = workflows.workflow_files(matrix_stage.load(place.table))
    folder = place.root / workflows.FOLDER
    stale = [
        path
        for path in sorted(folder.glob("hwmatrix*.yml"))
        if path.relative_to(place.root).as_posix() not in wanted
        and path.read_text(encoding="utf-8", errors="replace").startswith(workflows.MARK)
    ]
    if check:
        return _check(wanted, stale, place)
    for path in stale:
        path.unlink()
        place.say(f"removed {path.relative_to(place.root)}")
    for name, text in wanted.items():
        target = place.root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        place.say(f"wrote {name}: {len(text.splitlines())} lines")
    return 0


def _check(wanted: Mapping[str, str], stale: Sequence[Path], place: Place) -> int:
    differs = False
    for name, text in wanted.items():
        target = place.root / name
        there = target.read_text(encoding="utf-8") if target.is_file() else ""
        if there != text:
            differs = True
            lines = difflib.unified_diff(
                there.splitlines(keepends=True), text.splitlines(keepends=True), name, "made now"
            )
            place.out.write("".join(lines))
    for path in stale:
        differs = True
        place.out.write(f"{path.relative_to(place.root)}: nothing in the table makes it now\n")
    if differs:
        place.say(
            "hwmatrix: the workflow files are not those of the table: run "
            "`python -m hwmatrix workflow` and commit what it writes."
        )
    place.out.flush()
    return 1 if differs else 0
