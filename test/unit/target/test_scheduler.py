"""The list scheduler on workers that only note what they are sent (as xdist tests its own)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from hwmatrix.target.scheduler import ListScheduler

if TYPE_CHECKING:
    from collections.abc import Sequence

NONE: frozenset[str] = frozenset()
UNITS = ["a", "b", "c", "d", "-"]
SENTINEL = 4


@dataclass(frozen=True)
class Gateway:
    id: str


@dataclass(eq=False)
class Worker:
    name: str
    sent: list[list[int]] = field(default_factory=list)
    shutting_down: bool = False

    @property
    def gateway(self) -> Gateway:
        return Gateway(self.name)

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        self.sent.append(list(indices))


@dataclass
class Stop:
    asked: bool = False

    def __call__(self) -> bool:
        return self.asked


def started(count: int) -> tuple[ListScheduler, list[Worker], Stop]:
    stop = Stop()
    scheduler = ListScheduler(stop, NONE.__contains__)
    workers = [Worker(f"gw{i}") for i in range(count)]
    for worker in workers:
        scheduler.add_node(worker)
    for worker in workers:
        scheduler.add_node_collection(worker, UNITS)
        scheduler.schedule()
    return scheduler, workers, stop


def test_nothing_is_known_before_a_worker_is_up() -> None:
    scheduler = ListScheduler(Stop(), NONE.__contains__)
    assert not scheduler.collection_is_completed
    assert not scheduler.tests_finished
    assert scheduler.waiting == 0


def test_each_free_worker_gets_the_next_unit_and_the_sentinel() -> None:
    scheduler, (one, two), _ = started(2)
    assert (one.sent, two.sent) == ([[0, SENTINEL]], [[1, SENTINEL]])
    scheduler.mark_test_complete(two, 1)
    scheduler.mark_test_complete(two, SENTINEL)
    scheduler.mark_test_complete(two, 2)
    assert two.sent[1:] == [[2, SENTINEL], [3, SENTINEL]]
    assert one.sent == [[0, SENTINEL]]
    assert scheduler.waiting == 0
    scheduler.mark_test_complete(two, 3)
    assert scheduler.has_pending
    scheduler.mark_test_complete(one, 0, 1.0)
    assert scheduler.tests_finished


def test_no_unit_is_handed_out_once_the_run_is_to_stop() -> None:
    scheduler, (one,), stop = started(1)
    stop.asked = True
    scheduler.mark_test_complete(one, 0)
    assert one.sent == [[0, SENTINEL]]
    assert scheduler.tests_finished
    assert scheduler.waiting == 3


def test_a_dead_worker_names_its_unit_and_is_replaced() -> None:
    scheduler, (one, _two), _ = started(2)
    assert scheduler.remove_node(one) == "a"
    assert [node.gateway.id for node in scheduler.nodes] == ["gw1"]
    new = Worker("gw2")
    scheduler.add_node(new)
    scheduler.add_node_collection(new, UNITS)
    scheduler.schedule()
    assert new.sent == [[2, SENTINEL]]


def test_an_idle_worker_can_die_too() -> None:
    scheduler, (one,), stop = started(1)
    stop.asked = True
    scheduler.mark_test_complete(one, 0)
    assert scheduler.remove_node(one) is None
    assert scheduler.nodes == []


def test_a_worker_that_is_shutting_down_gets_nothing() -> None:
    scheduler, (one,), _ = started(1)
    one.shutting_down = True
    scheduler.mark_test_complete(one, 0)
    assert one.sent == [[0, SENTINEL]]


def test_a_unit_can_be_put_back() -> None:
    scheduler, (one, two), _ = started(2)
    scheduler.mark_test_complete(one, 0)
    scheduler.mark_test_pending("a")
    scheduler.mark_test_complete(two, 1)
    assert two.sent[-1] == [0, SENTINEL]


def test_a_retired_slot_gives_its_unit_back() -> None:
    scheduler, (one, two), _ = started(2)
    scheduler._retired = {"gw0"}.__contains__
    scheduler.mark_test_complete(one, 0)
    scheduler.mark_test_complete(two, 1)
    assert two.sent[-1] == [0, SENTINEL]
    scheduler.mark_test_complete(two, 0)
    assert two.sent[-1] == [2, SENTINEL]
    assert one.sent == [[0, SENTINEL]]


def test_an_idle_slot_takes_the_unit_of_a_retired_one() -> None:
    scheduler, (one, two, three, four, five), _ = started(5)
    assert five.sent == []
    scheduler._retired = {"gw0"}.__contains__
    scheduler.mark_test_complete(one, 0)
    assert five.sent == [[0, SENTINEL]]
    assert {worker.sent[0][0] for worker in (two, three, four)} == {1, 2, 3}


def test_without_a_usable_slot_the_run_ends() -> None:
    scheduler, (one,), _ = started(1)
    scheduler._retired = {"gw0"}.__contains__
    scheduler.mark_test_complete(one, 0)
    assert scheduler.tests_finished
    assert scheduler.waiting == 4


def test_units_are_never_taken_back() -> None:
    scheduler, (one,), _ = started(1)
    with pytest.raises(NotImplementedError, match="taken back"):
        scheduler.remove_pending_tests_from_node(one, [0])
