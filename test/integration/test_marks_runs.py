"""skip_on and requires in real runs: pytest, and a file that runs itself with unittest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import hwmatrix

PACKAGE = Path(hwmatrix.__file__).parents[1]

FILE = """
import asyncio
import sys
import unittest

IS_PYTEST = "pytest" in sys.modules
if IS_PYTEST:
    import pytest

from hwmatrix import register_amd_ci, requires, skip_on

register_amd_ci(5, "s")


def note(word):
    with open(sys.argv[-1] if not IS_PYTEST else "notes", "a") as file:
        print(word, file=file)


@skip_on("amd", reason="whole class")
class TestWhole(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        note("TestWhole.setUpClass")

    def test_method(self):
        note("TestWhole.test_method")


class TestDerived(TestWhole):
    def setUp(self):
        note("TestDerived.setUp")


class TestMethods(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        note("TestMethods.setUpClass")

    @requires(devices=2, reason="tensor parallel")
    def test_needs_two(self):
        note("TestMethods.test_needs_two")

    def test_runs(self):
        note("TestMethods.test_runs")

    @requires(devices=1)
    def test_has_one(self):
        note("TestMethods.test_has_one")


class TestAsync(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        note("TestAsync.asyncSetUp")

    @skip_on("amd", reason="async")
    async def test_async(self):
        note("TestAsync.test_async")


if IS_PYTEST:

    @pytest.fixture
    def server():
        note("server")
        return 1

    @pytest.fixture(autouse=True, scope="module")
    def module_wide():
        note("module_wide")

    @skip_on("amd", reason="function")
    def test_function(server):
        note("test_function")

    @pytest.mark.parametrize("n", [1, 2])
    @requires(arch="gfx950")
    def test_below_parametrize(n, server):
        note("test_below_parametrize")

    @requires(arch="gfx950")
    @pytest.mark.parametrize("n", [1, 2])
    def test_above_parametrize(n, server):
        note("test_above_parametrize")

    @skip_on("amd", reason="coroutine")
    async def test_coroutine(server):
        note("test_coroutine")

    @requires(memory_gib=80)
    class TestPlain:
        @classmethod
        def setup_class(cls):
            note("TestPlain.setup_class")

        def test_method(self, server):
            note("TestPlain.test_method")

    class TestPlainDerived(TestPlain):
        def test_more(self):
            note("TestPlainDerived.test_more")

    class TestStatic:
        @skip_on("amd", reason="static")
        @staticmethod
        def test_static():
            note("TestStatic.test_static")

    @skip_on("cuda", reason="other backend")
    def test_elsewhere(server):
        note("test_elsewhere")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
"""
FOUND = "found amd (1 device, 64 GiB each, gfx942)"
UNITTEST_SKIPS = {
    "TestWhole.test_method": f"not on amd, {FOUND}: whole class",
    "TestDerived.test_method": f"not on amd, {FOUND}: whole class",
    "TestMethods.test_needs_two": f"needs 2 devices, {FOUND}: tensor parallel",
    "TestAsync.test_async": f"not on amd, {FOUND}: async",
}
PYTEST_SKIPS = {
    ".test_function": f"not on amd, {FOUND}: function",
    ".test_below_parametrize[1]": f"needs gfx950, {FOUND}",
    ".test_below_parametrize[2]": f"needs gfx950, {FOUND}",
    ".test_above_parametrize[1]": f"needs gfx950, {FOUND}",
    ".test_above_parametrize[2]": f"needs gfx950, {FOUND}",
    ".test_coroutine": f"not on amd, {FOUND}: coroutine",
    "TestPlain.test_method": f"needs 80 GiB per device, {FOUND}",
    "TestPlainDerived.test_method": f"needs 80 GiB per device, {FOUND}",
    "TestPlainDerived.test_more": f"needs 80 GiB per device, {FOUND}",
    "TestStatic.test_static": f"not on amd, {FOUND}: static",
}


@pytest.fixture
def env() -> dict[str, str]:
    """Return an environment as a session on AMD sets it."""
    facts = {"BACKEND": "amd", "DEVICES": "1", "MEMORY_GIB": "64", "ARCH": "gfx942"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    session = {f"HWMATRIX_{name}": value for name, value in facts.items()}
    return {**kept, **session, "PYTHONPATH": str(PACKAGE)}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "test_file.py"
    path.write_text(FILE, "utf-8")
    return path


def test_pytest_skips_before_any_fixture(file: Path, env: dict[str, str]) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=j.xml"]
    done = subprocess.run(
        [*command, file.name], cwd=file.parent, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    skipped = {}
    ran = set()
    for case in ET.parse(file.parent / "j.xml").iter("testcase"):
        group = case.attrib["classname"].rpartition("test_file")[2].lstrip(".")
        name = f"{group}.{case.attrib['name']}"
        skip = case.find("skipped")
        if skip is None:
            ran.add(name)
        else:
            skipped[name] = skip.attrib["message"]
    assert skipped == UNITTEST_SKIPS | PYTEST_SKIPS
    assert ran == {"TestMethods.test_runs", "TestMethods.test_has_one", ".test_elsewhere"}
    assert (file.parent / "notes").read_text().split() == [
        "module_wide",
        "TestMethods.setUpClass",
        "TestMethods.test_has_one",
        "TestMethods.test_runs",
        "server",
        "test_elsewhere",
    ]


def test_a_file_that_runs_itself_skips_without_pytest(file: Path, env: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, file, file.parent / "notes"],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    for name, why in UNITTEST_SKIPS.items():
        group, _, method = name.partition(".")
        assert f"{method} (__main__.{group}" in done.stderr
        assert f"skipped '{why}'" in done.stderr
    assert "OK (skipped=4)" in done.stderr
    assert (file.parent / "notes").read_text().split() == [
        "TestMethods.setUpClass",
        "TestMethods.test_has_one",
        "TestMethods.test_runs",
    ]


def test_nothing_is_skipped_on_another_backend(file: Path, env: dict[str, str]) -> None:
    env |= {"HWMATRIX_BACKEND": "cuda", "HWMATRIX_DEVICES": "2", "HWMATRIX_ARCH": ""}
    done = subprocess.run(
        [sys.executable, file, file.parent / "notes"],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.rstrip().endswith("OK")


def modules_after(program: str, env: dict[str, str]) -> set[str]:
    """Return what a bare interpreter has loaded after `program` beyond what it had before."""
    lines = [
        "import sys",
        f"sys.path.insert(0, {str(PACKAGE)!r})",
        "before = set(sys.modules)",
        program,
        "print(*sorted(set(sys.modules) - before))",
    ]
    command = [sys.executable, "-I", "-c", "\n".join(lines)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


ALONE = {"__future__", "hwmatrix", "hwmatrix.marks", "hwmatrix.skips"}


@pytest.mark.parametrize(
    "program",
    [
        "import hwmatrix",
        "import hwmatrix; hwmatrix.register_amd_ci(5, 's')",
        "import hwmatrix; hwmatrix.skip_on('amd', reason='r')(lambda: 0)",
        "import hwmatrix; hwmatrix.requires(devices=2, arch='sm_90')(lambda: 0)",
    ],
)
def test_the_markers_load_nothing_that_an_interpreter_lacks(
    program: str, env: dict[str, str]
) -> None:
    loaded = modules_after(program, env)
    assert "hwmatrix.skips" in loaded
    assert loaded <= ALONE


def test_outside_a_session_the_probe_loads_no_torch(env: dict[str, str]) -> None:
    del env["HWMATRIX_BACKEND"]
    loaded = modules_after("import hwmatrix; hwmatrix.requires(devices=10**6)(lambda: 0)", env)
    assert "hwmatrix.backends" in loaded
    assert not loaded & {"torch", "pytest", "hwmatrix.registry"}
