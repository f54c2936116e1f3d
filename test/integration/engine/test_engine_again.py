"""Retries after faults of the machine, and runs that are resumed: every attempt stands."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from test.integration.engine.conftest import Engine, Result

FLAKY = """
    import os
    import signal
    import socket
    from pathlib import Path
    from urllib.error import HTTPError

    MARK = Path("seen")

    def test_before():
        pass

    def test_fault():
        if MARK.exists():
            return
        MARK.touch()
        {fault}
"""

FAULTS = {
    "out of memory": "raise MemoryError",
    "port taken": (
        "raise OSError(98, 'said otherwise') if os.uname().sysname == 'Linux' else OSError(48)"
    ),
    "download refused": "raise HTTPError('address', 503, 'busy', {}, None)",
    "killed from outside (SIGKILL)": "os.kill(os.getpid(), signal.SIGKILL)",
}

FAILURES = {
    "assertion": "assert False, 'CUDA out of memory'",
    "crash": "os.abort()",
    "not found": "raise HTTPError('address', 404, 'no such thing', {}, None)",
}


def attempts(result: Result, unit: str) -> list[tuple[int, str, str]]:
    return [(end["attempt"], end["cause"], end["fault"]) for end in result.of("UnitEnd", unit)]


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_of_the_machine_is_tried_again(engine: Engine, fault: str) -> None:
    (unit,) = engine.write(flaky=FLAKY.format(fault=FAULTS[fault]))
    result = engine.run(unit, retries=1)
    ends = attempts(result, unit)
    assert ends[0][0] == 1
    assert ends[0][2] == fault
    assert ends[-1] == (2, "finished", "")
    logs = {line["log"] for line in result.of("UnitStart", unit)}
    assert len(logs) == len(result.of("UnitStart", unit))
    second = [r for r in result.of("TestReport", unit) if r["attempt"] == 2 and r["when"] == "call"]
    assert [r["outcome"] for r in second] == ["passed", "passed"]


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_of_the_code_is_not(engine: Engine, failure: str) -> None:
    (unit,) = engine.write(flaky=FLAKY.format(fault=FAILURES[failure]))
    result = engine.run(unit, retries=3)
    assert {end[0] for end in attempts(result, unit)} == {1}
    assert {end[2] for end in attempts(result, unit)} == {""}


def test_nothing_is_tried_again_by_default(engine: Engine) -> None:
    (unit,) = engine.write(flaky=FLAKY.format(fault="raise MemoryError"))
    assert attempts(engine.run(unit), unit) == [(1, "finished", "out of memory")]


def test_resume_runs_what_is_left(engine: Engine) -> None:
    units = engine.write(
        first="def test_first():\n    pass\n",
        second="""
        import time
        from pathlib import Path

        def test_second():
            if not Path("seen").exists():
                Path("seen").touch()
                time.sleep(3600)
        """,
        third="def test_third():\n    pass\n",
    )
    guard = engine.start(engine.spec(*units))
    engine.wait_for("TestStart", 2)
    engine.wait_until((engine.root / "seen").exists, "not seen")
    guard.send_signal(signal.SIGKILL)
    result = engine.finish(guard)
    assert [line["unit"] for line in result.of("UnitNotRun")] == ["test_third.py"]

    result = engine.run(*units, resumed=1, done=("test_first.py",))
    assert result.ending["reason"] == ""
    assert [line["resumed"] for line in result.of("RunStart")] == [0, 1]
    assert attempts(result, "test_first.py") == [(1, "finished", "")]
    second = result.of("UnitEnd", "test_second.py")
    ends = sorted((end["attempt"], end["cause"]) for end in second)
    assert ends == [(1, "stopped"), (2, "finished")]
    assert attempts(result, "test_third.py") == [(1, "finished", "")]
    assert result.tests("test_second.py") == {"test_second": "passed"}


def test_resume_closes_what_a_killed_supervisor_left_open(engine: Engine) -> None:
    (unit,) = engine.write(
        slow="""
        import time
        from pathlib import Path

        def test_slow():
            if not Path("seen").exists():
                Path("seen").touch()
                time.sleep(3600)
        """
    )
    guard = engine.start(engine.spec(unit))
    engine.wait_for("TestStart")
    engine.wait_until((engine.root / "seen").exists, "not seen")
    engine.kill("hwmatrix.supervise")
    assert engine.finish(guard).of("UnitEnd") == []
    result = engine.run(unit, resumed=1)
    ends = {(end["attempt"], end["cause"], end["tail"]) for end in result.of("UnitEnd", unit)}
    before = "the earlier part of the run ended before it"
    assert ends == {(1, "stopped", before), (2, "finished", "")}
