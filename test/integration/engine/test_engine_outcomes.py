"""Each bad file gives the outcome it should, alone and among good ones; the rest goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hwmatrix.model import Isolation

if TYPE_CHECKING:
    from test.integration.engine.conftest import Engine, Result

    from hwmatrix.model import Unit

GOOD = """
    def test_one():
        assert True

    def test_two(tmp_path):
        assert tmp_path.is_dir()
"""

SEGFAULT = """
    import ctypes

    def test_before():
        pass

    def test_boom():
        ctypes.string_at(0)

    def test_after():
        pass
"""

EXIT_ZERO = """
    import os

    def test_leave():
        os._exit(0)

    def test_after():
        pass
"""

HANG = """
    import ctypes
    import signal

    def test_before():
        pass

    def test_hang():
        print("said before the hang")
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
        ctypes.PyDLL(None).pause()  # C code that keeps the interpreter's lock

    def test_after():
        pass
"""


def check_broken_import(result: Result, unit: str) -> None:
    assert result.end(unit)["cause"] == "finished"
    assert result.end(unit)["exit_status"] == 2
    (report,) = result.of("CollectReport", unit)
    assert report["outcome"] == "failed"
    assert "no_such_module" in str(report["longrepr"])


def check_segfault(result: Result, unit: str) -> None:
    first, second = result.of("UnitEnd", unit)
    assert (first["cause"], first["signal"], first["part"]) == ("crashed", 11, 1)
    assert first["test"] == f"{unit}::test_boom"
    assert "in test_boom" in first["tail"]
    assert (second["cause"], second["exit_status"], second["part"]) == ("finished", 0, 2)
    assert result.tests(unit) == {"test_before": "passed", "test_after": "passed"}


def check_exit_zero(result: Result, unit: str) -> None:
    first, second = result.of("UnitEnd", unit)
    assert (first["cause"], first["exit_status"]) == ("crashed", 0)
    assert first["test"] == f"{unit}::test_leave"
    assert second["cause"] == "finished"
    assert result.tests(unit) == {"test_after": "passed"}


def check_hang(result: Result, unit: str) -> None:
    end = result.end(unit)
    assert (end["cause"], end["signal"]) == ("budget", 9)
    assert end["test"] == f"{unit}::test_hang"
    assert "said before the hang" in end["tail"]
    (expired,) = result.of("UnitExpired", unit)
    assert expired["test"] == f"{unit}::test_hang"
    assert end["time"] - expired["time"] < result.meter.allowed_s(5)
    assert result.tests(unit) == {"test_before": "passed"}


def check_no_tests(result: Result, unit: str) -> None:
    assert (result.end(unit)["cause"], result.end(unit)["exit_status"]) == ("finished", 5)
    assert result.of("UnitCollected", unit)[0]["tests"] == []


def check_all_skipped(result: Result, unit: str) -> None:
    assert (result.end(unit)["cause"], result.end(unit)["exit_status"]) == ("finished", 0)
    assert result.tests(unit) == {"test_never": "skipped"}
    (report,) = [r for r in result.of("TestReport", unit) if r["outcome"] == "skipped"]
    assert "no such device" in str(report["longrepr"])


BAD = {
    "broken": ("import no_such_module\n", check_broken_import),
    "segfault": (SEGFAULT, check_segfault),
    "exitzero": (EXIT_ZERO, check_exit_zero),
    "hang": (HANG, check_hang),
    "empty": ("VALUE = 1\n", check_no_tests),
    "skipped": (
        """
        import pytest

        pytestmark = pytest.mark.skip(reason="no such device")

        def test_never():
            assert False
        """,
        check_all_skipped,
    ),
}


def budgets(engine: Engine, name: str) -> Unit | str:
    # Long enough for the test before the hang on a very busy machine.
    return engine.unit(name, test_limit_s=10.0, budget_s=20.0) if "hang" in name else name


@pytest.mark.parametrize("name", sorted(BAD))
def test_bad_file_alone(engine: Engine, name: str) -> None:
    engine.isolation = Isolation.SPAWN
    text, check = BAD[name]
    (unit,) = engine.write(**{name: text})
    result = engine.run(budgets(engine, unit))
    assert result.accounted() == [unit]
    check(result, unit)


@pytest.mark.parametrize("isolation", Isolation)
def test_bad_files_among_good_ones(engine: Engine, isolation: Isolation) -> None:
    engine.isolation = isolation
    texts = {name: text for name, (text, _) in BAD.items()}
    units = engine.write(**texts, good=GOOD, other=GOOD)
    result = engine.run(*(budgets(engine, unit) for unit in units), slots=2)
    assert result.accounted() == sorted(units)
    for unit, (_, check) in zip(units, BAD.values(), strict=False):
        check(result, unit)
    for unit in ("test_good.py", "test_other.py"):
        assert result.end(unit)["cause"] == "finished"
        assert result.tests(unit) == {"test_one": "passed", "test_two": "passed"}
    assert result.ending == {"exit_status": 1, "reason": "", "signal": None}
    assert {line["isolation"] for line in result.of("UnitStart")} == {isolation.value}


def test_soft_limit_names_the_test_and_the_file_goes_on(engine: Engine) -> None:
    (unit,) = engine.write(
        slow="""
        import time

        import pytest

        def test_slow():
            time.sleep(3600)

        @pytest.mark.timeout(0.5, method="thread")
        def test_with_its_own_limit():
            time.sleep(3600)

        @pytest.mark.timeout(240)
        def test_that_fails():
            pytest.fail("Timeout (>1.0s) from pytest-timeout.")

        @pytest.mark.timeout(240)
        def test_after():
            pass
        """
    )
    result = engine.run(engine.unit(unit, test_limit_s=1.0))
    assert result.end(unit)["cause"] == "finished"
    assert result.tests(unit) == {
        "test_slow": "timed out",
        "test_with_its_own_limit": "timed out",
        "test_that_fails": "failed",
        "test_after": "passed",
    }


def test_hang_in_c_that_signals_can_reach_shows_its_stack(engine: Engine) -> None:
    (unit,) = engine.write(
        loop="""
        import subprocess
        import sys

        def test_waits_for_another():
            code = "import time\\ndef inner():\\n    time.sleep(3600)\\ninner()"
            subprocess.run([sys.executable, "-c", code])
        """
    )
    result = engine.run(engine.unit(unit, test_limit_s=60.0, budget_s=20.0))
    end = result.end(unit)
    assert end["cause"] == "budget"
    assert "in test_waits_for_another" in end["tail"]
    assert "in inner" in end["tail"]


def test_crash_while_importing_names_no_test(engine: Engine) -> None:
    (unit,) = engine.write(dies="import os\nos.kill(os.getpid(), 9)\n")
    end = engine.run(unit).end(unit)
    assert (end["cause"], end["signal"], end["test"]) == ("crashed", 9, None)


def test_file_whose_every_test_crashes_ends(engine: Engine) -> None:
    (unit,) = engine.write(
        bad="""
        import os
        import pytest

        @pytest.mark.parametrize("number", range(20))
        def test_leave(number):
            os._exit(3)
        """
    )
    result = engine.run(unit)
    ends = result.of("UnitEnd", unit)
    assert [end["part"] for end in ends] == list(range(1, 9))
    assert {end["exit_status"] for end in ends} == {3}


def test_crash_after_the_last_test_is_no_success(engine: Engine) -> None:
    (unit,) = engine.write(
        late="""
        import atexit
        import os

        def test_fine():
            atexit.register(os.abort)
        """
    )
    result = engine.run(unit)
    end = result.end(unit)
    assert (end["cause"], end["signal"], end["test"]) == ("crashed", 6, None)
    assert result.tests(unit) == {"test_fine": "passed"}


POOL = """
    from concurrent.futures import ThreadPoolExecutor

    POOL = ThreadPoolExecutor(2)

    def test_pool():
        assert POOL.submit(lambda: 1).result() == 1
"""


@pytest.mark.parametrize("isolation", list(Isolation))
def test_an_idle_thread_pool_does_not_keep_the_process(
    engine: Engine, isolation: Isolation
) -> None:
    """Pools of torch's compiler and of others are left open; the interpreter ends them itself."""
    (unit,) = engine.write(pool=POOL)
    result = engine.run(engine.unit(unit, budget_s=120, test_limit_s=100), isolation=isolation)
    assert result.tests(unit) == {"test_pool": "passed"}
    assert result.end(unit)["cause"] == "finished"
