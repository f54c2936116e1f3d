"""Slots whose environments are alike share one preloaded process; nothing depends on it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess

    from test.integration.engine.conftest import Engine, Result

    from hwmatrix.model import RunSpec

IMPORTED = """
    import os
    import pathlib

    with pathlib.Path(__file__).with_name("imports").open("a") as file:
        file.write(f"{os.getpid()}\\n")
"""

SLOT = """
    import os
    import pathlib
    import time

    import heavy_package

    def test_slot():
        with pathlib.Path(__file__).with_name("slots").open("a") as file:
            file.write(f"{os.environ['HWMATRIX_SLOT']} {os.getpid()}\\n")
        time.sleep(0.5)
"""

HELD = """
    import pathlib
    import time

    def test_held():
        while not pathlib.Path(__file__).with_name("go").exists():
            time.sleep(0.02)
"""

QUICK = """
    def test_quick():
        pass
"""


def heavy(engine: Engine, text: str = IMPORTED) -> None:
    """Write the package that is imported before anything runs."""
    (engine.root / "heavy_package.py").write_text(_dedent(text))
    engine.env["PYTHONPATH"] += os.pathsep + str(engine.root)


def _dedent(text: str) -> str:
    return "\n".join(line.removeprefix("    ") for line in text.split("\n"))


def spec_of(engine: Engine, *units: str, slots: int = 2, **changes: float) -> RunSpec:
    made = [engine.unit(unit, **changes) for unit in units]
    return engine.spec(*made, slots=slots, preload=("heavy_package",))


def imports(engine: Engine) -> int:
    """How many processes imported the package."""
    return len(set((engine.root / "imports").read_text().split()))


def check_all_finished(result: Result, *units: str) -> None:
    assert [result.end(unit)["cause"] for unit in units] == ["finished"] * len(units)
    for unit in units:
        assert set(result.tests(unit).values()) == {"passed"}
    assert result.ending["reason"] == ""


def how(result: Result, units: tuple[str, ...]) -> dict[str, str]:
    """How each unit's process was started, with the reason."""
    starts = {unit: result.of("UnitStart", unit)[0] for unit in units}
    return {unit: f"{s['isolation']} {s['note']}".strip() for unit, s in starts.items()}


def zygote(engine: Engine) -> int:
    (found,) = engine.children_of(engine.pid_of("hwmatrix.supervise"), "hwmatrix.target zygote")
    return found


def test_one_import_for_all_slots(engine: Engine) -> None:
    heavy(engine)
    units = engine.write(one=SLOT, two=SLOT, three=SLOT, four=SLOT)
    result = engine.run_spec(spec_of(engine, *units))
    check_all_finished(result, *units)
    assert imports(engine) == 1
    assert set(how(result, units).values()) == {"fork"}
    assert [line["killed"] for line in result.of("RunEnd")] == [0]  # no test left anything
    starts = result.of("UnitStart")
    said = (engine.root / "slots").read_text().splitlines()
    assert set(said) == {f"{start['slot']} {start['pid']}" for start in starts}
    assert {start["slot"] for start in starts} == {0, 1}


def test_slots_that_differ_import_for_themselves(engine: Engine) -> None:
    """As slots of devices do: their visibility variable is there from the start."""
    heavy(engine)
    units = engine.write(one=SLOT, two=SLOT)
    result = engine.run_spec(engine.unlike(spec_of(engine, *units)))
    check_all_finished(result, *units)
    assert imports(engine) == 2
    assert set(how(result, units).values()) == {"fork"}


def test_one_slot_shares_with_nobody(engine: Engine) -> None:
    heavy(engine)
    (unit,) = engine.write(one=HELD)
    guard = engine.start(spec_of(engine, unit, slots=1))
    engine.wait_for("TestStart")
    assert engine.pids_of("hwmatrix.target zygote") == []
    (engine.root / "go").touch()
    check_all_finished(engine.finish(guard), unit)


def test_killed_while_units_run(engine: Engine) -> None:
    """Its servers outlive it, are nobody's orphans, and go on with the units to come."""
    heavy(engine)
    units = engine.write(one=HELD, two=HELD, three=QUICK, four=QUICK)
    guard = engine.start(spec_of(engine, *units))
    engine.wait_for("TestStart", 2)
    gone = zygote(engine)
    os.kill(gone, signal.SIGKILL)
    servers = engine.pids_of("hwmatrix.target server")
    assert len(servers) == 2
    # The supervisor looks for orphans once a second, and ends what it sees twice.
    looks = engine.folder / "looks"
    engine.wait_until(lambda: _counted(looks, gone, servers), "the servers did not go on")
    (engine.root / "go").touch()
    result = engine.finish(guard)
    check_all_finished(result, *units)
    assert imports(engine) == 1


def _counted(looks: Path, gone: int, servers: list[int]) -> bool:
    """True once the zygote's servers have lived without it for 80 looks, 4 s and more."""
    assert all(Path(f"/proc/{pid}").exists() for pid in servers if pid != gone)
    with looks.open("a") as file:
        file.write(".")
    return looks.stat().st_size > 80


