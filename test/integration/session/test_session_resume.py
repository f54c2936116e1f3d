"""A run that was killed goes on in its folder; what ended is not run again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from test.integration.session.conftest import Project

COUNTED = """\
from pathlib import Path
def test_counts():
    with Path("ran-{name}").open("a") as file:
        file.write("x")
"""
ONCE_SLOW = """\
import time
from pathlib import Path
def test_slow_once():
    if not Path("again").exists():
        Path("waiting").touch()
        time.sleep(3600)
"""


def test_a_killed_run_is_completed(project: Project) -> None:
    for name in ("a", "b"):
        path = project.root / project.file(f"test_{name}.py", COUNTED.format(name=name))
        path.write_text(path.read_text().replace("est_time=1", "est_time=9"))
    path = project.root / project.file("test_slow.py", ONCE_SLOW)
    path.write_text(path.read_text().replace("est_time=1", "est_time=8"))
    project.file("test_z.py", COUNTED.format(name="z"))
    words = ["session", "cpu-stage-b", "--no-venv", "--overlay", "overlay", "--slots", "1"]
    with subprocess.Popen(
        [sys.executable, "-m", "hwmatrix", *words],
        cwd=project.root,
        env=project.env(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        end = time.monotonic() + 240
        while not (project.root / "waiting").exists():
            assert time.monotonic() < end
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(240) == 128 + signal.SIGTERM
    first = project.report()
    assert {Path(u["files"][0]).stem: u["outcome"] for u in first["units"]} == {
        "test_a": "passed",
        "test_b": "passed",
        "test_slow": "not run",
        "test_z": "not run",
    }
    (project.root / "again").touch()
    ended = project.session("cpu-stage-b", "--resume", "latest", "--slots", "2")
    spec = json.loads((project.latest / "plan.json").read_text())
    assert (len(spec["slots"]), spec["at_once"]) == (2, 2)
    assert ended.status == 0, ended.err
    second = project.report()
    assert second["run"] == first["run"]
    assert {u["outcome"] for u in second["units"]} == {"passed"}
    assert "resumed: part 2" in ended.err
    assert [(project.root / f"ran-{n}").read_text() for n in "abz"] == ["x", "x", "x"]


def test_a_run_with_nothing_left_or_of_another_state_is_not_resumed(project: Project) -> None:
    project.file("test_a.py", COUNTED.format(name="a"))
    assert project.session("cpu-stage-b").status == 0
    nothing = project.session("cpu-stage-b", "--resume", "latest")
    assert nothing.status == 2
    assert "nothing is left to run: all 1 files ended" in nothing.err
    project.table.write_text(project.table.read_text() + "\n# changed\n[tier.other]\n")
    changed = project.session("cpu-stage-b", "--resume", "latest")
    assert changed.status == 2
    assert "start a new run" in changed.err
    unknown = project.session("cpu-stage-b", "--resume", "nowhere")
    assert unknown.status == 2
    assert "no run at 'nowhere'" in unknown.err
    mixed = project.session("cpu-stage-b", "--resume", "latest", "-k", "x")
    assert mixed.status == 2
    assert "give it alone" in mixed.err
