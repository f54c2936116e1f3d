"""A small project of its own with a stand-in torch, and the real command run over it."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

PACKAGE = Path(__file__).resolve().parents[3] / "ci"

TABLE = """\
version = 1

[project]
roots = ["test"]
python_files = ["test_*.py"]

[budget]
factor = 1.0
floor_s = 120
startup_s = 120
grace_s = 60

[backend.cpu]
default_variant = "cpu"

[backend.cpu.variant.cpu]
torch = "2.13.0+cpu"
index = "https://download.pytorch.org/whl/cpu"
requirements = "requirements.in"

[backend.amd]
default_variant = "rocm-7.2"

[backend.amd.variant."rocm-7.2"]
torch = "2.13.0+rocm7.2"
toolkit = "7.2"
index = "https://download.pytorch.org/whl/rocm7.2"
requirements = "requirements.in"

[tier.stage-b]
about = "small"

[tier.stage-c]
about = "stops at the first failure"
fail_fast = true

[runner.cpu]
devices = 1
slots = 2
max_job_minutes = 30

[runner.1-gpu-large]
devices = 1
memory_gib = 70
max_job_minutes = 30

[suite.cpu.stage-b-test-cpu]
tier = "stage-b"
runner_config = "cpu"
"""
# A file has 5 minutes on a machine that may be very busy; where one hangs, half a minute for all.
HASTY = {
    "floor_s = 120": "floor_s = 12",
    "startup_s = 120": "startup_s = 15",
    "grace_s = 60": "grace_s = 3",
}
ROWS = {
    "amd": """
[suite.amd.stage-b-test-1-gpu-large-amd]
tier = "stage-b"
runner_config = "1-gpu-large"
""",
    "fast": """
[suite.cpu.stage-c-test-cpu]
tier = "stage-c"
runner_config = "cpu"
""",
}
NOXFILE = """\
import sys
from pathlib import Path

sys.path.insert(0, {package!r})
from hwmatrix import sessions

sessions.register(Path(__file__).resolve().parent)
"""


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    out: str
    err: str


class Project:
    """A project folder; `file` adds a registered test file, `session` runs one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "ci").mkdir()
        (root / "test").mkdir()
        self.table = root / "ci" / "matrix.toml"
        self.table.write_text(TABLE)
        (root / "requirements.in").write_text("pytest\n")
        (root / "noxfile.py").write_text(NOXFILE.format(package=str(PACKAGE)))
        torch = root / "overlay" / "torch"
        torch.mkdir(parents=True)
        (torch / "__init__.py").write_text(
            "from torch import version\n__version__ = '2.13.0+cpu'\n"
        )
        info = root / "overlay" / "torch-2.13.0+cpu.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0+cpu\n")
        (torch / "version.py").write_text(
            "__version__ = '2.13.0+cpu'\ncuda = None\nhip = None\nxpu = None\n"
        )

    def add_rows(self, name: str) -> None:
        """Add rows to the table: `amd` or `fast` (a tier that stops at the first failure)."""
        self.table.write_text(self.table.read_text() + ROWS[name])

    def hurry(self) -> None:
        """Lower all limits, for tests of what hangs."""
        text = self.table.read_text()
        for usual, less in HASTY.items():
            assert usual in text
            text = text.replace(usual, less)
        self.table.write_text(text)

    def file(self, name: str, body: str, register: str = "register_cpu_ci") -> str:
        """Write `test/NAME` with one registration; return its path from the root."""
        suite = {"register_cpu_ci": "stage-b-test-cpu"}.get(register, "")
        suite = suite or "stage-b-test-1-gpu-large-amd"
        head = f"from hwmatrix import {register}\n{register}(est_time=1, suite={suite!r})\n"
        (self.root / "test" / name).write_text(head + body)
        return f"test/{name}"

    def env(self) -> dict[str, str]:
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("HWMATRIX_", "GITHUB_"))}
        return {
            **keep,
            "PYTHONPATH": str(PACKAGE),
            "PYTHONDONTWRITEBYTECODE": "1",
            # Else it would wait for sessions of other tests, and of whoever works on this host.
            "HWMATRIX_LEASES": str(self.root / "leases"),
        }

    def hwmatrix(self, *words: str, env: Mapping[str, str] | None = None) -> Ended:
        done = subprocess.run(
            [sys.executable, "-m", "hwmatrix", *words],
            cwd=self.root,
            env={**self.env(), **(env or {})},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def session(self, name: str, *words: str, env: Mapping[str, str] | None = None) -> Ended:
        line = ("session", name, "--no-venv", "--overlay", "overlay", *words)
        return self.hwmatrix(*line, env=env)

    def report(self) -> Any:
        """Return the latest run's report.json."""
        return json.loads((self.latest / "report.json").read_text())

    def outcomes(self) -> dict[str, tuple[str, str]]:
        """Return file name -> (outcome, reason) of the latest run."""
        return {
            Path(unit["files"][0]).name: (unit["outcome"], unit["reason"])
            for unit in self.report()["units"]
        }

    def junit(self) -> ET.Element:
        return ET.parse(self.latest / "junit.xml").getroot()

    def processes(self) -> list[int]:
        """Return the living processes whose environment or command names the project's folder."""
        mark, own = str(self.root).encode(), os.getpid()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                text = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if int(entry.name) != own and mark in text and state != "Z":
                found.append(int(entry.name))
        return found

    @property
    def latest(self) -> Path:
        return self.root / ".hwmatrix" / "runs" / "latest"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)
