"""What the script in the environment under test says, with a torch of a few lines."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix.environments import asking

if TYPE_CHECKING:
    from pathlib import Path

INIT = """
from torch import cuda, version
from torch.version import __version__
"""
VERSION = "__version__ = '2.11.0+rocm7.2'\ncuda = None\nhip = '7.2.1'\n"
DEVICE = "def is_available(): return 1\ndef get_arch_list(): return ['gfx942']\n"


@pytest.fixture
def torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a stand-in for torch first on the path, and forget it afterwards."""
    folder = tmp_path / "torch"
    folder.mkdir()
    (folder / "__init__.py").write_text(INIT)
    (folder / "version.py").write_text(VERSION)
    (folder / "cuda.py").write_text(DEVICE)
    for name in [name for name in sys.modules if name.split(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("torch", "torch.cuda", "torch.version"):
        monkeypatch.setitem(sys.modules, name, None)  # so that teardown takes ours out again
        del sys.modules[name]
    return folder


FACTS = {"cuda": None, "hip": "7.2.1", "xpu": None}


@pytest.mark.parametrize("quick", [True, False])
def test_version_and_kind(torch: Path, *, quick: bool) -> None:
    answer = asking.main({"quick": quick})
    assert (answer["torch"], answer["version"]) == ("2.11.0+rocm7.2", FACTS)
    assert answer["file"] == str(torch / "__init__.py")
    assert "error" not in answer
    assert answer["tools"] == {"pytest": "", "xdist": "", "pytest_timeout": ""}
    distributions = answer["distributions"]
    assert isinstance(distributions, dict)
    assert distributions["pytest"] == pytest.__version__


@pytest.mark.usefixtures("torch")
def test_devices_are_asked_for_by_name() -> None:
    question = {"available": "torch.cuda.is_available", "archs": "torch.cuda.get_arch_list"}
    answer = asking.main({**question, "modules": ["json"]})
    assert (answer["available"], answer["archs"]) == (True, ["gfx942"])


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize(
    ("question", "error"),
    [
        ({"modules": ["torch_none"]}, "No module named 'torch_none'"),
        ({"available": "torch.cuda.none"}, "AttributeError: module 'torch.cuda' has no attribute"),
    ],
)
def test_facts_before_a_failure_are_kept(question: dict[str, Any], error: str) -> None:
    answer = asking.main(question)
    assert answer["torch"] == "2.11.0+rocm7.2"
    assert str(answer["error"]).startswith(error)


def test_a_torch_that_does_not_import(torch: Path) -> None:
    (torch / "cuda.py").write_text("raise OSError('libamdhip64.so: cannot open')")
    assert asking.main({})["error"] == "OSError: libamdhip64.so: cannot open"


@pytest.mark.usefixtures("torch")
def test_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert asking.main({"quick": True})["error"] == "No module named 'torch'"


def test_a_tool_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "TOOLS", ("json", "none_such"))
    assert asking.main({"quick": True})["tools"] == {
        "json": "",
        "none_such": "ModuleNotFoundError: No module named 'none_such'",
    }


def test_the_script_keeps_its_own_folder_off_the_path() -> None:
    """Its neighbours are called `settings` and `core`: they must not stand for others."""
    code = "import settings"
    probe = f"{asking.__file__}"
    done = subprocess.run(
        [sys.executable, "-S", probe, json.dumps({"quick": True})],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("HWMATRIX:")
    assert code not in done.stdout
