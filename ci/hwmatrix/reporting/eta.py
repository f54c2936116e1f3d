"""How much longer a run takes, from what is left, what runs, and how far off estimates were."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


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


def left_s(*, elapsed_s: float, est_s: float, budget_s: float, scale: float) -> float:
    """Return how long a unit that runs takes yet; `scale` is what `ratio` gave.

    One beyond its estimate is expected to take a quarter more than it already has, at most until
    its budget.
    """
    planned = est_s * scale - elapsed_s
    if planned > 0:
        return planned
    return max(0.0, min(elapsed_s * 0.25, budget_s - elapsed_s))
