"""A test that removes the run's files takes no result away with them, and nothing turns green."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from test.integration.session.conftest import Project

BAD = "def test_bad():\n    assert 1 == 2\n"
REMOVES = """\
import glob, os, shutil
def test_removes():
    for path in glob.glob({pattern!r}):
        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
"""


@pytest.mark.parametrize(
    "pattern", [".hwmatrix/runs/*", ".hwmatrix/runs/latest/journal/*", ".hwmatrix/runs/latest/*"]
)
def test_removed_files_are_told_and_the_results_stand(project: Project, pattern: str) -> None:
    first = project.root / project.file("test_a_bad.py", BAD)
    first.write_text(first.read_text().replace("est_time=1", "est_time=3"))
    project.file("test_removes.py", REMOVES.format(pattern=pattern))
    ended = project.session("cpu-stage-b", "--slots", "1")
    assert ended.status in (1, 11), ended.err
    assert "RED" in ended.err
    assert "test_bad" in ended.err
    assert "1 == 2" in ended.err
    assert "removed" in ended.err or "journal" in ended.err
