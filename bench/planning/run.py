"""How even the splits are: LPT's and this project's heaviest shard over a bound none can beat.

`python bench/planning/run.py` (with `ci` on PYTHONPATH) prints one line per kind of input: the
mean and the worst ratio to the lower bound (1.000 is optimal for sure), how often each rule reached
it, and the slowest split in milliseconds. Seeds are fixed: the ratios are the same everywhere.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, NamedTuple

from hwmatrix.planning.split import heaviest, lower_bound, lpt, split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REAL = Path(__file__).resolve().parents[2] / "test/data/matrix/real_registrations.jsonl"
SHARDS = (2, 3, 4, 6, 8)
ROUNDS = 20


class Result(NamedTuple):
    """One input: both heaviest shards over the bound, and what splitting took."""

    lpt: float
    ours: float
    seconds: float


def measure(weights: list[int], count: int) -> Result:
    """Return the ratios for weights in falling order."""
    bound = lower_bound(weights, count)
    begun = time.perf_counter()
    owners = split(weights, count)
    seconds = time.perf_counter() - begun
    loads = [0] * count
    for weight, owner in zip(weights, owners, strict=True):
        loads[owner] += weight
    return Result(heaviest(weights, lpt(weights, count)) / bound, max(loads) / bound, seconds)


def real(pick: random.Random) -> list[int]:
    """Return estimates of a real project (seconds), a suite's worth of them."""
    rows = [json.loads(line) for line in REAL.read_text(encoding="utf-8").splitlines()]
    return [row["est_time"] for row in pick.sample(rows, 20)]


def uniform(size: int) -> Callable[[random.Random], list[int]]:
    """Return a maker of `size` estimates between 10 s and 15 min."""
    return lambda pick: [pick.randint(10, 900) for _ in range(size)]


def skewed(pick: random.Random) -> list[int]:
    """Return many short files and a few long ones."""
    return [max(1, int(pick.lognormvariate(4, 1.3))) for _ in range(40)]


def triplets(pick: random.Random) -> list[int]:
    """Return threes that add up to 900 s: a perfect split exists, and LPT misses it."""
    made: list[int] = []
    for _ in range(8):
        first = pick.randint(260, 360)
        second = pick.randint(260, 360)
        made += [first, second, 900 - first - second]
    return made


KINDS: dict[str, Callable[[random.Random], list[int]]] = {
    "real estimates, 20 files": real,
    "uniform, 12 files": uniform(12),
    "uniform, 60 files": uniform(60),
    "uniform, 600 files": uniform(600),
    "skewed, 40 files": skewed,
    "triplets, 24 files": triplets,
}


def results(kind: str) -> Iterator[Result]:
    """Yield the results of one kind of input."""
    for seed in range(ROUNDS):
        weights = sorted(KINDS[kind](random.Random(seed)), reverse=True)
        for count in SHARDS:
            yield measure(weights, count)


def main() -> int:
    """Print the table; return 1 where a split is worse than LPT's."""
    example = measure([5, 5, 4, 4, 3, 3, 3], 3)
    print(f"5,5,4,4,3,3,3 over 3: LPT {example.lpt * 9:.0f}, here {example.ours * 9:.0f}, bound 9")
    print(f"{'input':26} {'LPT mean':>9} {'worst':>6} {'here mean':>10} {'worst':>6}", end="")
    print(f" {'LPT =':>6} {'here =':>7} {'slowest':>8}")
    worse = False
    for kind in KINDS:
        rows = list(results(kind))
        worse = worse or any(row.ours > row.lpt for row in rows)
        print(
            f"{kind:26} {mean(r.lpt for r in rows):9.4f} {max(r.lpt for r in rows):6.3f} "
            f"{mean(r.ours for r in rows):10.4f} {max(r.ours for r in rows):6.3f} "
            f"{mean(r.lpt == 1 for r in rows):6.0%} {mean(r.ours == 1 for r in rows):7.0%} "
            f"{max(r.seconds for r in rows) * 1000:5.0f} ms"
        )
    return int(worse)


if __name__ == "__main__":
    sys.exit(main())
