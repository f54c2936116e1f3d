"""A suite of one-GPU files on one GPU and on two: the time should halve.

    PYTHONPATH=ci python -m bench.engine.scaling [--files 24] [--seconds 3]

Each file multiplies matrices on its device for the given time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from bench.engine.runs import run_spec, spec_of

from hwmatrix.model import Backend, Device, Isolation, Slot

FILE = """
import time

import torch


def test_products():
    left = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    end = time.monotonic() + {seconds}
    while time.monotonic() < end:
        left = (left @ left).clamp(-1, 1)
        torch.cuda.synchronize()
"""


def uuids() -> list[str]:
    command = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def wall(root: Path, folder: Path, names: list[str], keys: list[str]) -> float:
    slots = tuple(
        Slot(
            index=index,
            devices=(Device(key=key, token=key),),
            env={"CUDA_VISIBLE_DEVICES": key},
        )
        for index, key in enumerate(keys)
    )
    isolation = Isolation.FORK
    spec = spec_of(root, folder, names, slots=len(keys), isolation=isolation, preload=("torch",))
    plan = replace(spec.plan, backend=Backend.CUDA)
    started = time.monotonic()
    ending = run_spec(replace(spec, plan=plan, slots=slots))
    assert ending.exit_status == 0, ending
    return round(time.monotonic() - started, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args()
    keys = uuids()[:2]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        root.mkdir()
        names = [f"test_{index:02}.py" for index in range(given.files)]
        for name in names:
            (root / name).write_text(FILE.format(seconds=given.seconds))
        found = {
            f"{len(some)} GPU": wall(root, Path(folder) / f"run{len(some)}", names, some)
            for some in (keys[:1], keys)
        }
    print(json.dumps({"files": given.files, "seconds_each": given.seconds, "wall_s": found}))


if __name__ == "__main__":
    main()
