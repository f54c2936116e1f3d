from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

import pytest

from hwmatrix import runfolder
from hwmatrix.model import Backend, Device
from hwmatrix.target import memory

if TYPE_CHECKING:
    from pathlib import Path

GPU = Device(key="0000:05:00.0", token="0", name="MI300X")
MIB = 1 << 20


def write(path: Path, text: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    """Two GPUs; this process holds memory of the first."""
    root = tmp_path / "sys"
    write(root / "bus/pci/devices/0000:05:00.0/mem_info_vram_used", 3000 * MIB)
    nodes = root / "class/kfd/kfd/topology/nodes"
    write(nodes / "0/gpu_id", 0)
    write(nodes / "0/properties", "location_id 0\ndomain 0")
    write(nodes / "1/gpu_id", 777)
    write(nodes / "1/properties", f"simd_count 4\nlocation_id {5 << 8}\ndomain 0")
    write(root / f"class/kfd/kfd/proc/{os.getpid()}/vram_777", 2900 * MIB)
    write(root / "class/kfd/kfd/proc/1/vram_778", 5 * MIB)
    return root


def test_amd_tells_use_and_holders(sysfs: Path) -> None:
    use = memory.AmdMeter(sysfs)(GPU)
    assert use is not None
    assert use.mib == 3000
    ((holder),) = use.holders
    assert (holder.pid, holder.mib) == (os.getpid(), 2900)
    assert "python" in str(holder)


def test_amd_of_an_unknown_device_is_unknown(sysfs: Path) -> None:
    assert memory.AmdMeter(sysfs)(Device(key="0000:99:00.0", token="1")) is None
    assert memory.AmdMeter(sysfs)._gpu_ids(Device(key="odd", token="1")) == []


def test_clear_and_not_clear(sysfs: Path) -> None:
    meter = memory.AmdMeter(sysfs)
    assert memory.not_clear([GPU], meter, {memory.LIMIT: "4000"}, wait_s=0) == ""
    said = memory.not_clear([GPU], meter, {}, wait_s=0)
    assert said.startswith("MI300X 0000:05:00.0: 3000 MiB in use (at most 1024 count as clear)")
    assert f"pid {os.getpid()}, 2900 MiB" in said


def test_waits_for_memory_to_come_back(sysfs: Path) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        write(sysfs / "bus/pci/devices/0000:05:00.0/mem_info_vram_used", 10 * MIB)

    assert memory.not_clear([GPU], memory.AmdMeter(sysfs), {}, wait_s=1, sleep=sleep) == ""
    assert len(slept) == 1


def test_holders_that_cannot_be_seen() -> None:
    said = memory.not_clear([GPU], lambda _: memory.Use(mib=5000), {}, wait_s=0)
    assert said.endswith("by processes that cannot be seen")
    assert memory.not_clear([GPU], lambda _: None, {}, wait_s=0) == ""


def test_intel_from_what_the_kernel_tells_of_each_process(tmp_path: Path) -> None:
    text = "pos:\t0\ndrm-driver:\txe\ndrm-pdev:\t0000:03:00.0\ndrm-resident-vram0:\t2048 KiB"
    write(tmp_path / "12/fdinfo/5", text)
    write(tmp_path / "12/fdinfo/6", text)
    write(tmp_path / "12/cmdline", "serve\0--port")
    write(tmp_path / "13/fdinfo/5", "drm-pdev:\t0000:04:00.0\ndrm-resident-vram0:\t9999 KiB")
    meter = memory.DrmMeter(tmp_path)
    use = meter(Device(key="0000:03:00.0/1", token="0"))
    assert use == memory.Use(2.0, (memory.Holder(12, "serve --port", 2.0),))


def test_long_commands_are_cut(tmp_path: Path) -> None:
    write(tmp_path / "7/cmdline", "x" * 200)
    assert len(memory.command_of(7, tmp_path)) == 80
    assert memory.command_of(8, tmp_path) == ""


class Nvml:
    """What is used of libnvidia-ml, with one GPU."""

    def __init__(self, told: int = 400 * MIB) -> None:
        self._told = told

    def nvmlDeviceGetHandleByUUID(self, uuid: bytes, handle: object) -> int:  # noqa: N802 - NVML's
        del handle
        return 0 if uuid == b"GPU-1" else 6

    def nvmlDeviceGetMemoryInfo(self, handle: object, memory_info: object) -> int:  # noqa: N802
        del handle
        ctypes.cast(memory_info, ctypes.POINTER(memory._Memory)).contents.used = 500 * MIB  # type: ignore[arg-type]
        return 0

    def nvmlDeviceGetComputeRunningProcesses_v3(  # noqa: N802 - NVML's
        self, handle: object, count: object, rows: object
    ) -> int:
        del handle
        ctypes.cast(count, ctypes.POINTER(ctypes.c_uint)).contents.value = 1  # type: ignore[arg-type]
        rows[0].pid = os.getpid()  # type: ignore[index]
        rows[0].memory = self._told  # type: ignore[index]
        return 0


@pytest.mark.parametrize(("told", "mib"), [(400 * MIB, 400.0), (2**64 - 1, 0.0)])
def test_nvidia(told: int, mib: float) -> None:
    meter = memory._NvmlMeter(Nvml(told))  # type: ignore[arg-type]
    use = meter(Device(key="GPU-1", token="0"))
    assert use is not None
    assert (use.mib, [holder.mib for holder in use.holders]) == (500.0, [mib])
    assert meter(Device(key="GPU-2", token="0")) is None


def test_which_meter(sysfs: Path) -> None:
    assert memory.meter_for(Backend.CPU, {}) is None
    amd = memory.meter_for(Backend.AMD, {runfolder.DEVICE_ROOT: str(sysfs.parent)})
    assert amd is not None
    assert amd(GPU) is not None
    assert isinstance(memory.meter_for(Backend.XPU, {}), memory.DrmMeter)
