"""Tests that misbehave: each is named for what it did, nothing is left of it, the others pass.

`HWMATRIX_TORTURE=20` in the environment runs each case that often (the `torture` session).
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import time
from typing import TYPE_CHECKING

import pytest

from hwmatrix import process
from hwmatrix.model import Isolation

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Mapping
    from typing import Any

    from test.integration.engine.conftest import Engine, Result

ROUNDS = range(int(os.environ.get("HWMATRIX_TORTURE", "1")))

BUDGET_S = 15.0  # long enough for the bad test to begin on a very busy machine

GOOD = "def test_good():\n    pass\n"

DEREFERENCES_NULL = """
    import ctypes

    def test_bad():
        ctypes.string_at(0)

    def test_after():
        pass
"""

EXITS_WITH_SUCCESS = """
    import os

    def test_bad():
        os._exit(0)

    def test_after():
        pass
"""

IGNORES_SIGTERM = """
    import signal
    import time

    def test_bad():
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)
        while True:
            time.sleep(1)
"""

DAEMON = """
    import os
    import socket
    import time

    def test_bad():
        listening = socket.create_server(("127.0.0.1", 0))
        with open("port", "w") as stream:
            stream.write(str(listening.getsockname()[1]))
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            while True:  # holds the port and the pipe of the log
                time.sleep(1)
        os.wait()
"""

BLOCKS_SIGNALS = """
    import ctypes
    import signal

    def test_bad():
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
        ctypes.PyDLL(None).pause()
"""

MEMORY_BOMB = """
    import resource

    def test_bad():
        limit = 1 << 30
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        held = []
        while True:
            held.append(bytearray(16 << 20))
"""

MUCH_OUTPUT = """
    import os

    def test_bad():
        line = b"x" * 99 + b"\\n"
        block = line * 10_000
        for _ in range(200):
            os.write(2, block)
        os.write(2, b"the very end\\n")
"""

FORK_BOMB = """
    import os
    import signal
    import time

    def test_bad():
        for number in range(50):
            if os.fork() == 0:
                os.setsid()
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                while True:
                    time.sleep(1)
"""

CLOSES_DESCRIPTORS = """
    import os

    def test_bad():
        os.closerange(0, 11)

    def test_after():
        pass
"""

CHANGES_EVERYTHING = """
    import os
    import shutil

    def test_bad(tmp_path):
        os.chdir(tmp_path)
        shutil.rmtree(tmp_path)
        os.environ.clear()
        os.umask(0o777)
        assert False
"""

FORKS_INTO_PYTEST = """
    import os

    def test_bad():
        if os.fork():
            os.wait()

    def test_after():
        pass
"""

KILLS_ITS_GROUP = """
    import os
    import signal

    def test_bad():
        os.killpg(0, signal.SIGKILL)
