"""The slot server's side of the fork server, on real processes."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hwmatrix
from hwmatrix import process
from hwmatrix.target import forkserver
from hwmatrix.target.forkserver import ForkServer, UnsafeError
from hwmatrix.target.wire import Control, GoneError, Request

if TYPE_CHECKING:
    from collections.abc import Iterator


class Bench:
    """A project of two folders, and requests for its files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.read, self.write = os.pipe()
        for name in ("one", "two"):
            (folder / name).mkdir()
            (folder / name / "conftest.py").touch()  # each folder has a configuration of its own
            (folder / name / f"test_{name}.py").write_text("def test_fine():\n    pass\n")

    def request(self, name: str, **changes: Any) -> Request:
        values: dict[str, Any] = {
            "unit": name,
            "selectors": (f"{name}/test_{name}.py",),
            "options": ("-p", "no:cacheprovider"),
            "cwd": str(self.folder),
            "log": str(self.folder / "log"),
            "stacks": str(self.folder / "stacks"),
            "temporary": str(self.folder / "tmp"),
            "test_limit_s": 240.0,
            "budget_s": 240.0,
            "worker_input": {"workerid": "gw0"},
            "isolation": "fork",
            "lessons": str(self.folder / ".lessons"),
        }
        return Request(**{**values, **changes})

    def status(self, server: ForkServer, request: Request) -> int:
        child, template = server.fork(request, self.write)
        end = time.monotonic() + 240
        while (status := child.status()) is None:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert child.fileno() is None
        assert template.preamble.startswith(b"===")
        return status


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    core = str(Path(hwmatrix.__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", core)  # absolute: the processes start in another folder
    monkeypatch.setenv("PYTEST_ADDOPTS", "")
    made = Bench(tmp_path)
    yield made
    os.close(made.read)
    os.close(made.write)


@pytest.fixture
def server(bench: Bench) -> Iterator[ForkServer]:
    made = ForkServer((), str(bench.folder))
    made.start()
    yield made
    made.close()
    assert made._popen is not None
    made._popen.wait()


def test_templates_are_kept_and_the_oldest_is_dropped(
    bench: Bench, server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forkserver, "_MOST_TEMPLATES", 1)
    assert bench.status(server, bench.request("one")) == 0
    first = server.pids()
    assert bench.status(server, bench.request("one")) == 0
    assert server.pids() == first
    assert bench.status(server, bench.request("two")) == 0
    assert len(server.pids()) == len(first) == 2
    assert server.pids() != first


def test_pytest_that_does_not_start_is_refused_once_and_for_all(
    bench: Bench, server: ForkServer
) -> None:
    request = bench.request("one", options=("--no-such-option",))
    for _ in range(2):
        with pytest.raises(UnsafeError, match="before it collected anything, exit status 4"):
            server.fork(request, bench.write)
    assert bench.status(server, bench.request("one")) == 0


def test_template_that_died_is_noticed(bench: Bench, server: ForkServer) -> None:
    assert bench.status(server, bench.request("one")) == 0
    assert server._popen is not None
    (template,) = server.pids() - {server._popen.pid}
    os.kill(template, 9)
    while (seen := process.look(template)) is not None and not seen.dead:
        time.sleep(0.01)
    with pytest.raises(UnsafeError, match="the template died"):
        server.fork(bench.request("one"), bench.write)
    assert bench.status(server, bench.request("one")) == 0


def test_template_whose_pytest_ended_between_two_units(bench: Bench, server: ForkServer) -> None:
    assert bench.status(server, bench.request("one")) == 0
    (template,) = server.pids() - {server._popen.pid if server._popen else 0}
    os.kill(template, signal.SIGINT)  # KeyboardInterrupt ends its pytest
    with pytest.raises(UnsafeError, match="the template died"):
        server.fork(bench.request("one"), bench.write)
    assert bench.status(server, bench.request("one")) == 0


def test_preloaded_process_that_died_is_noticed(bench: Bench) -> None:
    server = ForkServer((), str(bench.folder))
    with pytest.raises(UnsafeError, match="no fork server was started"):
        server.fork(bench.request("one"), bench.write)
    server.start()
    assert server._popen is not None
    server._popen.kill()
    server._popen.wait()
    for _ in range(2):
        with pytest.raises(UnsafeError, match="the preloaded process died"):
            server.fork(bench.request("one"), bench.write)
    server.close()


def test_preloaded_process_that_dies_later_is_noticed(bench: Bench, server: ForkServer) -> None:
    assert bench.status(server, bench.request("one")) == 0
    assert server._popen is not None
    server._popen.kill()
    server._popen.wait()
    with pytest.raises(UnsafeError, match="the preloaded process died"):
        server.fork(bench.request("two"), bench.write)


def test_no_answer_in_time() -> None:
    one, other = socket.socketpair()
    with other, pytest.raises(GoneError, match="no answer in time"):
        forkserver._wait(Control(one), time.monotonic())
    with pytest.raises(GoneError, match="end of file"):
        forkserver._wait(Control(one), time.monotonic() + 240)
    one.close()


def test_plugin_that_is_preloaded_is_no_reason_for_a_warning(bench: Bench) -> None:
    """pytest warns of plugins that were imported before it, here as an error."""
    (bench.folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    server = ForkServer(("xdist",), str(bench.folder))
    server.start()
    assert bench.status(server, bench.request("one")) == 0
    (bench.folder / "one" / "test_one.py").write_text(
        "import warnings\n\ndef test_warns():\n    warnings.warn('mine')\n"
    )
    assert bench.status(server, bench.request("one")) == 1
    server.close()
    assert server._popen is not None
    server._popen.wait()


def test_template_that_fails_says_the_error_that_it_printed(
    bench: Bench, server: ForkServer
) -> None:
    (bench.folder / "one" / "conftest.py").write_text(
        "def pytest_cmdline_main():\n    raise ValueError('bad luck')\n"
    )
    with pytest.raises(UnsafeError, match=r'end of file\): it said "ValueError: bad luck"'):
        server.fork(bench.request("one"), bench.write)
