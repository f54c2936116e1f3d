"""docs/variables.md tells of every variable that the package names."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "variables.md").read_text(encoding="utf-8")
NAME = re.compile(r"HWMATRIX_[A-Z0-9_]*[A-Z0-9]")
SOURCES = [
    ROOT / "ci" / "nox",
    ROOT / "ci" / "matrix.toml",
    *(ROOT / "ci" / "hwmatrix").rglob("*.py"),
]


def named() -> set[str]:
    return {name for path in SOURCES for name in NAME.findall(path.read_text(encoding="utf-8"))}


def test_every_variable_stands_on_the_page() -> None:
    assert {"HWMATRIX_STATE", "HWMATRIX_RUN", "HWMATRIX_DEVICE_ROOT"} <= named()
    assert sorted(named() - set(NAME.findall(PAGE))) == []


def test_the_page_names_no_variable_that_is_gone() -> None:
    examples = {"HWMATRIX_TORCH_INDEX_ROCM_7_2"}
    assert sorted(set(NAME.findall(PAGE)) - named() - examples) == []


def test_what_a_table_may_not_set_is_not_offered_to_people() -> None:
    mine, _, rest = PAGE.partition("## A session sets")
    offered = set(NAME.findall(mine))
    assert offered.isdisjoint(NAME.findall(rest.partition("## Internal")[2]))
    assert "HWMATRIX_STATE" in offered
