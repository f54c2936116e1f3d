"""`ci/nox`: what a fresh machine meets first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

BOOTSTRAP = Path(__file__).resolve().parents[2] / "ci" / "nox"


def bootstrap(state: Path | str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(BOOTSTRAP), *words],
        env={**os.environ, "HWMATRIX_STATE": str(state), **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_package_index_out_of_reach_says_what_to_do_and_leaves_nothing_stamped(
    tmp_path: Path,
) -> None:
    ended = bootstrap(
        tmp_path, "--list", PIP_NO_INDEX="1", PIP_FIND_LINKS="", PIP_CONFIG_FILE=os.devnull
    )
    assert ended.returncode == 9
    assert "pip could not install requirements/nox.txt" in ended.stderr
    assert "PIP_INDEX_URL" in ended.stderr
    assert not list(tmp_path.glob("nox-*/stamp"))


def test_a_state_folder_that_cannot_be_made_is_named() -> None:
    ended = bootstrap("/proc/nowhere", "--list")
    assert ended.returncode == 9
    assert "cannot write under /proc/nowhere" in ended.stderr
    assert "Set HWMATRIX_STATE to a writable folder" in ended.stderr


def test_an_environment_once_made_becomes_nox(tmp_path: Path) -> None:
    """The stamp is all that counts: a stand-in interpreter shows what would be run."""
    made = bootstrap(tmp_path, PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull, PIP_FIND_LINKS="")
    assert made.returncode == 9
    (folder,) = tmp_path.glob("nox-*")
    python = folder / "bin" / "python"
    python.unlink()
    python.write_text('#!/bin/sh\nfor word in "$@"; do echo "<$word>"; done\n')
    python.chmod(0o755)
    (folder / "stamp").write_text("complete\n")
    ended = bootstrap(tmp_path, "-s", "cpu-stage-b", "--", "-k", "a b")
    assert ended.returncode == 0
    noxfile = BOOTSTRAP.parent.parent / "noxfile.py"
    words = ["-m", "nox", "-f", str(noxfile), "-s", "cpu-stage-b", "--", "-k", "a b"]
    assert ended.stdout.splitlines() == [f"<{word}>" for word in words]


def test_a_state_that_is_no_folder_is_told_as_such() -> None:
    ended = bootstrap(os.devnull, "--list")
    assert ended.returncode == 9
    assert f"{os.devnull} is not a folder" in ended.stderr
    assert "HWMATRIX_STATE" in ended.stderr


def test_a_folder_without_room_is_not_blamed_on_a_missing_package(tmp_path: Path) -> None:
    """A limit on the size of files stands in for a full disk: pip's wheel does not fit."""
    ended = subprocess.run(
        ["bash", "-c", 'ulimit -f 20; exec "$0" "$@"', sys.executable, str(BOOTSTRAP), "--list"],
        env={**os.environ, "HWMATRIX_STATE": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 9
    assert f"{tmp_path} has " in ended.stderr
    assert "MiB free; HWMATRIX_STATE names another folder" in ended.stderr
    assert "-venv" not in ended.stderr
    assert not list(tmp_path.glob("nox-*/stamp"))


def test_a_python_without_ensurepip_gets_the_name_of_the_package(tmp_path: Path) -> None:
    """An import hook hides the module, as Debian's python3 without python3-venv does."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\n"
        "real = u.find_spec\n"
        "u.find_spec = lambda n, p=None: None if n == 'ensurepip' else real(n, p)\n"
    )
    ended = bootstrap(tmp_path / "state", "--list", PYTHONPATH=str(tmp_path))
    assert ended.returncode == 9
    assert "has no venv or ensurepip" in ended.stderr
    assert "apt install python3" in ended.stderr
