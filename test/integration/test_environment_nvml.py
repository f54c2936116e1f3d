"""The NVML probe against a stand-in libnvidia-ml.so.1, compiled here where there is a compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from hwmatrix.backends import files
from hwmatrix.backends.cuda import Cuda, ask_nvml

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CC = shutil.which("cc")
pytestmark = pytest.mark.skipif(CC is None, reason="no C compiler (cc) here")

SOURCE = r"""
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
} pci_t;
typedef struct { unsigned long long total, free, used; } memory_t;

#define PLAIN(i) ((void *)(long)(1 + (i)))
#define INSTANCE(h) ((long)(h) >= 100)

int nvmlInit_v2(void) { return ON_INIT; }
int nvmlSystemGetDriverVersion(char *text, unsigned n) { snprintf(text, n, "580.95.05"); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = 13000; return CUDA_VERSION_RETURNS; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) {
    if (i == 1) return 15; /* the GPU is lost */
    *h = PLAIN(i);
    return 0;
}
int nvmlDeviceGetPciInfo_v3(void *h, pci_t *p) {
    snprintf(p->bus_id, sizeof p->bus_id, "00000000:%02X:00.0", 0x10 + (int)(long)h);
    return 0;
}
int nvmlDeviceGetCudaComputeCapability(void *h, int *major, int *minor) {
    *major = 9; *minor = 0;
    return 0;
}
int nvmlDeviceGetUUID(void *h, char *text, unsigned n) {
    snprintf(text, n, INSTANCE(h) ? "MIG-%ld" : "GPU-%ld", (long)h);
    return 0;
}
int nvmlDeviceGetName(void *h, char *text, unsigned n) {
    snprintf(text, n, INSTANCE(h) ? "STAND-IN 1g" : "STAND-IN");
    return 0;
}
int nvmlDeviceGetMemoryInfo(void *h, memory_t *m) {
    if (h == PLAIN(2)) return 3; /* shared with the host: not supported */
    m->total = INSTANCE(h) ? 10ull << 30 : 80ull << 30;
    return 0;
}
int nvmlDeviceGetMigMode(void *h, unsigned *now, unsigned *later) {
    if (h != PLAIN(0)) return 3;
    *now = *later = 1;
    return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(void *h, unsigned *n) { *n = 3; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *h, unsigned i, void **mig) {
    if (i == 1) return 6; /* nothing at this place */
    *mig = (void *)(long)(100 + i);
    return 0;
}
"""


@pytest.fixture
def library(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """Return a function that builds the stand-in and returns variables that make it be found."""

    def build(*, on_init: str = "0", cuda: str = "0") -> dict[str, str]:
        (tmp_path / "nvml.c").write_text(SOURCE)
        command = [str(CC), "-shared", "-fPIC", "-w", f"-DON_INIT={on_init}"]
        command += [f"-DCUDA_VERSION_RETURNS={cuda}", "-o", str(tmp_path / "libnvidia-ml.so.1")]
        subprocess.run([*command, str(tmp_path / "nvml.c")], check=True)
        return {"LD_LIBRARY_PATH": str(tmp_path), "PATH": os.defpath}

    return build


def test_the_probe_reads_gpus_and_instances(library: Callable[..., dict[str, str]]) -> None:
    probe = Cuda().probe(library())
    assert [(d.key, d.name, d.arch, d.memory_gib) for d in probe.devices] == [
        ("MIG-100", "STAND-IN 1g", "sm_90", 10.0),
        ("MIG-102", "STAND-IN 1g", "sm_90", 10.0),
        ("GPU-3", "STAND-IN", "sm_90", 0.0),
    ]
    assert probe.driver == "580.95.05 (CUDA 13.0)"
    assert probe.problems == (
        "GPU 1: nvmlDeviceGetHandleByIndex_v2: the GPU has fallen off the bus (nvmlReturn_t 15)",
    )


def test_pci_addresses_are_read(library: Callable[..., dict[str, str]]) -> None:
    assert [gpu.pci for gpu in ask_nvml(library()).gpus] == ["00000000:11:00.0", "00000000:13:00.0"]


def test_a_library_that_refuses_is_a_problem(library: Callable[..., dict[str, str]]) -> None:
    answer = ask_nvml(library(on_init="18"))
    assert answer.gpus == ()
    assert "kernel driver and the driver library have different versions" in answer.problems[0]


def test_an_unknown_cuda_version_is_left_open(library: Callable[..., dict[str, str]]) -> None:
    assert Cuda().probe(library(cuda="999")).driver == "580.95.05"


def test_a_driver_that_hangs_is_given_up(
    library: Callable[..., dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(files.run_tool.__kwdefaults__ or {}, "limit_s", 2.0)
    probe = Cuda().probe(library(on_init="sleep(600)"))
    assert probe.devices == ()
    assert "no answer within 2 s (driver stuck?)" in probe.problems[0]


def test_a_driver_that_crashes_is_a_problem(library: Callable[..., dict[str, str]]) -> None:
    probe = Cuda().probe(library(on_init="*(volatile int *)0"))
    assert probe.devices == ()
    assert "exit status -11" in probe.problems[0]


def test_no_library_is_no_gpu(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    env = {"LD_LIBRARY_PATH": str(tmp_path), "PATH": os.defpath}
    assert ask_nvml(env).missing != "" or ask_nvml(env).gpus != ()
