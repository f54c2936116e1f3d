"""A server on this machine that plays GitHub's API, and the gate's command against it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "test" / "data" / "gate"


@dataclass(slots=True)
class Answer:
    """What the server says once: `silent` until the test ends, or `drip` byte by byte."""

    body: object = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    length: int | None = None
    silent: bool = False
    drip: bool = False

    @property
    def data(self) -> bytes:
        return json.dumps(self.body).encode() if self.raw is None else self.raw


@dataclass(slots=True)
class Played:
    """The server: answers by path in turn (the last one again and again), and what was asked."""

    base: str = ""
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def on(self, path: str, *answers: dict[str, Any]) -> None:
        """Answer `path` with these, each the keywords of an Answer."""
        self.answers[path] = [Answer(**answer) for answer in answers]

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]

    def next(self, path: str) -> Answer:
        queue = self.answers.get(path) or [Answer(body={"message": "Not Found"}, status=404)]
        return queue.pop(0) if len(queue) > 1 else queue[0]


@pytest.fixture
def api() -> Iterator[Played]:
    played = Played()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            played.asked.append((self.path, headers))
            answer = played.next(self.path)
            if answer.silent:
                played.over.wait(20)
                return
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value.replace("BASE", played.base))
            self.send_header(
                "Content-Length", str(len(answer.data) if answer.length is None else answer.length)
            )
            self.end_headers()
            if not answer.drip:
                self.wfile.write(answer.data)
                return
            for byte in answer.data:
                if played.over.wait(0.02):
                    return
                try:
                    self.wfile.write(bytes([byte]))
                except OSError:
                    return

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    played.base = f"http://127.0.0.1:{server.server_address[1]}"
    yield played
    played.over.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the table of the recorded events and one registered file."""
    root = tmp_path / "project"
    (root / "ci").mkdir(parents=True)
    (root / "ci" / "matrix.toml").write_bytes((DATA / "matrix.toml").read_bytes())
    tests = root / "test" / "registered"
    tests.mkdir(parents=True)
    (tests / "test_rope.py").write_text(
        "from hwmatrix import register_cuda_ci\n\n"
        'register_cuda_ci(est_time=9, suite="stage-b-test-1-gpu")\n',
        encoding="utf-8",
    )
    return root


@pytest.fixture
def gate(project: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `python -m hwmatrix gate` in the project, with GitHub's variables alone."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        kept = ("PATH", "HOME", "LANG", "COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START")
        env = {name: os.environ[name] for name in kept if name in os.environ}
        return subprocess.run(
            [sys.executable, "-m", "hwmatrix", "gate", *arguments],
            cwd=project,
            env={**env, "PYTHONPATH": str(ROOT / "ci"), **variables},
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=240,
        )

    return run
