from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix import journal, runfolder
from hwmatrix.journal import Journal
from hwmatrix.model import Backend, Plan, Unit
from hwmatrix.supervise import accounts

if TYPE_CHECKING:
    from pathlib import Path


def plan(*names: str) -> Plan:
    units = tuple(
        Unit(
            id=name,
            suite="s",
            files=(name,),
            selectors=(name,),
            est_s=1,
            test_limit_s=2,
            budget_s=9,
            devices=1,
            shard=1,
        )
        for name in names
    )
    return Plan(
        session="cpu-a",
        backend=Backend.CPU,
        variant="cpu",
        tier="a",
        suites=("s",),
        units=units,
        shard=1,
        shards=1,
        hash="0",
    )


@pytest.mark.parametrize(
    ("unit", "name"),
    [
        ("test/registered/test_a.py", "logs/test+registered+test_a.py.1.2.log"),
        ("suite::a b.py", "logs/suite%3A%3Aa%20b.py.1.2.log"),
        ("a+b.py", "logs/a%2Bb.py.1.2.log"),
        ("é字.py", "logs/%C3%A9%E5%AD%97.py.1.2.log"),
        ("\udce9.py", "logs/%ED%B3%A9.py.1.2.log"),
        (".hidden", "logs/hidden.1.2.log"),
        ("..", "logs/unit.1.2.log"),
    ],
)
def test_log_names(unit: str, name: str) -> None:
    assert runfolder.log_name(unit, 1, 2) == name


def test_long_names_are_cut_and_stay_apart() -> None:
    names = {runfolder.log_name(f"{head}{'x' * 300}.py", 1, 1) for head in "ab"}
    assert len(names) == 2
    assert all(len(name) < 255 for name in names)


def test_first_reason_to_stop_stands(tmp_path: Path) -> None:
    assert runfolder.stop_reason(tmp_path) is None
    assert runfolder.request_stop(tmp_path, "deadline")
    assert not runfolder.request_stop(tmp_path, "SIGINT")
    assert runfolder.stop_reason(tmp_path) == "deadline"
    assert [path.name for path in tmp_path.iterdir()] == ["stop"]


def test_environment_of_the_outer_pytest_gives_the_inner_one_back() -> None:
    env = {"PATH": "/bin", "PYTEST_ADDOPTS": "-v", "PYTEST_PLUGINS": "mine"}
    outer = runfolder.outer_env(env)
    assert outer["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] == "1"
    assert not {"PYTEST_ADDOPTS", "PYTEST_PLUGINS"} & outer.keys()
    assert runfolder.inner_env(outer) == env
    own = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "yes"}
    assert runfolder.inner_env(runfolder.outer_env(own)) == own


class Run:
    """A journal written by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal = Journal(folder, "gw0-1")

    def write(self, kind: str, unit: str, part: int = 1, **keys: Any) -> None:
        self.journal.write(kind, unit=unit, attempt=1, part=part, **keys)

    def start(self, unit: str, part: int = 1) -> None:
        self.write("UnitStart", unit, part, worker="gw0", log=f"logs/{unit}.log")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_accounts_tell_open_from_closed(run: Run) -> None:
    run.start("done")
    run.write("UnitEnd", "done")
    run.start("crashed")
    run.write("UnitEnd", "crashed")
    run.start("crashed", part=2)
    run.start("running")
    run.write("TestStart", "running", test="t1")
    run.write("TestReport", "running", when="teardown")
    run.write("TestStart", "running", test="t2")
    run.start("between")
    run.write("TestStart", "between", test="t1")
    run.write("TestReport", "between", when="call")
    run.write("TestReport", "between", when="teardown")
    run.journal.write("UnitNotRun", unit="left", reason="deadline")
    found = runfolder.read_accounts(run.folder)
    assert found.closed == {"done", "left"}
    state = {(part.unit, part.part): part.running for part in found.open}
    assert state == {("crashed", 2): None, ("running", 1): "t2", ("between", 1): None}
    assert found.open[0].worker == "gw0"


def test_closing_gives_every_unit_an_end(run: Run) -> None:
    run.start("done")
    run.write("UnitEnd", "done")
    run.start("open")
    run.write("TestStart", "open", test="t1")
    supervisor = Journal(run.folder, "supervisor")
    reason = accounts.close(run.folder, plan("done", "open", "never"), supervisor, "deadline")
    assert reason == "deadline"
    lines = [dict(line) for line in journal.read(run.folder)][-2:]
    assert lines[0]["$report_type"] == "UnitEnd"
    assert (lines[0]["cause"], lines[0]["test"], lines[0]["tail"]) == ("stopped", "t1", "deadline")
    assert lines[1]["$report_type"] == "UnitNotRun"
    assert (lines[1]["unit"], lines[1]["reason"]) == ("never", "deadline")


def test_closing_what_nobody_explained(run: Run) -> None:
    supervisor = Journal(run.folder, "supervisor")
    assert accounts.close(run.folder, plan("never"), supervisor, None) == accounts.BROKEN
    assert next(iter(journal.read(run.folder)))["reason"] == accounts.BROKEN
    assert accounts.close(run.folder, plan("never"), supervisor, None) is None


@pytest.mark.parametrize(
    ("reason", "free", "expected"),
    [(None, 1 << 30, accounts.BROKEN), (None, 4096, accounts.FULL), ("SIGINT", 4096, "SIGINT")],
)
def test_units_that_are_left_get_the_reason(
    run: Run, monkeypatch: pytest.MonkeyPatch, reason: str | None, free: int, expected: str
) -> None:
    usage = shutil.disk_usage(run.folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=free))
    assert accounts.close(run.folder, plan("left"), run.journal, reason) == expected
    (line,) = journal.read(run.folder)
    assert (line["$report_type"], line["unit"], line["reason"]) == ("UnitNotRun", "left", expected)
