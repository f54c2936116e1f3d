from __future__ import annotations

import sys
import time
import urllib.request
from typing import TYPE_CHECKING

import pytest

from hwmatrix import process
from hwmatrix.kit import ServerError, servers, start_server

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Make = Callable[[str], list[str]]

pytest_plugins = ["pytester"]

SERVER = """
import http.server, os, signal, subprocess, sys, time
mode, port = sys.argv[1], int(sys.argv[2])
print("starting on", port, flush=True)
if mode == "dies":
    sys.exit("no model here")
if mode == "mute":
    time.sleep(3600)
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if mode == "family":
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"
    children = [subprocess.Popen([sys.executable, "-c", code], start_new_session=own)
                for own in (False, True)]
    print("children", *[child.pid for child in children], flush=True)

class Handler(http.server.BaseHTTPRequestHandler):
    asked = 0
    def do_GET(self):
        Handler.asked += 1
        ready = mode != "slow" or Handler.asked > 3
        self.send_response(200 if ready else 503)
        self.end_headers()
        self.wfile.write(os.environ.get("GREETING", "hello").encode())
    def log_message(self, *words):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


@pytest.fixture
def command(tmp_path: Path) -> Make:
    script = tmp_path / "server.py"
    script.write_text(SERVER, encoding="utf-8")

    def make(mode: str) -> list[str]:
        return [sys.executable, str(script), mode, "{port}"]

    return make


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=240) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize("mode", ["plain", "slow"])
def test_it_is_ready_when_it_returns_and_gone_after_stop(
    mode: str, command: Make, log: Path
) -> None:
    server = start_server(command(mode), log=log, env={"GREETING": "good day"})
    assert get(server.url) == "good day"
    assert server.ready_s > 0
    assert server.stop() == -15
    assert process.look(server.child.pid) is None
    with pytest.raises(OSError, match="refused"):
        get(server.url)
    assert server.tail() == f"starting on {server.port}\n"


def test_a_leased_port_is_used(command: Make, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = start_server(command("plain"), log=log)
    first.stop()
    monkeypatch.setenv("HWMATRIX_PORT", str(first.port))
    second = start_server(command("plain"), log=log, ready="")
    assert second.port == first.port
    second.stop()


def test_one_that_ends_at_once_is_named_with_its_log(command: Make, log: Path) -> None:
    with pytest.raises(ServerError, match=r"(?s)ended with 1\. Its log:.*no model here"):
        start_server(command("dies"), log=log)


def test_one_that_is_never_ready_is_ended_at_the_limit(
    command: Make, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = servers._answers

    def once_it_is_up(server: servers.Server, ready: str) -> bool:
        while "starting on" not in server.tail():
            time.sleep(0.02)
        return answers(server, ready)

    monkeypatch.setattr(servers, "_answers", once_it_is_up)
    with pytest.raises(ServerError, match=r"(?s)was not ready after .*starting on"):
        start_server(command("mute"), log=log, limit_s=1.0)


def test_one_that_refuses_the_polite_signal_is_killed(
    command: Make, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hwmatrix.kit.servers._STOP_S", 0.2)
    server = start_server(command("stubborn"), log=log)
    assert server.stop() == -9


def test_its_children_go_with_it_even_in_a_session_of_their_own(command: Make, log: Path) -> None:
    server = start_server(command("family"), log=log)
    words = server.tail().split("children ")[1].split()
    children = [int(word) for word in words]
    assert all(process.look(pid) is not None for pid in children)
    server.stop()
    left = [seen for pid in children if (seen := process.look(pid)) and not seen.dead]
    assert left == []


def test_a_long_log_keeps_its_end(command: Make, log: Path) -> None:
    server = start_server(command("plain"), log=log)
    server.stop()
    log.write_text("x" * 20_000 + "the end", encoding="utf-8")
    assert server.tail().startswith("[...] x")
    assert server.tail().endswith("the end")


def test_the_fixture_stops_it_and_shows_its_log_where_a_test_fails(
    pytester: pytest.Pytester, command: Make
) -> None:
    pytester.makeconftest("from hwmatrix.kit.plugin import *")
    pytester.makepyfile(
        f"""
        import urllib.request
        pids = []

        def test_fails(server):
            running = server({command("plain")!r})
            pids.append(running.child.pid)
            assert urllib.request.urlopen(running.url).read() == b"bye"

        def test_then():
            from hwmatrix import process
            assert process.look(pids[0]) is None

        def test_without():
            assert False
        """
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(failed=2, passed=1)
    result.stdout.fnmatch_lines(["*Server 1: *server.py plain *", "starting on *"])
