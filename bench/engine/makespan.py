"""How close to ideal list scheduling the slots are kept busy, with estimates that are wrong.

    PYTHONPATH=ci python -m bench.engine.makespan [--files 60] [--slots 2] [--mean 0.5] [--seed 1]

Files sleep for a time drawn from a long-tailed distribution; the plan orders them by an estimate
that is off by up to a factor of 3 either way. Ideal: list scheduling of the units' own durations,
as the journal has them, in the plan's order, with nothing between them. Beside it: xdist's own
distributions on the same files, given in the same order, against the same ideal.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.engine.runs import run_spec, spec_of

from hwmatrix import journal
from hwmatrix.model import Isolation

if TYPE_CHECKING:
    from collections.abc import Sequence

DISTRIBUTIONS = ("load", "worksteal", "loadfile")


def ideal(durations: Sequence[float], slots: int) -> float:
    """Return the makespan of list scheduling: the next unit goes to the slot that is free first."""
    free = [0.0] * slots
    for duration in durations:
        heapq.heappush(free, heapq.heappop(free) + duration)
    return max(free)


def write_files(root: Path, count: int, mean: float, seed: int) -> tuple[list[str], list[float]]:
    """Write the files; return names and real times, longest estimate first."""
    draw = random.Random(seed)
    rows = []
    for index in range(count):
        real = min(6 * mean, draw.lognormvariate(0, 0.8) * mean / 1.38)
        estimate = real * 3 ** draw.uniform(-1, 1)
        name = f"test_{index:02}.py"
        (root / name).write_text(f"import time\n\ndef test_sleep():\n    time.sleep({real:.3f})\n")
        rows.append((estimate, name, real))
    rows.sort(reverse=True)
    return [row[1] for row in rows], [row[2] for row in rows]


def engine(root: Path, names: Sequence[str], slots: int) -> float:
    """Return the engine's makespan over the ideal one."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        run_spec(spec_of(root, run, names, slots=slots, isolation=Isolation.FORK))
        lines = list(journal.read(run))
    spans: dict[object, list[float]] = {}
    for kind, at in (("UnitStart", 0), ("UnitEnd", 1)):
        for line in lines:
            if line["$report_type"] == kind:
                spans.setdefault(line["unit"], [0.0, 0.0])[at] = float(str(line["time"]))
    first, last = min(s[0] for s in spans.values()), max(s[1] for s in spans.values())
    durations = [spans[name][1] - spans[name][0] for name in names]
    return (last - first) / ideal(durations, slots)


def xdist(root: Path, names: Sequence[str], slots: int, distribution: str) -> float:
    """Return the wall time of plain xdist."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(slots), "--dist", distribution]
    started = time.monotonic()
    arguments = [*command, "-p", "no:cacheprovider", *names]
    subprocess.run(arguments, cwd=root, capture_output=True, check=True)
    return time.monotonic() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=60)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--mean", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--xdist", action="store_true", help="also xdist's own distributions")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        names, real = write_files(root, given.files, given.mean, given.seed)
        found = {"engine": round(engine(root, names, given.slots), 3)}
        if given.xdist:
            nothing = root / "test_nothing.py"
            nothing.write_text("def test_nothing():\n    pass\n")
            start_s = xdist(root, [nothing.name], given.slots, "load")
            for name in DISTRIBUTIONS:
                wall_s = xdist(root, names, given.slots, name) - start_s
                found[name] = round(wall_s / ideal(real, given.slots), 3)
    facts = {"files": given.files, "slots": given.slots, "seed": given.seed}
    print(json.dumps({**facts, "makespan_over_ideal": found}))


if __name__ == "__main__":
    main()
