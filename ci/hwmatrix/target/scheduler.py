"""The order in which workers get units: list scheduling over xdist's public calls.

A free worker gets the next unit of the plan that its devices fit (`placing`) and nothing else, so a
wrong estimate cannot make a file wait behind a long one while another slot is idle. xdist's worker
starts an item only when it knows the next one: each unit is sent together with a *sentinel*, an
item that does nothing and keeps the worker waiting until its next unit is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hwmatrix.placing import fitted, next_start

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from hwmatrix.placing import Need, Place


class Gateway(Protocol):
    """What is used of execnet's gateway."""

    @property
    def id(self) -> str:
        """`gw0` and so on."""


class Node(Protocol):
    """What is used of xdist's `WorkerController`."""

    @property
    def gateway(self) -> Gateway:
        """The connection to the worker."""

    @property
    def shutting_down(self) -> bool:
        """True once it was told to end."""

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        """Append items to the worker's queue."""


class ListScheduler:
    """xdist's `Scheduling` protocol; items are the units in order, the sentinel is the last.

    `places` are the devices of each slot, by the slot's number, and `slot_of` tells a worker's.
    `stopping` says whether nothing more is to be handed out; `retired`, whether the worker of that
    name gave its unit back, because its slot cannot be used.
    """

    def __init__(
        self,
        needs: Sequence[Need],
        places: Mapping[int, Place],
        *,
        slot_of: Callable[[Node], int],
        stopping: Callable[[], bool],
        retired: Callable[[str], bool],
        at_once: int = 0,
    ) -> None:
        self._needs = fitted(needs, places.values()) if places else []
        self._slots = sorted(places)
        self._places = [places[slot] for slot in self._slots]
        self._slot_of = slot_of
        self._stopping = stopping
        self._retired = retired
        self._at_once = at_once
        self._useless: set[int] = set()
        self._queue: list[int] | None = None
        self._units: list[str] = []
        self._running: dict[Node, int | None] = {}
        self._free: dict[int, Node] = {}  # by place

    @property
    def nodes(self) -> list[Node]:
        """All workers that are up."""
        return list(self._running)

    @property
    def collection_is_completed(self) -> bool:
        """True from the first worker on: the plan fixes the items, so none waits for another."""
        return self._queue is not None

    @property
    def tests_finished(self) -> bool:
        """True when nothing runs and nothing is to be handed out."""
        busy = any(unit is not None for unit in self._running.values())
        return self._queue is not None and not busy and not self._more()

    @property
    def has_pending(self) -> bool:
        """True while something runs or waits."""
        return not self.tests_finished

    @property
    def waiting(self) -> int:
        """How many units were not handed out."""
        return len(self._queue or ())

    def add_node(self, node: Node) -> None:
        """Take a worker that is up; it has not collected yet."""
        self._running[node] = None

    def add_node_collection(self, node: Node, collection: Sequence[str]) -> None:
        """Take a worker that is ready for units."""
        if self._queue is None:
            self._units = list(collection[:-1])
            self._queue = list(range(len(self._units)))
        self._free[self._place_of(node)] = node

    def schedule(self) -> None:
        """Hand units to all workers that are free and may run one now.

        A place whose worker is not up yet counts as free: its devices are kept for the unit that
        is next for it, or narrow units would take them from a wide one at the start.
        """
        if not self._queue or self._stopping():
            return
        running = {
            self._place_of(node): self._needs[unit]
            for node, unit in self._running.items()
            if unit is not None
        }
        order = sorted(
            (n for n in range(len(self._places)) if n not in self._useless and self._open(n)),
            key=lambda n: (n not in self._free, n),
        )
        waiting = list(self._queue)
        needs = [self._needs[unit] for unit in waiting]
        while start := next_start(needs, self._places, running, order, at_once=self._at_once):
            which, place = start
            running[place] = needs.pop(which)
            unit = waiting.pop(which)
            if place in self._free:
                self._queue.remove(unit)
                self._give(self._free.pop(place), unit)

    def mark_test_complete(self, node: Node, item_index: int, duration: float = 0) -> None:
        """Take that a worker is through with an item."""
        del duration
        if item_index >= len(self._units):
            return
        self._running[node] = None
        place = self._place_of(node)
        if self._retired(node.gateway.id):
            self._useless.add(place)
            self.mark_test_pending(self._units[item_index])
        else:
            self._free[place] = node
            self.schedule()

    def mark_test_pending(self, item: str) -> None:
        """Put a unit back at the front."""
        assert self._queue is not None
        self._queue.insert(0, self._units.index(item))
        self.schedule()

    def remove_pending_tests_from_node(self, node: Node, indices: Sequence[int]) -> None:
        """Refuse: units are never taken back from a worker."""
        message = "units are never taken back from a worker"
        raise NotImplementedError(message)

    def take_back(self, node: Node, begun: Container[str]) -> None:
        """Put the unit of a worker that died back at the front, unless it is among `begun`."""
        unit = self._running.get(node)
        if unit is not None and self._units[unit] not in begun:
            self._running[node] = None
            self.mark_test_pending(self._units[unit])

    def remove_node(self, node: Node) -> str | None:
        """Forget a worker; return the unit that it was running."""
        unit = self._running.pop(node)
        place = self._place_of(node)
        self._useless.discard(place)  # its replacement looks anew
        if self._free.get(place) is node:
            del self._free[place]
        return None if unit is None else self._units[unit]

    def _place_of(self, node: Node) -> int:
        return self._slots.index(self._slot_of(node))

    def _open(self, place: int) -> bool:
        """Return whether the place has a worker that takes units, or will have one."""
        node = self._free.get(place)
        return node is None or not node.shutting_down

    def _more(self) -> bool:
        """Return whether a unit waits that can be handed out, now or later."""
        if self._stopping():
            return False
        usable = {len(place) for n, place in enumerate(self._places) if n not in self._useless}
        return any(self._needs[unit].devices in usable for unit in self._queue or ())

    def _give(self, node: Node, unit: int) -> None:
        self._running[node] = unit
        node.send_runtest_some([unit, len(self._units)])
