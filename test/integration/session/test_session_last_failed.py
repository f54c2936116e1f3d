"""`--lf` after a session, and after plain pytest: each goes on where the other ended."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from test.integration.session.conftest import Project

ONE = """
import os
from pathlib import Path

def test_good():
    pass

def test_bad():
    assert Path("mended").exists()

def test_exits():
    if not Path("mended").exists():
        os._exit(3)
"""
BAD = "def test_bad():\n    assert Path('mended').exists()\n"
TWO = "def test_only_good():\n    pass\n"
THREE = """
from pathlib import Path

if not Path("mended").exists():
    import a_module_that_is_not_there

def test_late():
    pass
"""


def known(project: Project) -> set[str]:
    """Return what pytest's cache says failed last."""
    return set(json.loads((project.root / ".pytest_cache/v/cache/lastfailed").read_text()))


def ran(project: Project) -> set[str]:
    return {test["id"] for unit in project.report()["units"] for test in unit["tests"]}


def plain_pytest(project: Project, *words: str) -> dict[str, str]:
    """Return what plain pytest ran, test to outcome."""
    log = project.root / "log.jsonl"
    command = [sys.executable, "-m", "pytest", "-p", "no:hypothesispytest", "-p", "no:xdist"]
    subprocess.run(
        [*command, f"--report-log={log}", *words],
        cwd=project.root,
        env=project.env(),
        capture_output=True,
        check=False,
    )
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return {
        line["nodeid"]: line["outcome"]
        for line in lines
        if line["$report_type"] == "TestReport" and line["when"] == "call"
    }


def ignored_by_git(folder: Path) -> bool:
    return (folder / ".gitignore").read_text().splitlines()[-1] == "*"


def test_a_session_then_only_its_failures(project: Project) -> None:
    one = project.file("test_one.py", ONE)
    two = project.file("test_two.py", TWO)
    three = project.file("test_three.py", THREE)
    assert project.session("cpu-stage-b").status == 1
    assert known(project) == {f"{one}::test_bad", f"{one}::test_exits", three}
    assert ignored_by_git(project.root / ".pytest_cache")

    (project.root / "mended").touch()
    again = project.session("cpu-stage-b", "--lf")
    assert again.status == 0, again.err
    assert ran(project) == {f"{one}::test_bad", f"{one}::test_exits", f"{three}::test_late"}
    assert project.outcomes()["test_two.py"][0] == "deselected"
    assert known(project) == set()

    # Nothing is known any more: everything runs, as with pytest itself.
    assert project.session("cpu-stage-b", "--lf").status == 0
    assert f"{two}::test_only_good" in ran(project)


def test_a_session_then_plain_pytest_and_back(project: Project) -> None:
    one = project.file("test_one.py", ONE.replace("os._exit(3)", "assert False"))
    project.file("test_two.py", TWO)
    assert project.session("cpu-stage-b").status == 1
    bad = {f"{one}::test_bad", f"{one}::test_exits"}
    assert known(project) == bad
    assert plain_pytest(project, "--lf", "test") == dict.fromkeys(bad, "failed")
    assert known(project) == bad

    (project.root / "mended").touch()
    assert plain_pytest(project, f"{one}::test_bad") == {f"{one}::test_bad": "passed"}
    assert known(project) == {f"{one}::test_exits"}
    assert project.session("cpu-stage-b", "--lf").status == 0
    assert ran(project) == {f"{one}::test_exits"}
    assert known(project) == set()


def test_without_the_plugin_nothing_is_written(project: Project) -> None:
    project.file("test_one.py", "def test_bad():\n    assert False\n")
    assert project.session("cpu-stage-b", "-p", "no:cacheprovider").status == 1
    assert not (project.root / ".pytest_cache").exists()


def test_last_failed_excuses_no_file_that_is_red_by_itself(project: Project) -> None:
    """Nothing is known to have failed by name: what ran nothing is red again, and not left out."""
    project.file("test_empty.py", "")
    project.file("test_good.py", TWO)
    project.file("test_bad.py", "from pathlib import Path\n\n" + BAD)
    assert project.session("cpu-stage-b").status == 1
    (project.root / "mended").touch()
    ended = project.session("cpu-stage-b", "--lf")
    assert ended.status == 1, ended.err
    assert {name: outcome for name, (outcome, _) in project.outcomes().items()} == {
        "test_bad.py": "passed",
        "test_empty.py": "failed",
        "test_good.py": "deselected",
    }
