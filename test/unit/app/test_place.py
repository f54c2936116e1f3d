from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from hwmatrix.app.place import find_place, find_root
from hwmatrix.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci" / "matrix.toml").touch()
    (tmp_path / "a" / "b").mkdir(parents=True)
    return tmp_path


def test_the_root_is_found_from_below(project: Path) -> None:
    assert find_root(project / "a" / "b", {}) == project


def test_a_variable_names_the_root(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    assert find_root(elsewhere, {"HWMATRIX_ROOT": str(project)}) == project


def test_no_root_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no ci/matrix.toml found: looked in .* every folder"):
        find_root(tmp_path, {})
    with pytest.raises(UsageError, match=r"looked in \$HWMATRIX_ROOT"):
        find_root(tmp_path, {"HWMATRIX_ROOT": str(tmp_path)})


def test_state_lies_in_the_project_unless_told_otherwise(project: Path) -> None:
    out, err = io.StringIO(), io.StringIO()
    place = find_place(cwd=project, env={}, out=out, err=err)
    assert place.state == project / ".hwmatrix"
    assert place.table == project / "ci" / "matrix.toml"
    moved = find_place(cwd=project, env={"HWMATRIX_STATE": str(project / "x")}, out=out, err=err)
    assert moved.state == project / "x"
    moved.say("hello")
    assert err.getvalue() == "hello\n"
