"""A real project's registrations over a table that fits them: the known errors, and plans."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from hwmatrix.errors import PlanError
from hwmatrix.matrix import sessions
from hwmatrix.matrix.canonical import canonical
from hwmatrix.matrix.read import parse
from hwmatrix.model import Backend, Disabled, Matrix, Registration, SessionName
from hwmatrix.planning import Assignment, assign, make_plan

DATA = Path(__file__).resolve().parents[2] / "data" / "matrix"


def real_registrations() -> list[Registration]:
    """Return the rows as registrations, in files whose third line has the first call.

    A row without a path gets a file of its own. The one row with an empty suite is left out: the
    scan refuses it before a table is looked at.
    """
    made = []
    lines: Counter[str] = Counter()
    text = (DATA / "real_registrations.jsonl").read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), start=1):
        row = json.loads(line)
        path = row.get("path", f"test/registered/unknown/test_row_{number:03}.py")
        lines[path] += 1
        if row.get("suite") == "":
            continue
        reason = row.get("disabled")
        made.append(
            Registration(
                path=path,
                line=2 + lines[path],
                backend=Backend(row["call"].removeprefix("register_").removesuffix("_ci")),
                est_s=float(row["est_time"]),
                suite=row.get("suite", ""),
                stage=row.get("stage", ""),
                runner_config=row.get("runner_config", ""),
                nightly=row.get("nightly", False),
                disabled=Disabled(reason=reason) if reason else None,
            )
        )
    return made


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return parse((DATA / "real.toml").read_text(encoding="utf-8"), "ci/matrix.toml")


@pytest.fixture(scope="module")
def assignment(matrix: Matrix) -> Assignment:
    return assign(real_registrations(), matrix)


def test_the_table_is_in_order(matrix: Matrix) -> None:
    text = (DATA / "real.toml").read_text(encoding="utf-8")
    assert [str(problem) for problem in canonical(text, matrix)] == []


def test_the_errors_are_those_committed(assignment: Assignment) -> None:
    found = [str(problem) for problem in (*assignment.problems, *assignment.idle)]
    committed = (DATA / "real.errors.txt").read_text(encoding="utf-8").splitlines()
    assert found == committed


def test_every_row_has_its_suite_or_its_error(assignment: Assignment) -> None:
    placed = sum(len(rows) for rows in assignment.by_suite.values())
    lost = [p for p in assignment.problems if p.rule in ("unknown-suite", "duplicate")]
    assert placed + len(lost) == len(real_registrations()) == 94


def fewest_shards(matrix: Matrix, session: SessionName, assignment: Assignment) -> int:
    """Return the least number of shards that fits the jobs of the session's machines."""
    for shards in range(1, 20):
        try:
            make_plan(matrix, session, assignment, shards=shards, allow_empty=True)
        except PlanError:
            continue
        return shards
    return 0


def test_every_session_plans_in_few_shards(matrix: Matrix, assignment: Assignment) -> None:
    found = {s.name: fewest_shards(matrix, s, assignment) for s in sessions(matrix)}
    assert {name: shards for name, shards in found.items() if shards != 1} == {
        "cuda-nightly": 2,
    }
