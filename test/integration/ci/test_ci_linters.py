"""The workflow files before GitHub's published schema, actionlint and zizmor.

The three stand in requirements/lint.txt, so `nox -s lint` has them; elsewhere this is left out.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hwmatrix import matrix as matrix_stage
from hwmatrix import workflows

ROOT = Path(__file__).resolve().parents[3]
REAL = ROOT / "test" / "data" / "matrix" / "real.toml"
ROWS = """
[[gate]]
name = "every-change"
events = ["pull_request", "push", "merge_group", "workflow_dispatch", "workflow_call"]

[[gate]]
name = "labelled"
events = ["pull_request"]
labels = ["it's: #1", "a }} \\"b\\" ${{ c }}"]

[[gate]]
name = "nights"
events = ["schedule"]
cron = ["0 */6 * * *", "30 2 * * 1-5"]

[ci]
python = "3.12"
checks = ["lint", "lint-registrations"]
"""
COMMANDS = {
    "zizmor": ["--offline", "--persona", "auditor", "--quiet"],
    "actionlint": ["-no-color"],
    "check-jsonschema": ["--builtin-schema", "vendor.github-workflows"],
}


def program(name: str) -> str:
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: it stands in requirements/lint.txt")
    return found


@pytest.fixture(params=["this repository", "real lanes, rows of every kind", "no gate rows"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The workflow files of a table, in a repository of their own: linters look for one."""
    (tmp_path / "ci").mkdir()
    table = tmp_path / "ci" / "matrix.toml"
    if request.param == "this repository":
        shutil.copy(ROOT / "ci" / "matrix.toml", table)
    else:
        rows = ROWS if "rows of every kind" in request.param else ""
        table.write_text(REAL.read_text(encoding="utf-8") + rows, encoding="utf-8")
    for name, text in workflows.workflow_files(matrix_stage.load(table)).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / ".git").mkdir()
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_a_linter_finds_nothing(name: str, folder: Path) -> None:
    files = sorted(str(path) for path in (folder / ".github" / "workflows").iterdir())
    command = [program(name), *COMMANDS[name], *files]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_linters_would_find_something(folder: Path) -> None:
    """The proof that the passes above mean anything: a planted fault is found by each."""
    file = folder / ".github" / "workflows" / "hwmatrix.yml"
    text = file.read_text(encoding="utf-8")
    planted = text.replace(
        'exec ./ci/nox -s "$SESSION"', "exec ./ci/nox -s ${{ github.event.label.name }}"
    ).replace("permissions: {}", "permissions: write-all")
    file.write_text(planted + "nonsense: true\n", encoding="utf-8")
    for name, arguments in COMMANDS.items():
        command = [program(name), *arguments, str(file)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode != 0, name