def test_killed_while_packages_are_imported(engine: Engine) -> None:
    """The slots import for themselves then."""
    once = """
    import os
    import pathlib
    import time

    with pathlib.Path(__file__).with_name("imports").open("a") as file:
        file.write(f"{os.getpid()}\\n")
    if pathlib.Path("/proc/self/cmdline").read_bytes().count(b"zygote"):
        time.sleep(3600)
    """
    heavy(engine, once)
    units = engine.write(one=SLOT, two=SLOT)
    guard = engine.start(spec_of(engine, *units))
    engine.wait_until((engine.root / "imports").exists, "no import")
    os.kill(zygote(engine), signal.SIGKILL)
    result = engine.finish(guard)
    check_all_finished(result, *units)
    assert imports(engine) == 3
    assert set(how(result, units).values()) == {"fork"}


def test_unsafe_to_fork(engine: Engine) -> None:
    heavy(
        engine,
        """
    import threading
    import time

    threading.Thread(target=time.sleep, args=(3600,), name="busy", daemon=True).start()
    """,
    )
    units = engine.write(one=QUICK, two=QUICK)
    result = engine.run_spec(spec_of(engine, *units))
    check_all_finished(result, *units)
    note = "spawn a fresh interpreter instead of a fork: Python threads run: busy"
    assert set(how(result, units).values()) == {note}
    assert "imports its packages itself" in (engine.folder / "pytest.log").read_text()


HANGS = """
    import pathlib
    import time

    pathlib.Path(__file__).with_name("imports").touch()
    time.sleep(3600)
"""


def test_import_that_takes_longer_than_the_budget(engine: Engine) -> None:
    """Files are run all the same, in interpreters that import what they themselves import."""
    heavy(engine, HANGS)
    units = engine.write(one=QUICK, two=QUICK)
    result = engine.run_spec(spec_of(engine, *units, budget_s=15.0))
    check_all_finished(result, *units)
    note = "spawn a fresh interpreter instead of a fork: packages were not imported within 15 s"
    assert set(how(result, units).values()) == {note}


def start_and_wait_for_import(engine: Engine) -> subprocess.Popen[str]:
    heavy(engine, HANGS)
    units = engine.write(one=QUICK, two=QUICK)
    guard = engine.start(spec_of(engine, *units, budget_s=3600.0))
    engine.wait_until((engine.root / "imports").exists, "no import")
    engine.wait_until(lambda: len(list(engine.folder.glob("journal/gw*"))) == 2, "no workers")
    return guard


def check_ended_by_itself(result: Result, reason: str) -> None:
    assert result.accounted() == ["test_one.py", "test_two.py"]
    assert {line["reason"] for line in result.of("UnitNotRun")} == {reason}
    assert result.ending["exit_status"] is not None


def test_signal_while_packages_are_imported(engine: Engine) -> None:
    guard = start_and_wait_for_import(engine)
    guard.send_signal(signal.SIGINT)
    check_ended_by_itself(engine.finish(guard), "SIGINT")


def test_worker_interrupted_while_packages_are_imported(engine: Engine) -> None:
    """It waits for a server; before it waits, the signal is its death, and another takes over."""
    guard = start_and_wait_for_import(engine)
    stop = engine.folder / "stop"

    def stopped() -> bool:
        newest = max(engine.folder.glob("journal/gw*"), key=lambda path: path.stat().st_mtime)
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(newest.stem.partition("-")[2]), signal.SIGINT)
        end = time.monotonic() + 5
        while not stop.exists() and time.monotonic() < end:
            time.sleep(0.05)
        return stop.exists()

    engine.wait_until(stopped, "no stop")
    check_ended_by_itself(engine.finish(guard), stop.read_text())
    assert re.fullmatch(r"SIGINT to worker gw\d", stop.read_text())


def test_server_killed(engine: Engine) -> None:
    """Another is forked at once: nothing is imported again."""
    heavy(engine)
    units = engine.write(one=HELD, two=HELD, three=QUICK)
    guard = engine.start(spec_of(engine, *units))
    engine.wait_for("TestStart", 2)
    top = zygote(engine)
    servers = engine.pids_of("hwmatrix.target server")
    assert sorted(servers) == sorted(engine.children_of(top, "hwmatrix.target server"))
    assert len(servers) == 2
    os.kill(servers[0], signal.SIGKILL)
    engine.wait_for("UnitEnd")
    (engine.root / "go").touch()
    result = engine.finish(guard)
    causes = sorted(result.end(unit)["cause"] for unit in units)
    assert causes == ["crashed", "finished", "finished"]
    assert imports(engine) == 1


