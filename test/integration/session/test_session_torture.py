"""SIGKILL of nox at any moment: no process is left, every unit is accounted for, results stand.

`HWMATRIX_TORTURE=20` in the environment runs it that often (the `torture` session). What tests and
the engine's own processes can do: `test/integration/engine/test_engine_torture.py`.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from test.integration.session.conftest import Project

ROUNDS = range(int(os.environ.get("HWMATRIX_TORTURE", "1")))
STEADY = (
    "import time\nimport pytest\n"
    "@pytest.mark.parametrize('number', range(20))\n"
    "def test_steady(number):\n    time.sleep(0.1)\n"
)
LIMIT_S = 240  # for a machine that is very busy


def journals(project: Project) -> list[str]:
    return [path.read_text() for path in project.latest.glob("journal/*.jsonl")]


def lines(project: Project) -> list[dict[str, str]]:
    """Return the journal; a line that is torn makes it fail."""
    return [json.loads(line) for text in journals(project) for line in text.splitlines()]


@pytest.mark.parametrize("turn", ROUNDS)
def test_nox_killed_at_a_random_moment(project: Project, turn: int) -> None:
    files = [project.file(f"test_{index}.py", STEADY) for index in range(4)]
    units = {f"stage-b-test-cpu:{name}" for name in files}
    command = [sys.executable, "-m", "nox", "-s", "cpu-stage-b", "--"]
    nox = subprocess.Popen(
        [*command, "--no-venv", "--overlay", "overlay"],
        cwd=project.root,
        env=project.env() | {"HWMATRIX_MARK": str(project.root)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    since_tests = turn % 2 == 0  # every other time while tests run, else at any time
    end = time.monotonic() + LIMIT_S
    while since_tests and not any('"TestStart"' in text for text in journals(project)):
        assert time.monotonic() < end
        time.sleep(0.05)
    moment = random.Random(f"nox{turn}").uniform(0.3, 4.0)
    print(f"SIGKILL to nox after {moment:.2f} s{' of tests' if since_tests else ''}")
    time.sleep(moment)
    nox.kill()
    assert nox.wait() == -signal.SIGKILL
    end = time.monotonic() + LIMIT_S
    while left := project.processes():
        assert time.monotonic() < end, left
        time.sleep(0.05)
    if not (project.latest / "plan.json").exists():
        assert not since_tests
        assert not list(Path(project.root).glob(".hwmatrix/runs/*/journal/*"))
        return
    found = lines(project)
    kinds = Counter(line["$report_type"] for line in found)
    assert (kinds["RunStart"], kinds["RunEnd"]) == (1, 1)
    settled = {x["unit"] for x in found if x["$report_type"] in {"UnitEnd", "UnitNotRun"}}
    assert settled == units
    tests = [x for x in found if x["$report_type"] == "TestReport" and x["when"] == "call"]
    assert {x["outcome"] for x in tests} <= {"passed"}
    assert len({x["nodeid"] for x in tests}) == len(tests)
    ends = {x["unit"]: x for x in found if x["$report_type"] == "UnitEnd"}
    whole = [unit for unit, end in ends.items() if end["cause"] == "finished"]
    for unit in whole:
        assert sum(x["unit"] == unit for x in tests) == 20
    (run_end,) = (x for x in found if x["$report_type"] == "RunEnd")
    green = len(whole) == len(units) and not run_end["reason"]
    assert project.hwmatrix("report", "latest").status == (0 if green else 1)
