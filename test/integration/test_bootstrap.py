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
