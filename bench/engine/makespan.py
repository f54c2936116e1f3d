"""How close to ideal list scheduling the slots are kept busy, with estimates that are wrong.

    PYTHONPATH=ci python -m bench.engine.makespan [--files 60] [--slots 2] [--xdist] [--repeat 3]

Files sleep for a time drawn from a long-tailed distribution; the plan orders them by an estimate
that is off by up to a factor of 3 either way. Ideal: list scheduling in the plan's order, all slots
ready at the same moment, nothing between two files. Makespan: from the first file's begin to the
last one's end, so the time until the first slot is ready counts for nobody, and the time by which
the other slots are ready later counts against everybody.

Two measures. `own`: a file lasts as long as its process, from the journal: what the engine adds
between processes, and in starting its slots one after another. `slept`: a file lasts as long as its
test sleeps, by the tests' own clock: what every way of running adds between two tests, the engine's
process per file included. The second serves to compare with xdist's own distributions, which run
the same files in the same order in `SLOTS` shared processes.

`losses` say where the engine's makespan went, in seconds per slot: `late` (ready after the first
slot), `between` (from one process to the next), and `idle` (the end, when no file is left), of
which ideal scheduling has a share as well.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.engine.runs import run_spec, spec_of

from hwmatrix import journal
from hwmatrix.model import Isolation

if TYPE_CHECKING:
    from collections.abc import Sequence

DISTRIBUTIONS = ("load", "worksteal", "loadfile")
SPANS = "spans.txt"
FILE = """
import time


def test_sleep():
    began = time.time()
    time.sleep({real:.3f})
    with open({spans!r}, "a") as stream:
        stream.write(f"{name} {{began}} {{time.time()}}\\n")
"""


@dataclass(frozen=True)
class Span:
    """When something ran, and where."""

    name: str
    began: float
    ended: float
    slot: int = 0


def ideal(durations: Sequence[float], slots: int) -> float:
    """Return the makespan of list scheduling: the next unit goes to the slot that is free first."""
    free = [0.0] * slots
    for duration in durations:
        heapq.heappush(free, heapq.heappop(free) + duration)
    return max(free)


def over_ideal(spans: Sequence[Span], order: Sequence[str], slots: int) -> float:
    """Return the makespan of `spans` over the ideal one of their durations in `order`."""
    took = {span.name: span.ended - span.began for span in spans}
    assert sorted(took) == sorted(order)
    whole = max(span.ended for span in spans) - min(span.began for span in spans)
    return whole / ideal([took[name] for name in order], slots)


def losses(spans: Sequence[Span], slots: int) -> dict[str, float]:
    """Return the mean seconds that a slot was not running anything, by reason."""
    first, last = min(s.began for s in spans), max(s.ended for s in spans)
    found = dict.fromkeys(("late", "between", "idle"), 0.0)
    for slot in {span.slot for span in spans}:
        mine = sorted((s for s in spans if s.slot == slot), key=lambda span: span.began)
        found["late"] += mine[0].began - first
        found["between"] += sum(b.began - a.ended for a, b in itertools.pairwise(mine))
        found["idle"] += last - mine[-1].ended
    return {reason: seconds / slots for reason, seconds in found.items()}


def write_files(root: Path, count: int, mean: float, seed: int) -> list[str]:
    """Write the files; return their names, longest estimate first."""
    draw = random.Random(seed)
    rows = []
    for index in range(count):
        real = min(6 * mean, draw.lognormvariate(0, 0.8) * mean / 1.38)
        estimate = real * 3 ** draw.uniform(-1, 1)
        name = f"test_{index:02}.py"
        (root / name).write_text(FILE.format(name=name, real=real, spans=str(root / SPANS)))
        rows.append((estimate, name))
    return [name for _, name in sorted(rows, reverse=True)]


def slept(root: Path) -> list[Span]:
    """Return what the tests noted, and forget it."""
    rows = [line.split() for line in (root / SPANS).read_text().splitlines()]
    (root / SPANS).unlink()
    return [Span(name, float(began), float(ended)) for name, began, ended in rows]


def engine(root: Path, names: Sequence[str], slots: int) -> list[Span]:
    """Run the files; return how long their processes took."""
    runs = root.parent / "runs"  # shared, as a project's: what one run learnt serves the next
    with tempfile.TemporaryDirectory(dir=runs) as folder:
        run = Path(folder)
        ending = run_spec(spec_of(root, run, names, slots=slots, isolation=Isolation.FORK))
        assert ending.exit_status == 0, ending
        lines = list(journal.read(run))
    began = {x["unit"]: x for x in lines if x["$report_type"] == "UnitStart"}
    ended = {x["unit"]: x for x in lines if x["$report_type"] == "UnitEnd"}
    return [
        Span(name, _at(began[name]), _at(ended[name]), int(str(began[name]["slot"])))
        for name in names
    ]


def _at(line: object) -> float:
    assert isinstance(line, dict)
    return float(line["time"])


def xdist(root: Path, names: Sequence[str], slots: int, distribution: str) -> None:
    """Run the files with plain xdist."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(slots), "--dist", distribution]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", *names],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def measure(given: argparse.Namespace, root: Path, names: Sequence[str]) -> dict[str, list[float]]:
    """Return each measure, once per repetition; the ways take turns."""
    found: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        found.setdefault(name, []).append(value)

    engine(root, names[-1:], 1)  # a project's first run ever learns what to import early
    slept(root)
    for _ in range(given.repeat):
        started = time.monotonic()
        processes = engine(root, names, given.slots)
        note("engine, wall s", time.monotonic() - started)
        note("engine, own", over_ideal(processes, names, given.slots))
        note("engine, slept", over_ideal(slept(root), names, given.slots))
        for reason, seconds in losses(processes, given.slots).items():
            note(f"engine, {reason} s", seconds)
        for distribution in DISTRIBUTIONS if given.xdist else ():
            started = time.monotonic()
            xdist(root, names, given.slots, distribution)
            note(f"{distribution}, wall s", time.monotonic() - started)
            note(f"{distribution}, slept", over_ideal(slept(root), names, given.slots))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=60)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--mean", type=float, default=0.5, help="seconds that a file sleeps")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--xdist", action="store_true", help="also xdist's own distributions")
    given = parser.parse_args()
    # Where it is set, every process compiles what others have compiled: Python's default counts.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        for path in (root, Path(folder) / "runs"):
            path.mkdir()
        names = write_files(root, given.files, given.mean, given.seed)
        found = measure(given, root, names)
    keys = ("files", "slots", "mean", "seed", "repeat")
    facts = {**{key: getattr(given, key) for key in keys}, "cores": os.cpu_count()}
    medians = {name: round(statistics.median(values), 3) for name, values in found.items()}
    print(json.dumps({**facts, "medians": medians}))


if __name__ == "__main__":
    main()
