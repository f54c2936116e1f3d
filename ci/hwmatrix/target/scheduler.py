"""The order in which workers get units: list scheduling over xdist's public calls.

A free worker gets the next unit of the plan and nothing else, so a wrong estimate cannot make a
file wait behind a long one while another slot is idle. xdist's worker starts an item only when it
knows the next one: each unit is sent together with a *sentinel*, an item that does nothing and
keeps the worker waiting until its next unit is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


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

    `stopping` says whether nothing more is to be handed out; `retired`, whether the worker of that
    name gave its unit back, because its slot cannot be used.
    """

    def __init__(self, stopping: Callable[[], bool], retired: Callable[[str], bool]) -> None:
        self._stopping = stopping
        self._retired = retired
        self._useless: set[Node] = set()
        self._queue: list[int] | None = None
        self._units: list[str] = []
        self._running: dict[Node, int | None] = {}
        self._free: list[Node] = []

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
        usable = set(self._running) - self._useless or not self._useless
        more = bool(self._queue) and usable and not self._stopping()
        return self._queue is not None and not busy and not more

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
        self._free.append(node)

    def schedule(self) -> None:
        """Hand units to all workers that are free."""
        free, self._free = self._free, []
        for node in free:
            self._give(node)

    def mark_test_complete(self, node: Node, item_index: int, duration: float = 0) -> None:
        """Take that a worker is through with an item."""
        del duration
        if item_index >= len(self._units):
            return
        self._running[node] = None
        if self._retired(node.gateway.id):
            self._useless.add(node)
            self.mark_test_pending(self._units[item_index])
        else:
            self._give(node)

    def mark_test_pending(self, item: str) -> None:
        """Put a unit back at the front."""
        assert self._queue is not None
        self._queue.insert(0, self._units.index(item))
        self.schedule()

    def remove_pending_tests_from_node(self, node: Node, indices: Sequence[int]) -> None:
        """Refuse: units are never taken back from a worker."""
        message = "units are never taken back from a worker"
        raise NotImplementedError(message)

    def remove_node(self, node: Node) -> str | None:
        """Forget a worker; return the unit that it was running."""
        unit = self._running.pop(node)
        self._useless.discard(node)
        if node in self._free:
            self._free.remove(node)
        return None if unit is None else self._units[unit]

    def _give(self, node: Node) -> None:
        if not self._queue or node.shutting_down or self._stopping():
            self._free.append(node)
            return
        unit = self._queue.pop(0)
        self._running[node] = unit
        node.send_runtest_some([unit, len(self._units)])
