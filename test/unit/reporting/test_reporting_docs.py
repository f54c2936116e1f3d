"""docs/report.md names every key and every kind of line that there is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hwmatrix import journal
from hwmatrix.model import Outcome
from hwmatrix.reporting import build
from hwmatrix.reporting.json_report import report_json

if TYPE_CHECKING:
    from test.unit.reporting.conftest import Maker

DOCS = Path(__file__).parents[3] / "docs" / "report.md"


@pytest.fixture(scope="module")
def named() -> set[str]:
    """Return all that stands in backticks, dotted names by their parts too."""
    words = re.findall(r"`([^`]+)`", DOCS.read_text(encoding="utf-8"))
    return {*words, *(part for word in words for part in word.split("."))}


def test_every_key_of_the_report(make: Maker, named: set[str]) -> None:
    def keys(value: object) -> set[str]:
        if isinstance(value, dict):
            return set(value) | {key for item in value.values() for key in keys(item)}
        if isinstance(value, list):
            return {key for item in value for key in keys(item)}
        return set()

    plain = json.loads(report_json(build(make.bad_day().folder)))
    outcomes = {outcome.value for outcome in Outcome}
    assert keys(plain) - named - outcomes == set()


def test_every_outcome(named: set[str]) -> None:
    assert {outcome.value for outcome in Outcome} <= named


def test_every_kind_of_line(named: set[str]) -> None:
    assert journal.__doc__ is not None
    rows = [row.split("|")[1] for row in journal.__doc__.splitlines() if row.startswith("| ")]
    kinds = {kind.strip() for row in rows[1:] for kind in row.split(",")}
    assert "UnitEnd" in kinds
    assert kinds <= named
