"""Whether the memory of a slot's devices is clear, and who holds it: without torch, per vendor.

NVIDIA through NVML, AMD through amdgpu's files in sysfs, Intel through what the kernel tells of
each process's graphics memory. None of these opens a device context. Elsewhere nothing is known,
and a device of which nothing is known counts as clear.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from hwmatrix import runfolder
from hwmatrix.model import Backend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hwmatrix.model import Device

LIMIT = "HWMATRIX_CLEAR_MIB"  # how much may be in use on a device that counts as clear

# Drivers keep some for themselves: an idle H200 shows up to 600 MiB, an idle MI300X 300 MiB.
_LIMIT_MIB = 1024.0
_MIB = 1 << 20
# Memory of a process that was killed is given back within a moment, seconds on a busy host.
WAIT_S = 10.0
_STEP_S = 0.1


@dataclass(frozen=True)
class Holder:
    """One process that holds memory of a device; `mib` is 0 where the driver does not tell."""

    pid: int
    command: str
    mib: float

    def __str__(self) -> str:
        """Return `python train.py (pid 12, 3000 MiB)`."""
        return f"{self.command or 'a process'} (pid {self.pid}, {self.mib:.0f} MiB)"


@dataclass(frozen=True)
class Use:
    """How much of a device's memory is in use, and by whom where that can be known."""

    mib: float
    holders: tuple[Holder, ...] = ()


class Meter(Protocol):
    """Measures one vendor's devices."""

    def __call__(self, device: Device) -> Use | None:
        """Return the use of `device`, None where it cannot be known."""


def meter_for(backend: Backend, env: Mapping[str, str]) -> Meter | None:
    """Return the meter of the backend's vendor, None where there is none."""
    sysfs = Path(env.get(runfolder.DEVICE_ROOT) or "/") / "sys"
    if backend is Backend.CUDA:
        return nvml_meter()
    if backend is Backend.AMD:
        return AmdMeter(sysfs)
    if backend is Backend.XPU:
        return DrmMeter(Path("/proc"))
    return None


