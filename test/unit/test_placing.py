"""Which unit starts next and where, and what the planner's figures make of it."""

from __future__ import annotations

import heapq
import random

import pytest

from hwmatrix.model import Device, Slot, Unit
from hwmatrix.placing import (
    Need,
    fitted,
    makespan_s,
    need_of,
    next_start,
    place_of,
    planned_places,
    useful,
)

ONE, TWO, FOUR = Need(1), Need(2), Need(4)
ALONE = Need(1, exclusive=True)


def unit(name: str, devices: int, *, exclusive: bool = False) -> Unit:
    return Unit(
        id=name,
        suite="s",
        files=(name,),
        selectors=(name,),
        est_s=1,
        test_limit_s=30,
        budget_s=60,
        devices=devices,
        shard=1,
        exclusive=exclusive,
    )


def slot(index: int, *keys: str) -> Slot:
    return Slot(index=index, devices=tuple(Device(key=key, token=key) for key in keys))


@pytest.mark.parametrize(
    ("devices", "widths", "sizes"),
    [
        (1, [1], [1]),
        (4, [1], [1, 1, 1, 1]),
        (4, [4, 1], [1, 1, 1, 1, 4]),
        (7, [2, 3], [2, 2, 2, 3, 3]),
        (2, [4], [4]),
    ],
)
def test_places_of_a_machine_are_narrow_first_and_one_of_each_width(
    devices: int, widths: list[int], sizes: list[int]
) -> None:
    places = planned_places(devices, widths)
    assert [len(place) for place in places] == sizes
    for width in widths:
        alike = [place for place in places if len(place) == width]
        assert len(frozenset().union(*alike)) == width * len(alike)


@pytest.mark.parametrize(
    ("waiting", "running", "expected"),
    [
        ([], {}, None),
        ([ONE, ONE], {}, (0, 0)),
        ([FOUR, ONE], {}, (0, 6)),
        ([FOUR, ONE], {0: ONE}, (1, 1)),  # nothing waits behind what cannot start
        ([FOUR], {0: ONE}, None),
        ([TWO], {0: ONE}, (0, 5)),
        ([TWO, ONE], {0: ONE, 2: ONE}, (1, 1)),
        ([ONE], {6: FOUR}, None),
        ([ALONE, ONE], {}, (0, 0)),
        ([ALONE, ONE], {1: ONE}, (1, 0)),
        ([ONE], {0: ALONE}, None),
    ],
)
def test_the_first_unit_that_has_a_free_place_starts(
    waiting: list[Need], running: dict[int, Need], expected: tuple[int, int] | None
) -> None:
    places = planned_places(4, [1, 2, 4])  # 0 to 3 narrow, 4 and 5 two each, 6 all
    assert next_start(waiting, places, running, range(7)) == expected


def test_no_more_start_than_may_run_together_nor_on_places_out_of_use() -> None:
    places = planned_places(2, [1])
    assert next_start([ONE], places, {0: ONE}, range(2), at_once=1) is None
    assert next_start([ONE], places, {0: ONE}, range(2), at_once=2) == (0, 1)
    assert next_start([ONE], places, {}, [1]) == (0, 1)
    assert next_start([ONE], places, {}, []) is None


def test_workers_are_for_slots_that_can_have_something_to_run() -> None:
    slots = [slot(0, "a"), slot(1, "b"), slot(2, "a", "b")]
    chosen = useful(slots, [unit("u", 1), unit("v", 1), unit("w", 1)])
    assert [s.index for s in chosen] == [0, 1]
    assert [s.index for s in useful(slots, [unit("u", 2), unit("v", 1)])] == [0, 2]
    assert [s.index for s in useful(slots, [unit("u", 9)])] == [2]
    assert useful(slots, []) == ()


def test_a_width_that_no_place_has_takes_the_next_wider_one() -> None:
    places = planned_places(4, [2, 4])
    wanted = [Need(1), Need(3), Need(8), Need(2, exclusive=True)]
    assert [need.devices for need in fitted(wanted, places)] == [2, 4, 4, 2]
    assert [need.exclusive for need in fitted(wanted, places)] == [False, False, False, True]
    assert need_of(unit("u", 3, exclusive=True)) == Need(3, exclusive=True)
    assert place_of(slot(0, "a", "b")) == frozenset({"a", "b"})


@pytest.mark.parametrize(
    ("seconds", "slots", "expected"),
    [([], 3, 0), ([5, 4, 3], 1, 12), ([5, 4, 3], 2, 7), ([5, 4, 3], 9, 5), ([5], 1, 5)],
)
def test_a_makespan_is_that_of_list_scheduling(
    seconds: list[float], slots: int, expected: float
) -> None:
    items = [(second, ONE) for second in seconds]
    assert makespan_s(items, planned_places(slots, [1])) == expected
    # The general way finds the same.
    assert makespan_s(items, planned_places(slots, [1]), at_once=len(seconds) + 1) == expected


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([(10, FOUR), (8, ONE), (8, ONE), (8, ONE), (8, ONE)], 18),
        ([(10, TWO), (4, TWO), (7, ONE), (6, ONE)], 11),  # the narrow ones share the shorter pair
        ([(10, ALONE), (5, ONE), (5, ONE)], 15),
        ([(5, ONE), (10, ALONE)], 15),
        ([(5, Need(3)), (5, ONE)], 10),  # three devices take the place of four
    ],
)
def test_makespan_of_units_of_several_widths(
    items: list[tuple[float, Need]], expected: float
) -> None:
    assert makespan_s(items, planned_places(4, [1, 2, 4])) == expected


def test_what_runs_already_counts_from_now() -> None:
    two = planned_places(2, [1])
    assert makespan_s([], two, under_way=[(6, 0, ONE)]) == 6
    assert makespan_s([(3, ONE)], two, under_way=[(6, 0, ONE)]) == 6
    assert makespan_s([(3, ONE)], two, under_way=[(6, 0, ALONE)]) == 9
    assert makespan_s([(3, ONE), (3, ONE)], two, at_once=1, under_way=[(6, 0, ONE)]) == 12


def test_no_device_has_two_units_and_none_idles_that_could_run() -> None:
    """Simulate many random sets: whatever starts is alone on its devices, and nothing starves."""
    chance = random.Random(7)
    for _ in range(200):
        devices = chance.randint(1, 8)
        widths = sorted({chance.randint(1, devices) for _ in range(3)})
        places = planned_places(devices, widths)
        left = [
            Need(chance.choice(widths), exclusive=chance.random() < 0.1)
            for _ in range(chance.randint(1, 25))
        ]
        running: dict[int, Need] = {}
        ends: list[tuple[float, int]] = []
        now, started, wanted = 0.0, 0, len(left)
        while left or ends:
            while start := next_start(left, places, running, range(len(places))):
                which, place = start
                busy = [places[other] for other in running]
                assert not any(places[place] & other for other in busy)
                assert len(places[place]) == left[which].devices
                assert not (left[which].exclusive and running)
                assert not any(need.exclusive for need in running.values())
                running[place] = left.pop(which)
                heapq.heappush(ends, (now + chance.random(), place))
                started += 1
            now, place = heapq.heappop(ends)
            del running[place]
        assert started == wanted
