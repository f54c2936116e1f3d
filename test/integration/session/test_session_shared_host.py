"""Whole sessions at once on one host: devices made of files, locks in a folder that they share."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from test.integration.session.conftest import Project

SESSION = ("hwmatrix", "session", "amd-stage-b", "--no-venv", "--overlay", "overlay", "--json")
ADDRESSES = ("0000:05:00.0", "0000:26:00.0")
LIMIT_S = 240  # for a machine that is very busy

# Notes which device it has and when. What has begun goes on until the other session was seen to
# wait, or, where neither waits (PARTNER), to have begun too: so the two surely meet.
USES_DEVICE = """
import json
import os
import time
from pathlib import Path

HOST = Path(os.environ["HOST"])

def met():
    if partner := os.environ.get("PARTNER"):
        return (HOST / f"{partner}.begun").exists()
    return any("waiting for device" in path.read_text() for path in HOST.glob("*.err"))

def test_device(request):
    began = time.time()
    (HOST / f"{os.environ['NAME']}.begun").touch()
    while not met():
        time.sleep(0.05)
    time.sleep(0.2)
    used = {"device": os.environ["HIP_VISIBLE_DEVICES"], "began": began, "ended": time.time()}
    name = f"{os.environ['NAME']}-{request.path.stem}.json"
    (HOST / name).write_text(json.dumps(used | {"session": os.environ["NAME"]}))
"""

TORCH = {
    "__init__.py": "from torch import cuda, version\n__version__ = '2.13.0+rocm7.2'\n",
    "version.py": "__version__ = '2.13.0+rocm7.2'\ncuda = xpu = None\nhip = '7.2.1'\n",
    "cuda.py": (
        "def is_available():\n    return True\n\ndef get_arch_list():\n    return ['gfx942']\n"
    ),
}


def make_devices(root: Path) -> None:
    """Write what AMD's driver shows of two GPUs of gfx942 with 192 GiB each."""
    files = {"dev/kfd": "", "sys/module/amdgpu/version": "6.16.6"}
    for number, address in enumerate(ADDRESSES):
        minor, bus = 128 + number, int(address.split(":")[1], 16)
        node = f"sys/class/kfd/kfd/topology/nodes/{number}"
        files |= {
            f"{node}/gpu_id": f"{1000 + number}",
            f"{node}/properties": (
                f"gfx_target_version 90402\nlocation_id {bus << 8}\n"
                f"drm_render_minor {minor}\nunique_id {7000 + number}\n"
            ),
            f"{node}/mem_banks/0/properties": "heap_type 1\nsize_in_bytes 206141652992\n",
            f"dev/dri/renderD{minor}": "",
            f"sys/bus/pci/devices/{address}/mem_info_vram_used": "300000000",
        }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@dataclass(frozen=True)
class Use:
    """What one test noted."""

    session: str
    device: str
    began: float
    ended: float


class Host:
    """One machine with two devices and a project on it."""

    def __init__(self, folder: Path, project: Project) -> None:
        self.folder = folder
        self._project = project
        self.processes: list[subprocess.Popen[bytes]] = []
        folder.mkdir()
        make_devices(folder / "root")
        project.add_rows("amd")
        for name, text in TORCH.items():
            path = folder / "packages/torch" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for number in range(4):
            project.file(f"test_{number}.py", USES_DEVICE, register="register_amd_ci")

    def start(self, name: str, *words: str, **env: str) -> subprocess.Popen[bytes]:
        """Start a session that calls itself `name`; its messages go to `NAME.err`."""
        ours = self._project.env()
        path = ours["PYTHONPATH"].split(os.pathsep)
        err, out = (
            (self.folder / f"{name}.err").open("wb"),
            (self.folder / f"{name}.out").open("wb"),
        )
        with err, out:
            process = subprocess.Popen(
                [sys.executable, "-m", *SESSION, *words],
                cwd=self._project.root,
                env={
                    **ours,
                    "PYTHONPATH": os.pathsep.join([str(self.folder / "packages"), *path]),
                    "HWMATRIX_DEVICE_ROOT": str(self.folder / "root"),
                    "HWMATRIX_LEASES": str(self.folder / "leases"),
                    "HOST": str(self.folder),
                    "NAME": name,
                    **env,
                },
                stdout=out,
                stderr=err,
            )
        self.processes.append(process)
        return process

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.err").read_text()

    def check_green(self, name: str, status: int) -> None:
        assert status == 0, self.said(name)
        report = json.loads((self.folder / f"{name}.out").read_text())
        assert report["verdict"]["green"]
        assert {unit["outcome"] for unit in report["units"]} == {"passed"}
        assert len(report["units"]) == 4

    def uses(self) -> list[Use]:
        """Return what the tests noted, in the order in which they began."""
        found = [Use(**json.loads(p.read_text())) for p in self.folder.glob("*-test_*.json")]
        return sorted(found, key=lambda use: use.began)

    def check_never_shared(self) -> None:
        for first, second in combinations(self.uses(), 2):
            assert first.device != second.device or first.ended <= second.began, (first, second)


@pytest.fixture
def host(tmp_path_factory: pytest.TempPathFactory, project: Project) -> Iterator[Host]:
    made = Host(tmp_path_factory.mktemp("host") / "host", project)
    yield made
    for process in made.processes:
        process.terminate()
        process.wait(LIMIT_S)


def test_two_sessions_that_want_both_devices_take_turns(host: Host) -> None:
    started = {name: host.start(name) for name in ("one", "two")}
    for name, process in started.items():
        host.check_green(name, process.wait(LIMIT_S))
    (waited,) = (name for name in started if "waiting for device" in host.said(name))
    (went,) = set(started) - {waited}
    expected = (
        rf"waiting for device {ADDRESSES[0]}, "
        rf"held by amd-stage-b \(pid {started[went].pid}, since \d\d:\d\d:\d\d\)"
    )
    assert re.search(expected, host.said(waited))
    uses = host.uses()
    assert len(uses) == 8
    for name in started:
        assert {use.device for use in uses if use.session == name} == {"0", "1"}
    host.check_never_shared()
    ends = [use.ended for use in uses if use.session == went]
    begins = [use.began for use in uses if use.session == waited]
    assert max(ends) <= min(begins)


def test_sessions_with_a_device_each_wait_for_nobody_but_the_third(host: Host) -> None:
    """The third wants both, and takes them one by one in the order of their names."""
    masks = {"left": {"HIP_VISIBLE_DEVICES": "0"}, "right": {"HIP_VISIBLE_DEVICES": "1"}}
    started = {name: host.start(name, **masks.get(name, {})) for name in ("left", "right", "both")}
    for name, process in started.items():
        host.check_green(name, process.wait(LIMIT_S))
    uses = host.uses()
    assert len(uses) == 12
    assert {use.device for use in uses if use.session == "left"} == {"0"}
    assert {use.device for use in uses if use.session == "right"} == {"1"}
    host.check_never_shared()
    for one, other in (("left", "right"), ("right", "left")):
        assert f"(pid {started[other].pid}," not in host.said(one)
    assert any("waiting for device" in host.said(name) for name in started)


def test_sessions_of_one_slot_each_take_different_devices_at_once(host: Host) -> None:
    pair = {"one": "two", "two": "one"}
    started = {name: host.start(name, "--slots", "1", PARTNER=pair[name]) for name in pair}
    for name, process in started.items():
        host.check_green(name, process.wait(LIMIT_S))
        assert "waiting for device" not in host.said(name)
    devices = {name: {u.device for u in host.uses() if u.session == name} for name in started}
    assert sorted(map(sorted, devices.values())) == [["0"], ["1"]]
