"""A file gives the same reports in a session as with plain pytest, forked or started anew.

Plain pytest writes its reports with pytest-reportlog, whose lines the journal shares.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix.model import Isolation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from test.integration.engine.conftest import Engine, Result

FILES = {
    "pytest.ini": """
        [pytest]
        markers =
            slow: takes long
        xfail_strict = true
        junit_family = legacy
        addopts = -n 3 --dist loadfile --junitxml=never.xml --report-log=never.jsonl
        filterwarnings =
            ignore:configured away
        """,
    "conftest.py": """
        import pytest

        pytest_plugins = ["helper_plugin"]

        @pytest.fixture(scope="session")
        def from_the_root():
            return "root"
        """,
    "helper_plugin.py": """
        import warnings

        import pytest

        warnings.warn("said while configuring", RuntimeWarning)

        def pytest_runtest_setup(item):
            item.user_properties.append(("helper", item.name))

        @pytest.fixture
        def checked():
            def check(value):
                assert value == 1
            return check
        """,
    "sub/conftest.py": """
        import pytest

        def pytest_addoption(parser):
            parser.addoption("--flavour", default="plain")

        @pytest.fixture
        def flavour(request):
            yield request.config.getoption("--flavour")
        """,
    "sub/test_fixtures.py": """
        import os

        import pytest

        @pytest.fixture(scope="module")
        def shared():
            yield []

        def test_conftests(from_the_root, flavour):
            assert (from_the_root, flavour) == ("root", "plain")

        def test_shared_first(shared):
            shared.append(1)

        def test_shared_second(shared):
            assert shared == [1]

        def test_plugin(checked):
            checked(2)

        @pytest.fixture
        def bad_setup():
            raise ValueError("in setup")

        @pytest.fixture
        def bad_teardown():
            yield
            raise ValueError("in teardown")

        def test_bad_setup(bad_setup):
            pass

        def test_bad_teardown(bad_teardown):
            pass

        def test_builtin(tmp_path, capsys, monkeypatch, record_property, request, caplog):
            import logging
            print("captured by capsys")
            assert capsys.readouterr().out == "captured by capsys\\n"
            monkeypatch.setenv("SOME", "thing")
            record_property("key", "value")
            logging.getLogger().warning("logged")
            assert request.config.rootpath.joinpath("pytest.ini").exists()
            assert tmp_path.is_dir()
        """,
    "test_outcomes.py": """
        import sys
        import warnings

        import pytest

        def test_rewritten():
            left = {"a": 1, "b": [1, 2, 3]}
            assert left == {"a": 1, "b": [1, 2, 4]}

        def test_output():
            print("to stdout")
            print("to stderr", file=sys.stderr)
            assert False, "shown with its output"

        @pytest.mark.parametrize("value", [1, 2.5, "a/b", "ü", None, (1, 2)])
        @pytest.mark.parametrize("other", ["x", "y z"])
        def test_ids(value, other):
            assert value != 2.5

        @pytest.mark.skip(reason="not today")
        def test_skip():
            pass

        @pytest.mark.skipif(sys.version_info > (3,), reason="python 3")
        def test_skipif():
            pass

        def test_skip_inside():
            pytest.skip("found out late")

        @pytest.mark.xfail(reason="known")
        def test_xfail():
            assert 0

        @pytest.mark.xfail(reason="known", strict=False)
        def test_xpass():
            pass

        @pytest.mark.xfail(reason="known")
        def test_strict_xpass():
            pass

        @pytest.mark.slow
        def test_warns():
            warnings.warn("look here", RuntimeWarning)
            warnings.warn("configured away", UserWarning)

        class TestClass:
            def test_method(self):
                pass

        def test_chained():
            try:
                {}["missing"]
            except KeyError as error:
                raise RuntimeError("outer") from error
        """,
    "test_unittest.py": """
        import unittest

        class Case(unittest.TestCase):
            @classmethod
            def setUpClass(cls):
                cls.value = 1

            def test_fine(self):
                self.assertEqual(self.value, 1)

            def test_fails(self):
                self.assertEqual(self.value, 2)

            def test_subtests(self):
                for number in range(3):
                    with self.subTest(number=number):
                        self.assertNotEqual(number, 1)

            @unittest.skip("unittest's own")
            def test_skipped(self):
                pass

            @unittest.expectedFailure
            def test_expected(self):
                self.fail()
        """,
    "test_subtests.py": """
        import pytest

        pytest.importorskip("_pytest.subtests")

        def test_subtests(subtests):
            for number in range(3):
                with subtests.test("a number", number=number):
                    assert number != 1
        """,
    "test_processes.py": """
        import multiprocessing
        import os
        import subprocess
        import sys

        import pytest

        def double(value):
            return value * 2

        @pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
        def test_pool(method):
            with multiprocessing.get_context(method).Pool(1) as pool:
                assert pool.map(double, [1, 2]) == [2, 4]

        def test_subprocess():
            assert subprocess.check_output([sys.executable, "-c", "print(1)"]) == b"1\\n"

        def test_main_module():
            assert sys.argv[0].endswith("pytest")
            assert "" not in sys.path
            assert os.getcwd() not in sys.path or os.path.dirname(__file__) == os.getcwd()
        """,
    "test_broken.py": "import no_such_module\n",
    "test_half_skipped.py": """
        import pytest

        pytest.skip("the whole module", allow_module_level=True)
        """,
}

# What differs between any two runs, or names the process.
VOLATILE = {"time", "duration", "start", "stop", "unit", "attempt", "part", "worker_id"}


@pytest.fixture
def project(engine: Engine) -> Engine:
    engine.not_measured()
    for name, text in FILES.items():
        path = engine.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return engine


def plain(engine: Engine, name: str, *args: str) -> list[Mapping[str, Any]]:
    log = engine.folder.parent / "plain.jsonl"
    subprocess.run(
        [
            *[str(sys.executable).replace("python3", "python"), "-c"],
            "import sys, pytest; del sys.path[0]; sys.argv[0] = 'pytest'; sys.exit(pytest.main())",
            *[name, "-n0", f"--report-log={log}", "-p", "no:cacheprovider", *args],
        ],
        cwd=engine.root,
        env=engine.env,
        capture_output=True,
        check=False,
    )
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    for path in (log, *engine.root.glob("never.*")):
        path.unlink()
    return lines


def comparable(lines: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Test reports, collect reports that did not pass and warnings, in order."""
    found = []
    for line in lines:
        kind = line["$report_type"]
        if kind.endswith("TestReport") or (kind == "CollectReport" and line["outcome"] != "passed"):
            found.append({key: line[key] for key in line if key not in VOLATILE})
        elif kind == "WarningMessage":
            keys = ("$report_type", "category", "message", "lineno", "when")
            found.append({key: line[key] for key in keys})
    plain_found: list[Mapping[str, Any]] = json.loads(
        re.sub("0x[0-9a-f]+", "0x", json.dumps(found))
    )
    return plain_found


