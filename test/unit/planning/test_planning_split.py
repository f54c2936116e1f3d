"""Splits over shards: exact where it can be, never worse than LPT, the same everywhere."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwmatrix.planning.split import (
    _differencing,
    _first_fit,
    _improve,
    _integers,
    _multifit,
    heaviest,
    lower_bound,
    lpt,
    split,
)


def loads(weights: list[float], count: int) -> list[float]:
    """Return the load of each bin of the split."""
    found = [0.0] * count
    for weight, owner in zip(weights, split(weights, count), strict=True):
        found[owner] += weight
    return found


def optimum(weights: list[int], count: int) -> int:
    """Return the least load of the heaviest bin, by trying everything."""
    return min(
        max(sum(w for w, o in zip(weights, owners, strict=True) if o == n) for n in range(count))
        for owners in product(range(count), repeat=len(weights))
    )


def test_the_design_s_example_is_solved() -> None:
    weights = [5, 5, 4, 4, 3, 3, 3]
    assert heaviest(weights, lpt(weights, 3)) == 11
    assert loads([float(w) for w in weights], 3) == [9, 9, 9]


def test_bins_are_numbered_from_the_heaviest() -> None:
    assert split([9, 5, 1], 3) == (0, 1, 2)
    assert split([3, 3], 4) == (0, 1)
    assert split([], 2) == ()
    assert split([2, 1], 1) == (0, 0)


def test_weights_far_apart_are_summed_exactly() -> None:
    weights = [1e300, 1.0, 0.1, 5e-324]
    assert [Fraction(w) / Fraction(5e-324) for w in weights] == _integers(weights)
    assert split(weights, 2) == (0, 1, 1, 1)


def test_a_large_input_is_left_to_lpt() -> None:
    weights = [float(n % 97 + 1) for n in range(6000)]
    weights.sort(reverse=True)
    exact = _integers(weights)
    bins: list[list[int]] = [[] for _ in range(40)]
    for item, owner in enumerate(split(weights, 40)):
        bins[owner].append(item)
    assert heaviest(exact, bins) == heaviest(exact, lpt(exact, 40))


whole = st.lists(st.integers(1, 40), min_size=1, max_size=30).map(
    lambda ws: sorted(ws, reverse=True)
)
few = st.lists(st.integers(1, 30), min_size=1, max_size=7).map(lambda ws: sorted(ws, reverse=True))
counts = st.integers(1, 8)


class TestProperties:
    """The rules that hold for any weights."""

    @settings(deadline=None, max_examples=50)
    @given(few, st.integers(1, 3))
    def test_small_inputs_are_solved_exactly(self, weights: list[int], count: int) -> None:
        assert max(loads([float(w) for w in weights], count)) == optimum(weights, count)

    @settings(deadline=None, max_examples=50)
    @given(whole, counts)
    def test_the_heaviest_bin_is_never_worse_than_lpt_s(
        self, weights: list[int], count: int
    ) -> None:
        """Hence within 4/3 - 1/(3m) of the optimum, and within mean + longest item."""
        found = max(loads([float(w) for w in weights], count))
        assert found <= heaviest(weights, lpt(weights, count))
        assert found <= sum(weights) / count + weights[0]
        assert found >= lower_bound(weights, count)

    @settings(deadline=None, max_examples=50)
    @given(whole, counts)
    def test_each_rule_places_every_item_once(self, weights: list[int], count: int) -> None:
        for bins in (
            lpt(weights, count),
            _multifit(weights, count),
            _differencing(weights, count),
            _improve(weights, lpt(weights, count)),
        ):
            assert len(bins) == count
            assert sorted(i for items in bins for i in items) == list(range(len(weights)))

    @given(whole, counts)
    def test_a_capacity_that_fits_is_kept(self, weights: list[int], count: int) -> None:
        capacity = heaviest(weights, lpt(weights, count))
        bins = _first_fit(weights, count, capacity)
        assert bins is None or heaviest(weights, bins) <= capacity

    @settings(deadline=None, max_examples=50)
    @given(whole, counts)
    def test_improving_does_not_worsen(self, weights: list[int], count: int) -> None:
        before = [list(range(len(weights))), *([] for _ in range(count - 1))]
        after = _improve(weights, before)
        assert heaviest(weights, after) <= sum(weights)
        if count > 1 and len(weights) > 1:
            assert heaviest(weights, after) < sum(weights)

    @settings(deadline=None, max_examples=50)
    @given(whole, counts)
    def test_loads_fall_with_the_number(self, weights: list[int], count: int) -> None:
        found = loads([float(w) for w in weights], count)
        assert found == sorted(found, reverse=True)

    @settings(deadline=None, max_examples=50)
    @given(
        st.lists(st.floats(0.001, 1e6), min_size=1, max_size=25).map(
            lambda ws: sorted(ws, reverse=True)
        ),
        counts,
    )
    def test_no_bin_is_empty_while_another_has_two(self, weights: list[float], count: int) -> None:
        owners = split(weights, count)
        assert len(set(owners)) == min(count, len(weights))


@pytest.mark.parametrize(
    ("weights", "count", "least"),
    [
        # Larger instances whose optimum is known by construction: bins were filled first.
        ([30, 28, 27, 26, 25, 24, 23, 22, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11], 6, 60),
        ([7, 6, 5, 5, 4, 4, 4, 3, 3, 3, 2, 2], 4, 12),
    ],
)
def test_known_optima_are_reached(weights: list[int], count: int, least: int) -> None:
    assert sum(weights) == least * count
    assert max(loads([float(w) for w in weights], count)) == least