def not_clear(
    devices: Sequence[Device],
    meter: Meter,
    env: Mapping[str, str],
    *,
    wait_s: float = WAIT_S,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Return "" once all devices are clear, or who holds what after `wait_s` seconds of waiting."""
    limit = float(env.get(LIMIT) or _LIMIT_MIB)
    full: list[tuple[Device, Use]] = []
    for step in range(int(wait_s / _STEP_S) + 1):
        if step:
            sleep(_STEP_S)
        found = [(device, use) for device in devices if (use := meter(device)) is not None]
        full = [(device, use) for device, use in found if use.mib > limit]
        if not full:
            return ""
    return "; ".join(_sentence(device, use, limit) for device, use in full)


def _sentence(device: Device, use: Use, limit: float) -> str:
    who = ", ".join(str(holder) for holder in use.holders) or "processes that cannot be seen"
    name = f"{device.name} {device.key}".strip()
    return f"{name}: {use.mib:.0f} MiB in use (at most {limit:.0f} count as clear), by {who}"


def command_of(pid: int, proc: Path = Path("/proc")) -> str:
    """Return the command line of a process, shortened, "" if it cannot be read."""
    try:
        raw = (proc / str(pid) / "cmdline").read_bytes()
    except OSError:
        return ""
    text = raw.replace(b"\0", b" ").decode(errors="replace").strip()
    return text if len(text) <= 80 else f"{text[:77]}..."  # noqa: PLR2004 - one line of a message


# ---------------------------------------------------------------- AMD
class AmdMeter:
    """amdgpu and the kernel's compute driver tell both in sysfs."""

    def __init__(self, sysfs: Path) -> None:
        self._sysfs = sysfs

    def __call__(self, device: Device) -> Use | None:
        """Return the use of the device at the PCI address that its key is."""
        used = _number(self._sysfs / "bus/pci/devices" / device.key / "mem_info_vram_used")
        if used is None:
            return None
        return Use(mib=used / _MIB, holders=tuple(self._holders(device)))

    def _holders(self, device: Device) -> Iterator[Holder]:
        numbers = self._gpu_ids(device)
        for folder in sorted(self._sysfs.glob("class/kfd/kfd/proc/[0-9]*")):
            held = sum(_number(folder / f"vram_{number}") or 0 for number in numbers)
            if held:
                pid = int(folder.name)
                yield Holder(pid=pid, command=command_of(pid), mib=held / _MIB)

    def _gpu_ids(self, device: Device) -> list[int]:
        """Return the compute driver's ids of the device: its nodes name the PCI location."""
        bus, _, rest = device.key.partition(":")[2].partition(":")
        slot, _, function = rest.partition(".")
        try:
            location = int(bus, 16) << 8 | int(slot, 16) << 3 | int(function, 16)
        except ValueError:
            return []
        found = []
        for node in self._sysfs.glob("class/kfd/kfd/topology/nodes/[0-9]*"):
            text = _text(node / "properties")
            if f"location_id {location}\n" in f"{text}\n":
                found.append(_number(node / "gpu_id") or 0)
        return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None


# ---------------------------------------------------------------- Intel
class DrmMeter:
    """The kernel's `fdinfo` of every process that may be read; memory of others stays unseen."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc

    def __call__(self, device: Device) -> Use | None:
        """Return what visible processes hold on the device at the PCI address of the key."""
        address = device.key.partition("/")[0]
        holders = []
        for folder in self._proc.glob("[0-9]*"):
            mib = max((_vram_mib(_text(p), address) for p in folder.glob("fdinfo/*")), default=0.0)
            if mib:
                pid = int(folder.name)
                holders.append(Holder(pid=pid, command=command_of(pid, self._proc), mib=mib))
        return Use(mib=sum(holder.mib for holder in holders), holders=tuple(holders))


def _vram_mib(text: str, address: str) -> float:
    rows = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    if rows.get("drm-pdev", "").strip() != address:
        return 0.0
    kib = [rows[k].split()[0] for k in rows if k.startswith(("drm-resident-vram", "drm-memory-vr"))]
    return sum(int(word) for word in kib if word.isdecimal()) / 1024


# ---------------------------------------------------------------- NVIDIA
class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class _Process(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


_MOST_PROCESSES = 64


def nvml_meter() -> Meter | None:
    """Return a meter over NVML, None where its library is missing or does not start."""
    with contextlib.suppress(OSError):
        library = ctypes.CDLL("libnvidia-ml.so.1")
        if library.nvmlInit_v2() == 0:
            return _NvmlMeter(library)
    return None


class _NvmlMeter:
    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def __call__(self, device: Device) -> Use | None:
        """Return the use of the GPU, or MIG slice, with the UUID that the key is."""
        handle = ctypes.c_void_p()
        by_uuid = self._library.nvmlDeviceGetHandleByUUID
        if by_uuid(device.key.encode(), ctypes.byref(handle)) != 0:
            return None
        memory = _Memory()
        if self._library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) != 0:
            return None
        return Use(mib=memory.used / _MIB, holders=tuple(self._holders(handle)))

    def _holders(self, handle: ctypes.c_void_p) -> Iterator[Holder]:
        count = ctypes.c_uint(_MOST_PROCESSES)
        rows = (_Process * _MOST_PROCESSES)()
        ask = self._library.nvmlDeviceGetComputeRunningProcesses_v3
        if ask(handle, ctypes.byref(count), rows) != 0:
            return
        for row in rows[: count.value]:
            # All ones where the driver does not tell, as in most containers.
            mib = 0.0 if row.memory == 2**64 - 1 else row.memory / _MIB
            yield Holder(pid=row.pid, command=command_of(row.pid), mib=mib)