def assert_same(found: list[Mapping[str, Any]], expected: list[Mapping[str, Any]]) -> None:
    """One by one, so that a failure shows the line in question."""
    for one, other in zip(found, expected, strict=False):
        assert one == other
    assert len(found) == len(expected)


def in_session(engine: Engine, name: str, isolation: Isolation, *args: str) -> Result:
    return engine.run(name, isolation=isolation, pytest_args=("-p", "no:cacheprovider", *args))


NAMES = sorted(name for name in FILES if "test_" in name)


@pytest.mark.parametrize("isolation", Isolation)
def test_same_reports(project: Engine, isolation: Isolation) -> None:
    expected = {name: comparable(plain(project, name)) for name in NAMES}
    result = project.run(
        *NAMES, slots=2, isolation=isolation, pytest_args=("-p", "no:cacheprovider")
    )
    for name in NAMES:
        assert expected[name]
        mine = [line for line in result.lines if line.get("unit") == name]
        assert_same(comparable(mine), expected[name])
    assert {line["isolation"] for line in result.of("UnitStart")} == {isolation.value}
    assert not list(project.root.glob("never.*"))  # the controller's files, not the child's


@pytest.mark.parametrize(
    "args",
    [
        ("-k", "ids and not x"),
        ("-m", "slow"),
        ("-x",),
        ("--maxfail=2",),
        ("--deselect", "test_outcomes.py::test_output"),
        ("-p", "no:warnings"),
        ("-s",),
        ("--capture=sys", "-rA"),
    ],
    ids=" ".join,
)
def test_same_reports_with_options(project: Engine, args: tuple[str, ...]) -> None:
    name = "test_outcomes.py"
    expected = comparable(plain(project, name, *args))
    assert_same(comparable(in_session(project, name, Isolation.FORK, *args).lines), expected)
    assert expected


