"""Device trees from test/data/devices, laid out under a temporary root."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hwmatrix.backends.cuda import Cuda, NvmlAnswer
from hwmatrix.codec import from_plain

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parents[2] / "data/devices"
_ENTRY = re.compile(r"\[([^\]]+)\](?: (deny)| -> (\S+))?")


@dataclass(frozen=True)
class Tree:
    root: Path
    denied: frozenset[Path]

    def access(self, path: Path, mode: int) -> bool:
        """Tests run as root, who may do anything: what the tree denies is denied here."""
        return mode != 0 and path not in self.denied


@pytest.fixture
def tree(tmp_path: Path) -> Callable[[str], Tree]:
    def lay_out(name: str) -> Tree:
        denied: set[Path] = set()
        texts: dict[Path, str] = {}
        path = tmp_path
        for line in (DATA / f"{name}.txt").read_text().splitlines():
            entry = _ENTRY.fullmatch(line)
            if line.startswith("#"):
                continue
            if entry is None:
                texts[path] += line + "\n"
                continue
            path = tmp_path / entry[1]
            if entry[3]:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.symlink_to(entry[3])
            else:
                texts[path] = ""
            if entry[2]:
                denied.add(path)
        for file, text in texts.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return Tree(tmp_path, frozenset(denied))

    return lay_out


@pytest.fixture
def nvidia() -> Callable[[str], Cuda]:
    def recorded(name: str) -> Cuda:
        answer = from_plain(NvmlAnswer, json.loads((DATA / f"{name}.json").read_text()))
        return Cuda(ask=lambda _env: answer)

    return recorded
