"""The project on docs/adopt.md is whole: it lints clean and plans."""

from __future__ import annotations

import datetime as dt
import io
import json
import re
from pathlib import Path

import pytest

from hwmatrix import cli
from hwmatrix.app import lint
from hwmatrix.app.place import find_place

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "adopt.md").read_text(encoding="utf-8")
HEADED = re.compile(r"^## [^\n]*`([^`]+)`\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def adopted(tmp_path: Path) -> Path:
    """Return a folder with every file that the page shows under a heading with its name."""
    for name, text in HEADED.findall(PAGE):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_the_page_shows_every_file_that_it_names(adopted: Path) -> None:
    files = {str(p.relative_to(adopted)) for p in adopted.rglob("*") if p.is_file()}
    assert files == {
        "ci/matrix.toml",
        "noxfile.py",
        "requirements/cpu.in",
        "test/registered/test_add.py",
    }
    listed = (adopted / "requirements/cpu.in").read_text()
    assert all(name in listed for name in ("pytest>", "pytest-xdist>", "pytest-timeout>"))
    compile((adopted / "noxfile.py").read_text(), "noxfile.py", "exec")


def test_it_lints_clean_and_plans(adopted: Path) -> None:
    out = io.StringIO()
    place = find_place(cwd=adopted, env={}, out=out, err=io.StringIO())
    problems, _ = lint.findings(place, today=dt.date(2026, 1, 1))
    assert problems == ()
    assert cli.dispatch(["session", "cpu-stage-a", "--plan", "--json"], place) == 0
    (unit,) = json.loads(out.getvalue())["units"]
    assert unit["files"] == ["test/registered/test_add.py"]
