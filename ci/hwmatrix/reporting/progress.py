"""Where a run stands: which units ended, which run, and how long the rest takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hwmatrix import placing
from hwmatrix.reporting.eta import left_s, ratio
from hwmatrix.reporting.ledger import count, moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hwmatrix.model import RunSpec, Unit
    from hwmatrix.reporting.ledger import Ledger, Part, UnitRecord
    from hwmatrix.reporting.result import UnitResult


@dataclass(frozen=True, kw_only=True, slots=True)
class Busy:
    """A slot and what it runs now; `test` is the name of the running test, without its file."""

    slot: int
    unit: Unit
    elapsed_s: float
    test: str = ""


class Progress:
    """Units of this shard against the journal so far; the caller feeds the ledger."""

    def __init__(self, spec: RunSpec, ledger: Ledger) -> None:
        self._units = {unit.id: unit for unit in spec.plan.mine}
        self._ledger = ledger
        self._places = [placing.place_of(slot) for slot in spec.slots] or [frozenset()]
        self._place = {slot.index: n for n, slot in enumerate(spec.slots)}
        self._at_once = spec.at_once
        self._told: dict[str, tuple[int, int]] = {}
        self.ended: dict[str, UnitResult] = {}

    @property
    def total(self) -> int:
        """How many units this shard has."""
        return len(self._units)

    @property
    def measured(self) -> list[tuple[float, float]]:
        """Seconds and estimate of each unit that ran to an end."""
        return [(r.seconds, r.unit.est_s) for r in self.ended.values() if r.spans]

    def took(self, result: UnitResult) -> None:
        """Keep the result of a unit that ended."""
        self.ended[result.unit.id] = result

    def newly_ended(self, *, final: bool) -> Iterator[tuple[Unit, UnitRecord]]:
        """Yield the units that ended since the last call; a retry ends its unit once more.

        `final` says that no more will come: then what was started has ended too.
        """
        latest = self._latest_start_per_slot()
        for unit_id, record in self._ledger.units.items():
            key = max(record.parts, default=(0, 0))
            if unit_id not in self._units or self._told.get(unit_id) == key:
                continue
            if final or _has_ended(record, latest):
                self._told[unit_id] = key
                yield self._units[unit_id], record

    def running(self, now: float) -> list[Busy]:
        """Return what runs now, by slot."""
        found = []
        for unit_id, record in self._ledger.units.items():
            part = record.latest
            if unit_id in self._units and part is not None and part.start and part.end is None:
                elapsed = max(0.0, now - moment(part.start.get("time")))
                test = part.running.partition("::")[2] or part.running
                unit = self._units[unit_id]
                found.append(Busy(slot=_slot(part), unit=unit, elapsed_s=elapsed, test=test))
        return sorted(found, key=lambda busy: busy.slot)

    def left_s(self, running: Sequence[Busy]) -> float | None:
        """Return the seconds until the last unit ends, or None when all have ended."""
        told = {busy.unit.id for busy in running} | self.ended.keys()
        waiting = [unit for unit in self._units.values() if unit.id not in told]
        if not waiting and not running:
            return None
        scale = ratio(self.measured)
        return placing.makespan_s(
            ((unit.est_s * scale, placing.need_of(unit)) for unit in waiting),
            self._places,
            at_once=self._at_once,
            under_way=[
                (_left_s(busy, scale), self._place[busy.slot], placing.need_of(busy.unit))
                for busy in running
                if busy.slot in self._place
            ],
        )

    def _latest_start_per_slot(self) -> dict[int, float]:
        found: dict[int, float] = {}
        for record in self._ledger.units.values():
            part = record.latest
            if part is not None and part.start is not None:
                at = moment(part.start.get("time"))
                found[_slot(part)] = max(found.get(_slot(part), 0.0), at)
        return found


def _left_s(busy: Busy, scale: float) -> float:
    unit = busy.unit
    return left_s(elapsed_s=busy.elapsed_s, est_s=unit.est_s, budget_s=unit.budget_s, scale=scale)


def _slot(part: Part) -> int:
    return count((part.start or {}).get("slot"))


def _has_ended(record: UnitRecord, latest: dict[int, float]) -> bool:
    """Return whether a unit's last process ended and no other will go on with its tests.

    After a crash another process takes up what is left of the file: the unit has ended when
    nothing is left, or when its slot has begun something else.
    """
    part = record.latest
    if record.not_run or part is None:
        return bool(record.not_run)
    if part.end is None:
        return False
    began = moment((part.start or {}).get("time"))
    if part.end.get("cause") != "crashed" or latest.get(_slot(part), began) > began:
        return True
    return part.collected is not None and all(test in part.traces for test in part.collected)
