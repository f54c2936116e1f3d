"""Slots: what each worker owns, with the one visibility variable set and its rivals removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwmatrix.backends.cpu import ranks
from hwmatrix.backends.table import BACKENDS
from hwmatrix.errors import HardwareError, UsageError, VisibilityError
from hwmatrix.model import Backend, Slot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
    probe: Probe, *, widths: Iterable[int], count: int | None, env: Mapping[str, str], cores: int
) -> tuple[Slot, ...]:
    """Return the slots of each width (in devices), narrow ones first: all there are, or `count`.

    Within a width devices go out in the probe's order, none twice; slots of different widths
    overlap. On cpu ranks are made as needed: one slot per width's number of cores, at least one,
    however few the cores. Each slot gets its width's equal share of the cores as thread counts,
    where `env` does not set them already. `count` is of the narrowest; of wider ones there are as
    many as the devices allow, up to that.

    Raises:
        UsageError: `count` is below 1.
        HardwareError: more slots are asked for than the devices allow, or a width has none.
        VisibilityError: several MIG instances in a slot; CUDA lets a process use one.
    """
    if count is not None and count < 1:
        raise UsageError(f"--slots {count}: at least one slot is needed.")
    made: list[Slot] = []
    for number, width in enumerate(sorted(set(widths))):
        most = max(1, (cores if probe.backend is Backend.CPU else len(probe.devices)) // width)
        wanted = min(count, most) if count and number else count
        if probe.backend is Backend.CPU:
            owned = _cpu_slots(probe, width, wanted or most)
        else:
            owned = _device_slots(probe, width, wanted)
        threads = str(max(1, cores // len(owned)))
        shared = {name: threads for name in THREAD_VARIABLES if name not in env}
        made += [
            _slot(probe.backend, len(made) + n, group, shared) for n, group in enumerate(owned)
        ]
    return tuple(made)


def _slot(
    backend: Backend, index: int, group: tuple[Device, ...], shared: Mapping[str, str]
) -> Slot:
    return Slot(
        index=index,
        devices=group,
        env={**shared, **_device_env(backend, group), **_facts_env(index, group)},
        unset=BACKENDS[backend].rivals,
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
