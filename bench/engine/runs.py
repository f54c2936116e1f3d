"""Run specs made by hand, for the scripts beside this file."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import hwmatrix
from hwmatrix import supervise
from hwmatrix.model import Backend, Device, Isolation, Plan, RunSpec, Slot, Unit

if TYPE_CHECKING:
    from collections.abc import Sequence

CORE = str(Path(hwmatrix.__file__).parents[1])


def spec_of(
    root: Path,
    folder: Path,
    names: Sequence[str],
    *,
    slots: int,
    isolation: Isolation,
    preload: tuple[str, ...] = (),
) -> RunSpec:
    """Return a spec that runs the files in the order given."""
    units = tuple(
        Unit(
            id=name,
            suite="bench",
            files=(name,),
            selectors=(name,),
            est_s=1.0,
            test_limit_s=300.0,
            budget_s=600.0,
            devices=1,
            shard=1,
        )
        for name in names
    )
    plan = Plan(
        session="bench",
        backend=Backend.CPU,
        variant="cpu",
        tier="bench",
        suites=("bench",),
        units=units,
        shard=1,
        shards=1,
        hash="0",
    )
    made = tuple(
        Slot(index=i, devices=(Device(key=f"rank{i}", token=str(i)),)) for i in range(slots)
    )
    return RunSpec(
        run_id="bench",
        plan=plan,
        root=str(root),
        folder=str(folder),
        python=sys.executable,
        slots=made,
        isolation=isolation,
        preload=preload,
        env={"PYTHONPATH": CORE},
    )


def run_spec(spec: RunSpec) -> supervise.Ending:
    """Run it under supervision."""
    return supervise.run(spec, env=dict(os.environ))
