"""A test that removes the run's files takes no result away with them, and nothing turns green."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from test.integration.session.conftest import Project

BAD = "def test_bad():\n    assert 1 == 2\n"
# What the session has not read yet goes with the files, so that is waited for.
REMOVES = """\
import glob, os, pathlib, shutil, time
def test_removes():
    while "[1/2]" not in pathlib.Path("said").read_text():
        time.sleep(0.02)
    for path in glob.glob({pattern!r}):
        os.unlink(path) if os.path.islink(path) or os.path.isfile(path) else shutil.rmtree(path)
"""


@pytest.mark.parametrize(
    "pattern", [".hwmatrix/runs/*", ".hwmatrix/runs/latest/journal/*", ".hwmatrix/runs/latest/*"]
)
def test_removed_files_are_told_and_the_results_stand(project: Project, pattern: str) -> None:
    first = project.root / project.file("test_a_bad.py", BAD)
    first.write_text(first.read_text().replace("est_time=1", "est_time=3"))
    project.file("test_removes.py", REMOVES.format(pattern=pattern))
    command = [sys.executable, "-m", "hwmatrix", "session", "cpu-stage-b"]
    with (project.root / "said").open("wb") as errors:
        ended = subprocess.run(
            [*command, "--slots", "1", "--no-venv", "--overlay", "overlay"],
            cwd=project.root,
            env=project.env(),
            stdout=subprocess.DEVNULL,
            stderr=errors,
            timeout=600,
            check=False,
        )
    said = (project.root / "said").read_text()
    assert ended.returncode in (1, 11), said
    assert "RED" in said
    assert "test_bad" in said
    assert "1 == 2" in said
    lost = r"run's folder was removed or spoilt|journal lost \d .+ lines"
    assert re.search(f"red because the ({lost}) meanwhile", " ".join(said.split())), said
