"""The list scheduler on workers that only note what they are sent (as xdist tests its own)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix.placing import Need, Place
from hwmatrix.target.scheduler import ListScheduler

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NONE: frozenset[str] = frozenset()
UNITS = ["a", "b", "c", "d", "-"]
SENTINEL = 4


@dataclass(frozen=True)
class Gateway:
    id: str


@dataclass(eq=False)
class Worker:
    name: str
    slot: int = 0
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


def slot_of(node: Any) -> int:
    return int(node.slot)


def scheduler_of(
    stop: Stop, needs: Sequence[Need], places: Mapping[int, Place], at_once: int = 0
) -> ListScheduler:
    return ListScheduler(
        needs,
        places,
        slot_of=slot_of,
        stopping=stop,
        retired=NONE.__contains__,
        at_once=at_once,
    )


def alike(stop: Stop, count: int) -> ListScheduler:
    return scheduler_of(stop, [Need(1)] * 4, {n: frozenset({f"d{n}"}) for n in range(count)})


def started(count: int) -> tuple[ListScheduler, list[Worker], Stop]:
    stop = Stop()
    scheduler = alike(stop, count)
    workers = [Worker(f"gw{i}", i) for i in range(count)]
    for worker in workers:
        scheduler.add_node(worker)
    for worker in workers:
        scheduler.add_node_collection(worker, UNITS)
        scheduler.schedule()
    return scheduler, workers, stop


def test_nothing_is_known_before_a_worker_is_up() -> None:
    scheduler = alike(Stop(), 1)
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


# Four devices: slots 0 to 3 have one each, 4 and 5 two each, 6 all of them.
FOUR = {
    **{n: frozenset({f"d{n}"}) for n in range(4)},
    4: frozenset({"d0", "d1"}),
    5: frozenset({"d2", "d3"}),
    6: frozenset({"d0", "d1", "d2", "d3"}),
}


def up(scheduler: ListScheduler, slots: Sequence[int], units: int) -> dict[int, Worker]:
    """Bring workers up one after another, in the order of `slots`."""
    items = [*(f"u{n}" for n in range(units)), "-"]
    workers = {slot: Worker(f"gw{slot}", slot) for slot in slots}
    for worker in workers.values():
        scheduler.add_node(worker)
        scheduler.add_node_collection(worker, items)
        scheduler.schedule()
    return workers


def handed(workers: Mapping[int, Worker]) -> dict[int, list[int]]:
    return {slot: [sent[0] for sent in w.sent] for slot, w in workers.items() if w.sent}


def test_wide_units_run_alone_on_their_devices_and_narrow_ones_follow() -> None:
    needs = [Need(4), Need(2), Need(2), Need(2), Need(1), Need(1), Need(1)]
    scheduler = scheduler_of(Stop(), needs, FOUR)
    # The worker of the widest slot comes up last: nothing narrower may start before it.
    workers = up(scheduler, range(7), 7)
    assert handed(workers) == {6: [0]}
    scheduler.mark_test_complete(workers[6], 0)
    assert handed(workers) == {6: [0], 4: [1], 5: [2]}
    scheduler.mark_test_complete(workers[5], 2)
    assert handed(workers) == {6: [0], 4: [1], 5: [2, 3]}
    scheduler.mark_test_complete(workers[4], 1)
    assert handed(workers) == {6: [0], 4: [1], 5: [2, 3], 0: [4], 1: [5]}
    scheduler.mark_test_complete(workers[5], 3)
    assert handed(workers) == {6: [0], 4: [1], 5: [2, 3], 0: [4], 1: [5], 2: [6]}


def test_an_exclusive_unit_waits_for_all_and_all_wait_for_it() -> None:
    needs = [Need(1, exclusive=True), Need(1), Need(1, exclusive=True), Need(1)]
    places = {n: FOUR[n] for n in range(2)}
    scheduler = scheduler_of(Stop(), needs, places)
    workers = up(scheduler, range(2), 4)
    assert handed(workers) == {0: [0]}
    scheduler.mark_test_complete(workers[0], 0)
    # 1 and 3 run: an exclusive unit behind them waits, though a slot would be free in between.
    assert handed(workers) == {0: [0, 1], 1: [3]}
    scheduler.mark_test_complete(workers[0], 1)
    assert handed(workers) == {0: [0, 1], 1: [3]}
    scheduler.mark_test_complete(workers[1], 3)
    assert handed(workers) == {0: [0, 1, 2], 1: [3]}


def test_no_more_units_run_together_than_allowed() -> None:
    places = {n: FOUR[n] for n in range(4)}
    scheduler = scheduler_of(Stop(), [Need(1)] * 4, places, at_once=2)
    workers = up(scheduler, range(4), 4)
    assert handed(workers) == {0: [0], 1: [1]}
    scheduler.mark_test_complete(workers[1], 1)
    assert sum(map(len, handed(workers).values())) == 3


def test_a_wide_unit_without_a_usable_slot_does_not_keep_the_run_waiting() -> None:
    scheduler = scheduler_of(Stop(), [Need(4), Need(1)], {0: FOUR[0], 6: FOUR[6]})
    workers = up(scheduler, [0, 6], 2)
    scheduler._retired = {"gw6"}.__contains__
    scheduler.mark_test_complete(workers[6], 0)
    assert handed(workers) == {6: [0], 0: [1]}
    assert scheduler.has_pending
    scheduler.mark_test_complete(workers[0], 1)
    assert scheduler.tests_finished
    assert scheduler.waiting == 1


def test_a_unit_that_a_dead_worker_had_not_begun_goes_to_another() -> None:
    scheduler, workers, _ = started(2)
    dead, other = workers
    assert [worker.sent for worker in workers] == [[[0, 4]], [[1, 4]]]
    scheduler.take_back(dead, {"b"})
    assert scheduler.remove_node(dead) is None
    scheduler.mark_test_complete(other, 1)
    assert other.sent[-1] == [0, 4]


def test_a_unit_that_a_dead_worker_had_begun_is_not_run_again() -> None:
    scheduler, (dead, _), _ = started(2)
    scheduler.take_back(dead, {"a", "b"})
    assert scheduler.remove_node(dead) == "a"
    assert scheduler.waiting == 2


def test_a_dead_worker_without_a_unit_gives_none_back() -> None:
    scheduler, (dead, _), stop = started(2)
    stop.asked = True
    scheduler.mark_test_complete(dead, 0)
    scheduler.take_back(dead, set())
    assert scheduler.remove_node(dead) is None
    assert scheduler.waiting == 2
