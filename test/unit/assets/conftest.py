"""A hub on loopback, and a cache of its own for each test."""

from __future__ import annotations

import http.server
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix.assets import Fetcher
from hwmatrix.errors import AssetError
from hwmatrix.kit import assets, requires_asset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

REVISION = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    f"/org/tiny/resolve/{REVISION}/config.json": b'{"layers": 2}',
    f"/org/tiny/resolve/{REVISION}/sub/weights.bin": bytes(range(256)) * 5000,
    f"/datasets/org/sums/resolve/{REVISION}/train.jsonl": b"{}\n",
}


class HubServer(http.server.ThreadingHTTPServer):
    """Keeps what was asked, with the Authorization header.

    `faults` are taken one by one: a status to answer with, `cut` (half of the bytes), `chunked`
    (no length), `hang` (nothing after the first byte until the test ends).
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Hub)
        self.asked: list[tuple[str, str | None]] = []
        self.files = dict(FILES)
        self.rows: list[dict[str, Any]] = []
        self.faults: list[int | str] = []
        self.over = threading.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Hub(http.server.BaseHTTPRequestHandler):
    """Answers as a hub does."""

    server: HubServer

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        fault = self.server.faults.pop(0) if self.server.faults else ""
        if isinstance(fault, int):
            self.send_error(fault)
        elif self.path.startswith("/api/"):
            self._list()
        elif self.path not in self.server.files:
            self.send_error(404, "Entry not found")
        else:
            self._send(self.server.files[self.path], fault)

    def _list(self) -> None:
        """Answer with two rows a page, as long as there are more."""
        at = int(self.path.partition("cursor=")[2] or 0)
        body = json.dumps(self.server.rows[at : at + 2]).encode()
        self.send_response(200)
        if at + 2 < len(self.server.rows):
            page = self.path.partition("&")[0]
            link = f'<{self.server.address}{page}&cursor={at + 2}>; rel="next"'
            self.send_header("Link", link)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _send(self, body: bytes, fault: str) -> None:
        self.send_response(200)
        if fault != "chunked":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if fault == "hang":
            self.wfile.write(body[:1])
            self.wfile.flush()
            self.server.over.wait(60)
            return
        self.wfile.write(body[: len(body) // 2] if fault == "cut" else body)

    def log_message(self, *_words: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[HubServer]:
    server = HubServer()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.over.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def env(hub: HubServer, tmp_path: Path) -> dict[str, str]:
    return {"HF_ENDPOINT": hub.address, "HWMATRIX_ASSETS": str(tmp_path / "assets")}


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def by(env: dict[str, str], said: list[str]) -> Callable[..., Fetcher]:
    """Return a function that makes a fetcher which waits for nothing."""

    def made(**changes: Any) -> Fetcher:
        def no_wheel(requirement: str, folder: Path) -> Path:
            raise AssetError(f"nobody asked for {requirement} in {folder}")

        usual: dict[str, Any] = {
            "env": env,
            "wheel": no_wheel,
            "say": said.append,
            "answer_s": 240.0,
            "pauses_s": (0.0, 0.0),
        }
        return Fetcher(**{**usual, **changes})

    return made


def _tiny(**changes: Any) -> assets.Asset:
    settings: dict[str, Any] = {
        "hub": "org/tiny",
        "revision": REVISION,
        "files": ("config.json", "sub/weights.bin"),
    }
    return requires_asset("tiny", **{**settings, **changes})


@pytest.fixture
def tiny() -> Callable[..., assets.Asset]:
    """Return a function that declares the tiny model, with changes."""
    return _tiny
