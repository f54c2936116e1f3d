"""How much longer a run takes, from what is left, what runs, and how far off estimates were."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, kw_only=True, slots=True)
class Running:
    """One unit that runs: seconds since its start, its estimate and its budget."""

    elapsed_s: float
    est_s: float
    budget_s: float


def ratio(measured: Sequence[tuple[float, float]]) -> float:
    """Return measured time over estimated time of the units that ended, as (seconds, estimate).

    One more unit of average estimate that took exactly its estimate is counted in: the first
    short file must not turn an hour into minutes. 1 when nothing has ended.
    """
    if not measured:
        return 1.0
    took = sum(seconds for seconds, _ in measured)
    estimated = sum(estimate for _, estimate in measured)
    prior = estimated / len(measured)
    return (took + prior) / (estimated + prior) if estimated > 0 else 1.0


def remaining_s(
    waiting: Sequence[float], running: Sequence[Running], *, slots: int, scale: float
) -> float:
    """Return the seconds until the last unit ends, by list scheduling in the given order.

    `waiting` holds estimates, `scale` is what `ratio` gave. A unit beyond its estimate is expected
    to take a quarter more than it already has, at most until its budget.
    """
    free = [_left(unit, scale) for unit in running]
    free += [0.0] * max(0, slots - len(free))
    if not free:
        free = [0.0]
    heapq.heapify(free)
    for estimate in waiting:
        heapq.heappush(free, heapq.heappop(free) + estimate * scale)
    return max(free)


def _left(unit: Running, scale: float) -> float:
    planned = unit.est_s * scale - unit.elapsed_s
    if planned > 0:
        return planned
    return max(0.0, min(unit.elapsed_s * 0.25, unit.budget_s - unit.elapsed_s))
