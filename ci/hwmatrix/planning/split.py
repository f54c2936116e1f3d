"""Work split over machines: as even as can be found in bounded time, the same everywhere.

The problem (makespan on identical machines) is NP-hard, so several rules compete and the best
answer wins: longest processing time first (LPT), MULTIFIT (Coffman, Garey and Johnson 1978), the
largest differencing method (Karmarkar and Karp 1982), then moves and swaps, then an exact search
with a limit on its steps. LPT takes part, so no answer is worse than LPT's: the heaviest bin stays
within 4/3 - 1/(3m) of the optimum (Graham 1969). Limits count steps and never seconds: a slow
machine must find the same answer as a fast one.
"""

from __future__ import annotations

import heapq
from bisect import insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# 12 halvings bring MULTIFIT's capacity within 1/4096 of the span between its bounds.
_MULTIFIT_ROUNDS = 12
# Above this many items x bins LPT is near its bound anyhow: mean + longest item.
_HEAVY = 50_000
_SWAP_STEPS = 20_000
_SEARCH_STEPS = 20_000

Bins = list[list[int]]  # for each bin, the indices of its items


def split(weights: Sequence[float], count: int) -> tuple[int, ...]:
    """Return the bin (from 0) of each weight, such that the heaviest bin is as light as found.

    `weights` must be finite and positive, and sorted with the heaviest first; equal weights are
    told apart by their place alone, so callers sort ties. Bins are numbered from the heaviest to
    the lightest, those of equal load by their first item: empty ones come last.
    """
    exact = _integers(weights)
    best = _best(exact, count) if count > 1 else [list(range(len(exact)))]
    best.sort(key=lambda items: (-sum(exact[i] for i in items), items or [len(exact)]))
    owner = [0] * len(exact)
    for number, items in enumerate(best):
        for item in items:
            owner[item] = number
    return tuple(owner)


