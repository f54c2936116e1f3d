"""However a run is ended, no process is left, the journal is readable, every unit accounted for."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess

    from test.integration.engine.conftest import Engine, Result

SLOW = """
    import subprocess
    import time

    def test_first():
        pass

    def test_slow():
        subprocess.Popen(["sleep", "3600"], start_new_session=True)
        time.sleep(3600)
"""

QUICK = """
    def test_quick():
        pass
"""


def start_and_wait(engine: Engine) -> subprocess.Popen[str]:
    units = engine.write(slow=SLOW, slower=SLOW, never=QUICK)
    guard = engine.start(engine.spec(*units, slots=2))
    engine.wait_for("TestStart", 4)
    return guard


def check_stopped(engine: Engine, guard: subprocess.Popen[str], reason: str) -> Result:
    result = engine.finish(guard)
    assert result.accounted() == ["test_never.py", "test_slow.py", "test_slower.py"]
    for unit in ("test_slow.py", "test_slower.py"):
        end = result.end(unit)
        assert (end["cause"], end["test"]) == ("stopped", f"{unit}::test_slow")
        assert result.tests(unit) == {"test_first": "passed"}
    (left,) = result.of("UnitNotRun")
    assert (left["unit"], left["reason"]) == ("test_never.py", reason)
    assert [line["reason"] for line in result.of("RunStop")] == [reason]
    return result


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_to_the_guard(engine: Engine, number: signal.Signals) -> None:
    guard = start_and_wait(engine)
    guard.send_signal(number)
    result = check_stopped(engine, guard, number.name)
    assert result.ending["signal"] == number
    assert result.ending["reason"] == number.name


def test_signal_to_the_supervisor(engine: Engine) -> None:
    guard = start_and_wait(engine)
    os.kill(engine.pid_of("hwmatrix.supervise"), signal.SIGTERM)
    result = check_stopped(engine, guard, "SIGTERM")
    assert result.ending["signal"] is None


def test_second_signal_does_not_wait_for_tests(engine: Engine) -> None:
    (unit,) = engine.write(
        stubborn="""
        import signal
        import time

        def test_stubborn():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            while True:
                time.sleep(1)
        """
    )
    guard = engine.start(engine.spec(unit))
    engine.wait_for("TestStart")
    guard.send_signal(signal.SIGINT)
    engine.wait_for("RunStop")
    guard.send_signal(signal.SIGINT)
    result = engine.finish(guard)
    end = result.end(unit)
    assert (end["cause"], end["test"]) == ("stopped", f"{unit}::test_stubborn")


def test_deadline(engine: Engine) -> None:
    units = engine.write(slow=SLOW, never=QUICK)
    guard = engine.start(engine.spec(*units, deadline_s=15.0))
    (start,) = engine.wait_for("RunStart")
    engine.wait_until(lambda: engine.pids_of("-m pytest", "hwmatrix.target.plugin"), "no pytest")
    # However long the slow test takes to begin, nobody looks at the clock before.
    os.kill(start["pid"], signal.SIGSTOP)
    engine.wait_for("TestStart", 2)
    os.kill(start["pid"], signal.SIGCONT)
    result = engine.finish(guard)
    assert result.ending["reason"] == "deadline"
    assert result.end("test_slow.py")["cause"] == "stopped"
    assert result.of("UnitNotRun")[0]["reason"] == "deadline"
    assert result.of("RunEnd")[0]["reason"] == "deadline"


def test_guard_killed(engine: Engine) -> None:
    guard = start_and_wait(engine)
    guard.kill()
    result = check_stopped(engine, guard, "the guard died")
    assert result.ending == {}


def test_parent_of_the_guard_killed(engine: Engine) -> None:
    """What happens to a session when only nox gets SIGKILL or SIGTERM."""
    engine.env["HWMATRIX_PARENT"] = "1"  # a pid that is not the parent: as if it had died before
    units = engine.write(slow=SLOW, slower=SLOW, never=QUICK)
    result = engine.run(*units)
    assert result.ending["reason"] == "the parent process ended"
    assert len(result.accounted()) == 3


def test_supervisor_killed(engine: Engine) -> None:
    guard = start_and_wait(engine)
    os.kill(engine.pid_of("hwmatrix.supervise"), signal.SIGKILL)
    result = engine.finish(guard)
    assert result.ending["reason"] == "the supervisor died (SIGKILL)"
    (end,) = result.of("RunEnd")
    assert end["reason"] == "the supervisor died (SIGKILL)"
    assert result.tests("test_slow.py") == {"test_first": "passed"}


def test_controller_killed(engine: Engine) -> None:
    guard = start_and_wait(engine)
    os.kill(engine.pid_of("-m pytest", "hwmatrix.target.plugin"), signal.SIGKILL)
    result = engine.finish(guard)
    assert result.ending["reason"] == "the controller died (SIGKILL)"
    assert result.end("test_slow.py")["cause"] == "stopped"
    assert result.accounted() == ["test_never.py", "test_slow.py", "test_slower.py"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_worker_killed(engine: Engine, number: signal.Signals) -> None:
    """Its unit ends, xdist replaces it, and the others never notice."""
    units = engine.write(slow=SLOW, quick=QUICK)
    guard = engine.start(engine.spec(*units))
    engine.wait_for("TestStart", 2)
    os.kill(engine.worker("gw0"), number)
    result = engine.finish(guard)
    end = result.end("test_slow.py")
    assert (end["cause"], end["test"]) == ("crashed", "test_slow.py::test_slow")
    assert "its worker died" in end["tail"]
    assert result.tests("test_quick.py") == {"test_quick": "passed"}
    assert result.ending["reason"] == ""


def test_worker_interrupted(engine: Engine) -> None:
    guard = start_and_wait(engine)
    os.kill(engine.worker("gw1"), signal.SIGINT)
    check_stopped(engine, guard, "SIGINT to worker gw1")


def test_slot_server_killed(engine: Engine) -> None:
    units = engine.write(slow=SLOW, quick=QUICK)
    guard = engine.start(engine.spec(*units))
    engine.wait_for("TestStart", 2)
    os.kill(engine.pid_of("hwmatrix.target server"), signal.SIGKILL)
    result = engine.finish(guard)
    end = result.end("test_slow.py")
    assert (end["cause"], end["test"]) == ("crashed", "test_slow.py::test_slow")
    assert "server died" in end["tail"]
    assert result.tests("test_quick.py") == {"test_quick": "passed"}


def test_slot_server_killed_between_two_units(engine: Engine) -> None:
    """Nothing runs there: the next unit gets another server and never notices."""
    go = engine.root / "go"
    units = engine.write(
        one=f"""
        import pathlib, time

        def test_one():
            while not pathlib.Path({str(go)!r}).exists():
                time.sleep(0.02)
        """,
        quick=QUICK,
    )
    guard = engine.start(engine.spec(*units))
    engine.wait_for("TestStart")
    controller = engine.pid_of("-m pytest", "hwmatrix.target.plugin")
    os.kill(controller, signal.SIGSTOP)  # it hands out nothing meanwhile
    stat = Path(f"/proc/{controller}/stat")
    engine.wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "not stopped")
    go.touch()  # only now: a unit that ends before the stop is followed by the next at once
    engine.wait_for("UnitEnd")
    assert len(engine.wait_for("TestStart")) == 1
    engine.kill("hwmatrix.target server")
    os.kill(controller, signal.SIGCONT)
    result = engine.finish(guard)
    assert [result.end(unit)["cause"] for unit in units] == ["finished", "finished"]
    assert result.tests("test_quick.py") == {"test_quick": "passed"}
    assert result.ending["reason"] == ""


def test_slot_server_killed_before_its_unit_began(engine: Engine) -> None:
    """It has the request, and waits for the packages: another server takes the unit."""
    (engine.root / "heavy_package.py").write_text(
        "import pathlib, time\n"
        "seen = pathlib.Path(__file__).with_name('seen')\n"
        "if not seen.exists():\n"
        "    seen.touch()\n"
        "    time.sleep(3600)\n"
    )
    engine.env["PYTHONPATH"] += os.pathsep + str(engine.root)
    units = engine.write(quick=QUICK, other=QUICK)
    guard = engine.start(engine.spec(*units, preload=("heavy_package",)))
    engine.wait_until((engine.root / "seen").exists, "no import")
    time.sleep(1)  # the request is on its way; a server that dies before it comes is no different
    engine.kill("hwmatrix.target server")
    result = engine.finish(guard)
    assert [result.end(unit)["cause"] for unit in units] == ["finished", "finished"]
    assert {start["isolation"] for start in result.of("UnitStart")} == {"fork"}
    assert result.ending["reason"] == ""


def test_first_failure_stops_the_rest(engine: Engine) -> None:
    units = engine.write(
        fails="""
        import pathlib
        import time

        def test_fails():
            while not pathlib.Path("begun").exists():
                time.sleep(0.02)
            assert False

        def test_after():
            pass
        """,
        slow="""
        import pathlib
        import time

        def test_slow():
            pathlib.Path("begun").touch()
            time.sleep(3600)
        """,
        never=QUICK,
    )
    result = engine.run(*units, slots=2, fail_fast=True)
    assert result.tests("test_fails.py") == {"test_fails": "failed"}
    assert result.end("test_slow.py")["cause"] == "stopped"
    (left,) = result.of("UnitNotRun")
    assert (left["unit"], left["reason"]) == ("test_never.py", "first failure")
    assert result.ending["reason"] == "first failure"


def test_max_failures(engine: Engine) -> None:
    fails = "def test_fails():\n    assert False\n"
    units = engine.write(one=fails, two=fails, three=fails)
    result = engine.run(*units, max_failures=2)
    assert [line["unit"] for line in result.of("UnitNotRun")] == ["test_three.py"]
    assert result.ending["reason"] == "2 failures"


def test_journal_that_cannot_grow(engine: Engine) -> None:
    """A full disk, played by a limit on the size of files."""
    (unit,) = engine.write(
        much="""
        import pytest

        @pytest.mark.parametrize("number", range(300))
        def test_much(number):
            print("x" * 1000)
        """
    )
    engine.not_measured()
    engine.file_limit = 100_000
    result = engine.run(engine.unit(unit), pytest_args=("-p", "no:cacheprovider"))
    assert "File too large" in result.ending["reason"]
    assert set(result.tests(unit).values()) == {"passed"}
    assert 0 < len(result.tests(unit)) < 300


def test_folder_that_cannot_be_written(engine: Engine) -> None:
    (unit,) = engine.write(quick=QUICK)
    engine.folder.write_text("a file stands where the folder should be")
    guard = engine.start(engine.spec(unit))
    output, _ = guard.communicate(timeout=engine.PATIENCE_S)
    assert guard.returncode == 1
    assert "RunFolderError" in output
    assert "cannot be written (File exists)" in output


def test_guard_and_supervisor_killed_together(engine: Engine) -> None:
    """Nobody is left to sweep: each process dies with the one above it."""
    guard = start_and_wait(engine)
    both = (guard.pid, engine.pid_of("hwmatrix.supervise"))
    for number in (signal.SIGSTOP, signal.SIGKILL):  # stopped, neither sees the other die
        for pid in both:
            os.kill(pid, number)
    result = engine.finish(guard)
    assert not result.of("Torn")
    assert result.of("RunEnd") == []


def start_and_wait_for_import(engine: Engine) -> subprocess.Popen[str]:
    """Start a run whose heavy packages take longer to import than anybody waits."""
    (engine.root / "heavy_package.py").write_text("import time\ntime.sleep(3600)\n")
    engine.env["PYTHONPATH"] += os.pathsep + str(engine.root)
    units = engine.write(one=QUICK, two=QUICK)
    patient = [engine.unit(unit, budget_s=3600.0) for unit in units]
    guard = engine.start(engine.spec(*patient, preload=("heavy_package",)))
    engine.wait_until(lambda: engine.pids_of("heavy_package"), "no import")
    return guard


def test_signal_while_packages_are_imported(engine: Engine) -> None:
    """The run need not wait for them, nor be killed for it after its grace."""
    guard = start_and_wait_for_import(engine)
    engine.wait_until(lambda: list(engine.folder.glob("journal/gw0*")), "no worker")
    guard.send_signal(signal.SIGINT)
    result = engine.finish(guard)
    assert {line["reason"] for line in result.of("UnitNotRun")} == {"SIGINT"}
    assert result.accounted() == ["test_one.py", "test_two.py"]
    assert result.ending["exit_status"] is not None  # it ended by itself


def test_guard_and_supervisor_killed_while_packages_are_imported(engine: Engine) -> None:
    guard = start_and_wait_for_import(engine)
    both = (guard.pid, engine.pid_of("hwmatrix.supervise"))
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in both:
            os.kill(pid, number)
    assert engine.finish(guard).of("RunEnd") == []