"""


def budget(result: Result, engine: Engine) -> None:
    end = result.end("test_bad.py")
    assert (end["cause"], end["test"]) == ("budget", "test_bad.py::test_bad")
    (expired,) = result.of("UnitExpired")
    (started,) = result.of("UnitStart", "test_bad.py")
    assert expired["limit_s"] == BUDGET_S
    assert end["time"] - started["time"] < expired["limit_s"] + result.meter.allowed_s(5)
    assert engine.folder.exists()


def passed(result: Result, engine: Engine) -> None:
    assert result.end("test_bad.py")["cause"] == "finished"
    assert result.tests("test_bad.py")["test_bad"] == "passed"
    assert engine.folder.exists()


def daemon_is_gone(result: Result, engine: Engine) -> None:
    passed(result, engine)
    assert result.end("test_bad.py")["killed"] == 1
    port = int((engine.root / "port").read_text())
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def failed(result: Result, engine: Engine) -> None:
    assert result.end("test_bad.py")["cause"] == "finished"
    assert result.tests("test_bad.py")["test_bad"] == "failed"
    assert engine.folder.exists()


def log_is_capped(result: Result, engine: Engine) -> None:
    passed(result, engine)
    log = engine.folder / result.of("UnitStart", "test_bad.py")[0]["log"]
    assert log.stat().st_size < 4 << 20
    text = log.read_text()
    assert "bytes cut" in text
    assert "the very end" in text


def fifty_are_gone(result: Result, engine: Engine) -> None:
    passed(result, engine)
    assert result.end("test_bad.py")["killed"] == 50


def goes_on(result: Result, engine: Engine) -> None:
    assert result.accounted() == ["test_bad.py", "test_good.py"]
    tests = result.tests("test_bad.py")
    assert tests.get("test_after") == "passed"
    assert engine.folder.exists()


def once_only(result: Result, engine: Engine) -> None:
    passed(result, engine)
    reports = [r["nodeid"] for r in result.of("TestReport", "test_bad.py") if r["when"] == "call"]
    assert sorted(reports) == ["test_bad.py::test_after", "test_bad.py::test_bad"]


def named(result: Result, how: tuple[str, int | None, int | None]) -> None:
    """The test that ended the process is named with how it did; the file went on."""
    first, second = result.of("UnitEnd", "test_bad.py")
    assert (first["cause"], first["exit_status"], first["signal"]) == how
    assert first["test"] == "test_bad.py::test_bad"
    assert (second["cause"], second["exit_status"]) == ("finished", 0)
    assert result.tests("test_bad.py") == {"test_after": "passed"}


def segfault(result: Result, engine: Engine) -> None:
    named(result, ("crashed", None, signal.SIGSEGV))
    assert "test_bad" in result.of("UnitEnd", "test_bad.py")[0]["tail"]
    assert engine.folder.exists()


def success(result: Result, engine: Engine) -> None:
    named(result, ("crashed", 0, None))
    assert engine.folder.exists()


def killed(result: Result, engine: Engine) -> None:
    end = result.end("test_bad.py")
    assert (end["cause"], end["signal"], end["test"]) == ("crashed", 9, "test_bad.py::test_bad")
    assert engine.folder.exists()


CASES: Mapping[str, tuple[str, Callable[[Result, Engine], None], Mapping[str, Any]]] = {
    "dereferences null": (DEREFERENCES_NULL, segfault, {}),
    "exits with success": (EXITS_WITH_SUCCESS, success, {}),
    "ignores SIGTERM": (IGNORES_SIGTERM, budget, {"budget_s": BUDGET_S}),
    "daemon holding a port": (DAEMON, daemon_is_gone, {}),
    "blocks all signals in C": (BLOCKS_SIGNALS, budget, {"budget_s": BUDGET_S}),
    "memory bomb under a limit": (MEMORY_BOMB, failed, {}),
    "200 MB of output": (MUCH_OUTPUT, log_is_capped, {"options": ("-s",)}),
    "fork bomb of 50": (FORK_BOMB, fifty_are_gone, {}),
    "closes descriptors 0 to 10": (CLOSES_DESCRIPTORS, goes_on, {}),
    "changes directory and environment": (CHANGES_EVERYTHING, failed, {}),
    "forks and returns into pytest": (FORKS_INTO_PYTEST, once_only, {}),
    "kills its process group": (KILLS_ITS_GROUP, killed, {}),
}


@pytest.mark.parametrize("turn", ROUNDS)
@pytest.mark.parametrize("case", CASES)
def test_bad_file_harms_nobody_else(engine: Engine, case: str, turn: int) -> None:
    del turn
    text, check, settings = CASES[case]
    bad, good = engine.write(bad=text, good=GOOD)
    limits = {key: value for key, value in settings.items() if key != "options"}
    result = engine.run(engine.unit(bad, **limits), good, pytest_args=settings.get("options", ()))
    check(result, engine)
    assert result.tests(good) == {"test_good": "passed"}
    assert result.accounted() == [bad, good]
    assert not list(engine.temporaries())


STEADY = """
    import time

    import pytest

    @pytest.mark.parametrize("number", range(20))
    def test_steady(number):
        time.sleep(0.1)
