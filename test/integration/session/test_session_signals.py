"""Nothing stays behind a run that was ended from outside, and its report is true."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from test.integration.session.conftest import Project

SLOW = "import time\ndef test_first():\n    pass\ndef test_slow():\n    time.sleep(3600)\n"
LIMIT_S = 240.0


def until(condition: Callable[[], object], what: str, limit_s: float = LIMIT_S) -> None:
    """Wait for a state that must come; the limit is for a machine that is very busy."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, f"never came: {what}"
        time.sleep(0.05)


def begin(project: Project, *command: str) -> subprocess.Popen[bytes]:
    with (project.root / "err.txt").open("wb") as errors:
        process = subprocess.Popen(
            command,
            cwd=project.root,
            env=project.env() | {"HWMATRIX_MARK": str(project.root)},
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
    until(lambda: _slow_runs(project), "the slow test")
    return process


def _slow_runs(project: Project) -> bool:
    runs = project.root / ".hwmatrix" / "runs"
    return any(
        '"TestStart"' in t and "test_slow" in t
        for t in map(Path.read_text, runs.glob("cpu*/journal/*.jsonl"))
    )


def check_report(project: Project) -> None:
    report = project.report()
    assert report["verdict"]["green"] is False
    outcomes = {t["id"].rpartition("::")[2]: t["outcome"] for t in report["units"][0]["tests"]}
    assert outcomes["test_first"] == "passed"
    assert outcomes["test_slow"] in {"not run", "failed", "crashed"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_session(project: Project, number: signal.Signals) -> None:
    path = project.root / project.file("test_slow.py", SLOW)
    path.write_text(path.read_text().replace("est_time=1", "est_time=400"))
    process = begin(
        project,
        *[sys.executable, "-m", "hwmatrix", "session"],
        *["cpu-stage-b", "--no-venv", "--overlay", "overlay"],
    )
    process.send_signal(number)
    assert process.wait(LIMIT_S) != 0
    until(lambda: not project.processes(), "the end of all processes")
    check_report(project)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_to_nox_alone(project: Project, number: signal.Signals) -> None:
    path = project.root / project.file("test_slow.py", SLOW)
    path.write_text(path.read_text().replace("est_time=1", "est_time=400"))
    process = begin(
        project,
        *[sys.executable, "-m", "nox", "-s"],
        *["cpu-stage-b", "--", "--no-venv", "--overlay", "overlay"],
    )
    process.send_signal(number)
    assert process.wait(LIMIT_S) != 0
    until(lambda: not project.processes(), "the end of all processes")
    if not (project.latest / "report.json").exists():
        assert project.hwmatrix("report", "latest").status == 1
    check_report(project)


def test_nox_lists_what_the_table_declares(project: Project) -> None:
    project.file("test_good.py", "def test_a():\n    pass\n")
    listed = subprocess.run(
        [sys.executable, "-m", "nox", "--list", "--json"],
        cwd=project.root,
        env=project.env(),
        capture_output=True,
        text=True,
        check=True,
    )
    declared = json.loads(project.hwmatrix("list", "--json").out)
    found = {row["session"]: row for row in json.loads(listed.stdout)}
    tools = {"lint-registrations", "gate", "matrix", "finish", "lock", "assets"}
    assert set(found) == {row["session"] for row in declared} | tools
    assert sorted(found["cpu-stage-b"]["tags"]) == ["cpu", "stage-b"]
    assert "small" in found["cpu-stage-b"]["description"]
