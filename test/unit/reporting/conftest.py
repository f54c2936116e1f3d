"""A run folder made by hand: plan.json through the codec, journal lines through `Journal`."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hwmatrix import codec
from hwmatrix.journal import Journal
from hwmatrix.model import Backend, Device, Plan, RunSpec, Slot, Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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

    def __init__(self, folder: Path, units: Sequence[Unit], /, **spec: object) -> None:
        plan_changes = spec.pop("plan", {})
        assert isinstance(plan_changes, dict)
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        slots = tuple(
            Slot(index=i, devices=(Device(key=f"rank{i}", token=str(i)),)) for i in (0, 1)
        )
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
        if writer not in self._writers:
            self._writers[writer] = Journal(self.folder, writer)
        self._writers[writer].write(kind, **{"time": self.now, **keys})

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

    @staticmethod
    def failure(path: str, why: str) -> dict[str, object]:
        return failure(path, why)

    def id(self, test: str) -> str:
        return f"{self.unit.files[0]}::{test}"

    def write(self, kind: str, **keys: object) -> None:
        self.run.write(f"worker-{self.slot}", kind, **self.keys, **keys)

    def start(self, note: str = "") -> None:
        name = self.unit.files[0].rpartition("/")[2]
        attempt, part = self.keys["attempt"], self.keys["part"]
        self.began = self.run.now
        self.write(
            "UnitStart",
            slot=self.slot,
            worker=f"gw{self.slot}",
            pid=100 + self.slot,
            isolation="spawn",
            note=note,
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
            "reprfileloc": {"path": path, "lineno": 7, "message": why.partition(":")[0]},
        },
    }
    traceback = {"reprentries": [entry], "extraline": None, "style": "long"}
    chain = [[traceback, crash, None]]
    return {"reprcrash": crash, "reprtraceback": traceback, "sections": [], "chain": chain}


class Maker:
    """What a test makes its run folder with."""

    unit = staticmethod(make_unit)
    failure = staticmethod(failure)
    t0 = T0
    suite = SUITE

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs: list[FakeRun] = []

    def run(self, *units: Unit, **spec: object) -> FakeRun:
        """Return a new run of `units`; keyword arguments change its RunSpec, `plan` its Plan."""
        self.runs.append(FakeRun(self.folder / f"run{len(self.runs)}", units, **spec))
        return self.runs[-1]

    def bad_day(self) -> FakeRun:
        """Return a run with every outcome in it, each unit named after how it ends."""
        names = [
            "attention",
            "copies",
            "broken",
            "segv",
            "exit0",
            "hang",
            "empty",
            "idle",
            "gloo",
            "flaky",
            "sub",
            "late",
        ]
        units = {name: make_unit(name) for name in names}
        units["attention"] = make_unit("attention", est_s=12.5)
        disabled = (("test/registered/test_old.py", "needs 8 GPUs (ana, until 2027-03-01)"),)
        plan = {"disabled": disabled, "makespan_s": 65.0, "setup_s": 30.0}
        run = self.run(*units.values(), plan=plan)
        run.start()
        run.good(units["attention"], "test_decode", "TestPaged::test_b[f16-128]", seconds=30)
        _slot_one(run, units)
        run.now = T0 + 30
        _slot_zero(run, units)
        run.now = T0 + 160
        run.stop("SIGINT")
        run.end(1, killed=2)
        run.close()
        return run


def _slot_one(run: FakeRun, units: dict[str, Unit]) -> None:
    run.now = T0
    part = run.part(units["copies"], slot=1)
    part.start()
    part.collected("TestPinned::test_1", "TestPinned::test_2", "test_3")
    part.test("TestPinned::test_1", "skipped", why="no gpu")
    part.test("TestPinned::test_2", "skipped", why="no gpu")
    part.test("test_3")
    part.end()
    part = run.part(units["broken"], slot=1)
    part.start()
    run.now += 1
    long = "ImportError while importing test module\nE   ModuleNotFoundError: No module named 'x'"
    part.write("CollectReport", nodeid=part.unit.files[0], outcome="failed", longrepr=long)
    part.end(exit_status=2, tail="!!! Interrupted: 1 error during collection !!!")
    part = run.part(units["segv"], slot=1)
    part.start()
    part.collected("test_ok", "test_null", "test_after")
    part.test("test_ok")
    part.test_start("test_null")
    run.now += 3
    tail = 'Fatal Python error: Segmentation fault\n  File "test_segv.py", line 9 in test_null\n'
    part.end("crashed", None, signal="SIGSEGV", test=part.id("test_null"), tail=tail)
    part = run.part(units["segv"], slot=1, part=2)
    part.start()
    part.collected("test_after")
    part.test("test_after")
    part.end()
    part = run.part(units["exit0"], slot=1)
    part.start()
    part.collected("test_q")
    part.test_start("test_q")
    run.now += 2
    part.end("crashed", 0, test=part.id("test_q"))
    part = run.part(units["hang"], slot=1)
    part.start()
    part.collected("test_fine", "test_hang", "test_never")
    part.test("test_fine")
    part.test_start("test_hang")
    run.now += 119
    part.write("UnitExpired", limit_s=120.0, test=part.id("test_hang"))
    part.end("budget", None, signal="SIGKILL", test=part.id("test_hang"), killed=3)


def _slot_zero(run: FakeRun, units: dict[str, Unit]) -> None:
    part = run.part(units["empty"])
    part.start()
    part.collected()
    run.now += 1
    part.end(exit_status=5)
    part = run.part(units["idle"])
    part.start()
    part.collected("test_x", "test_y")
    part.test("test_x", "skipped", why="needs gfx950")
    part.test("test_y", "skipped", why="needs gfx950")
    part.end()
    part = run.part(units["gloo"])
    part.start()
    names = [f"test_all_reduce[{size}]" for size in range(24)]
    part.collected(*names)
    noise = [["Captured stdout call", "rank 0 \x1b[31mred\x1b[0m \x00 <&> ]]>"]]
    why = "AssertionError: Tensor-likes are not close! Mismatched elements: 7 / 16384 (0.1%)"
    for number, name in enumerate(names):
        outcome = "failed" if number % 2 else "passed"
        part.test(name, outcome, why=why, seconds=0.5, sections=noise)
    part.end(exit_status=1)
    part = run.part(units["flaky"])
    part.start()
    part.collected("test_f")
    part.test("test_f", "failed", why="RuntimeError: port taken")
    part.end(exit_status=1)
    part = run.part(units["flaky"], attempt=2)
    part.start()
    part.collected("test_f")
    part.test("test_f")
    part.end()
    part = run.part(units["sub"])
    part.start()
    part.collected("test_s")
    part.test_start("test_s")
    part.report("test_s", "setup")
    part.write(
        "SubTestReport",
        nodeid=part.id("test_s"),
        outcome="failed",
        when="call",
        longrepr=failure("test_sub.py", "AssertionError: 1 != 0"),
        **{"_subtest.context": {"msg": None, "kwargs": {"i": "1"}}},
    )
    part.report("test_s", "call")
    part.report("test_s", "teardown")
    part.end(exit_status=1)


GOLDEN = Path(__file__).parents[2] / "data" / "reporting"


def check_golden(name: str, text: str) -> None:
    """Compare `text` with a committed file; `UPDATE_GOLDEN=1` writes it and fails once."""
    path = GOLDEN / name
    known = path.read_text(encoding="utf-8") if path.exists() else ""
    if text != known and os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
        pytest.fail(f"{path} was rewritten: look at the difference, then run the tests again")
    assert text == known


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Return a function that compares a text with a file of test/data/reporting."""
    return check_golden


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Maker]:
    """Yield a maker of run folders below the test's own folder."""
    maker = Maker(tmp_path)
    yield maker
    for run in maker.runs:
        run.close()
