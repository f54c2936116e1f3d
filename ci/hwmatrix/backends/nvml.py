"""What NVML says of the NVIDIA devices, as JSON on standard output.

Run as a file in a bounded child (`python -I -S nvml.py`), since a dead GPU can hold NVML for ever;
so it imports nothing of hwmatrix. Structures and numbers are those of NVIDIA's public nvml.h.
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LIBRARIES = (
    "libnvidia-ml.so.1",
    # Where container runtimes and WSL put it without telling the loader.
    "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
)
_NOT_SUPPORTED, _NOT_FOUND = 3, 6
_MEANINGS = {
    1: "not initialised",
    4: "no permission on the device files",
    9: "the kernel driver is not loaded",
    12: "a driver library is missing",
    15: "the GPU has fallen off the bus",
    18: "the kernel driver and the driver library have different versions",
    999: "unknown error",
}


class NvmlError(Exception):
    """An NVML call that did not return success; `code` is nvmlReturn_t."""

    def __init__(self, call: str, code: int) -> None:
        self.code = code
        super().__init__(f"{call}: {_MEANINGS.get(code, 'error')} (nvmlReturn_t {code})")


class _Pci(ctypes.Structure):
    _fields_ = (
        ("bus_id_legacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("pci_device_id", ctypes.c_uint),
        ("pci_subsystem_id", ctypes.c_uint),
        ("bus_id", ctypes.c_char * 32),
    )


class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class Nvml:
    """The few calls that the probe needs."""

    def __init__(self) -> None:
        """Load the library; OSError when there is none."""
        first: OSError | None = None
        for name in LIBRARIES:
            try:
                self._library = ctypes.CDLL(name)
            except OSError as error:  # noqa: PERF203 - three names at most
                first = first or error
            else:
                return
        raise first or OSError("no names to look for")

    def call(self, name: str, *arguments: object) -> None:
        """Call `name`; raise NvmlError unless it returns success."""
        function = getattr(self._library, name, None)
        code = _NOT_SUPPORTED if function is None else int(function(*arguments))
        if code:
            raise NvmlError(name, code)

    def text(self, name: str, *before: object) -> str:
        """Return what `name` writes into a buffer."""
        buffer = ctypes.create_string_buffer(96)
        self.call(name, *before, buffer, ctypes.c_uint(len(buffer)))
        return buffer.value.decode("utf-8", "replace")

    def number(self, name: str, *before: object) -> int:
        """Return the unsigned number that `name` writes."""
        value = ctypes.c_uint(0)
        self.call(name, *before, ctypes.byref(value))
        return value.value

    def handle(self, name: str, *before: object) -> ctypes.c_void_p:
        """Return the handle that `name` writes."""
        value = ctypes.c_void_p()
        self.call(name, *before, ctypes.byref(value))
        return value


def _memory(nvml: Nvml, handle: ctypes.c_void_p) -> int:
    memory = _Memory()
    try:
        nvml.call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
    except NvmlError as error:
        if error.code == _NOT_SUPPORTED:  # memory shared with the host, as on GB10
            return 0
        raise
    return int(memory.total)


def _mig(nvml: Nvml, handle: ctypes.c_void_p) -> tuple[bool, list[dict[str, object]]]:
    """Return whether MIG is on, and the instances."""
    current, pending = ctypes.c_uint(0), ctypes.c_uint(0)
    try:
        arguments = (handle, ctypes.byref(current), ctypes.byref(pending))
        nvml.call("nvmlDeviceGetMigMode", *arguments)
    except NvmlError as error:
        if error.code == _NOT_SUPPORTED:
            return False, []
        raise
    if not current.value:
        return False, []
    found: list[dict[str, object]] = []
    for index in range(nvml.number("nvmlDeviceGetMaxMigDeviceCount", handle)):
        try:
            mig = nvml.handle("nvmlDeviceGetMigDeviceHandleByIndex", handle, ctypes.c_uint(index))
        except NvmlError as error:
            if error.code == _NOT_FOUND:  # places that hold no instance
                continue
            raise
        uuid, name = nvml.text("nvmlDeviceGetUUID", mig), nvml.text("nvmlDeviceGetName", mig)
        found.append({"uuid": uuid, "name": name, "memory": _memory(nvml, mig)})
    return True, found


def _gpu(nvml: Nvml, index: int) -> dict[str, object]:
    handle = nvml.handle("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index))
    pci = _Pci()
    nvml.call("nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(pci))
    major, minor = ctypes.c_int(0), ctypes.c_int(0)
    arguments = (handle, ctypes.byref(major), ctypes.byref(minor))
    nvml.call("nvmlDeviceGetCudaComputeCapability", *arguments)
    mig, instances = _mig(nvml, handle)
    return {
        "index": index,
        "uuid": nvml.text("nvmlDeviceGetUUID", handle),
        "pci": pci.bus_id.decode("ascii", "replace").lower(),
        "name": nvml.text("nvmlDeviceGetName", handle),
        "memory": _memory(nvml, handle),
        "arch": f"sm_{major.value}{minor.value}",
        "mig": mig,
        "instances": instances,
    }


def read(load: Callable[[], Nvml] = Nvml) -> dict[str, object]:
    """Return driver, CUDA version, GPUs and the reasons for those that are missing."""
    try:
        nvml = load()
    except OSError as error:
        return {"missing": str(error)}
    problems: list[str] = []
    gpus: list[dict[str, object]] = []
    answer: dict[str, object] = {"gpus": gpus, "problems": problems}
    try:
        nvml.call("nvmlInit_v2")
        answer["driver"] = nvml.text("nvmlSystemGetDriverVersion")
        count = nvml.number("nvmlDeviceGetCount_v2")
    except NvmlError as error:
        problems.append(str(error))
        return answer
    try:
        cuda = nvml.number("nvmlSystemGetCudaDriverVersion_v2")
        answer["cuda"] = f"{cuda // 1000}.{cuda % 1000 // 10}"
    except NvmlError:  # only the reason for a later failure is lost with it
        answer["cuda"] = ""
    for index in range(count):
        try:
            gpus.append(_gpu(nvml, index))
        except NvmlError as error:  # noqa: PERF203 - a handful of GPUs
            problems.append(f"GPU {index}: {error}")
    return answer


if __name__ == "__main__":
    json.dump(read(), sys.stdout)
