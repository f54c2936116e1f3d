"""A project of a table and registrations on disk, and the commands of CI run in it."""

from __future__ import annotations

import dataclasses
import io
from typing import TYPE_CHECKING

import pytest

from hwmatrix.app import ci
from hwmatrix.app.decision import Decision, by_hand
from hwmatrix.app.place import Place
from hwmatrix.model import Chosen

if TYPE_CHECKING:
    from pathlib import Path

    from hwmatrix.model import Job

TABLE = """\
version = 1

[project]
roots = ["test"]

[budget]
factor = 2
floor_s = 10
startup_s = 10
grace_s = 10

[backend.cpu]
default_variant = "cpu"
setup_s = 60

[backend.cpu.variant.cpu]
torch = "2.13.0+cpu"
index = "https://index.example/cpu"
requirements = "requirements.in"

[backend.amd]
default_variant = "rocm-7.2"
setup_s = 600

[backend.amd.variant."rocm-7.2"]
torch = "2.11.0+rocm7.2"
index = "https://index.example/rocm7.2"
requirements = "requirements.in"

[backend.amd.variant."rocm-7.1"]
retired = "too old"

[backend.amd.container]
images = { "rocm-7.2" = "example/rocm:7.2" }
volumes = ["/models:/models:ro"]
options = "--device=/dev/kfd --device=/dev/dri --shm-size=16g"
overlay = ".hwmatrix/overlay"
requirements = "requirements.in"

[tier.stage-b]

[tier.extra-a]
target_minutes = 20

[runner.cpu]
devices = 1
slots = 2
max_job_minutes = 60
labels = { cpu = ["ubuntu-24.04"] }

[runner.1-gpu]
devices = 1
max_job_minutes = 60
labels = { amd = ["linux-amd-1", "self-hosted"] }

[runner.2-gpu]
devices = 2
max_job_minutes = 60

[suite.cpu.stage-b-test-cpu]
tier = "stage-b"
runner_config = "cpu"

[suite.amd.extra-a-test-1-gpu-amd]
tier = "extra-a"
runner_config = "1-gpu"

[suite.amd.extra-a-more-amd]
tier = "extra-a"
runner_config = "1-gpu"

[[gate]]
name = "every-change"
events = ["pull_request", "push", "merge_group"]
backends = ["cpu"]
branches = ["main"]

[[gate]]
name = "amd"
events = ["pull_request"]
backends = ["amd"]
labels = ["run-ci", "it's: #1"]

[[gate]]
name = "nights"
events = ["schedule"]
cron = ["0 */6 * * *", "30 2 * * 1-5"]

[[gate]]
name = "by-hand"
events = ["workflow_dispatch"]

[ci]
overhead_s = 300
"""


@dataclasses.dataclass
class Project:
    """A project on disk; `place` gives its surroundings with an environment of a test's own."""

    root: Path

    def place(self, **env: str) -> Place:
        return Place(
            root=self.root,
            cwd=self.root,
            state=self.root / ".hwmatrix",
            env=env,
            out=io.StringIO(),
            err=io.StringIO(),
        )

    def rewrite(self, old: str, new: str) -> None:
        """Change the table."""
        table = self.root / "ci" / "matrix.toml"
        text = table.read_text(encoding="utf-8")
        assert old in text
        table.write_text(text.replace(old, new), encoding="utf-8")

    def file(self, name: str, est_s: float, call: str, suite: str, more: str = "") -> None:
        """Write a test file with one registration."""
        path = self.root / "test" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        head = f"from hwmatrix import {call}\n{call}(est_time={est_s}, suite={suite!r}{more})\n"
        path.write_text(head + "def test_it():\n    pass\n", encoding="utf-8")

    def jobs(self, *chosen: Chosen | str) -> tuple[Job, ...]:
        """Return the jobs of these sessions; faults fail the test."""
        rows = [c if isinstance(c, Chosen) else by_hand([c]).sessions[0] for c in chosen]
        made = ci.jobs_of(Decision(sessions=tuple(rows)), self.place())
        assert made.faults == ()
        return made.jobs


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Six files of 60 s on cpu, five of 120 to 600 s in two suites of one runner config on amd."""
    made = Project(tmp_path)
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci" / "matrix.toml").write_text(TABLE, encoding="utf-8")
    for number in range(6):
        made.file(f"test_c{number}.py", 60, "register_cpu_ci", "stage-b-test-cpu")
    for number, est_s in enumerate((600, 480, 360, 240, 120)):
        suite = "extra-a-more-amd" if number % 2 else "extra-a-test-1-gpu-amd"
        made.file(f"amd/test_a{number}.py", est_s, "register_amd_ci", suite)
    return made
