"""The controller's side: hands out units, counts failures, closes the accounts of dead workers."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix import placing, runfolder
from hwmatrix.journal import Journal
from hwmatrix.redact import redactor
from hwmatrix.target.scheduler import ListScheduler, Node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hwmatrix.model import RunSpec

FIRST_FAILURE = "first failure"
NO_WORKERS = "workers died more often than they are replaced, or no slot can be used any more"
_SLOT = "HWMATRIX_SLOT"


class Controller:
    """Hook implementations of the controller."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self._folder = Path(spec.folder)
        self._journal = Journal(self._folder, "controller", redact=redactor(os.environ))
        units = runfolder.units_to_run(spec)
        self._slots = placing.useful(spec.slots, units)
        self._scheduler = ListScheduler(
            [placing.need_of(unit) for unit in units],
            {slot.index: placing.place_of(slot) for slot in self._slots},
            slot_of=_slot_of,
            stopping=self._stopping,
            retired=self._retired,
            at_once=spec.at_once,
        )
        self._failures = 0
        self._limit = 1 if spec.fail_fast else spec.max_failures

    def _stopping(self) -> bool:
        return runfolder.stop_reason(self._folder) is not None

    def _retired(self, worker: str) -> bool:
        return bool(runfolder.retired(self._folder, worker))

    def pytest_xdist_setupnodes(self, specs: Sequence[Any]) -> None:
        """Bind each worker to its slot; a worker that replaces another inherits the binding."""
        # One worker at least, with nothing to do where every unit is settled.
        for spec, slot in zip(specs, self._slots, strict=False):
            spec.env = {
                **(spec.env or {}),
                _SLOT: str(slot.index),
                runfolder.PARENT: str(os.getpid()),
            }

    @pytest.hookimpl(tryfirst=True)
    def pytest_xdist_make_scheduler(self) -> ListScheduler:
        """Return the list scheduler."""
        return self._scheduler

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count failures of tests."""
        self._count(report.failed)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Count what could not be collected."""
        self._count(report.failed)

    def _count(self, failed: bool) -> None:  # noqa: FBT001 - one word at two places
        self._failures += failed
        if self._limit and failed and self._failures >= self._limit:
            reason = FIRST_FAILURE if self._limit == 1 else f"{self._limit} failures"
            self._stop(reason)

    def _stop(self, reason: str) -> None:
        if runfolder.request_stop(self._folder, reason):
            self._journal.write("RunStop", reason=reason)

    @pytest.hookimpl(tryfirst=True)
    def pytest_testnodedown(self, node: Node, error: object | None) -> None:
        """Close the accounts of a worker that died: xdist replaces it, its unit has ended.

        A unit that it was given and had not begun goes to another worker.
        """
        if not error:
            return
        found = runfolder.read_accounts(self._folder)
        self._scheduler.take_back(node, found.closed | {part.unit for part in found.open})
        for part in found.open:
            if part.worker == node.gateway.id:
                self._journal.write(
                    "UnitEnd",
                    **runfolder.end_keys(
                        part, cause="crashed", tail=f"its worker died ({error})", now=time.time()
                    ),
                )

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Say why units were not handed out, if nobody else did."""
        if self._scheduler.waiting and not self._stopping():
            self._stop(NO_WORKERS)


def _slot_of(node: Any) -> int:  # noqa: ANN401 - execnet has no types
    return int(node.gateway.spec.env[_SLOT])
