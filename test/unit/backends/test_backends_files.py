"""Small reads and vendor tools under a limit."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from hwmatrix.backends.files import numbered, read_int, read_text, run_tool


@pytest.fixture
def tool(tmp_path: Path) -> Any:
    def make(body: str) -> Any:
        path = tmp_path / "vendor-smi"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return {"PATH": f"{tmp_path}:/usr/bin:/bin"}

    return make


def test_a_tool_that_answers(tool: Any) -> None:
    answer = run_tool(["vendor-smi", "-L"], tool('echo "got $1"'))
    assert (answer.text, answer.problem) == ("got -L\n", "")


def test_a_tool_that_is_not_there(tmp_path: Path) -> None:
    answer = run_tool(["vendor-smi"], {"PATH": str(tmp_path)})
    assert answer.problem == "vendor-smi: not on PATH"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("echo first; echo no device; exit 9", "vendor-smi: exit status 9 no device"),
        ("exit 4", "vendor-smi: exit status 4"),
    ],
)
def test_a_tool_that_fails(tool: Any, body: str, problem: str) -> None:
    answer = run_tool(["vendor-smi"], tool(body))
    assert (answer.text, answer.problem) == ("", problem)


def test_a_tool_that_hangs_is_left_with_its_children_ended(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = tmp_path / "child"
    communicate = subprocess.Popen.communicate

    def once_it_hangs(process: subprocess.Popen[bytes], **words: Any) -> Any:
        while not read_text(child):
            time.sleep(0.02)
        return communicate(process, **words)

    monkeypatch.setattr(subprocess.Popen, "communicate", once_it_hangs)
    env = tool(f"trap '' TERM; sleep 3600 & echo $! >{child}; wait")
    answer = run_tool(["vendor-smi"], env, limit_s=0.3)
    assert answer.problem == "vendor-smi: no answer within 0.3 s (driver stuck?)"
    assert is_gone(int(child.read_text()))


def is_gone(pid: int) -> bool:
    """Whether the process ends within minutes; a zombie that nobody reaps has ended."""
    for _ in range(4800):
        stat = read_text(Path(f"/proc/{pid}/stat"))
        if not stat or stat.rsplit(")", 1)[1].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False


def test_a_file_that_is_no_program(tool: Any, tmp_path: Path) -> None:
    env = tool("true")
    (tmp_path / "vendor-smi").write_bytes(b"\x00\x01")
    assert run_tool(["vendor-smi"], env).problem.startswith("vendor-smi: cannot start")


def test_reads_of_what_is_not_there(tmp_path: Path) -> None:
    assert read_text(tmp_path / "nothing") == ""
    assert read_int(tmp_path / "nothing") == 0
    assert numbered(tmp_path / "nothing", r"\d+") == ()


def test_entries_go_by_number(tmp_path: Path) -> None:
    for name in ("n10", "n2", "n1", "other"):
        (tmp_path / name).touch()
    assert [path.name for path in numbered(tmp_path, r"n\d+")] == ["n1", "n2", "n10"]


def test_numbers_of_both_spellings(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("0x1002\n")
    (tmp_path / "b").write_text("42\n")
    assert (read_int(tmp_path / "a"), read_int(tmp_path / "b")) == (0x1002, 42)
    assert os.access(tmp_path / "a", os.R_OK)