def test_node_id_as_selector(project: Engine) -> None:
    name = "test_outcomes.py"
    picked = f"{name}::TestClass::test_method"
    result = project.run(project.unit(name, selectors=(picked,)))
    assert result.tests(name) == {"TestClass::test_method": "passed"}


def test_warnings_while_configuring_are_told_once_per_file(project: Engine) -> None:
    names = ("test_unittest.py", "test_outcomes.py")
    result = project.run(*names)
    for name in names:
        told = [w["message"] for w in result.of("WarningMessage", name)]
        assert told.count("said while configuring") == 1


def test_each_file_has_a_state_of_its_own(engine: Engine) -> None:
    text = """
        import json
        import os
        import random
        import sys
        import tempfile

        def test_state(worker_id):
            assert "polluted" not in sys.modules
            assert "POLLUTED" not in os.environ
            sys.modules["polluted"] = sys
            os.environ["POLLUTED"] = "1"
            os.chdir("/")
            folder = os.environ["TMPDIR"]
            assert tempfile.gettempdir() == folder
            open(os.path.join(folder, "left behind"), "w").close()
            assert os.getsid(0) == os.getpid()
            print(json.dumps([folder, random.random(), os.environ["HWMATRIX_SUITE"], worker_id]))
            assert False
        """
    units = engine.write(one=text, two=text)
    result = engine.run(*units)
    told = []
    for unit in units:
        (report,) = [r for r in result.of("TestReport", unit) if r["when"] == "call"]
        told.append(json.loads(dict(report["sections"])["Captured stdout call"]))
    (one, two) = told
    assert one[0] != two[0]
    assert one[1] != two[1]
    assert one[2:] == two[2:] == ["stage-b-test-cpu", "gw0"]
    assert not os.path.exists(one[0])  # noqa: PTH110 - a string from the test's output


def test_templates_serve_folders_with_their_own_conftest(engine: Engine) -> None:
    for folder in ("one", "two"):
        path: Path = engine.root / folder
        path.mkdir()
        conftest = f"def pytest_addoption(parser):\n    parser.addoption('--{folder}')\n"
        (path / "conftest.py").write_text(conftest)
        text = f"def test_option(request):\n    assert request.config.option.{folder} is None\n"
        for name in ("a", "b"):
            (path / f"test_{folder}_{name}.py").write_text(text)
    units = [f"{f}/test_{f}_{n}.py" for f in ("one", "two") for n in ("a", "b")]
    result = engine.run(*units)
    for unit in units:
        assert result.tests(unit) == {"test_option": "passed"}
        assert result.of("UnitStart", unit)[0]["isolation"] == "fork"


STARTS_A_THREAD = """
import threading
import time

threading.Thread(target=time.sleep, args=(3600,), daemon=True, name="ticker").start()
"""


