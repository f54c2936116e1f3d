from __future__ import annotations

import sys
from importlib import metadata
from typing import TYPE_CHECKING

import pytest

from hwmatrix.environments import download, installed
from hwmatrix.environments.packages import _with_pip
from hwmatrix.errors import EnvironmentBuildError

if TYPE_CHECKING:
    from pathlib import Path


def test_an_interpreter_tells_what_it_has() -> None:
    found = installed(sys.executable, ["pytest", "no-such-model", "pytest"], {})
    assert set(found) == {"pytest"}
    version, folder = found["pytest"]
    assert version == metadata.version("pytest")
    assert (folder / "pytest" / "__init__.py").is_file()
    assert installed("no such program", [], {}) == {}
    with pytest.raises(EnvironmentBuildError, match="does not say what it has"):
        installed("/no/such/python", ["pytest"], {})


def test_any_pip_will_do_and_none_is_named(tmp_path: Path) -> None:
    silent = tmp_path / "python"
    silent.write_text("#!/bin/sh\nexit 1\n")
    silent.chmod(0o755)
    assert _with_pip([str(silent), "/no/such", sys.executable], {}) == sys.executable
    with pytest.raises(EnvironmentBuildError, match=r"none of .*python, /no/such has pip"):
        _with_pip([str(silent), "/no/such"], {})


def test_what_pip_left_is_looked_at(tmp_path: Path) -> None:
    # A pip that says that it succeeded and left nothing.
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\nexit 0\n")
    fake.chmod(0o755)
    folder = tmp_path / "to"
    folder.mkdir()
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", str(fake))
        with pytest.raises(EnvironmentBuildError, match="pip left 0 wheels"):
            download("m==1", folder, env={}, say=said.append)
    assert said == ["download the wheel of m==1 ..."]
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".log"] == []
