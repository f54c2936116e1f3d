"""Which unit starts next, and where: one rule, for the planner's figures and for the run.

A *place* is a set of devices that one worker can own: a slot. Places may overlap, a slot of four
devices with the four slots of one device each; two units never run on a common device at a time.
Units wait in the plan's order. The first one that has a free place starts, so nothing that could
run waits behind something that cannot; since wide units stand before narrow ones, and those that
want the host for themselves before all, none of them starves.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hwmatrix.model import Slot, Unit

Place = frozenset[str]  # the keys of its devices


@dataclass(frozen=True, slots=True)
class Need:
    """What a unit needs: a place of exactly so many devices, or that and the rest of the host."""

    devices: int
    exclusive: bool = False


def need_of(unit: Unit) -> Need:
    """Return what the unit needs."""
    return Need(unit.devices, unit.exclusive)


def place_of(slot: Slot) -> Place:
    """Return the devices of a slot."""
    return frozenset(device.key for device in slot.devices)


def planned_places(devices: int, widths: Iterable[int]) -> tuple[Place, ...]:
    """Return the places of a machine of `devices` devices: narrow ones first, at least one each.

    The same division as `backends.make_slots` makes: consecutive devices, none twice in a width.
    """
    return tuple(
        frozenset(f"{n}" for n in range(first * width, (first + 1) * width))
        for width in sorted(set(widths))
        for first in range(max(1, devices // width))
    )


def useful(slots: Sequence[Slot], units: Sequence[Unit]) -> tuple[Slot, ...]:
    """Return the slots that get a worker: of each width no more than there are units for it."""
    places = [place_of(slot) for slot in slots]
    left = Counter(need.devices for need in fitted(map(need_of, units), places))
    chosen = []
    for slot, place in zip(slots, places, strict=True):
        if left[len(place)] > 0:
            left[len(place)] -= 1
            chosen.append(slot)
    return tuple(chosen)


def fitted(needs: Iterable[Need], places: Iterable[Place]) -> list[Need]:
    """Return the needs with widths that exist: the next wider place, else the widest."""
    widths = sorted({len(place) for place in places})
    return [
        Need(next((w for w in widths if w >= need.devices), widths[-1]), need.exclusive)
        for need in needs
    ]


def next_start(
    waiting: Iterable[Need],
    places: Sequence[Place],
    running: Mapping[int, Need],
    usable: Sequence[int],
    *,
    at_once: int = 0,
) -> tuple[int, int] | None:
    """Return (which of `waiting`, which place) starts next; None if nothing can.

    `running` maps a place to what runs there, `usable` lists the places in the order of choice;
    `at_once` limits how many units run together, 0 does not.
    """
    if any(need.exclusive for need in running.values()) or (at_once and len(running) >= at_once):
        return None
    busy: frozenset[str] = frozenset().union(*(places[place] for place in running))
    free: dict[int, int] = {}  # by width, the first in the order of choice
    for place in usable:
        if not places[place] & busy:
            free.setdefault(len(places[place]), place)
    if not free:
        return None
    for which, need in enumerate(waiting):
        if need.devices in free and not (need.exclusive and running):
            return which, free[need.devices]
    return None


def makespan_s(
    items: Iterable[tuple[float, Need]],
    places: Sequence[Place],
    *,
    at_once: int = 0,
    under_way: Sequence[tuple[float, int, Need]] = (),
) -> float:
    """Return the seconds that list scheduling takes for (seconds, need) in their order.

    There must be a place. `under_way` is what runs already: seconds left, place, need.
    """
    items = list(items)
    seconds = [second for second, _ in items]
    needs = fitted((need for _, need in items), places)
    running = {place: need for _, place, need in under_way}
    ends = [(left, place) for left, place, _ in under_way]
    exclusive = any(need.exclusive for need in (*needs, *running.values()))
    if not at_once and not exclusive and len(set(map(len, places))) == 1:
        return _alike_s(seconds, [left for left, _ in ends], len(places))
    heapq.heapify(ends)
    everywhere = range(len(places))
    now = 0.0
    while needs or ends:
        while start := next_start(needs, places, running, everywhere, at_once=at_once):
            which, place = start
            running[place] = needs.pop(which)
            heapq.heappush(ends, (now + seconds.pop(which), place))
        now, place = heapq.heappop(ends)
        del running[place]
    return now


def _alike_s(seconds: Iterable[float], under_way: Sequence[float], places: int) -> float:
    """The same where every unit fits every place and none overlap."""
    free = [*under_way, *[0.0] * max(0, places - len(under_way))]
    heapq.heapify(free)
    for item in seconds:
        heapq.heapreplace(free, free[0] + item)
    return max(free)
