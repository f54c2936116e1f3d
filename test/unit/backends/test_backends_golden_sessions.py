"""Golden sessions: for each variant of the table, what a session on a recorded machine would do.

The exact install commands, what every slot sets and removes, and the outer pytest's command line.
After a wanted change write the files anew: `HWMATRIX_WRITE_GOLDEN=1 pytest ...`, and read the diff.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix import codec, matrix, runfolder
from hwmatrix.backends import make_slots
from hwmatrix.backends.amd import Amd
from hwmatrix.backends.files import ToolAnswer
from hwmatrix.backends.npu import Npu
from hwmatrix.backends.xpu import Xpu
from hwmatrix.environments import steps
from hwmatrix.environments.settings import PipSettings
from hwmatrix.environments.steps import Installer, TorchSource
from hwmatrix.model import Backend, Device, Plan, Probe, RunSpec, Slot, Variant
from hwmatrix.supervise.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import Callable

    from hwmatrix.backends import BackendFacts

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "test/data/sessions"
TABLE = matrix.load(ROOT / "ci/matrix.toml")
VARIANTS = [
    variant
    for row in TABLE.backends.values()
    for variant in row.variants.values()
    if not variant.retired
]
SILENT = ToolAnswer(problem="not on PATH")
INSTALLERS = (Installer(kind="uv", program="uv"), Installer(kind="pip", program="python3"))


@pytest.fixture
def probe_of(tree: Callable[[str], Any], nvidia: Callable[[str], Any]) -> Any:
    """Return a function that probes the recorded machine of a backend."""

    def probe(backend: Backend) -> Probe:
        if backend is Backend.CUDA:
            found: Probe = nvidia("cuda-h200-x2").probe({})
            return found
        if backend is Backend.CPU:
            rank = Device(key="rank0", token="rank0", arch="x86_64", memory_gib=64.0)
            return Probe(backend=backend, devices=(rank,))
        machine = {Backend.AMD: "mi325x", Backend.XPU: "xpu-b580", Backend.NPU: "npu-910b"}
        here = tree(machine[backend])
        facts: dict[Backend, BackendFacts] = {
            Backend.AMD: Amd(access=here.access),
            Backend.XPU: Xpu(access=here.access, tool=lambda _command, _env: SILENT),
            Backend.NPU: Npu(access=here.access, tool=lambda _command, _env: SILENT),
        }
        return facts[backend].probe({}, here.root)

    return probe


def install_commands(variant: Variant) -> dict[str, Any]:
    """Return the steps with a torch index of no particular host."""
    address = f"https://index.example/{variant.index.rsplit('/', 1)[-1]}"
    return {
        installer.kind: [
            {"command": " ".join(step.command), "env": dict(step.env)}
            for step in steps.plan(
                variant,
                installer=installer,
                base_python="python3",
                folder=Path("ENV"),
                source=TorchSource(index=address),
                settings=PipSettings(),
                requirements=Path(variant.requirements),
                constraints=Path("ENV.constraints.txt"),
            )
        ]
        for installer in INSTALLERS
    }


def pytest_command(folder: Path, variant: Variant, slots: tuple[Slot, ...]) -> str:
    plan = Plan(
        session="s",
        backend=variant.backend,
        variant=variant.name,
        tier="t",
        suites=(),
        units=(),
        shard=1,
        shards=1,
        hash="h",
    )
    spec = RunSpec(
        run_id="r", plan=plan, root="ROOT", folder="RUN", python="ENV/bin/python", slots=slots
    )
    (folder / runfolder.PLAN).write_text(json.dumps(codec.to_plain(spec)))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        return " ".join(Supervisor(folder, ours, "TMP")._command(Path("RUN/outer.ini")))


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda item: f"{item.backend}-{item.name}")
def test_a_session_does_what_is_recorded(
    variant: Variant, probe_of: Callable[[Backend], Probe], tmp_path: Path
) -> None:
    slots = make_slots(probe_of(variant.backend), widths=[1], count=None, env={}, cores=16)[:2]
    folder = tmp_path / "run"
    folder.mkdir()
    found = {
        "install": install_commands(variant),
        "slots": [{"set": dict(slot.env), "remove": list(slot.unset)} for slot in slots],
        "pytest": pytest_command(folder, variant, slots),
    }
    path = GOLDEN / f"{variant.backend}-{variant.name}.json"
    if os.environ.get("HWMATRIX_WRITE_GOLDEN"):
        path.write_text(json.dumps(found, indent=1) + "\n")
    assert found == json.loads(path.read_text())


def test_no_recording_is_left_over() -> None:
    names = {f"{variant.backend}-{variant.name}.json" for variant in VARIANTS}
    assert {path.name for path in GOLDEN.iterdir()} == names