def lower_bound(weights: Sequence[int], count: int) -> int:
    """Return a load that no split can beat, for weights in falling order.

    The largest of: the mean, the heaviest item, and the two lightest of the first count + 1 items,
    of which two must share a bin.
    """
    pair = weights[count - 1] + weights[count] if len(weights) > count else 0
    return max(-(-sum(weights) // count), max(weights, default=0), pair)


def lpt(weights: Sequence[int], count: int) -> Bins:
    """Return the split by LPT: each item, heaviest first, into the lightest bin."""
    bins: Bins = [[] for _ in range(count)]
    heap = [(0, number) for number in range(count)]
    for item, weight in enumerate(weights):
        load, number = heapq.heappop(heap)
        bins[number].append(item)
        heapq.heappush(heap, (load + weight, number))
    return bins


def heaviest(weights: Sequence[int], bins: Bins) -> int:
    """Return the load of the heaviest bin."""
    return max(sum(weights[i] for i in items) for items in bins)


def _integers(weights: Sequence[float]) -> list[int]:
    """Return the weights on one whole-number scale, exactly: sums then have no rounding."""
    ratios = [float(weight).as_integer_ratio() for weight in weights]
    scale = max((denominator for _, denominator in ratios), default=1)  # powers of two, all
    return [numerator * (scale // denominator) for numerator, denominator in ratios]


def _best(weights: Sequence[int], count: int) -> Bins:
    bound = lower_bound(weights, count)
    best = lpt(weights, count)
    if heaviest(weights, best) <= bound or len(weights) * count > _HEAVY:
        return best
    for rule in (_multifit, _differencing):
        other = rule(weights, count)
        if heaviest(weights, other) < heaviest(weights, best):
            best = other
    best = _improve(weights, best)
    if heaviest(weights, best) > bound:
        best = _search(weights, best, bound)
    return [sorted(items) for items in best]


def _multifit(weights: Sequence[int], count: int) -> Bins:
    """Return the best split by first fit into bins of a capacity found by halving."""
    best = lpt(weights, count)
    low, high = lower_bound(weights, count), heaviest(weights, best)
    for _ in range(_MULTIFIT_ROUNDS):
        capacity = (low + high) // 2
        fitted = _first_fit(weights, count, capacity)
        if fitted is None:
            low = capacity + 1
        else:
            best, high = fitted, heaviest(weights, fitted)
        if low >= high:
            break
    return best


def _first_fit(weights: Sequence[int], count: int, capacity: int) -> Bins | None:
    bins: Bins = [[] for _ in range(count)]
    room = [capacity] * count
    for item, weight in enumerate(weights):
        number = next((n for n in range(count) if room[n] >= weight), None)
        if number is None:
            return None
        bins[number].append(item)
        room[number] -= weight
    return bins


def _differencing(weights: Sequence[int], count: int) -> Bins:
    """Return the split by largest differencing: the two most uneven part-splits are joined.

    A part-split is a tuple of bins, heaviest first; joining lays the heaviest of one onto the
    lightest of the other.
    """
    heap: list[tuple[int, int, list[tuple[int, list[int]]]]] = []
    for item, weight in enumerate(weights):
        parts = [(weight, [item])] + [(0, []) for _ in range(count - 1)]
        heapq.heappush(heap, (-weight, item, parts))
    while len(heap) > 1:
        _, _, one = heapq.heappop(heap)
        _, order, other = heapq.heappop(heap)
        joined = [(a + b, [*x, *y]) for (a, x), (b, y) in zip(one, reversed(other), strict=True)]
        joined.sort(key=lambda part: (-part[0], part[1]))
        heapq.heappush(heap, (joined[-1][0] - joined[0][0], order, joined))
    return [items for _, items in heap[0][2]]


def _improve(weights: Sequence[int], bins: Bins) -> Bins:
    """Return the bins after moves and swaps out of the heaviest one, while they help."""
    bins = [list(items) for items in bins]
    loads = [sum(weights[i] for i in items) for items in bins]
    steps = _SWAP_STEPS
    while steps > 0:
        top = max(range(len(bins)), key=lambda n: (loads[n], -n))
        change = None
        for other in sorted(range(len(bins)), key=lambda n: (loads[n], n)):
            if other == top:
                continue
            steps -= (len(bins[top]) + 1) * (len(bins[other]) + 1)
            change = _exchange(weights, bins[top], bins[other], loads[top] - loads[other])
            if change or steps <= 0:
                break
        if not change:
            break
        give, take, moved = change
        bins[top].remove(give)
        insort(bins[other], give)
        if take is not None:
            bins[other].remove(take)
            insort(bins[top], take)
        loads[top] -= moved
        loads[other] += moved
    return bins


def _exchange(
    weights: Sequence[int], top: Sequence[int], other: Sequence[int], gap: int
) -> tuple[int, int | None, int] | None:
    """Return (give, take or None, weight moved) that evens two bins `gap` apart the most.

    Anything moved between 0 and `gap` (exclusive) leaves both below the heavier one's load.
    """
    best: tuple[int, int | None, int] | None = None
    for give in top:
        for take in (None, *other):
            moved = weights[give] - (weights[take] if take is not None else 0)
            closer = best is None or abs(2 * moved - gap) < abs(2 * best[2] - gap)
            if 0 < moved < gap and closer:
                best = (give, take, moved)
    return best


def _search(weights: Sequence[int], bins: Bins, bound: int) -> Bins:
    """Return the best split that a depth-first search finds within its steps.

    Items go heaviest first into each bin that stays below the best load known; bins of equal load
    are the same, so only the first of them is tried. Complete for small inputs; for others it
    improves what it can.
    """
    search = _Search(weights, bins, bound)
    search.run()
    return search.best


class _Search:
    """State of `_search`: loads as they stand, the best so far, the steps that remain."""

    def __init__(self, weights: Sequence[int], bins: Bins, bound: int) -> None:
        self.weights = weights
        self.bound = bound
        self.best = bins
        self.limit = heaviest(weights, bins)
        self.loads = [0] * len(bins)
        self.owner = [0] * len(weights)
        self.steps = _SEARCH_STEPS

    def run(self) -> None:
        """Try the places of all items in turn, without recursion.

        `tried[item]` lists the bins still to be tried for it, the next one last.
        """
        tried = [self._choices(0)]
        while tried and self.steps > 0 and self.limit > self.bound:
            item = len(tried) - 1
            if not tried[item]:
                tried.pop()
                if tried:
                    self.loads[self.owner[item - 1]] -= self.weights[item - 1]
                continue
            self.steps -= 1
            number = tried[item].pop()
            if self.loads[number] + self.weights[item] >= self.limit:
                continue
            self.owner[item] = number
            self.loads[number] += self.weights[item]
            if item + 1 == len(self.weights):
                self._keep()
                self.loads[number] -= self.weights[item]
            else:
                tried.append(self._choices(item + 1))

    def _choices(self, item: int) -> list[int]:
        """Return the bins to try for `item`, the lightest last: it is tried first."""
        room = {load: number for number, load in reversed(list(enumerate(self.loads)))}
        weight = self.weights[item]
        fitting = [load for load in room if load + weight < self.limit]
        return [room[load] for load in sorted(fitting, reverse=True)]

    def _keep(self) -> None:
        self.limit = max(self.loads)
        self.best = [[] for _ in self.loads]
        for item, number in enumerate(self.owner):
            self.best[number].append(item)
