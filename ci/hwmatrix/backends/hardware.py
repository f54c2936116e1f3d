"""Whether what a probe found does for the runner configs of a session."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hwmatrix.backends.table import BACKENDS
from hwmatrix.errors import HardwareError
from hwmatrix.model import Backend

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hwmatrix.model import Device, Probe, RunnerConfig


def fitting(probe: Probe, config: RunnerConfig) -> Probe:
    """Return the probe with only those devices that have the memory and architecture asked for.

    A device whose memory or architecture the probe cannot know is kept; the guard and
    `requires(...)` look again with torch.
    """
    archs = config.arch.get(probe.backend, ())
    return replace(
        probe,
        devices=tuple(device for device in probe.devices if _fits(device, config, archs)),
    )


def _fits(device: Device, config: RunnerConfig, archs: tuple[str, ...]) -> bool:
    big_enough = not device.memory_gib or device.memory_gib >= config.memory_gib
    return big_enough and (not archs or not device.arch or device.arch in archs)


def check(
    probe: Probe,
    runner_configs: Iterable[RunnerConfig],
    backend: Backend,
    *,
    session: str = "",
    toolkit: str = "",
) -> None:
    """Return if every runner config finds its devices on this machine.

    `session` begins the message; `toolkit` is that of the variant, whose major version CUDA's
    driver must know (NVIDIA, CUDA Compatibility: minor versions may differ).

    Raises:
        HardwareError: one line per runner config that does not, then what was looked for.
    """
    lines = [
        _lack(probe, config, backend)
        for config in runner_configs
        if backend is not Backend.CPU or config.memory_gib
    ]
    lines = [line for line in lines if line]
    if not lines and toolkit and backend is Backend.CUDA:
        lines = _driver_too_old(probe, toolkit)
    if lines:
        raise HardwareError(_message(probe, lines, backend, session or backend.value))


def _lack(probe: Probe, config: RunnerConfig, backend: Backend) -> str:
    """Return what is missing for `config`, empty if nothing is."""
    needed = 1 if backend is Backend.CPU else config.devices
    if len(fitting(probe, config).devices) >= needed:
        return ""
    found = f"found {_list(probe.devices)}" if probe.devices else "found none"
    return f"{config.name} needs {_need(config, backend)}, {found}."


def _need(config: RunnerConfig, backend: Backend) -> str:
    plural = "" if config.devices == 1 else "s"
    memory = f" with {config.memory_gib:g} GiB or more" if config.memory_gib else ""
    archs = config.arch.get(backend, ())
    arch = f" of {' or '.join(archs)}" if archs else ""
    return f"{config.devices} {backend} device{plural}{memory}{arch}"


def _list(devices: tuple[Device, ...]) -> str:
    """Return `8 x AMD Instinct MI300X (gfx942, 191.98 GiB)`, each kind once."""
    kinds: dict[str, int] = {}
    for device in devices:
        facts = [device.arch, f"{device.memory_gib:g} GiB" if device.memory_gib else ""]
        text = ", ".join(fact for fact in facts if fact)
        kind = f"{device.name or device.key} ({text})" if text else device.name or device.key
        kinds[kind] = kinds.get(kind, 0) + 1
    return ", ".join(f"{count} x {kind}" for kind, count in kinds.items())


def _driver_too_old(probe: Probe, toolkit: str) -> list[str]:
    known = probe.driver.partition("(CUDA ")[2].partition(".")[0]
    wanted = toolkit.partition(".")[0]
    if not known.isdigit() or int(known) >= int(wanted):
        return []
    line = (
        f"the driver is too old: {probe.driver}, and this variant's torch is built for CUDA "
        f"{toolkit}. Install a driver that supports CUDA {wanted}, or choose a variant of an older "
        "toolkit."
    )
    return [line]


def _message(probe: Probe, lines: list[str], backend: Backend, session: str) -> str:
    parts = [f"{session}: not on this machine. {' '.join(lines)}"]
    if probe.looked_for:
        parts.append(f"Looked for: {'; '.join(probe.looked_for)}.")
    if probe.problems:
        parts.append(f"In the way: {'; '.join(probe.problems)}.")
    parts.append(
        f"Nothing was installed or run. Run on {BACKENDS[backend].host}, or add --plan to see the "
        "plan here."
    )
    return " ".join(parts)
