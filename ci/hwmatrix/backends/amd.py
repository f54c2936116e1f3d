"""amd: AMD devices, read from sysfs as the kernel driver shows them; no ROCm tool is needed.

HIP_VISIBLE_DEVICES is the one variable that a slot sets. ROCR_VISIBLE_DEVICES, which AMD's manual
prefers on Linux, works one level lower, and what stands in both is counted twice: ROCR leaves
some devices, and HIP's (or its alias CUDA's) indices count among those. Ray refuses
ROCR_VISIBLE_DEVICES (from 2.45 on), vLLM refuses HIP and CUDA that differ; HIP alone suits both.
An inherited ROCR list, UUIDs included, is turned into the HIP indices of the same devices.

The order is that of the nodes in KFD's topology, which both runtimes keep. Nodes that a container
was not given are left out before counting, as the runtime does.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix.backends import masks
from hwmatrix.backends.facts import rivals_of
from hwmatrix.backends.files import GIB, numbered, read_int, read_text
from hwmatrix.errors import VisibilityError
from hwmatrix.model import Backend, Device, Probe, TorchCheck

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hwmatrix.backends.facts import Access

VISIBILITY = "HIP_VISIBLE_DEVICES"
_ROCR = "ROCR_VISIBLE_DEVICES"
_HIP_LEVEL = (VISIBILITY, "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
_NODES = "sys/class/kfd/kfd/topology/nodes"
_VENDOR = "0x1002"
_VRAM_HEAPS = {1, 2}  # HSA_HEAPTYPE_FRAME_BUFFER_PUBLIC and _PRIVATE
_READ_WRITE = os.R_OK | os.W_OK


_TORCH = TorchCheck(
    version=("hip",),
    never=("cuda",),
    available="torch.cuda.is_available",
    archs="torch.cuda.get_arch_list",
)


@dataclass(frozen=True)
class _Node:
    """A GPU of KFD's topology; `unique_id` as 16 hex digits, empty if the driver gives none."""

    device: Device
    unique_id: str
    render: str


@dataclass(frozen=True)
class Amd:
    """AMD GPUs and their partitions; `access` is `os.access`, another in tests."""

    access: Access = os.access
    backend: Backend = Backend.AMD
    visibility: str = VISIBILITY
    rivals: tuple[str, ...] = rivals_of(VISIBILITY)
    env: Mapping[str, str] = field(default_factory=dict)
    torch_check: TorchCheck = _TORCH
    host: str = "a machine with AMD GPUs"

    def probe(self, env: Mapping[str, str], root: Path = Path("/")) -> Probe:
        """Return the GPUs that ROCR_, HIP_ and CUDA_VISIBLE_DEVICES leave together.

        Raises:
            VisibilityError: they contradict each other, or name what is not here.
        """
        nodes = _nodes(root)
        usable, problems = self._usable(nodes, root)
        looked_for = (
            f"/{_NODES}: {f'{len(nodes)} GPUs' if nodes else _absent(root / _NODES)}",
            f"/dev/kfd: {'present' if (root / 'dev/kfd').exists() else 'absent'}",
            f"/dev/dri/renderD*: {_render_nodes(root) or 'absent'}",
            *(f"{name}={env[name]}" for name in (_ROCR, *_HIP_LEVEL) if name in env),
        )
        return Probe(
            backend=self.backend,
            devices=_visible(usable, env) if usable else (),
            driver=read_text(root / "sys/module/amdgpu/version") or _in_kernel(root),
            looked_for=looked_for,
            problems=(*problems, *_unknown_to_driver(nodes, root)),
        )

    def _usable(self, nodes: tuple[_Node, ...], root: Path) -> tuple[tuple[_Node, ...], list[str]]:
        """Return the nodes that this process may open, and why the others are none."""
        kfd = root / "dev/kfd"
        if not nodes:
            return (), []
        if not kfd.exists():
            return (), ["/dev/kfd is absent; in a container pass --device /dev/kfd"]
        if not self.access(kfd, _READ_WRITE):
            return (), [_no_permission(kfd, "/dev/kfd")]
        usable, problems = [], []
        for node in nodes:
            path = root / "dev/dri" / node.render
            if node.render and not path.exists():
                problems.append(
                    f"{node.device.key} ({node.device.arch}): /dev/dri/{node.render} is absent; "
                    "in a container pass --device /dev/dri"
                )
            elif node.render and not self.access(path, _READ_WRITE):
                problems.append(
                    f"{node.device.key}: {_no_permission(path, f'/dev/dri/{node.render}')}"
                )
            elif not node.device.arch:
                problems.append(
                    f"{node.device.key}: the driver is too old, it gives no gfx_target_version; "
                    "install the amdgpu driver that the ROCm release names"
                )
            else:
                usable.append(node)
        return tuple(usable), problems


def _absent(path: Path) -> str:
    return "no GPU in it" if path.exists() else "absent"


def _in_kernel(root: Path) -> str:
    release = read_text(root / "proc/sys/kernel/osrelease")
    return f"in-kernel, {release}" if release and (root / "sys/module/amdgpu").exists() else ""


def _render_nodes(root: Path) -> str:
    return ", ".join(path.name for path in numbered(root / "dev/dri", r"renderD\d+"))


