"""Why a run ended before its units did, where nobody said so."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from hwmatrix import journal
from hwmatrix.model import Backend, Plan, Unit
from hwmatrix.supervise import accounts

if TYPE_CHECKING:
    from pathlib import Path

UNIT = Unit(
    id="a.py",
    suite="s",
    files=("a.py",),
    selectors=("a.py",),
    est_s=1,
    test_limit_s=30,
    budget_s=60,
    devices=1,
    shard=1,
)
PLAN = Plan(
    session="cpu-stage-b",
    backend=Backend.CPU,
    variant="cpu",
    tier="stage-b",
    suites=("s",),
    units=(UNIT,),
    shard=1,
    shards=1,
    hash="0",
)


@pytest.mark.parametrize(
    ("reason", "free", "expected"),
    [
        (None, 1 << 30, accounts.BROKEN),
        (None, 4096, accounts.FULL),
        ("SIGINT", 4096, "SIGINT"),
    ],
)
def test_units_that_are_left_get_the_reason(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reason: str | None,
    free: int,
    expected: str,
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=free))
    writer = journal.Journal(tmp_path, "supervisor")
    assert accounts.close(tmp_path, PLAN, writer, reason) == expected
    writer.close()
    (line,) = journal.read(tmp_path)
    assert (line["$report_type"], line["unit"], line["reason"]) == ("UnitNotRun", "a.py", expected)
