"""Closes the accounts of a run: every planned unit ends in `UnitEnd` or `UnitNotRun`."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

from hwmatrix import runfolder

if TYPE_CHECKING:
    from pathlib import Path

    from hwmatrix.journal import Journal
    from hwmatrix.model import Plan

ENDED_BEFORE = "the earlier part of the run ended before it"
BROKEN = "the outer pytest ended early; see pytest.log in the run's folder"
_FULL_BYTES = 1 << 16  # less does not take a journal's next lines and a report
FULL = (
    f"the outer pytest ended early, and less than {_FULL_BYTES >> 10} KiB are free where the run's "
    "folder is; make room there and go on with --resume"
)


def settle(folder: Path, journal: Journal) -> None:
    """Give an end to what an earlier part of the run, which was killed, left open.

    Raises:
        OSError: the journal cannot be read or written.
    """
    now = time.time()
    for part in runfolder.read_accounts(folder).open:
        keys = runfolder.end_keys(part, cause="stopped", tail=ENDED_BEFORE, now=now)
        journal.write("UnitEnd", **keys)


def close(folder: Path, plan: Plan, journal: Journal, reason: str | None) -> str | None:
    """Journal an end for every unit of `plan.mine` that has none; all processes are gone by now.

    `reason` is why the run ended before its time, None if nothing says so. Returns that, or `FULL`
    or `BROKEN` if units are left although nothing says why.

    Raises:
        OSError: the journal cannot be read or written.
    """
    found = runfolder.read_accounts(folder)
    left = [unit.id for unit in plan.mine if unit.id not in found.closed]
    if left and reason is None:
        reason = FULL if shutil.disk_usage(folder).free < _FULL_BYTES else BROKEN
    now = time.time()
    for part in found.open:
        keys = runfolder.end_keys(part, cause="stopped", tail=str(reason), now=now)
        journal.write("UnitEnd", **keys)
    begun = {part.unit for part in found.open}
    for unit in left:
        if unit not in begun:
            journal.write("UnitNotRun", unit=unit, reason=reason)
    return reason
