"""A run folder made by hand: plan.json through the codec, journal lines through `Journal`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hwmatrix import codec
from hwmatrix.journal import Journal
from hwmatrix.model import Backend, Device, Plan, RunSpec, Slot, Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T0 = 1_800_000_000.0
SUITE = "stage-b-test-cpu"


def make_unit(name: str, **changes: object) -> Unit:
    """Return a unit of one file; `name` is its file below test/registered, without `test_`."""
    path = f"test/registered/test_{name}.py"
    unit = Unit(
        id=f"{SUITE}:{path}",
        suite=SUITE,
        files=(path,),
        selectors=(path,),
        est_s=10.0,
        test_limit_s=30.0,
        budget_s=120.0,
        devices=1,
        shard=1,
    )
    return dataclasses.replace(unit, **changes)  # type: ignore[arg-type] # names are the caller's


def make_plan(units: Sequence[Unit], **changes: object) -> Plan:
    """Return a plan of `units` for `cpu-stage-b`."""
    plan = Plan(
        session="cpu-stage-b",
        backend=Backend.CPU,
        variant="cpu",
        tier="stage-b",
        suites=tuple(dict.fromkeys(unit.suite for unit in units)),
        units=tuple(units),
        shard=1,
        shards=1,
        hash="0123456789abcdef",
        slots=2,
        makespan_s=20.0,
        deadline_s=600.0,
    )
    return dataclasses.replace(plan, **changes)  # type: ignore[arg-type] # names are the caller's


class FakeRun:
    """Writes what supervisor, controller and workers would, at times that the test chooses."""

    def __init__(self, folder: Path, units: Sequence[Unit], **spec: object) -> None:
        plan_changes = spec.pop("plan", {})
        assert isinstance(plan_changes, dict)
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        slots = tuple(Slot(index=i, devices=(Device(key=f"rank{i}", token=str(i)),)) for i in (0, 1))
        base = RunSpec(
            run_id="cpu-stage-b-20270115T080000-7",
            plan=make_plan(units, **plan_changes),
            root="/project",
            folder=".hwmatrix/runs/cpu-stage-b-20270115T080000-7",
            python="python",
            slots=slots,
        )
        self.spec = dataclasses.replace(base, **spec)  # type: ignore[arg-type] # as above
        (folder / "plan.json").write_text(codec.dumps(self.spec), encoding="utf-8")
        self.now = T0
        self._writers: dict[str, Journal] = {}

    def write(self, writer: str, kind: str, **keys: object) -> None:
        journal = self._writers.setdefault(writer, Journal(self.folder, writer))
        journal.write(kind, **{"time": self.now, **keys})

    def close(self) -> None:
        for journal in self._writers.values():
            journal.close()
        self._writers.clear()

    def start(self) -> None:
        self.write(
            "supervisor",
            "RunStart",
            run_id=self.spec.run_id,
            plan_hash=self.spec.plan.hash,
            pid=7,
            slots=2,
        )

    def end(self, exit_status: int | None = 0, reason: str = "", killed: int = 0) -> None:
        self.write("supervisor", "RunEnd", exit_status=exit_status, reason=reason, killed=killed)

    def stop(self, reason: str) -> None:
        self.write("supervisor", "RunStop", reason=reason)

    def not_run(self, unit: Unit, reason: str) -> None:
        self.write("controller", "UnitNotRun", unit=unit.id, attempt=1, part=1, reason=reason)

    def part(self, unit: Unit, *, slot: int = 0, attempt: int = 1, part: int = 1) -> FakePart:
        return FakePart(self, unit, slot, {"unit": unit.id, "attempt": attempt, "part": part})

    def good(self, unit: Unit, *tests: str, slot: int = 0, seconds: float = 10.0) -> None:
        """Write a unit whose tests all pass."""
        part = self.part(unit, slot=slot)
        part.start()
        part.collected(*tests)
        for test in tests:
            part.test(test, seconds=seconds / len(tests))
        part.end()


class FakePart:
    """One process of a unit."""

    def __init__(self, run: FakeRun, unit: Unit, slot: int, keys: dict[str, object]) -> None:
        self.run, self.unit, self.slot, self.keys = run, unit, slot, keys
        self.began = run.now

    def id(self, test: str) -> str:
        return f"{self.unit.files[0]}::{test}"

    def write(self, kind: str, **keys: object) -> None:
        self.run.write(f"worker-{self.slot}", kind, **self.keys, **keys)

    def start(self) -> None:
        name = self.unit.files[0].rpartition("/")[2]
        attempt, part = self.keys["attempt"], self.keys["part"]
        self.began = self.run.now
        self.write(
            "UnitStart",
            slot=self.slot,
            worker=f"gw{self.slot}",
            pid=100 + self.slot,
            isolation="spawn",
            devices=[f"rank{self.slot}"],
            log=f"logs/{name}.{attempt}.{part}.log",
        )

    def collected(self, *tests: str, deselected: int = 0) -> None:
        self.write("UnitCollected", tests=[self.id(t) for t in tests], deselected=deselected)

    def test_start(self, test: str) -> None:
        self.write("TestStart", test=self.id(test))

    def report(self, test: str, when: str, outcome: str = "passed", **keys: object) -> None:
        base: dict[str, object] = {
            "nodeid": self.id(test),
            "location": [self.unit.files[0], 6, test],
            "outcome": outcome,
            "when": when,
            "longrepr": None,
            "sections": [],
            "duration": 0.0,
        }
        self.write("TestReport", **{**base, **keys})

    def test(
        self,
        test: str,
        outcome: str = "passed",
        *,
        why: str = "",
        seconds: float = 1.0,
        **keys: object,
    ) -> None:
        """Write start, setup, call and teardown of a test whose call came to `outcome`."""
        self.test_start(test)
        self.report(test, "setup")
        self.run.now += seconds
        longrepr: object = None
        if outcome == "failed":
            longrepr = failure(self.unit.files[0], why)
        elif outcome == "skipped":
            longrepr = [self.unit.files[0], 3, f"Skipped: {why}"]
        self.report(test, "call", outcome, **{"duration": seconds, "longrepr": longrepr, **keys})
        self.report(test, "teardown")

    def end(self, cause: str = "finished", exit_status: int | None = 0, **keys: object) -> None:
        base: dict[str, object] = {
            "cause": cause,
            "exit_status": exit_status,
            "signal": None,
            "test": None,
            "seconds": self.run.now - self.began,
            "killed": 0,
            "tail": "",
        }
        self.write("UnitEnd", **{**base, **keys})


def failure(path: str, why: str) -> dict[str, object]:
    """Return a `longrepr` as pytest-reportlog writes it."""
    crash = {"path": path, "lineno": 7, "message": why}
    entry = {
        "type": "ReprEntry",
        "data": {
            "lines": ["    def test():", ">       assert x", f"E       {why}"],
            "reprfileloc": {"path": path, "lineno": 7, "message": why.split(":")[0]},
        },
    }
    traceback = {"reprentries": [entry], "extraline": None, "style": "long"}
    chain = [[traceback, crash, None]]
    return {"reprcrash": crash, "reprtraceback": traceback, "sections": [], "chain": chain}


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., FakeRun]:
    """Return a maker of run folders below the test's own folder."""
    made = 0

    def make(units: Sequence[Unit], **spec: object) -> FakeRun:
        nonlocal made
        made += 1
        return FakeRun(tmp_path / f"run{made}", units, **spec)

    return make


def read_lines(folder: Path) -> list[dict[str, object]]:
    """Return the journal's lines of all writers, for tests that take some away."""
    files = sorted((folder / "journal").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]
