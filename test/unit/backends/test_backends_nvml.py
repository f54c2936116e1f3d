"""What the NVML child makes of the library's answers, with a library that is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hwmatrix.backends import nvml
from hwmatrix.backends.cuda import NvmlAnswer
from hwmatrix.codec import from_plain

NOT_SUPPORTED, NOT_FOUND, LOST, UNKNOWN = 3, 6, 15, 999


class FakeNvml(nvml.Nvml):
    """Two GPUs, the second without MIG; `failing` maps a function to what it returns."""

    def __init__(self, **failing: int) -> None:
        self.failing = failing

    def call(self, name: str, *arguments: Any) -> None:
        code = self.failing.get(name, 0) or self.answer(name, arguments)
        if code:
            raise nvml.NvmlError(name, code)

    def answer(self, name: str, arguments: Any) -> int:
        handle = getattr(arguments[0], "value", None) if arguments else None
        out = getattr(arguments[-1], "_obj", None) if arguments else None
        if name in {"nvmlSystemGetDriverVersion", "nvmlDeviceGetUUID", "nvmlDeviceGetName"}:
            arguments[-2].value = f"{name.removeprefix('nvml')}-{handle}".encode()
        elif name == "nvmlDeviceGetMigMode":
            arguments[1]._obj.value = int(handle == 1)
        elif name == "nvmlDeviceGetCudaComputeCapability":
            arguments[1]._obj.value, arguments[2]._obj.value = 10, 3
        elif name == "nvmlDeviceGetMemoryInfo":
            arguments[1]._obj.total = 8 << 30
        elif name == "nvmlDeviceGetPciInfo_v3":
            arguments[1]._obj.bus_id = b"00000000:C1:00.0"
        elif name == "nvmlDeviceGetMigDeviceHandleByIndex":
            if arguments[1].value == 0:
                return NOT_FOUND
            arguments[2]._obj.value = 100 + arguments[1].value
        elif name == "nvmlDeviceGetHandleByIndex_v2":
            arguments[1]._obj.value = 1 + arguments[0].value
        elif out is not None:
            out.value = {"nvmlSystemGetCudaDriverVersion_v2": 12080}.get(name, 2)
        return 0


def read(**failing: int) -> NvmlAnswer:
    """Return the answer after the way through JSON that it takes."""
    answer = nvml.read(lambda: FakeNvml(**failing))
    return from_plain(NvmlAnswer, json.loads(json.dumps(answer)))


def test_gpus_and_instances() -> None:
    answer = read()
    assert answer.cuda == "12.8"
    assert answer.problems == ()
    first, second = answer.gpus
    assert (first.uuid, first.pci, first.arch) == (
        "DeviceGetUUID-1",
        "00000000:c1:00.0",
        "sm_103",
    )
    assert (first.mig, [item.uuid for item in first.instances]) == (True, ["DeviceGetUUID-101"])
    assert (second.mig, second.instances, second.memory) == (False, (), 8 << 30)


def test_what_a_gpu_does_not_support_is_left_out() -> None:
    answer = read(nvmlDeviceGetMigMode=NOT_SUPPORTED, nvmlDeviceGetMemoryInfo=NOT_SUPPORTED)
    assert [(gpu.mig, gpu.memory) for gpu in answer.gpus] == [(False, 0), (False, 0)]


@pytest.mark.parametrize(
    "name",
    ["nvmlDeviceGetMigMode", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMigDeviceHandleByIndex"],
)
def test_a_gpu_that_fails_is_left_out_with_the_reason(name: str) -> None:
    answer = read(**{name: LOST})
    assert len(answer.gpus) < 2
    assert answer.problems[0] == (
        f"GPU 0: {name}: the GPU has fallen off the bus (nvmlReturn_t 15)"
    )


def test_no_start_is_the_problem() -> None:
    answer = read(nvmlInit_v2=9)
    assert answer.gpus == ()
    assert answer.problems == ("nvmlInit_v2: the kernel driver is not loaded (nvmlReturn_t 9)",)


def test_the_cuda_version_may_be_unknown() -> None:
    assert read(nvmlSystemGetCudaDriverVersion_v2=UNKNOWN).cuda == ""


def test_codes_without_a_meaning_keep_their_number() -> None:
    assert str(nvml.NvmlError("f", 77)) == "f: error (nvmlReturn_t 77)"


def test_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "LIBRARIES", ("libnone-of-this-name.so.1", "libnor-this.so.1"))
    assert "libnone-of-this-name.so.1" in str(nvml.read()["missing"])
    monkeypatch.setattr(nvml, "LIBRARIES", ())
    assert nvml.read() == {"missing": "no names to look for"}


def test_a_function_that_the_library_lacks_is_not_supported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nvml, "LIBRARIES", (None,))  # the process itself: a library without NVML
    with pytest.raises(nvml.NvmlError, match=r"nvmlInit_v2: error \(nvmlReturn_t 3\)"):
        nvml.Nvml().call("nvmlInit_v2")
