"""A real project's 95 registrations as a tree: scan, lint and plans through the command itself."""

from __future__ import annotations

import json
import re
import shutil
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from test.integration.session.conftest import Project

DATA = Path(__file__).resolve().parents[2] / "data"


def call(row: dict[str, Any]) -> str:
    """Return the row as it stands in a test file."""
    keys = ("est_time", "suite", "stage", "runner_config", "nightly", "disabled")
    words = [f"{key}={row[key]!r}" for key in keys if key in row]
    words += [f"{key}={value!r}" for key, value in row.get("extra", {}).items()]
    return f"{row['call']}({', '.join(words)})"


@pytest.fixture
def real(project: Project) -> Project:
    """Lay the tree out: calls from the third line on, a file of its own where no path is known."""
    files = defaultdict(list)
    rows = (DATA / "matrix" / "real_registrations.jsonl").read_text().splitlines()
    for number, line in enumerate(rows, start=1):
        row = json.loads(line)
        files[row.get("path", f"test/registered/unknown/test_row_{number:03}.py")].append(call(row))
    for path, calls in files.items():
        target = project.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("\n".join(["from hwmatrix import *", "", *calls, ""]))
    shutil.copy(DATA / "matrix" / "real.toml", project.table)
    (project.root / "requirements").mkdir()
    for name in re.findall(r'^requirements = "(.+)"', project.table.read_text(), re.MULTILINE):
        (project.root / name).write_text("pytest\n")
    return project


def test_lint_finds_the_errors_that_are_there_and_no_other(real: Project) -> None:
    ended = real.hwmatrix("lint")
    assert ended.status == 3
    committed = (DATA / "session" / "real_lint.txt").read_text()
    assert ended.out == committed


def test_sessions_without_errors_of_their_own_plan(real: Project) -> None:
    listed = json.loads(real.hwmatrix("list", "--json").out)
    names = {row["session"] for row in listed}
    assert {"amd-stage-b", "amd-extra-a", "npu-base-b", "cpu-base-a", "xpu-stage-a"} <= names
    planned = real.hwmatrix("session", "amd-extra-a", "--plan", "--json")
    assert planned.status == 0, planned.err
    estimates = sorted(unit["est_s"] for unit in json.loads(planned.out)["units"])
    assert estimates == [10.0, 562.0]


def test_a_session_over_its_jobs_limit_plans_in_shards(real: Project) -> None:
    table = real.table.read_text()
    real.table.write_text(re.sub(r"max_job_minutes = \d+", "max_job_minutes = 75", table))
    over = real.hwmatrix("session", "amd-stage-b", "--plan")
    assert over.status == 5
    assert "--shard" in over.err
    split = [
        json.loads(real.hwmatrix("session", "amd-stage-b", "--plan", "--json", "--shard", s).out)
        for s in ("1/2", "2/2")
    ]
    assert split[0]["hash"] == split[1]["hash"]
    assert not set(split[0]["mine"]) & set(split[1]["mine"])
    assert len(split[0]["mine"]) + len(split[1]["mine"]) == len(split[0]["units"])


def test_a_session_with_an_error_of_its_own_does_not_plan(real: Project) -> None:
    refused = real.hwmatrix("session", "xpu-nightly", "--plan")
    assert refused.status == 3
    assert "Did you mean 'nightly-xpu-1-gpu'?" in refused.err
