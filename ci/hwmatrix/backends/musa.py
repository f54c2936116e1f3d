"""musa: Moore Threads GPUs, found as /dev/mtgpu.*; MUSA_VISIBLE_DEVICES is the one variable."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix.backends import masks
from hwmatrix.backends.facts import rivals_of
from hwmatrix.backends.files import numbered, read_text
from hwmatrix.model import Backend, Device, Probe, TorchCheck

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hwmatrix.backends.facts import Access

VISIBILITY = "MUSA_VISIBLE_DEVICES"
_READ_WRITE = os.R_OK | os.W_OK


_TORCH = TorchCheck(
    never=("cuda", "hip", "xpu"),
    modules=("torch_musa",),
    available="torch.musa.is_available",
)


@dataclass(frozen=True)
class Musa:
    """Moore Threads GPUs; `access` is `os.access`, another in tests."""

    access: Access = os.access
    backend: Backend = Backend.MUSA
    visibility: str = VISIBILITY
    rivals: tuple[str, ...] = rivals_of(VISIBILITY)
    env: Mapping[str, str] = field(default_factory=dict)
    torch_check: TorchCheck = _TORCH
    host: str = "a machine with Moore Threads GPUs"

    def probe(self, env: Mapping[str, str], root: Path = Path("/")) -> Probe:
        """Return the GPUs that MUSA_VISIBLE_DEVICES leaves.

        Raises:
            VisibilityError: the list names what is not here.
        """
        files = numbered(root / "dev", r"mtgpu\.\d+")
        closed = [path for path in files if not self.access(path, _READ_WRITE)]
        usable = [
            Device(key=path.name, token=str(i), name="Moore Threads GPU")
            for i, path in enumerate(path for path in files if path not in closed)
        ]
        return Probe(
            backend=self.backend,
            devices=masks.masked(VISIBILITY, env, usable) if usable else (),
            driver=read_text(root / "sys/module/mtgpu/version"),
            looked_for=(f"/dev/mtgpu.*: {', '.join(path.name for path in files) or 'absent'}",),
            problems=tuple(
                f"no permission to read and write /dev/{path.name}: add the user to its group "
                f"({path.stat().st_gid})"
                for path in closed
            ),
        )
