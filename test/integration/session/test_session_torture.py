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
LIMIT_S = 60  # for a machine that is very busy


def lines(project: Project) -> list[dict[str, str]]:
    """Return the journal; a line that is torn makes it fail."""
    return [
        json.loads(line)
        for path in project.latest.glob("journal/*.jsonl")
        for line in path.read_text().splitlines()
    ]


@pytest.mark.parametrize("turn", ROUNDS)
def test_nox_killed_at_a_random_moment(project: Project, turn: int) -> None:
    files = [project.file(f"test_{index}.py", STEADY) for index in range(4)]
    command = [sys.executable, "-m", "nox", "-s", "cpu-stage-b", "--"]
    nox = subprocess.Popen(
        [*command, "--no-venv", "--overlay", "overlay"],
        cwd=project.root,
        env=project.env() | {"HWMATRIX_MARK": str(project.root)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    moment = random.Random(f"nox{turn}").uniform(0.3, 6.0)
    print(f"SIGKILL to nox after {moment:.2f} s")
    time.sleep(moment)
    nox.kill()
    assert nox.wait() == -signal.SIGKILL
    end = time.monotonic() + LIMIT_S
    while left := project.processes():
        assert time.monotonic() < end, left
        time.sleep(0.05)
    if not (project.latest / "plan.json").exists():
        assert not list(Path(project.root).glob(".hwmatrix/runs/*/journal/*"))
        return
    found = lines(project)
    kinds = Counter(line["$report_type"] for line in found)
    assert (kinds["RunStart"], kinds["RunEnd"]) == (1, 1)
    settled = {x["unit"] for x in found if x["$report_type"] in {"UnitEnd", "UnitNotRun"}}
    assert settled == set(files)
    tests = [x for x in found if x["$report_type"] == "TestReport" and x["when"] == "call"]
    assert {x["outcome"] for x in tests} <= {"passed"}
    assert len({x["nodeid"] for x in tests}) == len(tests)
    ends = {x["unit"]: x for x in found if x["$report_type"] == "UnitEnd"}
    whole = [unit for unit, end in ends.items() if end["cause"] == "finished"]
    for unit in whole:
        assert sum(x["unit"] == unit for x in tests) == 20
    (run_end,) = (x for x in found if x["$report_type"] == "RunEnd")
    green = len(whole) == len(files) and not run_end["reason"]
    assert project.hwmatrix("report", "latest").status == (0 if green else 1)
