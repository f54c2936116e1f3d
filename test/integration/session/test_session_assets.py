"""Sessions fetch what their files declare, before the tests and never as a test's failure."""

from __future__ import annotations

import functools
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from test.integration.session.conftest import Project

REVISION = "0123456789abcdef0123456789abcdef01234567"
GOOD = "def test_a():\n    pass\n"


def needing(declaration: str, file: str = "model_pack/weights.txt") -> str:
    return (
        "import os\nfrom hwmatrix.kit import requires_asset\n"
        f"MODEL = requires_asset({declaration})\n"
        "def test_model():\n"
        f"    assert (MODEL.path() / {file!r}).read_text() == 'weights'\n"
        "    assert os.environ['HF_HUB_OFFLINE'] == '1'\n"
    )


PACKAGE = needing("'pack', package='model-pack==1.0'")
HUB = needing(f"'tiny', hub='org/tiny', revision='{REVISION}', files=('w.txt',)", "w.txt")


@pytest.fixture
def index(project: Project) -> Path:
    """Make a folder of one wheel, whose requirement is nowhere to be had."""
    folder = project.root / "index"
    folder.mkdir()
    with zipfile.ZipFile(folder / "model_pack-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("model_pack/weights.txt", "weights")
        info = "model_pack-1.0.dist-info"
        meta = "Metadata-Version: 2.1\nName: model-pack\nVersion: 1.0\nRequires-Dist: no-such\n"
        wheel.writestr(f"{info}/METADATA", meta)
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return folder


@pytest.fixture(autouse=True)
def machine(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the session a cache of its own, and no index at all."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(project.root / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(project.root / "index"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_words: object) -> None:
        pass


@pytest.fixture
def hub(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Serve a folder as a hub does; return the folder of org/tiny's files."""
    files = project.root / "served" / "org" / "tiny" / "resolve" / REVISION
    files.mkdir(parents=True)
    (files / "w.txt").write_text("weights")
    handler = functools.partial(_Quiet, directory=str(project.root / "served"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
    yield files
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.usefixtures("index")
def test_a_session_fetches_a_package_and_installs_nothing(project: Project) -> None:
    project.file("test_pack.py", PACKAGE)
    ended = project.session("cpu-stage-b")
    assert ended.status == 0, ended.err
    assert "asset pack: fetching package model-pack==1.0" in ended.err
    found = subprocess.run(
        [sys.executable, "-c", "import model_pack"], capture_output=True, check=False
    )
    assert found.returncode == 1
    again = project.hwmatrix("assets", "cpu-stage-b")
    assert again.status == 0
    assert "fetching" not in again.err


@pytest.mark.usefixtures("hub")
def test_the_command_fetches_ahead_and_lists(project: Project) -> None:
    project.file("test_hub.py", HUB)
    project.file("test_plain.py", GOOD)
    listed = json.loads(project.hwmatrix("assets", "cpu-stage-b", "--list", "--json").out)
    assert [(row["name"], row["state"], row["bytes"]) for row in listed] == [
        ("tiny", "missing", None)
    ]
    assert listed[0]["declared"] == "test/test_hub.py:5"
    assert not (project.root / "cache").exists()
    fetched = project.hwmatrix("assets", "cpu-stage-b")
    assert fetched.status == 0, fetched.err
    assert fetched.out.split() == [
        "tiny",
        "present",
        "7",
        "B",
        "1",
        "file",
        "test/test_hub.py:5",
        "hub",
        f"org/tiny@{REVISION}",
    ]
    none = project.hwmatrix("assets", "cpu-stage-b", "test/test_plain.py")
    assert none.out == "cpu-stage-b: its files declare no asset.\n"


def test_a_cache_that_was_brought_along_is_enough(
    project: Project, hub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.file("test_hub.py", HUB)
    assert project.hwmatrix("assets", "cpu-stage-b").status == 0
    (project.root / "cache").rename(project.root / "brought")
    (hub / "w.txt").unlink()
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    cache = project.root / "brought" / "hwmatrix" / "assets"
    ended = project.session("cpu-stage-b", env={"HWMATRIX_ASSETS": str(cache)})
    assert ended.status == 0, ended.err


def test_a_file_without_its_asset_is_not_run_and_the_rest_runs(project: Project) -> None:
    project.file("test_hub.py", HUB)
    project.file("test_plain.py", GOOD)
    ended = project.session("cpu-stage-b")
    assert ended.status == 14, ended.err
    outcomes = project.outcomes()
    assert outcomes["test_plain.py"][0] == "passed"
    outcome, reason = outcomes["test_hub.py"]
    assert outcome == "not run"
    assert reason.startswith("infrastructure: asset tiny: http://127.0.0.1:9/org/tiny/resolve/")
    assert "declared in test/test_hub.py:5" in reason


def test_a_run_is_completed_once_its_asset_is_here(project: Project) -> None:
    project.file("test_folder.py", needing("'data', folder='$DATA_HERE'", "w.txt"))
    project.file("test_bad.py", "def test_a():\n    assert False\n")
    ended = project.session("cpu-stage-b")
    assert ended.status == 1, ended.err
    assert "DATA_HERE is not set" in project.outcomes()["test_folder.py"][1]
    data = project.root / "data"
    data.mkdir()
    (data / "w.txt").write_text("weights")
    resumed = project.session("cpu-stage-b", "--resume", "latest", env={"DATA_HERE": str(data)})
    assert resumed.status == 1, resumed.err
    assert {name: outcome for name, (outcome, _) in project.outcomes().items()} == {
        "test_folder.py": "passed",
        "test_bad.py": "failed",
    }


def test_where_every_file_lacks_its_asset_nothing_is_run(project: Project) -> None:
    project.file("test_hub.py", HUB)
    for words, env, why in (
        (["--no-fetch"], {}, "is not in"),
        ([], {"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE=1 forbids to fetch it"),
    ):
        ended = project.session("cpu-stage-b", *words, env=env)
        assert ended.status == 14, ended.err
        assert "infrastructure: every file needs an asset that is not here" in ended.err
        assert why in ended.err
    assert not (project.root / ".hwmatrix" / "runs").exists()
    command = project.hwmatrix("assets", "cpu-stage-b")
    assert command.status == 14
    assert "infrastructure: asset tiny: http" in command.err


def test_releases_that_cannot_be_had_are_named(project: Project, index: Path) -> None:
    project.file("test_pack.py", PACKAGE.replace("==1.0", "==2.0"))
    absent = project.hwmatrix("assets", "cpu-stage-b")
    assert absent.status == 14
    assert "download the wheel of model-pack==2.0" in absent.err
    assert "Likely: no build fits" in absent.err
    page = project.root / "simple" / "model-pack"
    page.mkdir(parents=True)
    wheel = index / "model_pack-1.0-py3-none-any.whl"
    (page / "index.html").write_text(
        f'<a href="{wheel.as_uri()}" data-yanked="broken weights">{wheel.name}</a>'
    )
    project.file("test_pack.py", PACKAGE)
    simple = {
        "PIP_NO_INDEX": "",
        "PIP_FIND_LINKS": "",
        "PIP_INDEX_URL": (project.root / "simple").as_uri(),
    }
    yanked = project.hwmatrix("assets", "cpu-stage-b", env=simple)
    assert yanked.status == 14
    assert "withdrawn (yanked)" in yanked.err


def test_a_declaration_that_cannot_be_read_stops_its_session(project: Project) -> None:
    project.file("test_bad.py", "from hwmatrix.kit import requires_asset\nM = requires_asset(N)\n")
    project.file("test_plain.py", GOOD)
    for ended in (project.session("cpu-stage-b"), project.hwmatrix("assets", "cpu-stage-b")):
        assert ended.status == 3
        assert "test/test_bad.py:4: requires_asset() has name=N, a name." in ended.err
        assert "nothing was fetched or run" in ended.err
    assert project.session("cpu-stage-b", "test/test_plain.py").status == 0
    planned = project.session("cpu-stage-b", "--plan")
    assert planned.status == 3
    assert "test/test_bad.py:4: requires_asset() has name=N" in planned.err
    linted = project.hwmatrix("lint")
    assert linted.status == 3
    assert "test/test_bad.py:4: requires_asset()" in linted.out


def test_optional_assets_are_fetched_when_asked_for(project: Project, hub: Path) -> None:
    text = HUB.replace("files=('w.txt',)", "files=('w.txt',), optional=True")
    project.file("test_hub.py", text.replace("MODEL.path()", "(MODEL.here() or x)"))
    wrong = project.hwmatrix("assets", "cpu-stage-b")
    assert "missing, optional" in wrong.out
    assert wrong.status == 0
    assert project.hwmatrix("assets", "cpu-stage-b", "--optional").status == 0
    (hub / "w.txt").unlink()
    assert project.session("cpu-stage-b").status == 0


def test_a_killed_fetch_leaves_nothing_that_counts(project: Project, hub: Path) -> None:
    os.mkfifo(hub / "slow.txt")  # whoever serves it waits for a writer
    project.file("test_hub.py", HUB.replace("('w.txt',)", "('w.txt', 'slow.txt')"))
    command = [sys.executable, "-m", "hwmatrix", "assets", "cpu-stage-b"]
    cache = project.root / "cache" / "hwmatrix" / "assets"
    with subprocess.Popen(command, cwd=project.root, env=project.env()) as child:
        end = time.monotonic() + 240
        while not list(cache.glob(".tiny-*.part/w.txt")):
            assert time.monotonic() < end
            time.sleep(0.02)
        child.send_signal(signal.SIGKILL)
    writer = os.open(hub / "slow.txt", os.O_RDWR)
    os.close(writer)
    (hub / "slow.txt").unlink()
    (hub / "slow.txt").write_text("late")
    assert [path for path in cache.iterdir() if not path.name.startswith(".")] == []
    both = [
        subprocess.Popen(
            command, cwd=project.root, env=project.env(), stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    said = [child.communicate()[1] for child in both]
    assert [child.returncode for child in both] == [0, 0], said
    assert sum("fetching" in line for text in said for line in text.splitlines()) >= 1
