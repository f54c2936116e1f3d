from __future__ import annotations

import http.server
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix.errors import AssetError, UsageError
from hwmatrix.kit import assets, requires_asset

if TYPE_CHECKING:
    from collections.abc import Iterator

REVISION = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    f"/org/tiny/resolve/{REVISION}/config.json": b'{"layers": 2}',
    f"/org/tiny/resolve/{REVISION}/sub/weights.bin": bytes(range(256)) * 5000,
    f"/datasets/org/sums/resolve/{REVISION}/train.jsonl": b"{}\n",
}


class HubServer(http.server.ThreadingHTTPServer):
    """Keeps what was asked, with the Authorization header; cuts its answers short if told to."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Hub)
        self.asked: list[tuple[str, str | None]] = []
        self.cuts = False


class Hub(http.server.BaseHTTPRequestHandler):
    """Answers as a hub does."""

    server: HubServer

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        body = FILES.get(self.path)
        if body is None:
            self.send_error(404, "Entry not found")
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if self.server.cuts else body)

    def log_message(self, *_words: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[HubServer]:
    server = HubServer()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def env(hub: HubServer, tmp_path: Path) -> dict[str, str]:
    address = f"http://127.0.0.1:{hub.server_address[1]}"
    return {"HF_ENDPOINT": address, "HWMATRIX_ASSETS": str(tmp_path / "assets")}


def tiny(**changes: Any) -> assets.Asset:
    settings: dict[str, Any] = {
        "hub": "org/tiny",
        "revision": REVISION,
        "files": ("config.json", "sub/weights.bin"),
    }
    return requires_asset("tiny", **{**settings, **changes})


def test_it_is_fetched_once_and_found_offline(hub: HubServer, env: dict[str, str]) -> None:
    place = assets.fetch(tiny(), env)
    assert (place / "config.json").read_bytes() == b'{"layers": 2}'
    assert len((place / "sub/weights.bin").read_bytes()) == 256 * 5000
    asked = len(hub.asked)
    assert assets.fetch(tiny(), env) == place == tiny().path(env)
    assert len(hub.asked) == asked == 2


def test_data_sets_have_their_own_address(hub: HubServer, env: dict[str, str]) -> None:
    sums = requires_asset(
        "sums", hub="org/sums", revision=REVISION, kind="datasets", files=("train.jsonl",)
    )
    assert (assets.fetch(sums, env) / "train.jsonl").read_bytes() == b"{}\n"
    assert hub.asked[0][0].startswith("/datasets/org/sums/")


def test_a_token_is_sent_only_where_there_is_one(hub: HubServer, env: dict[str, str]) -> None:
    assets.fetch(tiny(), env)
    assets.fetch(tiny(files=("config.json",)), {**env, "HF_TOKEN": "secret-token"})
    assert {header for _, header in hub.asked} == {None, "Bearer secret-token"}


def test_many_at_once_fetch_it_once(hub: HubServer, env: dict[str, str]) -> None:
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(assets.fetch(tiny(), env))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert len(hub.asked) == 2


def test_a_missing_file_a_cut_answer_and_no_answer_are_faults_and_leave_nothing(
    hub: HubServer, env: dict[str, str]
) -> None:
    with pytest.raises(AssetError, match=r"asset tiny: http.*absent\.bin: .*404.*Nothing was kept"):
        assets.fetch(tiny(files=("config.json", "absent.bin")), env)
    hub.cuts = True
    with pytest.raises(AssetError, match=r"asset tiny: .* of 13 bytes came|IncompleteRead"):
        assets.fetch(tiny(files=("config.json",)), env)
    dead = {**env, "HF_ENDPOINT": "http://127.0.0.1:9"}
    with pytest.raises(AssetError, match="refused"):
        assets.fetch(tiny(), dead)
    folder = assets.cache_folder(env)
    assert [path.name for path in folder.iterdir() if not path.name.endswith(".lock")] == []


def test_a_path_may_not_leave_the_folder(env: dict[str, str]) -> None:
    with pytest.raises(AssetError, match="leads out of its folder"):
        assets.fetch(tiny(files=("../../outside",)), env)


def test_an_asset_that_was_not_fetched_says_how(env: dict[str, str]) -> None:
    with pytest.raises(AssetError, match=r"tiny: org/tiny@0123.* `nox -s assets"):
        tiny().path(env)


def test_another_revision_is_another_asset() -> None:
    assert tiny().key != tiny(revision="f" * 40).key
    assert tiny().key == tiny(files=("sub/weights.bin", "config.json")).key


def test_packages_and_folders_are_found_or_named(tmp_path: Path, env: dict[str, str]) -> None:
    assert requires_asset("self", package="pytest").path(env).is_dir()
    assert assets.fetch(requires_asset("here", folder=str(tmp_path)), env) == tmp_path
    with pytest.raises(AssetError, match=r"package no-such-model==1 is not installed"):
        requires_asset("m", package="no-such-model==1").path(env)
    with pytest.raises(AssetError, match=r"pytest is .*, not 1\.0"):
        requires_asset("m", package="pytest==1.0").path(env)
    with pytest.raises(AssetError, match="is no folder on this machine"):
        requires_asset("m", folder=str(tmp_path / "absent")).path(env)


def test_declarations_are_checked() -> None:
    with pytest.raises(UsageError, match="needs one of package=, hub= and folder="):
        requires_asset("m")
    with pytest.raises(UsageError, match="needs one of"):
        requires_asset("m", package="a", folder="b")
    with pytest.raises(UsageError, match="needs revision= and files="):
        requires_asset("m", hub="a/b")
    with pytest.raises(UsageError, match="kind='model'"):
        tiny(kind="model")


def test_the_cache_is_where_the_user_says() -> None:
    assert assets.cache_folder({"HWMATRIX_ASSETS": "/a"}) == Path("/a")
    assert assets.cache_folder({"XDG_CACHE_HOME": "/c"}) == Path("/c/hwmatrix/assets")
    assert assets.cache_folder({"HOME": "/h"}) == Path("/h/.cache/hwmatrix/assets")
