"""cpu: a device is a rank, so there is always one more; memory is the machine's."""

from __future__ import annotations

import math
import os
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix.backends.files import GIB, read_int, read_text
from hwmatrix.model import Backend, Device, Probe, TorchCheck

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNLIMITED = 1 << 60
"""A cgroup v1 without a limit says 2^63 rounded down to a page."""


def usable_cores(root: Path = Path("/")) -> int:
    """Return how many cores this process may keep busy: affinity and cgroup quota, at least 1."""
    affinity = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    quota, period = 0, 0
    words = read_text(root / "sys/fs/cgroup/cpu.max").split()
    if len(words) == 2 and words[0].isdigit():  # noqa: PLR2004 - `quota period`
        quota, period = int(words[0]), int(words[1])
    else:
        quota = read_int(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us")
        period = read_int(root / "sys/fs/cgroup/cpu/cpu.cfs_period_us")
    if quota > 0 and period > 0:
        return max(1, min(affinity, math.ceil(quota / period)))
    return max(1, affinity)


def machine_memory_gib(root: Path) -> float:
    """Return the memory that this process may use, 0 where it cannot be read."""
    total = 0
    for line in read_text(root / "proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            total = int(line.split()[1]) * 1024
    limits = [
        read_int(root / "sys/fs/cgroup/memory.max"),
        read_int(root / "sys/fs/cgroup/memory/memory.limit_in_bytes"),
    ]
    bounded = [limit for limit in (total, *limits) if 0 < limit < _UNLIMITED]
    return round(min(bounded) / GIB, 2) if bounded else 0.0


def ranks(count: int, arch: str, memory_gib: float) -> tuple[Device, ...]:
    """Return `count` ranks `rank0` ...; `memory_gib` is what each may use."""
    return tuple(
        Device(key=f"rank{i}", token=f"rank{i}", name="cpu", arch=arch, memory_gib=memory_gib)
        for i in range(count)
    )


_TORCH = TorchCheck(never=("cuda", "hip", "xpu"))


@dataclass(frozen=True)
class Cpu:
    """The machine itself; `machine` is `platform.machine`, another in tests."""

    machine: str = field(default_factory=platform.machine)
    backend: Backend = Backend.CPU
    visibility: str = ""
    rivals: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    torch_check: TorchCheck = _TORCH
    host: str = "any machine"

    def probe(self, env: Mapping[str, str], root: Path = Path("/")) -> Probe:
        """Return one rank per usable core; `make_slots` makes more where a suite needs them."""
        del env
        cores = usable_cores(root)
        memory = machine_memory_gib(root)
        return Probe(
            backend=self.backend,
            devices=ranks(cores, self.machine, memory),
            looked_for=(f"{cores} cores", f"{memory:g} GiB of memory"),
        )