# What an import may do to its interpreter; with it, whatever then holds in a slot of its own must
# hold in one that shares: the outcome of the tests, how they were started, and the budget.
IMPORTS = {
    "timeout of sockets": "import socket; socket.setdefaulttimeout(1)",
    "no poll": "import select; del select.poll",
    "clock stands": "import time; time.monotonic = lambda now=time.monotonic(): now",
    "children ignored": "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
    "signals blocked": "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})",
    "variable": "import os; os.environ['SET_BY_IMPORT'] = '1'",
    "no spec": "import sys, types; sys.modules[__name__] = types.SimpleNamespace()",
    "exit": "raise SystemExit",
    "descriptors": "import os; os.closerange(3, 50); KEPT = [open(os.devnull) for _ in range(10)]",
}
PROBE = """
    import os
    import time

    def test_first():
        assert os.environ.get("SET_BY_IMPORT", "1") == "1"
        assert os.environ["HWMATRIX_SLOT"] in "01"
        time.sleep(1.5)

    def test_second():
        assert ("SET_BY_IMPORT" in os.environ) == os.path.exists("variable")
"""
DIES = """
    import os

    def test_dies():
        os._exit(7)
"""


@pytest.mark.parametrize("name", IMPORTS)
def test_what_an_import_does_is_as_without_sharing(engine: Engine, name: str) -> None:
    heavy(engine, f"    {IMPORTS[name]}")
    if name == "variable":
        (engine.root / "variable").touch()
    units = engine.write(one=PROBE, two=PROBE, dies=DIES)
    shared = facts(engine.run_spec(spec_of(engine, *units)), units)
    engine.another_folder()
    assert facts(engine.run_spec(engine.unlike(spec_of(engine, *units))), units) == shared
    assert shared["causes"] == ["finished", "finished", "crashed"]
    assert shared["status"] == 7


def facts(result: Result, units: tuple[str, ...]) -> dict[str, object]:
    return {
        "causes": [result.end(unit)["cause"] for unit in units],
        "status": result.end("test_dies.py")["exit_status"],
        "tests": {unit: result.tests(unit) for unit in units},
        "isolation": {line["isolation"] for line in result.of("UnitStart")},
    }


def test_budget_where_the_clock_stands(engine: Engine) -> None:
    heavy(engine, f"    {IMPORTS['clock stands']}")
    units = engine.write(slow="def test_slow():\n    __import__('time').sleep(3600)\n", quick=QUICK)
    result = engine.run_spec(spec_of(engine, *units, budget_s=15.0))
    assert result.end("test_slow.py")["cause"] == "budget"
    assert result.end("test_quick.py")["cause"] == "finished"


def test_import_that_starts_a_process(engine: Engine) -> None:
    """The reason is told at once: nobody waits for a process that holds what the zygote held."""
    start = "get_context('fork').Process(target=time.sleep, args=(3600,)).start()"
    heavy(engine, f"    import time\n    from multiprocessing import get_context\n    {start}")
    units = engine.write(one=QUICK, two=QUICK)
    result = engine.run_spec(spec_of(engine, *units, budget_s=3600.0))
    check_all_finished(result, *units)
    assert all("processes were started" in said for said in how(result, units).values())


def test_workers_killed_while_they_wait(engine: Engine) -> None:
    """Dead workers leave their places in the queue; those that replace them still get one."""
    guard = start_and_wait_for_import(engine)
    seen: set[Path] = set()
    for _ in range(4):
        engine.wait_until(lambda: set(engine.folder.glob("journal/gw*")) - seen, "no worker")
        for path in set(engine.folder.glob("journal/gw*")) - seen:
            seen.add(path)
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(path.stem.partition("-")[2]), signal.SIGKILL)
    engine.wait_until(lambda: len(list(engine.folder.glob("journal/gw*"))) > len(seen), "no more")
    guard.send_signal(signal.SIGINT)
    result = engine.finish(guard)
    assert result.accounted() == ["test_one.py", "test_two.py"]
    assert result.ending["exit_status"] is not None


def test_large_environment(engine: Engine) -> None:
    """Larger than what a socket takes before anybody reads it."""
    heavy(engine, HANGS)
    engine.env |= {f"LARGE_{number}": "x" * 100_000 for number in range(4)}
    units = engine.write(one=QUICK, two=QUICK)
    result = engine.run_spec(spec_of(engine, *units, budget_s=15.0))
    check_all_finished(result, *units)


def test_zygote_stopped_and_a_server_killed(engine: Engine) -> None:
    """Packages are known to be importable, so the slot imports them itself before long."""
    heavy(engine)
    units = engine.write(one=HELD, two=HELD, three=QUICK)
    guard = engine.start(spec_of(engine, *units, budget_s=3600.0))
    engine.wait_for("TestStart", 2)
    top = zygote(engine)
    os.kill(top, signal.SIGSTOP)
    os.kill(engine.children_of(top, "hwmatrix.target server")[0], signal.SIGKILL)
    engine.wait_for("UnitEnd")
    engine.wait_until(lambda: imports(engine) == 2, "no second import")
    (engine.root / "go").touch()
    result = engine.finish(guard)
    assert result.end("test_three.py")["cause"] == "finished"


def test_sixteen_slots(engine: Engine) -> None:
    """Workers that ask when the packages are imported already get one server each."""
    heavy(engine)
    units = engine.write(**{f"number{index:02}": SLOT for index in range(16)})
    result = engine.run_spec(spec_of(engine, *units, slots=16))
    check_all_finished(result, *units)
    assert imports(engine) == 1
    assert set(how(result, units).values()) == {"fork"}
    assert len({start["slot"] for start in result.of("UnitStart")}) > 1
