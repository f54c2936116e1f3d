"""The sessions of this repository: those of ci/matrix.toml, and the checks of hwmatrix itself."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nox  # noqa: TID251 - a noxfile

ROOT = Path(__file__).resolve().parent
# The `nox` script does not put the noxfile's folder on sys.path.
sys.path.insert(0, str(ROOT / "ci"))

from hwmatrix import sessions  # noqa: E402 - needs the path above

nox.needs_version = ">=2025.5"
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["lint", "tests"]

PACKAGE_PATH = {"PYTHONPATH": str(ROOT / "ci")}
TORCH = "torch==2.13.0+cpu"
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"


@nox.session
def tests(session: nox.Session) -> None:
    """The tests of hwmatrix, with coverage of the package (add pytest's arguments after --)."""
    # The CPU build alone, from its own index or a find-links folder; its needs come from pip's
    # usual index in the second step, which finds torch in place.
    session.install("--no-deps", "--retries", "1", "--index-url", TORCH_INDEX, TORCH)
    session.install(TORCH, "-r", "requirements/tests.txt")
    session.run("coverage", "erase")
    workers = [] if session.posargs else ["-n", "2"]
    session.run("coverage", "run", "-m", "pytest", *workers, *session.posargs, env=PACKAGE_PATH)
    session.run("coverage", "combine", "--quiet")
    floor = [] if session.posargs else ["--fail-under=95"]
    session.run("coverage", "report", *floor)


@nox.session(default=False)
def torture(session: nox.Session) -> None:
    """Tests and SIGKILLs that misbehave, each 20 times: 45 minutes on two cores.

    `HWMATRIX_TORTURE` sets another number; pytest's arguments follow `--` (`-n 8` where there are
    more cores, `-k daemon`).
    """
    session.install("-r", "requirements/tests.txt")
    times = os.environ.get("HWMATRIX_TORTURE", "20")
    files = [*ROOT.glob("test/integration/*/test_*_torture.py")]
    command = ["pytest", "-q", "-n", "2", *sorted(str(path) for path in files), *session.posargs]
    session.run(*command, env={**PACKAGE_PATH, "HWMATRIX_TORTURE": times})


@nox.session
def lint(session: nox.Session) -> None:
    """Ruff, mypy, import-linter; zizmor, actionlint and GitHub's schema for the workflows."""
    session.install("-r", "requirements/lint.txt")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("mypy")
    session.run("lint-imports", env=PACKAGE_PATH)
    session.run("python", "-m", "hwmatrix", "workflow", "--check", env=PACKAGE_PATH)
    session.run("pytest", "-q", "test/integration/ci/test_ci_linters.py", env=PACKAGE_PATH)


sessions.register(ROOT)
