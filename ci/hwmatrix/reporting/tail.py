"""New lines of a journal that is still being written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hwmatrix.journal import FOLDER
from hwmatrix.reporting.ledger import moment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    Line = Mapping[str, object]


class Tail:
    """Reads what was added since the last call; files may appear, grow and end in half a line."""

    def __init__(self, run_folder: Path) -> None:
        """Watch `<run_folder>/journal`, which need not exist yet."""
        self._folder = run_folder / FOLDER
        self._offsets: dict[Path, int] = {}

    def read(self) -> list[Line]:
        """Return the whole lines that are new, of all files, by their time.

        A file that cannot be read now is tried again with the next call; a line that is no JSON
        object is left to the final report, which names it.
        """
        lines: list[Line] = []
        for path in sorted(self._folder.glob("*.jsonl")):
            lines += self._new(path)
        return sorted(lines, key=lambda line: moment(line.get("time")))

    def _new(self, path: Path) -> list[Line]:
        offset = self._offsets.get(path, 0)
        try:
            with path.open("rb") as file:
                file.seek(offset)
                data = file.read()
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offsets[path] = offset + len(whole)
        return [line for raw in whole.split(b"\n") if (line := _parse(raw)) is not None]


def _parse(raw: bytes) -> Line | None:
    try:
        value = json.loads(raw) if raw else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
