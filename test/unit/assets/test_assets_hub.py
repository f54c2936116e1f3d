from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix.assets import fetch, find, locking, look, size_of, wanted
from hwmatrix.assets.hub import shown
from hwmatrix.assets.locking import locked
from hwmatrix.errors import AssetError
from hwmatrix.kit import assets, requires_asset

if TYPE_CHECKING:
    from pathlib import Path

    from test.unit.assets.conftest import HubServer

REVISION = "0123456789abcdef0123456789abcdef01234567"


def whole_folders(env: dict[str, str]) -> list[str]:
    folder = assets.cache_folder(env)
    return [path.name for path in folder.iterdir() if not path.name.startswith(".")]


def test_it_is_fetched_once_and_found_offline(hub: HubServer, tiny: Any, by: Any) -> None:
    place = fetch(tiny(), by())
    assert (place / "config.json").read_bytes() == b'{"layers": 2}'
    assert len((place / "sub/weights.bin").read_bytes()) == 256 * 5000
    assert size_of(place) == 13 + 256 * 5000
    offline = by(env={**by().env, "HF_HUB_OFFLINE": "1"})
    assert fetch(tiny(), by()) == place == fetch(tiny(), offline) == find(tiny(), by().env)
    assert len(hub.asked) == 2


def test_data_sets_have_their_own_address(hub: HubServer, by: Any) -> None:
    sums = requires_asset(
        "sums", hub="org/sums", revision=REVISION, kind="datasets", files=("train.jsonl",)
    )
    assert (fetch(sums, by()) / "train.jsonl").read_bytes() == b"{}\n"
    assert hub.asked[0][0].startswith("/datasets/org/sums/")


def test_a_token_is_sent_only_where_there_is_one(hub: HubServer, tiny: Any, by: Any) -> None:
    fetch(tiny(), by())
    fetch(tiny(files=("config.json",)), by(env={**by().env, "HF_TOKEN": "secret-token"}))
    assert {header for _, header in hub.asked} == {None, "Bearer secret-token"}


def test_patterns_are_held_against_the_hub_s_listing(hub: HubServer, tiny: Any, by: Any) -> None:
    good = hashlib.sha256(bytes(range(256)) * 5000).hexdigest()
    hub.rows = [
        {"type": "directory", "path": "sub"},
        {"type": "file", "path": "config.json", "size": 13},
        {"type": "file", "path": "../escape.json", "size": 1},
        {"type": "file", "path": "README.md", "size": 9},
        {"type": "file", "path": "sub/weights.bin", "size": 1280000, "lfs": {"oid": good}},
    ]
    place = fetch(tiny(files=("*.json", "sub/*.bin")), by())
    names = {str(p.relative_to(place)) for p in place.rglob("*") if p.is_file()}
    assert names == {".complete.json", "config.json", "sub/weights.bin"}
    assert sum(path.startswith("/api/models/org/tiny/tree/") for path, _ in hub.asked) == 3
    with pytest.raises(AssetError, match=r"no file of hub org/tiny@0123\w+ is called '\*\.pt'"):
        fetch(tiny(files=("*.pt",)), by())
    hub.rows[-1]["lfs"]["oid"] = "0" * 64
    with pytest.raises(AssetError, match=r"weights.bin has sha256 \w+, not 0000"):
        fetch(tiny(files=("sub/*.bin",)), by())


