"""Slots: what each worker owns, with the one visibility variable set and its rivals removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwmatrix.backends.cpu import ranks
from hwmatrix.backends.table import BACKENDS
from hwmatrix.errors import HardwareError, UsageError, VisibilityError
from hwmatrix.model import Backend, Slot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hwmatrix.model import Device, Probe

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
_MIG = "MIG-"


def make_slots(
    probe: Probe, *, devices: int, count: int | None, env: Mapping[str, str], cores: int
) -> tuple[Slot, ...]:
    """Return as many slots of `devices` devices as there are, or `count` of them.

    Devices go out in the probe's order, none twice. On cpu ranks are made as needed: one slot per
    `devices` cores, at least one, however few the cores. Each slot gets an equal share of the
    cores as thread counts, where `env` does not set them already.

    Raises:
        UsageError: `count` is below 1.
        HardwareError: more slots are asked for than the devices allow.
        VisibilityError: several MIG instances in a slot; CUDA lets a process use one.
    """
    if count is not None and count < 1:
        raise UsageError(f"--slots {count}: at least one slot is needed.")
    if probe.backend is Backend.CPU:
        owned = _cpu_slots(probe, devices, count or max(1, cores // devices))
    else:
        owned = _device_slots(probe, devices, count)
    threads = str(max(1, cores // len(owned)))
    return tuple(
        Slot(
            index=index,
            devices=group,
            env={
                **{name: threads for name in THREAD_VARIABLES if name not in env},
                **_device_env(probe.backend, group),
                **_facts_env(index, group),
            },
            unset=BACKENDS[probe.backend].rivals,
        )
        for index, group in enumerate(owned)
    )


def _cpu_slots(probe: Probe, devices: int, count: int) -> list[tuple[Device, ...]]:
    memory = probe.devices[0].memory_gib if probe.devices else 0.0
    arch = probe.devices[0].arch if probe.devices else ""
    everyone = ranks(count * devices, arch, round(memory / (count * devices), 2))
    return [everyone[i * devices : (i + 1) * devices] for i in range(count)]


def _device_slots(probe: Probe, devices: int, count: int | None) -> list[tuple[Device, ...]]:
    most = len(probe.devices) // devices
    if most < (count or 1):
        raise HardwareError(
            f"{probe.backend}: {count or 1} slots of {devices} devices need "
            f"{(count or 1) * devices} devices, found {len(probe.devices)}. Ask for at most "
            f"--slots {most}, or run on {BACKENDS[probe.backend].host} with more."
        )
    if devices > 1 and any(device.token.startswith(_MIG) for device in probe.devices):
        raise VisibilityError(
            f"{probe.backend}: a slot of {devices} devices cannot be made of MIG instances: CUDA "
            "lets a process use one. Switch MIG off, or hide those GPUs from the session."
        )
    groups = (probe.devices[i * devices : (i + 1) * devices] for i in range(count or most))
    return list(groups)


def _device_env(backend: Backend, devices: tuple[Device, ...]) -> dict[str, str]:
    facts = BACKENDS[backend]
    env = dict(facts.env)
    if facts.visibility:
        env[facts.visibility] = ",".join(device.token for device in devices)
    return env


def _facts_env(index: int, devices: tuple[Device, ...]) -> dict[str, str]:
    memory = min(device.memory_gib for device in devices)
    archs = sorted({device.arch for device in devices})
    return {
        "HWMATRIX_SLOT": str(index),
        "HWMATRIX_DEVICES": str(len(devices)),
        "HWMATRIX_MEMORY_GIB": f"{memory:g}" if memory else "",
        # Unlike devices in one slot: `requires(arch=...)` cannot hold for all, so none is claimed.
        "HWMATRIX_ARCH": archs[0] if len(archs) == 1 else "",
    }
