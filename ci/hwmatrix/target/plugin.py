"""The outer pytest's plugin: `-p hwmatrix.target.plugin`, in the controller and in its workers.

The folder of the run comes in `HWMATRIX_RUN`. The outer run knows no test files: its items are the
units of the plan.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix import codec, process, runfolder
from hwmatrix.model import RunSpec

if TYPE_CHECKING:
    import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Become the controller's side or a worker's side, whichever process this is."""
    folder = Path(os.environ["HWMATRIX_RUN"])
    spec = codec.load(RunSpec, folder / runfolder.PLAN)
    parent = os.environ.pop(runfolder.PARENT, "")
    if parent:
        process.die_with_parent(int(parent))
    if hasattr(config, "workerinput"):
        from hwmatrix.target.worker import Worker

        config.pluginmanager.register(Worker(config, spec), "hwmatrix-worker")
    else:
        from hwmatrix.target.controller import Controller

        config.pluginmanager.register(Controller(spec), "hwmatrix-controller")
