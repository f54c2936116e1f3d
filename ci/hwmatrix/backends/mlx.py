"""mlx: the GPU of an Apple machine; there is one, shared by all processes, and no variable."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix.backends.facts import rivals_of
from hwmatrix.model import Backend, Device, Probe, TorchCheck

if TYPE_CHECKING:
    from collections.abc import Mapping


_GPU = Device(key="apple-gpu", token=str(0), name="Apple GPU", arch="apple")
_TORCH = TorchCheck(never=("cuda", "hip", "xpu"), available="torch.backends.mps.is_available")


@dataclass(frozen=True)
class Mlx:
    """Apple's GPU; `system` and `machine` are `platform`'s, others in tests."""

    system: str = field(default_factory=platform.system)
    machine: str = field(default_factory=platform.machine)
    backend: Backend = Backend.MLX
    visibility: str = ""
    rivals: tuple[str, ...] = rivals_of("")
    env: Mapping[str, str] = field(default_factory=dict)
    torch_check: TorchCheck = _TORCH
    host: str = "macOS on Apple silicon"

    def probe(self, env: Mapping[str, str], root: Path = Path("/")) -> Probe:
        """Return the one GPU, on macOS on arm64 only."""
        del env, root
        here = f"{self.system} on {self.machine}"
        found = (self.system, self.machine) == ("Darwin", "arm64")
        return Probe(
            backend=self.backend,
            devices=(_GPU,) if found else (),
            looked_for=(f"macOS on arm64: this is {here}",),
        )