def _no_permission(path: Path, shown: str) -> str:
    group = path.stat().st_gid
    return (
        f"no permission to read and write {shown} (its group is {group}, mostly called render or "
        f"video): add the user to that group, or pass --group-add {group} to the container"
    )


def gfx_name(version: int) -> str:
    """Return the target's name for KFD's gfx_target_version: 90402 is gfx942, 90010 gfx90a.

    Two decimal digits each for minor version and stepping; the name has one hex digit for each
    (Linux, drivers/gpu/drm/amd/amdkfd/kfd_device.c).
    """
    if version <= 0:
        return ""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def _properties(path: Path) -> dict[str, int]:
    """Return KFD's `name value` lines; values are decimal."""
    pairs = (line.split() for line in read_text(path).splitlines())
    return {
        pair[0]: int(pair[1])
        for pair in pairs
        if len(pair) == 2 and pair[1].isdigit()  # noqa: PLR2004 - name and value
    }


def _nodes(root: Path) -> tuple[_Node, ...]:
    """Return the GPUs of the topology; CPUs have gpu_id 0, a hidden node's cannot be read."""
    found = (
        _node(path, root)
        for path in numbered(root / _NODES, r"\d+")
        if read_int(path / "gpu_id") != 0
    )
    return tuple(
        replace(node, device=replace(node.device, token=str(i))) for i, node in enumerate(found)
    )


def _node(path: Path, root: Path) -> _Node:
    properties = _properties(path / "properties")
    minor = properties.get("drm_render_minor", 0)
    pci = root / f"sys/class/drm/renderD{minor}/device"
    unique = properties.get("unique_id", 0) or int(f"0x{read_text(pci / 'unique_id') or '0'}", 16)
    memory = _vram(path / "mem_banks") or read_int(pci / "mem_info_vram_total")
    name = read_text(pci / "product_name") or read_text(path / "name")
    device = Device(
        key=_pci_address(properties),
        token="",
        name=name,
        arch=gfx_name(properties.get("gfx_target_version", 0)),
        memory_gib=round(memory / GIB, 2),
    )
    return _Node(device, f"{unique:016x}" if unique else "", f"renderD{minor}" if minor else "")


def _vram(banks: Path) -> int:
    """Return the bytes of VRAM: per partition, where a GPU is split into several nodes."""
    rows = (_properties(bank / "properties") for bank in numbered(banks, r"\d+"))
    return sum(row.get("size_in_bytes", 0) for row in rows if row.get("heap_type") in _VRAM_HEAPS)


def _pci_address(properties: Mapping[str, int]) -> str:
    """Return `0000:c1:00.0`; partitions of one GPU differ in the function."""
    place = properties.get("location_id", 0)
    domain = properties.get("domain", 0)
    return f"{domain:04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}.{place & 7}"


def _unknown_to_driver(nodes: tuple[_Node, ...], root: Path) -> tuple[str, ...]:
    """Return a line for each AMD accelerator on the bus that KFD does not show."""
    known = {node.device.key.rsplit(".", 1)[0] for node in nodes}
    lines: list[str] = []
    for path in sorted((root / "sys/bus/pci/devices").glob("*")):
        kind = read_text(path / "class")
        if read_text(path / "vendor") != _VENDOR or not re.match(r"0x(12|0380)", kind):
            continue
        if path.name.rsplit(".", 1)[0] not in known:
            lines.append(
                f"{path.name} ({read_text(path / 'device')}) is on the bus but not in KFD's "
                "topology: the amdgpu driver is not loaded, too old for it, or hidden from this "
                "container"
            )
    return tuple(lines)


def _visible(nodes: tuple[_Node, ...], env: Mapping[str, str]) -> tuple[Device, ...]:
    """Return the devices that the two levels leave; tokens index all usable devices."""
    devices = [replace(node.device, token=str(i)) for i, node in enumerate(nodes)]
    names = [(f"GPU-{node.unique_id}",) if node.unique_id else () for node in nodes]
    upper = masks.agreed(env, _HIP_LEVEL)
    rocr = env.get(_ROCR)
    positions = tuple(range(len(devices)))
    if rocr is not None:
        positions = masks.select(_ROCR, rocr, names)
    # A scheduler that writes the same list into both (Slurm does) means the same devices.
    if upper is not None and (rocr is None or not masks.same_list(rocr, upper[1])):
        positions = _second_level(upper, rocr, positions, names)
    return tuple(devices[i] for i in positions)


def _second_level(
    upper: tuple[str, str],
    rocr: str | None,
    positions: tuple[int, ...],
    names: Sequence[tuple[str, ...]],
) -> tuple[int, ...]:
    variable, value = upper
    try:
        chosen = masks.select(variable, value, [names[i] for i in positions])
    except VisibilityError as error:
        if rocr is None:
            raise
        raise VisibilityError(
            f"{_ROCR}={rocr} and {variable}={value} contradict each other: {_ROCR} comes first "
            f"and leaves {len(positions)} devices, and {variable} counts among those; together "
            f"they leave too few or none. Unset one of the two, or give both the same list. "
            f"({error})"
        ) from None
    return tuple(positions[i] for i in chosen)
