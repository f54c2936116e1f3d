"""A tree made from registrations of a public GPU project: what is read, and what is wrong."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from hwmatrix.model import Backend
from hwmatrix.registry import Scan, scan

DATA = Path(__file__).parents[2] / "data/registry"
ROWS = [json.loads(line) for line in (DATA / "real_registrations.jsonl").read_text().splitlines()]


def call(row: dict[str, object]) -> str:
    names = ("est_time", "suite", "nightly", "disabled", "stage", "runner_config")
    given = {name: row[name] for name in names if name in row}
    extra = row.get("extra", {})
    assert isinstance(extra, dict)
    return f"{row['call']}({', '.join(f'{k}={v!r}' for k, v in {**given, **extra}.items())})\n"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Scan:
    root = tmp_path_factory.mktemp("tree")
    for number, row in enumerate(ROWS):
        path = root / str(row.get("path", f"test/registered/unknown/test_{number}.py"))
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(call(row))
    return scan(root, ["test/registered"], ["test_*.py", "bench_*.py"])


def test_the_errors_are_those_that_stand_in_the_file(found: Scan) -> None:
    expected = (DATA / "real_problems.txt").read_text("utf-8").splitlines()
    assert [str(problem) for problem in found.problems] == expected


def test_everything_else_is_read_as_it_stands(found: Scan) -> None:
    assert len(found.registrations) + len(found.problems) == len(ROWS)
    wrong = {(problem.path, problem.line) for problem in found.problems}
    assert not wrong & {(item.path, item.line) for item in found.registrations}
    read = Counter(item.backend for item in found.registrations)
    stated = Counter(Backend(row["call"].split("_")[1]) for row in ROWS)
    assert stated - read == Counter(b for p in found.problems for b in p.backends)
    assert sum(item.nightly for item in found.registrations) > 20
    assert sum(item.disabled is not None for item in found.registrations) >= 4
