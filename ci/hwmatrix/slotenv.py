"""The environment of the code under test, for one slot and one unit."""

from __future__ import annotations

import getpass
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix import runfolder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hwmatrix.model import RunSpec, Slot, Unit


def server_env(spec: RunSpec, slot: Slot, env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the slot's server, from the worker's own `env`.

    Facts come first, then what the table and the slot set; the rival variables of other vendors
    are removed last, so that nothing brings them back. What the table sets for every unit of the
    run alike is there from the start: packages read such switches while they are preloaded.
    """
    facts = {
        "HWMATRIX_BACKEND": spec.plan.backend.value,
        "HWMATRIX_VARIANT": spec.plan.variant,
        "HWMATRIX_RUN": spec.folder,
        **slot_facts(slot),
        # Python that a test starts anew then answers SIGABRT with its stacks.
        "PYTHONFAULTHANDLER": "1",
    }
    whole = {**runfolder.inner_env(env), **facts, **spec.env, **slot.env, **_common(spec)}
    return {name: value for name, value in whole.items() if name not in slot.unset}


def _common(spec: RunSpec) -> dict[str, str]:
    """Return the variables that all units of this shard set to the same value."""
    first, *rest = [unit.env for unit in spec.plan.mine] or [{}]
    return {n: value for n, value in first.items() if all(env.get(n) == value for env in rest)}


def slot_facts(slot: Slot) -> dict[str, str]:
    """Return what `skip_on` and `requires` read: count, least memory, architectures."""
    memories = [device.memory_gib for device in slot.devices if device.memory_gib]
    known = len(memories) == len(slot.devices) and memories
    return {
        "HWMATRIX_SLOT": str(slot.index),
        "HWMATRIX_DEVICES": str(len(slot.devices)),
        "HWMATRIX_MEMORY_GIB": f"{min(memories):g}" if known else "",
        "HWMATRIX_ARCH": ",".join(sorted({d.arch for d in slot.devices if d.arch})),
    }


def unit_env(unit: Unit, temporary: str, env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of one unit: its suite, its own temporary folder, its own settings.

    Inductor keeps its cache below the temporary folder unless told otherwise: it is told the usual
    place, since compiled kernels are to outlive the file.
    """
    caches = {}
    if "TORCHINDUCTOR_CACHE_DIR" not in env:
        usual = Path(env.get("TMPDIR") or tempfile.gettempdir()) / _inductor_folder()
        caches["TORCHINDUCTOR_CACHE_DIR"] = str(usual)
    return {**caches, "HWMATRIX_SUITE": unit.suite, "TMPDIR": temporary, **unit.env}


def _inductor_folder() -> str:
    try:
        return f"torchinductor_{getpass.getuser()}"
    except (KeyError, OSError):
        return f"torchinductor_{os.getuid()}"  # a container's user without a name
