"""xpu: Intel GPUs, found as render nodes of Intel's vendor id; memory from xpu-smi where it is.

ZE_AFFINITY_MASK is the one variable. Level Zero counts tiles as devices unless
ZE_FLAT_DEVICE_HIERARCHY says COMPOSITE (or COMBINED), and so does the probe. The order is that of
the PCI addresses, as under ZE_ENABLE_PCI_ID_DEVICE_ORDER=1, which every slot sets.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix.backends import masks
from hwmatrix.backends.facts import rivals_of
from hwmatrix.backends.files import GIB, numbered, read_text, run_tool
from hwmatrix.errors import VisibilityError
from hwmatrix.model import Backend, Device, Probe, TorchCheck

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hwmatrix.backends.facts import Access
    from hwmatrix.backends.files import Tool

VISIBILITY = "ZE_AFFINITY_MASK"
_SELECTORS = ("ONEAPI_DEVICE_SELECTOR", "SYCL_DEVICE_FILTER")
_SELECT_ALL = {"*:*", "*:gpu", "level_zero:*", "level_zero:gpu", "level_zero", "gpu"}
_HIERARCHY = "ZE_FLAT_DEVICE_HIERARCHY"
_VENDOR = "0x8086"
_READ_WRITE = os.R_OK | os.W_OK

_ARCHS = {  # PCI ids as Linux lists them, include/drm/intel/pciids.h
    "pvc": range(0x0BD0, 0x0BE6),
    "dg2": range(0x5690, 0x56C3),
    "bmg": range(0xE202, 0xE224),
}
_TWO_TILES = range(0x0BD5, 0x0BD9)  # Max 1550 and its kin; Max 1100 has one


_TORCH = TorchCheck(
    version=("xpu",),
    never=("cuda", "hip"),
    available="torch.xpu.is_available",
    archs="torch.xpu.get_arch_list",
)


@dataclass(frozen=True)
class Xpu:
    """Intel GPUs and tiles; `access` and `tool` are the system's, others in tests."""

    access: Access = os.access
    tool: Tool = run_tool
    backend: Backend = Backend.XPU
    visibility: str = VISIBILITY
    rivals: tuple[str, ...] = rivals_of(VISIBILITY)
    env: Mapping[str, str] = field(default_factory=lambda: {"ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1"})
    torch_check: TorchCheck = _TORCH
    host: str = "a machine with Intel GPUs"

    def probe(self, env: Mapping[str, str], root: Path = Path("/")) -> Probe:
        """Return the GPUs, or tiles, that ZE_AFFINITY_MASK leaves.

        Raises:
            VisibilityError: the mask names what is not here, or a SYCL selector hides some.
        """
        nodes = [
            path
            for path in numbered(root / "sys/class/drm", r"renderD\d+")
            if read_text(path / "device/vendor") == _VENDOR
        ]
        nodes.sort(key=_address)
        devices: list[Device] = []
        problems: list[str] = []
        for path in nodes:
            problem = self._closed(root / "dev/dri" / path.name)
            if problem:
                problems.append(problem)
            else:
                devices += _tiles(path, env)
        if devices:
            devices = self._with_memory(devices, env)
        tokens = [replace(device, token=str(i)) for i, device in enumerate(devices)]
        return Probe(
            backend=self.backend,
            devices=_visible(tokens, env) if tokens else (),
            driver=_driver(nodes, root),
            looked_for=(
                f"/sys/class/drm/renderD* of vendor {_VENDOR}: {len(nodes) or 'absent'}",
                f"/dev/dri: {'present' if (root / 'dev/dri').exists() else 'absent'}",
                *(f"{name}={env[name]}" for name in (VISIBILITY, *_SELECTORS) if name in env),
            ),
            problems=tuple(problems),
        )

    def _closed(self, path: Path) -> str:
        if not path.exists():
            return f"/dev/dri/{path.name} is absent; in a container pass --device /dev/dri"
        if not self.access(path, _READ_WRITE):
            group = path.stat().st_gid
            return (
                f"no permission to read and write /dev/dri/{path.name}: add the user to its group "
                f"({group}, mostly called render)"
            )
        return ""

    def _with_memory(self, devices: list[Device], env: Mapping[str, str]) -> list[Device]:
        """Add name and memory from xpu-smi; without the tool they stay empty."""
        listing = _json(self.tool(["xpu-smi", "discovery", "-j"], env).text)
        rows = listing.get("device_list")
        known: dict[str, tuple[str, int]] = {}
        for row in rows if isinstance(rows, list) else []:
            number, address = row.get("device_id"), str(row.get("pci_bdf_address", "")).lower()
            command = ["xpu-smi", "discovery", "-d", str(number), "-j"]
            details = _json(self.tool(command, env).text)
            size = str(details.get("memory_physical_size_byte", "0"))
            known[address] = (str(row.get("device_name", "")), int(size) if size.isdigit() else 0)
        tiles = {device.key.split("/")[0]: 0 for device in devices}
        for device in devices:
            tiles[device.key.split("/")[0]] += 1
        return [_described(device, known, tiles) for device in devices]


