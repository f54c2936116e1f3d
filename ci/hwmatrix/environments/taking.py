"""Somebody else's environment (`--no-venv`): a container that has its torch already."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from hwmatrix.environments import core, guard
from hwmatrix.environments.interpreter import PYTHON
from hwmatrix.errors import EnvironmentBuildError
from hwmatrix.model import Environment

if TYPE_CHECKING:
    from pathlib import Path

    from hwmatrix.environments.request import Request


def take(request: Request, overlay: Path | None) -> Environment:
    """Return the interpreter as it is (`--no-venv`), with core and overlay on PYTHONPATH."""
    python = request.env.get(PYTHON) or sys.executable
    variant = request.variant
    folder = request.state / "no-venv"
    paths = [core.link_core(folder)]
    notes: list[str] = []
    devices = request.devices
    if overlay is not None:
        bare = guard.ask(python, request.asked, dict(request.env), cwd=request.state, quick=True)
        shown = folder / core.overlay_name(overlay, bare.distributions)
        taken = core.link_overlay(overlay.resolve(), shown, bare.distributions)
        notes.append(f"from the overlay: {', '.join(taken) or 'nothing'}")
        paths.append(shown)
    before = [request.env["PYTHONPATH"]] if request.env.get("PYTHONPATH") else []
    extra = {"PYTHONPATH": ":".join([*before, *map(str, paths)]), "HWMATRIX_FOUND": "1"}
    env = request.test_env(extra)
    answer = guard.ask(python, request.asked, env, cwd=request.state, quick=False)
    notes += guard.inspect(answer, variant, request.check, devices, python=python, exact=False)
    missing = guard.missing_tools(answer)
    if missing:
        raise EnvironmentBuildError(
            f"--no-venv: {python} lacks what runs the tests: {'; '.join(missing)}. Nothing is "
            "installed under --no-venv. Make a folder of packages where the network can be "
            f"reached ({core.overlay_recipe('DIR')}, with Python {answer.python}) and pass "
            "--overlay DIR."
        )
    return Environment(
        python=python,
        folder=answer.prefix,
        torch=answer.torch,
        toolkit=guard.toolkit(answer),
        found=True,
        notes=tuple(notes),
        env=extra,
    )