@pytest.mark.parametrize(
    ("conftest", "reason"),
    [
        (
            STARTS_A_THREAD,
            "Python threads run: ticker",
        ),
        (
            "import subprocess\nHELPER = subprocess.Popen(['sleep', '3600'])\n",
            "processes were started",
        ),
        ("STREAM = open('/dev/null')\n", ""),
    ],
    ids=["thread", "process", "file"],
)
def test_fork_only_where_it_is_safe(engine: Engine, conftest: str, reason: str) -> None:
    (engine.root / "conftest.py").write_text(conftest)
    (unit,) = engine.write(fine="def test_fine():\n    pass\n")
    result = engine.run(unit)
    (start,) = result.of("UnitStart")
    assert reason in start["note"]
    assert start["isolation"] == ("spawn" if reason else "fork")
    assert result.tests(unit) == {"test_fine": "passed"}


def test_preload_that_fails_is_told(engine: Engine) -> None:
    (unit,) = engine.write(fine="def test_fine():\n    pass\n")
    result = engine.run(unit, preload=("json.no_such_module",))
    (start,) = result.of("UnitStart")
    assert start["isolation"] == "spawn"
    assert "import json.no_such_module failed: ModuleNotFoundError" in start["note"]
    assert result.tests(unit) == {"test_fine": "passed"}


def test_preload_of_a_package_that_is_not_there_is_passed_over(engine: Engine) -> None:
    (unit,) = engine.write(fine="def test_fine():\n    pass\n")
    (start,) = engine.run(unit, preload=("no_such_package.part", "wave")).of("UnitStart")
    assert (start["isolation"], start["note"]) == ("fork", "")


def test_preloaded_module_is_there_before_the_file(engine: Engine) -> None:
    (unit,) = engine.write(
        fine="import sys\nSEEN = 'wave' in sys.modules\n\ndef test_fine():\n    assert SEEN\n"
    )
    assert engine.run(unit, preload=("wave",)).tests(unit) == {"test_fine": "passed"}


def test_template_killed_by_a_test(engine: Engine) -> None:
    units = engine.write(
        kills=(
            "import os, signal\n\n"
            "def test_kills():\n    os.kill(os.getppid(), 9)\n    signal.pause()\n"
        ),
        fine="def test_fine():\n    pass\n",
    )
    result = engine.run(*units)
    end = result.end("test_kills.py")
    assert (end["cause"], end["signal"]) == ("crashed", 9)
    assert result.tests("test_fine.py") == {"test_fine": "passed"}


@pytest.mark.parametrize("isolation", Isolation)
def test_coverage_that_the_project_asks_for(engine: Engine, isolation: Isolation) -> None:
    pytest.importorskip("pytest_cov")
    engine.not_measured()
    (engine.root / "library.py").write_text(
        "def used():\n    return 1\n\ndef unused():\n    return 2\n"
    )
    (engine.root / "pytest.ini").write_text("[pytest]\naddopts = --cov=library --cov-report=\n")
    text = "import library\n\ndef test_used():\n    assert library.used() == 1\n"
    (engine.root / "sub").mkdir()
    (engine.root / "sub/test_three.py").write_text(text)
    (engine.root / "conftest.py").write_text("")  # puts the root on sys.path
    units = (*engine.write(one=text, two=text), "sub/test_three.py")
    result = engine.run(*units, isolation=isolation)
    for unit in units:
        assert result.tests(unit) == {"test_used": "passed"}
        assert result.end(unit)["exit_status"] == 0
    assert len(list(engine.root.glob(".coverage.*"))) == 3
    for command in ("combine", "json"):
        arguments = [sys.executable, "-m", "coverage", command]
        subprocess.run(arguments, cwd=engine.root, env=engine.env, check=True)
    told = json.loads((engine.root / "coverage.json").read_text())
    assert told["files"]["library.py"]["missing_lines"] == [5]


def test_last_failed(project: Engine) -> None:
    name = "test_outcomes.py"
    cache = project.root / ".pytest_cache/v/cache"
    cache.mkdir(parents=True)
    (cache / "lastfailed").write_text(json.dumps({f"{name}::test_rewritten": True}))
    before = (cache / "lastfailed").read_text()
    result = project.run(name, pytest_args=("--lf",))
    assert result.tests(name) == {"test_rewritten": "failed"}
    assert (cache / "lastfailed").read_text() == before