def test_many_at_once_fetch_it_once(hub: HubServer, tiny: Any, by: Any) -> None:
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(fetch(tiny(), by()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert len(hub.asked) == 2


@pytest.mark.parametrize("faults", [[503], ["cut"], [429, "cut"]])
def test_what_may_pass_is_tried_again(
    hub: HubServer, tiny: Any, by: Any, said: list[str], faults: list[int | str]
) -> None:
    hub.faults = list(faults)
    assert (fetch(tiny(), by()) / "config.json").read_bytes() == b'{"layers": 2}'
    assert sum("Trying again" in line for line in said) == len(faults)


def test_an_answer_without_a_length_is_taken(hub: HubServer, tiny: Any, by: Any) -> None:
    hub.faults = ["chunked", "chunked"]
    assert size_of(fetch(tiny(), by())) == 13 + 256 * 5000


def test_faults_of_the_hub_are_named_and_nothing_gets_the_asset_s_name(
    hub: HubServer, tiny: Any, by: Any, env: dict[str, str]
) -> None:
    with pytest.raises(AssetError, match=r"asset tiny: http.*absent\.bin: HTTP 404 .*no such"):
        fetch(tiny(files=("config.json", "absent.bin")), by())
    hub.faults = [401]
    with pytest.raises(AssetError, match=r"HTTP 401 .*HF_TOKEN"):
        fetch(tiny(), by())
    hub.faults = ["cut", "cut", "cut"]
    with pytest.raises(AssetError, match=r"6 of 13 bytes came|IncompleteRead"):
        fetch(tiny(), by())
    hub.faults = ["hang"] * 3
    with pytest.raises(AssetError, match="timed out"):
        fetch(tiny(), by(answer_s=0.2))
    dead = {**env, "HF_ENDPOINT": "http://127.0.0.1:9"}
    with pytest.raises(AssetError, match=r"refused.*HF_ENDPOINT names a mirror"):
        fetch(tiny(), by(env=dead))
    assert whole_folders(env) == []


def test_a_wrong_hash_is_refused(tiny: Any, by: Any, env: dict[str, str]) -> None:
    right = hashlib.sha256(b'{"layers": 2}').hexdigest()
    with pytest.raises(AssetError, match=f"has sha256 {right}, not 000.*Nothing of it was kept"):
        fetch(tiny(files=("config.json",), sha256="0" * 64), by())
    assert whole_folders(env) == []
    assert fetch(tiny(files=("config.json",), sha256=right), by()).is_dir()
    several = {"sub/weights.bin": "0" * 64}
    with pytest.raises(AssetError, match=r"sub/weights.bin has sha256"):
        fetch(tiny(sha256=several), by())


def test_time_is_bounded(hub: HubServer, tiny: Any, by: Any, env: dict[str, str]) -> None:
    hub.faults = [503]
    hasty = {**env, "HWMATRIX_ASSETS_LIMIT_S": "0.000001"}
    with pytest.raises(AssetError, match=r"HTTP 503|before the time was over|timed out"):
        fetch(tiny(), by(env=hasty, pauses_s=(1.0,)))
    with pytest.raises(AssetError, match=r"before the time was over.*HWMATRIX_ASSETS_LIMIT_S"):
        fetch(tiny(), by(env=hasty))
    for text in ("soon", "0", "inf"):
        with pytest.raises(AssetError, match=f"HWMATRIX_ASSETS_LIMIT_S={text}: allowed"):
            fetch(tiny(), by(env={**env, "HWMATRIX_ASSETS_LIMIT_S": text}))


def test_a_kill_leaves_no_half_asset_and_whole_files_are_kept(
    hub: HubServer, tiny: Any, by: Any, env: dict[str, str]
) -> None:
    hub.faults = ["", "hang"]
    cache = assets.cache_folder(env)
    code = (
        "import os\nfrom hwmatrix.kit import assets, requires_asset\n"
        "asset = requires_asset('tiny', hub='org/tiny', revision=os.environ['REVISION'], "
        "files=('config.json', 'sub/weights.bin'))\nassets.fetch(asset, os.environ)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, **env, "REVISION": REVISION}
    ) as child:
        end = time.monotonic() + 240
        while not list(cache.glob(".tiny-*.part/sub/weights.bin.partial")):
            assert time.monotonic() < end
            time.sleep(0.01)
        child.kill()
    assert whole_folders(env) == []
    assert look(tiny(), env).folder is None
    place = fetch(tiny(), by())
    assert size_of(place) == 13 + 256 * 5000
    assert [path.rsplit("/", 1)[-1] for path, _ in hub.asked] == [
        "config.json",
        "weights.bin",
        "weights.bin",
    ]
    assert not list(cache.glob(".tiny-*.part"))


def test_who_waits_says_for_whom_and_not_for_ever(
    tiny: Any, by: Any, env: dict[str, str], said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = assets.cache_folder(env)
    cache.mkdir()
    until = time.monotonic() + 240
    # Once it was said, the time is over: it must not be over before.
    passed = SimpleNamespace(
        monotonic=lambda: time.monotonic() + (300 if said else 0), sleep=time.sleep
    )
    monkeypatch.setattr(locking, "time", passed)
    with (
        locked(cache / f".{tiny().key}.lock", "tiny", until=until, say=said.append),
        pytest.raises(AssetError, match=f"tiny: pid {os.getpid()} on .* is still fetching"),
    ):
        fetch(tiny(), by(env={**env, "HWMATRIX_ASSETS_LIMIT_S": "240"}))
    assert f"pid {os.getpid()} on " in said[0]
    assert "waiting" in said[0]
    assert fetch(tiny(), by()).is_dir()


def test_long_downloads_show_how_far_they_are(
    tiny: Any, by: Any, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hwmatrix.assets.hub._SAY_EVERY_S", 0.0)
    monkeypatch.setattr("hwmatrix.assets.hub._CHUNK", 1000)
    fetch(tiny(), by())
    assert "asset tiny: sub/weights.bin: 1.0 kB of 1.3 MB" in said
    assert [shown(n) for n in (999, 1000, 1_500_000, 2_000_000_000)] == [
        "999 B",
        "1.0 kB",
        "1.5 MB",
        "2.0 GB",
    ]


def test_a_damaged_asset_is_fetched_anew(hub: HubServer, tiny: Any, by: Any) -> None:
    place = fetch(tiny(), by())
    (place / "config.json").write_bytes(b"{}")
    with pytest.raises(AssetError, match="is not in"):
        find(tiny(), by().env)
    assert (fetch(tiny(), by()) / "config.json").read_bytes() == b'{"layers": 2}'
    assert len(hub.asked) == 4


def test_a_cache_that_cannot_be_written_is_named(
    tiny: Any, by: Any, env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    blocked = {**env, "HWMATRIX_ASSETS": str(tmp_path / "file" / "assets")}
    with pytest.raises(AssetError, match=r"tiny: .*/file is a file.*HWMATRIX_ASSETS"):
        fetch(tiny(), by(env=blocked))
    kernel = {**env, "HWMATRIX_ASSETS": "/proc/assets"}
    with pytest.raises(AssetError, match=r"/proc/assets.*make room or give permission"):
        fetch(tiny(), by(env=kernel))


def test_offline_says_what_to_do(tiny: Any, by: Any, env: dict[str, str]) -> None:
    for word in ("1", "true", "ON", "yes"):
        with pytest.raises(AssetError, match=f"HF_HUB_OFFLINE={word} forbids.*`nox -s assets --"):
            fetch(tiny(), by(env={**env, "HF_HUB_OFFLINE": word}))
    with pytest.raises(AssetError, match="--optional"):
        fetch(tiny(optional=True), by(env={**env, "HF_HUB_OFFLINE": "1"}))


def test_variables_name_a_repository_a_folder_or_nothing_yet(
    tiny: Any, by: Any, env: dict[str, str], tmp_path: Path
) -> None:
    open_ = tiny(hub="$MODEL_REPO", revision="", optional=True)
    with pytest.raises(AssetError, match="tiny: MODEL_REPO is not set, which names its source"):
        fetch(open_, by())
    assert look(open_, env).open == ("MODEL_REPO",)
    assert open_.here(env) is None
    pinned = {**env, "MODEL_REPO": f"org/tiny@{REVISION}"}
    assert [wanted(open_, known) for known in (env, pinned)] == [False, True]
    with pytest.raises(AssetError, match=r"is not in .*`nox -s assets -- SESSION`"):
        open_.here(pinned)
    assert fetch(open_, by(env=pinned)) == fetch(tiny(), by()) == open_.here(pinned)
    assert fetch(open_, by(env={**env, "MODEL_REPO": str(tmp_path)})) == tmp_path
    with pytest.raises(AssetError, match="revision='main'; allowed: the 40 digits"):
        fetch(open_, by(env={**env, "MODEL_REPO": "org/tiny@main"}))
    with pytest.raises(AssetError, match=r"needs revision= and files="):
        fetch(open_, by(env={**env, "MODEL_REPO": "org/tiny"}))
    both = tiny(hub="${OWNER}/tiny", revision="$COMMIT")
    set_ = {**env, "OWNER": "org", "COMMIT": REVISION}
    assert fetch(both, by(env=set_)) == tiny().path(env)


def test_a_file_in_the_place_of_the_cache(tiny: Any, by: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("file", "file/below"):
        with pytest.raises(AssetError, match=r"/file is a file, where a folder is needed\."):
            fetch(tiny(), by(env={"HWMATRIX_ASSETS": str(tmp_path / name)}))


def test_folders_are_taken_as_they_are(by: Any, tmp_path: Path) -> None:
    assert fetch(requires_asset("here", folder=str(tmp_path)), by()) == tmp_path
    named = requires_asset("here", folder="$DATA/x")
    (tmp_path / "x").mkdir()
    assert named.path({"DATA": str(tmp_path)}) == tmp_path / "x"
    with pytest.raises(AssetError, match="is no folder on this machine"):
        fetch(requires_asset("m", folder=str(tmp_path / "absent")), by())