def _described(
    device: Device, known: Mapping[str, tuple[str, int]], tiles: Mapping[str, int]
) -> Device:
    address = device.key.split("/")[0]
    name, memory = known.get(address, (device.name, 0))
    return replace(device, name=name, memory_gib=round(memory / tiles[address] / GIB, 2))


def _json(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _address(node: Path) -> str:
    """Return the PCI address to which a render node's `device` link leads."""
    return (node / "device").resolve().name.lower()


def _driver(nodes: list[Path], root: Path) -> str:
    for node in nodes:
        name = (node / "device/driver").resolve().name
        version = read_text(root / "sys/module" / name / "version")
        return f"{name} {version}".strip()
    return ""


def _tiles(node: Path, env: Mapping[str, str]) -> list[Device]:
    address, text = _address(node), read_text(node / "device/device")
    number = int(text, 16) if text.startswith("0x") else 0
    arch = next((name for name, ids in _ARCHS.items() if number in ids), "")
    whole = Device(key=address, token="", name=f"Intel GPU {text}", arch=arch)
    count = len(numbered(node / "device", r"tile\d+")) or (2 if number in _TWO_TILES else 1)
    if count == 1 or env.get(_HIERARCHY, "FLAT").upper() != "FLAT":
        return [whole]
    return [replace(whole, key=f"{address}/{tile}") for tile in range(count)]


def _visible(devices: list[Device], env: Mapping[str, str]) -> tuple[Device, ...]:
    for name in _SELECTORS:
        selector = env.get(name, "*:*")
        if selector.strip().lower() not in _SELECT_ALL:
            raise VisibilityError(
                f"{name}={selector} hides devices on a level of its own, which hwmatrix "
                f"cannot carry over to {VISIBILITY}. Unset it and name the devices in {VISIBILITY}."
            )
    value = env.get(VISIBILITY)
    if value is None or "." not in value:
        return masks.masked(VISIBILITY, env, devices)
    return _sub_devices(value, devices)


def _sub_devices(value: str, devices: list[Device]) -> tuple[Device, ...]:
    """Return tiles named as `card.tile`, each a device of its own (COMPOSITE hierarchy)."""
    found: list[Device] = []
    for entry in (part.strip() for part in value.split(",")):
        card, _, tile = entry.partition(".")
        if not (card.isdigit() and (tile.isdigit() or entry == card)):
            raise VisibilityError(
                f"{VISIBILITY}={value}: cannot read {entry!r}; allowed are card or card.tile."
            )
        if int(card) >= len(devices) or any(device.token == entry for device in found):
            raise VisibilityError(
                f"{VISIBILITY}={value}: {entry!r} is a duplicate or not among the {len(devices)} "
                "devices found here. Correct the variable, or unset it to use all."
            )
        parent = devices[int(card)]
        found.append(
            replace(parent, key=f"{parent.key}/{tile}" if tile else parent.key, token=entry)
        )
    return tuple(found)
