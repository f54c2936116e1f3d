"""cuda: what is made of NVML's answers, and what CUDA_VISIBLE_DEVICES leaves."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix.backends.cuda import Cuda, NvmlAnswer, ask_nvml
from hwmatrix.errors import VisibilityError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hwmatrix.model import Probe

GPU_0 = "GPU-6f1c2a90-3b7e-4d11-9a52-0c8f4e7d1b01"
GPU_1 = "GPU-6f1c2a90-77aa-4d11-9a52-0c8f4e7d1b02"
MIG_0 = "MIG-0d3f8e11-a4c2-5d19-8e01-6b33f0c9d4e0"
MIG_1 = "MIG-9a27c650-a4c2-5d19-8e01-6b33f0c9d4e1"
BY_BUS = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def tokens(probe: Probe) -> Any:
    return [device.token for device in probe.devices]


def test_two_gpus(nvidia: Callable[[str], Any]) -> None:
    probe = nvidia("cuda-h200-x2").probe({})
    assert [(d.key, d.token) for d in probe.devices] == [(GPU_0, "0"), (GPU_1, "1")]
    first = probe.devices[0]
    assert (first.name, first.arch, first.memory_gib) == ("NVIDIA H200", "sm_90", 140.4)
    assert probe.driver == "580.95.05 (CUDA 13.0)"
    assert probe.looked_for[0] == "NVML (libnvidia-ml.so.1): 2 GPUs"


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ("", []),
        ("-1", []),
        ("1", ["1"]),
        ("1,0", ["1", "0"]),
        ("0-1", ["0", "1"]),
        ("0,-1,1", ["0"]),
        (GPU_1, [GPU_1]),
        ("GPU-6f1c2a90-7", [GPU_1]),
        (f"{GPU_1},{GPU_0}", [GPU_1, GPU_0]),
    ],
)
def test_the_mask_leaves(nvidia: Callable[[str], Any], value: str, left: Any) -> None:
    assert tokens(nvidia("cuda-h200-x2").probe({"CUDA_VISIBLE_DEVICES": value})) == left


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("2", "there is no index 2"),
        ("0,0", "already in the list"),
        ("GPU-6f1c2a90", "fits several"),
        ("GPU-00000000", "is none of"),
        (f"0,{GPU_1}", "mixed"),
        ("NoDevFiles", "'NoDevFiles' is none of"),
    ],
)
def test_the_mask_is_refused(nvidia: Callable[[str], Any], value: str, reason: str) -> None:
    with pytest.raises(VisibilityError, match=reason):
        nvidia("cuda-h200-x2").probe({"CUDA_VISIBLE_DEVICES": value})


@pytest.mark.parametrize("other", ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"])
def test_other_vendors_variables_mean_nothing_here(
    nvidia: Callable[[str], Any], other: str
) -> None:
    assert tokens(nvidia("cuda-h200-x2").probe({other: "7"})) == ["0", "1"]


def test_instances_stand_for_a_gpu_in_mig_mode(nvidia: Callable[[str], Any]) -> None:
    probe = nvidia("cuda-mig").probe({})
    assert tokens(probe) == [MIG_0, MIG_1, "1"]
    assert probe.devices[0].memory_gib == 39.25
    assert probe.devices[0].arch == "sm_90"


@pytest.mark.parametrize(
    ("value", "left"),
    [
        (MIG_1, [MIG_1]),
        (f"{MIG_1},{MIG_0}", [MIG_1, MIG_0]),
        ("0", [MIG_0, MIG_1]),
        ("1", ["1"]),
        (f"{GPU_1}", [GPU_1]),
    ],
)
def test_a_mask_with_mig(nvidia: Callable[[str], Any], value: str, left: Any) -> None:
    env = {"CUDA_VISIBLE_DEVICES": value}
    assert tokens(nvidia("cuda-mig").probe(env)) == left


def test_the_parent_of_instances_is_no_device(nvidia: Callable[[str], Any]) -> None:
    with pytest.raises(VisibilityError, match=r"is in MIG mode; CUDA would pick one"):
        nvidia("cuda-mig").probe({"CUDA_VISIBLE_DEVICES": GPU_0})


def test_mig_mode_without_instances_is_named(nvidia: Callable[[str], Any]) -> None:
    probe = nvidia("cuda-mig-empty").probe({})
    assert probe.devices == ()
    assert "is in MIG mode and has no instances" in probe.problems[0]


def test_indices_on_unlike_gpus_need_the_bus_order(nvidia: Callable[[str], Any]) -> None:
    with pytest.raises(VisibilityError, match=r"fastest first.*CUDA_DEVICE_ORDER=PCI_BUS_ID"):
        nvidia("cuda-mixed").probe({"CUDA_VISIBLE_DEVICES": "0"})
    probe = nvidia("cuda-mixed").probe({"CUDA_VISIBLE_DEVICES": "0", **BY_BUS})
    assert probe.devices[0].name == "NVIDIA T400 4GB"


def test_an_empty_mask_on_unlike_gpus_is_plain(nvidia: Callable[[str], Any]) -> None:
    assert nvidia("cuda-mixed").probe({"CUDA_VISIBLE_DEVICES": ""}).devices == ()


def test_a_lost_gpu_makes_the_rest_go_by_uuid(nvidia: Callable[[str], Any]) -> None:
    probe = nvidia("cuda-one-lost").probe({})
    assert all(token.startswith("GPU-") for token in tokens(probe))
    assert "fallen off the bus" in probe.problems[0]


def test_a_driver_of_two_versions_is_a_problem_not_a_crash(nvidia: Callable[[str], Any]) -> None:
    probe = nvidia("cuda-mismatch").probe({"CUDA_VISIBLE_DEVICES": "0"})
    assert probe.devices == ()
    assert "different versions" in probe.problems[0]


def test_no_library(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    probe = Cuda(ask=lambda _env: NvmlAnswer(missing="no such file")).probe({}, tmp_path)
    assert probe.devices == ()
    assert probe.looked_for == (
        "NVML (libnvidia-ml.so.1): not found",
        "/dev/nvidia*: /dev/nvidia0",
    )


def fake_python(folder: Path, body: str) -> Path:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("echo not json", "NVML: cannot read its answer"),
        ("echo '[1]'", "NVML: cannot read its answer"),
        ("echo boom >&2; exit 3", "NVML: python: exit status 3 boom"),
    ],
)
def test_a_child_that_fails_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, problem: str
) -> None:
    monkeypatch.setattr(sys, "executable", str(fake_python(tmp_path, body)))
    answer = ask_nvml({"PATH": "/usr/bin:/bin"})
    assert answer.problems[0].startswith(problem)