"""

# Forked processes bear the command line of the one that forked them: depth below the slot's server.
DEPTHS = {"server": 0, "preloaded": 1, "template": 2, "child": 3}
# Killed, these may cost the unit that runs on their slot, and nothing else; a zygote costs none.
HURT_ONE = ("worker", *DEPTHS)
VICTIMS = ("guard", "supervisor", "controller", "zygote", *HURT_ONE, "guard and supervisor")


def find(engine: Engine, guard: int, victim: str) -> list[int]:
    """Return the processes that play `victim` now."""
    if victim == "worker":
        known = [int(p.stem.partition("-")[2]) for p in engine.folder.glob("journal/gw*.jsonl")]
        return [pid for pid in known if pid in engine.processes()]
    if victim in DEPTHS:
        servers = engine.pids_of("hwmatrix.target server")
        return [pid for server in servers for pid in below(server, DEPTHS[victim])]
    if victim == "zygote":
        return zygotes(engine)
    words = {
        "supervisor": ("hwmatrix.supervise",),
        "controller": ("-m pytest", "hwmatrix.target.plugin"),
    }
    if victim in words:
        return engine.pids_of(*words[victim])
    if victim == "guard":
        return [guard]
    supervisors = engine.pids_of(*words["supervisor"])
    return [guard, *supervisors] if supervisors else []


def zygotes(engine: Engine) -> list[int]:
    """Return the process that the slots' servers were forked from."""
    supervisors = engine.pids_of("hwmatrix.supervise")
    return [z for pid in supervisors for z in engine.children_of(pid, "hwmatrix.target zygote")]


def below(pid: int, depth: int) -> list[int]:
    """Return the processes exactly `depth` generations below `pid`."""
    found = {pid}
    for _ in range(depth):
        found = {p.pid for p in process.descendants(pid) if p.parent in found and not p.dead}
    return sorted(found)


def strike(engine: Engine, guard: subprocess.Popen[str], victim: str, draw: random.Random) -> bool:
    """SIGKILL the victim as soon as there is one; False if the run ended before that."""
    while not (pids := find(engine, guard.pid, victim)):
        if guard.poll() is not None:
            return False
        time.sleep(0.01)
    chosen = pids if victim == "guard and supervisor" else [draw.choice(pids)]
    for number in (signal.SIGSTOP, signal.SIGKILL):  # stopped, neither of two sees the other die
        for pid in chosen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
    return True


@pytest.mark.parametrize("turn", ROUNDS)
@pytest.mark.parametrize("victim", VICTIMS)
def test_kill_at_a_random_moment(engine: Engine, victim: str, turn: int) -> None:
    """No process is left, every unit has an end or was never begun, the journal is whole."""
    draw = random.Random(f"{victim}{turn}")
    forked = victim == "zygote" or DEPTHS.get(victim)
    engine.isolation = Isolation.FORK if forked else draw.choice(list(Isolation))
    units = engine.write(**{f"file{index}": STEADY for index in range(4)})
    spec = engine.spec(*units, slots=2)
    if victim != "zygote" and draw.choice([True, False]):
        spec = engine.unlike(spec)
    guard = engine.start(spec)
    moment = draw.uniform(0.2, 4.5)
    time.sleep(moment)
    struck = strike(engine, guard, victim, draw)
    print(f"SIGKILL to {victim} after {moment:.2f} s: {struck}, {engine.isolation}")
    result = engine.finish(guard)
    assert not result.of("Torn")
    if not result.of("RunStart"):  # struck before there was a run
        assert victim in {"guard", "supervisor", "guard and supervisor"}
        assert result.accounted() == []
        return
    for unit in units:
        assert set(result.tests(unit).values()) <= {"passed"}
    if not struck or "supervisor" not in victim:
        assert result.accounted() == sorted(units)
        assert len(result.of("RunEnd")) == 1
    whole = {end["unit"] for end in result.of("UnitEnd") if end["cause"] == "finished"}
    whole -= {end["unit"] for end in result.of("UnitEnd") if end["cause"] != "finished"}
    for unit in whole:
        assert len(result.tests(unit)) == 20
    if victim in {*HURT_ONE, "zygote"}:
        assert len(set(units) - whole) <= (struck and victim != "zygote")
        assert result.ending["reason"] == ""
    for unit in set(units) - whole if victim in DEPTHS else ():
        goes_on_after(result, unit)


def goes_on_after(result: Result, unit: str) -> None:
    """The test at which the process was killed is named, and all others passed, or none began."""
    lost = [end for end in result.of("UnitEnd", unit) if end["cause"] != "finished"]
    assert [end["cause"] for end in lost] == ["crashed"]
    seen = {end["test"].partition("::")[2] for end in lost if end["test"]}
    seen |= set(result.tests(unit))
    assert seen in (set(), {f"test_steady[{number}]" for number in range(20)})
