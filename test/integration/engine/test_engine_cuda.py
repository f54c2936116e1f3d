"""On NVIDIA GPUs only: memory is clear between files, whatever a file did to its device."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hwmatrix.model import Backend, Isolation

if TYPE_CHECKING:
    from test.integration.engine.conftest import Engine

SMI = shutil.which("nvidia-smi")

pytestmark = pytest.mark.skipif(SMI is None, reason="no NVIDIA GPU: nvidia-smi is not there")

HOLDS = """
    import torch

    def test_holds():
        held = torch.zeros(8 << 30, dtype=torch.uint8, device="cuda")
        assert held.sum().item() == 0
"""

DETACHED = """
    import os
    import time

    def test_detached():
        if os.fork() == 0:
            os.setsid()
            import torch
            held = torch.zeros(4 << 30, dtype=torch.uint8, device="cuda")
            open("holding", "w").close()
            time.sleep(600)
        while not os.path.exists("holding"):
            time.sleep(0.1)
"""

RUNS_OUT = """
    import torch

    def test_runs_out():
        held = []
        while True:
            held.append(torch.zeros(8 << 30, dtype=torch.uint8, device="cuda"))
"""

ASSERTS = """
    import torch

    def test_asserts():
        index = torch.tensor([1000], device="cuda")
        torch.zeros(2, device="cuda")[index]
        torch.cuda.synchronize()

    def test_poisoned():
        torch.zeros(2, device="cuda").sum().item()
"""

CLEAN = """
    import torch

    def test_clean():
        free, total = torch.cuda.mem_get_info()
        assert total - free < 2 << 30
        left = torch.eye(64, device="cuda")
        assert torch.equal(left @ left, left)
"""


def uuids() -> list[str]:
    command = [str(SMI), "--query-gpu=uuid", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("isolation", Isolation)
def test_next_file_finds_a_clean_device(engine: Engine, isolation: Isolation) -> None:
    bad = engine.write(holds=HOLDS, detached=DETACHED, runsout=RUNS_OUT, asserts=ASSERTS)
    texts = {f"clean{index}": CLEAN for index in range(len(bad))}
    good = engine.write(**texts)
    units = [unit for pair in zip(bad, good, strict=True) for unit in pair]
    key = uuids()[0]
    spec = engine.spec(
        *(engine.unit(u, test_limit_s=120.0, budget_s=200.0) for u in units),
        backend=Backend.CUDA,
        keys=[key],
        isolation=isolation,
        preload=("torch",),
    )
    slot = replace(spec.slots[0], env={"CUDA_VISIBLE_DEVICES": key})
    result = engine.finish(engine.start(replace(spec, slots=(slot,))), timeout_s=400)
    assert {line["isolation"] for line in result.of("UnitStart")} == {isolation.value}
    for unit in good:
        assert result.tests(unit) == {"test_clean": "passed"}
    assert result.of("SlotRetired") == []
    assert result.end("test_runsout.py")["fault"] == "out of memory"
    assert result.tests("test_asserts.py") == {"test_asserts": "failed", "test_poisoned": "failed"}
    assert result.end("test_asserts.py")["fault"] == ""
    assert result.end("test_detached.py")["killed"] == 1
