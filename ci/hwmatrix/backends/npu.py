"""npu: Ascend devices, found as /dev/davinci*; names and memory from npu-smi where it answers.

ASCEND_RT_VISIBLE_DEVICES takes logic ids in ascending order, with no space between them (CANN
stops reading at the first other character).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix.backends import masks
from hwmatrix.backends.facts import rivals_of
from hwmatrix.backends.files import numbered, read_text, run_tool
from hwmatrix.errors import VisibilityError
from hwmatrix.model import Backend, Device, Probe, TorchCheck

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hwmatrix.backends.facts import Access
    from hwmatrix.backends.files import Tool

VISIBILITY = "ASCEND_RT_VISIBLE_DEVICES"
_READ_WRITE = os.R_OK | os.W_OK
_MANAGER = "davinci_manager"
_MAPPING_ROW = re.compile(r"\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S.*?)\s*$")
_CAPACITY = re.compile(r"^\s*(?:HBM|DDR) Capacity\(MB\)\s*:\s*(\d+)", re.MULTILINE)


_TORCH = TorchCheck(
    never=("cuda", "hip", "xpu"),
    modules=("torch_npu",),
    available="torch.npu.is_available",
)


@dataclass(frozen=True)
class Npu:
    """Ascend NPUs; `access` and `tool` are the system's, others in tests."""

    access: Access = os.access
    tool: Tool = run_tool
    backend: Backend = Backend.NPU
    visibility: str = VISIBILITY
    rivals: tuple[str, ...] = rivals_of(VISIBILITY)
    env: Mapping[str, str] = field(default_factory=dict)
    torch_check: TorchCheck = _TORCH
    host: str = "a machine with Ascend NPUs"

    def probe(self, env: Mapping[str, str], root: Path = Path("/")) -> Probe:
        """Return the NPUs that ASCEND_RT_VISIBLE_DEVICES leaves.

        Raises:
            VisibilityError: the list names what is not here, or is not ascending.
        """
        files = numbered(root / "dev", r"davinci\d+")
        manager = root / "dev" / _MANAGER
        problems = [
            f"no permission to read and write /dev/{path.name} (group {path.stat().st_gid}, mostly "
            "HwHiAiUser): add the user to that group"
            for path in (*files, *((manager,) if manager.exists() else ()))
            if not self.access(path, _READ_WRITE)
        ]
        if files and not manager.exists():
            problems.append(f"/dev/{_MANAGER} is absent; in a container pass it with --device")
        devices: tuple[Device, ...] = ()
        if files and not problems:
            found, trouble = self._devices(files, env)
            devices, problems = _visible(found, env), trouble
        return Probe(
            backend=self.backend,
            devices=devices,
            driver=_driver(root),
            looked_for=(
                f"/dev/davinci*: {', '.join(path.name for path in files) or 'absent'}",
                *((f"{VISIBILITY}={env[VISIBILITY]}",) if VISIBILITY in env else ()),
            ),
            problems=tuple(problems),
        )

    def _devices(
        self, files: tuple[Path, ...], env: Mapping[str, str]
    ) -> tuple[list[Device], list[str]]:
        mapping = self.tool(["npu-smi", "info", "-m"], env)
        rows = {
            int(match[3]): (match[1], match[2], match[4])
            for match in map(_MAPPING_ROW.match, mapping.text.splitlines())
            if match
        }
        devices, problems = [], [mapping.problem] if mapping.problem else []
        for path in files:
            index = int(path.name.removeprefix("davinci"))
            card, chip, name = rows.get(index, ("", "", ""))
            memory = 0.0
            if card and not problems:  # one that hangs once is not asked again
                answer = self.tool(["npu-smi", "info", "-t", "memory", "-i", card, "-c", chip], env)
                problems += [answer.problem] if answer.problem else []
                capacity = _CAPACITY.search(answer.text)
                memory = round(int(capacity[1]) / 1024, 2) if capacity else 0.0
            device = Device(
                key=path.name,
                token=str(index),
                name=name,
                arch=name.lower().replace(" ", ""),
                memory_gib=memory,
            )
            devices.append(device)
        return devices, problems


def _driver(root: Path) -> str:
    text = read_text(root / "usr/local/Ascend/driver/version.info")
    match = re.search(r"^Version=(\S+)", text, re.MULTILINE)
    return match[1] if match else ""


def _visible(devices: list[Device], env: Mapping[str, str]) -> tuple[Device, ...]:
    chosen = masks.masked(VISIBILITY, env, devices)
    numbers = [int(device.token) for device in chosen]
    if numbers != sorted(numbers):
        raise VisibilityError(
            f"{VISIBILITY}={env[VISIBILITY]}: CANN takes only ids in ascending order. Write "
            f"{','.join(map(str, sorted(numbers)))}."
        )
    return chosen
