"""Causes and lines of the journal for every way in which a part can end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix import journal
from hwmatrix.journal import Journal
from hwmatrix.model import Unit
from hwmatrix.target.part import Part, lost

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

UNIT = Unit(
    id="a.py",
    suite="s",
    files=("a.py",),
    selectors=("a.py",),
    est_s=1,
    test_limit_s=2,
    budget_s=9,
    devices=1,
    shard=1,
)
WHERE = ("a.py", 1, "test")


class Noting:
    """A sink that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def start(self, test: str, location: object) -> None:
        self.told.append(("start", test, location))

    def report(self, data: Mapping[str, Any]) -> None:
        self.told.append(("report", data))

    def finish(self, test: str, location: object) -> None:
        self.told.append(("finish", test, location))

    def collect_report(self, data: Mapping[str, Any]) -> None:
        self.told.append(("collect_report", data))

    def warning(self, event: Mapping[str, Any]) -> None:
        self.told.append(("warning", event["message"]))

    def broken(self, unit: Unit, test: str | None, text: str, seconds: float) -> None:
        assert seconds >= 0
        self.told.append(("broken", unit.id, test, text))


class Bench:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sink = Noting()
        self.journal = Journal(folder, "gw0-1")
        self.part = Part(UNIT, 1, done=(), journal=self.journal, sink=self.sink)

    def take(self, kind: str, **keys: object) -> None:
        self.part.take({"kind": kind, **keys})

    def begin(self, *tests: str) -> None:
        self.part.begin(pid=1)
        self.take("collected", tests=list(tests), deselected=0)

    def run_test(self, test: str) -> None:
        self.take("start", test=test, location=WHERE)
        self.take("report", type="TestReport", data={"$report_type": "TestReport", "nodeid": test})
        self.take("finish", test=test, location=WHERE)

    def last(self) -> Mapping[str, Any]:
        return list(journal.read(self.folder))[-1]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.journal.close()


def ended(**changes: object) -> dict[str, Any]:
    return {**lost("the tail"), "exit_status": 0, **changes}


def test_finished(bench: Bench) -> None:
    bench.begin("t1")
    bench.run_test("t1")
    bench.take("end", status=0)
    bench.part.end(ended())
    end = bench.last()
    assert (end["cause"], end["exit_status"], end["test"], end["tail"]) == ("finished", 0, None, "")
    assert bench.part.left == frozenset()
    assert bench.part.done == ["t1"]
    assert [told[0] for told in bench.sink.told] == ["start", "report", "finish"]


def test_usage_error_shows_the_tail(bench: Bench) -> None:
    bench.part.begin(pid=1)
    bench.take("end", status=4)
    bench.part.end(ended(exit_status=4))
    assert (bench.last()["cause"], bench.last()["tail"]) == ("finished", "the tail")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"exit_status": 0}, "the process ended before pytest did, exit status 0"),
        ({"exit_status": None, "signal": 11}, "ended by SIGSEGV"),
        ({"exit_status": None, "signal": 63}, "ended by signal 63"),
    ],
)
def test_crash_names_the_test_and_leaves_the_rest(
    bench: Bench, changes: dict[str, object], text: str
) -> None:
    bench.begin("t1", "t2", "t3")
    bench.run_test("t1")
    bench.take("start", test="t2", location=WHERE)
    bench.part.end(ended(**changes))
    assert (bench.last()["cause"], bench.last()["test"]) == ("crashed", "t2")
    assert bench.part.left == {"t3"}
    assert bench.part.done == ["t1", "t2"]
    told = bench.sink.told[-1]
    assert told[:3] == ("broken", "a.py", "t2")
    assert text in told[3]


def test_crash_between_two_tests_leaves_the_rest(bench: Bench) -> None:
    bench.begin("t1", "t2")
    bench.run_test("t1")
    bench.part.end(ended(exit_status=None, signal=9))
    assert (bench.last()["cause"], bench.last()["test"]) == ("crashed", None)
    assert bench.part.left == {"t2"}


def test_crash_before_the_first_test_would_come_again(bench: Bench) -> None:
    bench.begin("t1", "t2")
    bench.part.end(ended(exit_status=None, signal=9))
    assert bench.last()["cause"] == "crashed"
    assert bench.part.left == frozenset()


def test_part_that_was_stopped_before_it_began_has_no_end(bench: Bench) -> None:
    bench.part.end(ended(why="stopped", exit_status=None))
    assert bench.part.cause == "stopped"
    assert not list(journal.read(bench.folder))


def test_crash_after_pytest_said_that_all_is_well(bench: Bench) -> None:
    bench.begin("t1")
    bench.run_test("t1")
    bench.take("end", status=0)
    bench.part.end(ended(exit_status=None, signal=11))
    assert bench.last()["cause"] == "crashed"
    assert bench.part.left == frozenset()


def test_budget(bench: Bench) -> None:
    bench.begin("t1", "t2")
    bench.take("start", test="t1", location=WHERE)
    bench.part.expire()
    assert bench.last()["$report_type"] == "UnitExpired"
    assert (bench.last()["limit_s"], bench.last()["test"]) == (9, "t1")
    bench.part.end(ended(why="budget", exit_status=None, signal=9, killed=2))
    assert (bench.last()["cause"], bench.last()["killed"]) == ("budget", 2)
    assert "killed at its budget of 9 s" in bench.sink.told[-1][3]
    assert bench.part.left == frozenset()


def test_stopped_and_interrupted_are_nobodys_fault(bench: Bench) -> None:
    bench.begin("t1")
    bench.part.end(None)
    assert (bench.last()["cause"], bench.last()["tail"]) == (
        "stopped",
        "the worker was interrupted",
    )
    assert bench.sink.told == []


def test_other_events_are_journalled_and_passed_on(bench: Bench) -> None:
    bench.take(
        "collectreport", type="CollectReport", data={"$report_type": "CollectReport", "a": 1}
    )
    assert (bench.last()["$report_type"], bench.last()["unit"]) == ("CollectReport", "a.py")
    bench.take("report", type="SubtestReport", data={"_report_type": "SubTestReport", "b": 1})
    assert bench.last()["$report_type"] == "SubTestReport"
    bench.take("report", type="OtherReport", data={"b": 1})
    assert bench.last()["$report_type"] == "OtherReport"
    bench.take("internal error", text="INTERNALERROR>")
    assert bench.last()["text"] == "INTERNALERROR>"
    bench.take(
        "warning",
        category="UserWarning",
        module="builtins",
        filename="a.py",
        lineno=3,
        message="look",
        when="runtest",
        nodeid="t1",
        location=None,
    )
    assert (bench.last()["category"], bench.last()["message"]) == ("UserWarning", "look")
    assert [told[0] for told in bench.sink.told] == [
        "collect_report",
        "report",
        "report",
        "warning",
    ]
