"""cpu, xpu, npu, musa, mlx: what their probes find in made trees."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix.backends.cpu import Cpu, machine_memory_gib, usable_cores
from hwmatrix.backends.files import ToolAnswer
from hwmatrix.backends.mlx import Mlx
from hwmatrix.backends.musa import Musa
from hwmatrix.backends.npu import Npu
from hwmatrix.backends.xpu import Xpu
from hwmatrix.errors import VisibilityError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from hwmatrix.model import Probe

NO_TOOL = ToolAnswer(problem="xpu-smi: not on PATH")


def tokens(probe: Probe) -> Any:
    return [device.token for device in probe.devices]


# ---------------------------------------------------------------- cpu
def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_cpu_has_a_rank_per_core(tmp_path: Path) -> None:
    write(tmp_path, "proc/meminfo", "MemTotal:       8388608 kB\n")
    probe = Cpu(machine="aarch64").probe({}, tmp_path)
    assert len(probe.devices) == usable_cores(tmp_path)
    assert probe.devices[0].key == "rank0"
    assert {(d.arch, d.memory_gib) for d in probe.devices} == {("aarch64", 8.0)}


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"sys/fs/cgroup/cpu.max": "100000 100000"}, 1),
        ({"sys/fs/cgroup/cpu.max": "50000 100000"}, 1),
        (
            {
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "100000",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            1,
        ),
    ],
)
def test_a_quota_limits_cores(tmp_path: Path, files: dict[str, str], cores: int) -> None:
    for path, text in files.items():
        write(tmp_path, path, text)
    assert usable_cores(tmp_path) == cores


@pytest.mark.parametrize("text", ["max 100000", "", "-1"])
def test_no_quota_leaves_the_affinity(tmp_path: Path, text: str) -> None:
    write(tmp_path, "sys/fs/cgroup/cpu.max", text)
    write(tmp_path, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1")
    assert usable_cores(tmp_path) == usable_cores(tmp_path / "nothing")


@pytest.mark.parametrize(("limit", "memory_gib"), [("1073741824", 1.0), ("max", 8.0)])
def test_a_cgroup_limits_memory(tmp_path: Path, limit: str, memory_gib: float) -> None:
    write(tmp_path, "proc/meminfo", "MemTotal:       8388608 kB\n")
    write(tmp_path, "sys/fs/cgroup/memory.max", limit)
    write(tmp_path, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712")
    assert machine_memory_gib(tmp_path) == memory_gib


def test_memory_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    assert machine_memory_gib(tmp_path) == 0.0


# ---------------------------------------------------------------- xpu
def xpu_smi(command: Sequence[str], _env: Mapping[str, str]) -> ToolAnswer:
    """Answers as xpu-smi does: sizes as text, addresses in lower case."""
    rows = [
        {"device_id": 0, "device_name": "Intel Data Center GPU Max 1550", "pci_bdf_address": a}
        for a in ("0000:29:00.0", "0000:9A:00.0")
    ]
    if "-d" not in command:
        return ToolAnswer(text=json.dumps({"device_list": rows}))
    return ToolAnswer(text=json.dumps({"memory_physical_size_byte": str(128 * 1024**3)}))


def xpu(here: Any, tool: Any = lambda _command, _env: NO_TOOL) -> Any:
    return Xpu(access=here.access, tool=tool)


def test_tiles_are_devices_in_bus_order(tree: Callable[[str], Any]) -> None:
    here = tree("xpu-max1550")
    probe = xpu(here, xpu_smi).probe({}, here.root)
    assert [d.key for d in probe.devices] == [
        "0000:29:00.0/0",
        "0000:29:00.0/1",
        "0000:9a:00.0/0",
        "0000:9a:00.0/1",
    ]
    assert {(d.arch, d.memory_gib) for d in probe.devices} == {("pvc", 64.0)}
    assert probe.devices[0].name == "Intel Data Center GPU Max 1550"
    assert probe.driver == "i915 1.25.3"


def test_cards_are_devices_under_the_composite_hierarchy(tree: Callable[[str], Any]) -> None:
    here = tree("xpu-max1550")
    env = {"ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"}
    probe = xpu(here, xpu_smi).probe(env, here.root)
    assert [(d.key, d.memory_gib) for d in probe.devices] == [
        ("0000:29:00.0", 128.0),
        ("0000:9a:00.0", 128.0),
    ]


def test_without_xpu_smi_memory_is_unknown(tree: Callable[[str], Any]) -> None:
    here = tree("xpu-b580")
    probe = xpu(here).probe({}, here.root)
    assert [(d.key, d.arch, d.memory_gib) for d in probe.devices] == [("0000:03:00.0", "bmg", 0.0)]
    assert probe.driver == "xe"


@pytest.mark.parametrize(
    ("env", "left"),
    [
        ({}, ["0", "1", "2", "3"]),
        ({"ZE_AFFINITY_MASK": "2,0"}, ["2", "0"]),
        ({"ZE_AFFINITY_MASK": ""}, []),
        ({"ONEAPI_DEVICE_SELECTOR": "level_zero:*"}, ["0", "1", "2", "3"]),
        ({"CUDA_VISIBLE_DEVICES": "9"}, ["0", "1", "2", "3"]),
        (
            {"ZE_AFFINITY_MASK": "0.1,1.0", "ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"},
            ["0.1", "1.0"],
        ),
        ({"ZE_AFFINITY_MASK": "1,0.1", "ZE_FLAT_DEVICE_HIERARCHY": "COMBINED"}, ["1", "0.1"]),
    ],
)
def test_ze_affinity_mask_leaves(
    tree: Callable[[str], Any], env: dict[str, str], left: Any
) -> None:
    here = tree("xpu-max1550")
    assert tokens(xpu(here).probe(env, here.root)) == left


@pytest.mark.parametrize(
    ("env", "reason"),
    [
        ({"ZE_AFFINITY_MASK": "4"}, "there is no index 4"),
        ({"ZE_AFFINITY_MASK": "9.0"}, "'9.0' is a duplicate or not among"),
        ({"ZE_AFFINITY_MASK": "0.0,0.0"}, "'0.0' is a duplicate"),
        ({"ZE_AFFINITY_MASK": "0.x"}, "cannot read '0.x'"),
        ({"ONEAPI_DEVICE_SELECTOR": "level_zero:1"}, "hides devices on a level of its own"),
        ({"SYCL_DEVICE_FILTER": "opencl"}, "SYCL_DEVICE_FILTER=opencl hides"),
    ],
)
def test_ze_affinity_mask_is_refused(
    tree: Callable[[str], Any], env: dict[str, str], reason: str
) -> None:
    here = tree("xpu-max1550")
    with pytest.raises(VisibilityError, match=reason):
        xpu(here).probe(env, here.root)


@pytest.mark.parametrize(
    ("machine", "problem"),
    [
        ("xpu-no-render-group", "no permission to read and write /dev/dri/renderD128"),
        ("xpu-container", "/dev/dri/renderD128 is absent; in a container pass"),
    ],
)
def test_no_usable_xpu(tree: Callable[[str], Any], machine: str, problem: str) -> None:
    here = tree(machine)
    probe = xpu(here).probe({}, here.root)
    assert probe.devices == ()
    assert problem in probe.problems[0]


def test_no_xpu_at_all(tree: Callable[[str], Any]) -> None:
    here = tree("none")
    probe = xpu(here).probe({"ZE_AFFINITY_MASK": "0"}, here.root)
    assert (probe.devices, probe.driver) == ((), "")
    assert "vendor 0x8086: absent" in probe.looked_for[0]


@pytest.mark.parametrize("text", ["no json", "[]", '{"device_list": "none"}'])
def test_an_xpu_smi_of_another_kind_changes_nothing(tree: Callable[[str], Any], text: str) -> None:
    here = tree("xpu-b580")
    probe = xpu(here, lambda _command, _env: ToolAnswer(text=text)).probe({}, here.root)
    assert len(probe.devices) == 1


# ---------------------------------------------------------------- npu
MAPPING = """\
	NPU ID     Chip ID    Chip Logic ID    Chip Name
	0          0          0                Ascend 910B3
	0          1          -                Mcu
	1          0          1                Ascend 910B3
	5          0          10               Ascend 910B3
"""
MEMORY = (
    "	NPU ID     : 0\n	DDR Capacity(MB)        : 0\n	HBM Capacity(MB)        : 65536\n"
)


def npu_smi(command: Sequence[str], _env: Mapping[str, str]) -> ToolAnswer:
    if "-m" in command:
        return ToolAnswer(text=MAPPING)
    return ToolAnswer(text=MEMORY.replace("	DDR Capacity(MB)        : 0\n", ""))


def test_three_npus_in_the_order_of_their_numbers(tree: Callable[[str], Any]) -> None:
    here = tree("npu-910b")
    probe = Npu(access=here.access, tool=npu_smi).probe({}, here.root)
    assert tokens(probe) == ["0", "1", "10"]
    assert {(d.arch, d.memory_gib) for d in probe.devices} == {("ascend910b3", 64.0)}
    assert probe.driver == "25.2.0"


def test_a_stuck_npu_smi_is_asked_once(tree: Callable[[str], Any]) -> Any:
    here = tree("npu-910b")
    asked = []

    def stuck(command: Sequence[str], _env: Mapping[str, str]) -> ToolAnswer:
        asked.append(command)
        return npu_smi(command, _env) if "-m" in command else ToolAnswer(problem="no answer")

    probe = Npu(access=here.access, tool=stuck).probe({}, here.root)
    assert len(probe.devices) == 3
    assert probe.problems == ("no answer",)
    assert len(asked) == 2


def test_without_npu_smi_the_files_do(tree: Callable[[str], Any]) -> None:
    here = tree("npu-910b")
    tool = ToolAnswer(problem="npu-smi: not on PATH")
    probe = Npu(access=here.access, tool=lambda _command, _env: tool).probe({}, here.root)
    assert len(probe.devices) == 3
    assert probe.problems == ("npu-smi: not on PATH",)


def test_npu_mask(tree: Callable[[str], Any]) -> None:
    here = tree("npu-910b")
    npu = Npu(access=here.access, tool=npu_smi)
    assert tokens(npu.probe({"ASCEND_RT_VISIBLE_DEVICES": "1,2"}, here.root)) == ["1", "10"]
    assert tokens(npu.probe({"ASCEND_RT_VISIBLE_DEVICES": ""}, here.root)) == []
    with pytest.raises(VisibilityError, match=r"ids in ascending order. Write 0,1"):
        npu.probe({"ASCEND_RT_VISIBLE_DEVICES": "1,0"}, here.root)
    with pytest.raises(VisibilityError, match=r"there is no index 3"):
        npu.probe({"ASCEND_RT_VISIBLE_DEVICES": "3"}, here.root)


@pytest.mark.parametrize(
    ("machine", "problem"),
    [
        ("npu-no-permission", "no permission to read and write /dev/davinci0"),
        ("npu-container", "/dev/davinci_manager is absent"),
    ],
)
def test_no_usable_npu(tree: Callable[[str], Any], machine: str, problem: str) -> None:
    here = tree(machine)
    probe = Npu(access=here.access, tool=npu_smi).probe({}, here.root)
    assert probe.devices == ()
    assert problem in probe.problems[0]


def test_no_npu_at_all(tree: Callable[[str], Any]) -> None:
    here = tree("none")
    probe = Npu(access=here.access, tool=npu_smi).probe(
        {"ASCEND_RT_VISIBLE_DEVICES": "0"}, here.root
    )
    assert (probe.devices, probe.driver, probe.problems) == ((), "", ())
    assert probe.looked_for == ("/dev/davinci*: absent", "ASCEND_RT_VISIBLE_DEVICES=0")


# ---------------------------------------------------------------- musa, mlx
def test_musa(tree: Callable[[str], Any]) -> None:
    here = tree("musa-s4000")
    probe = Musa(access=here.access).probe({}, here.root)
    assert [(d.key, d.token) for d in probe.devices] == [("mtgpu.0", "0")]
    assert "no permission to read and write /dev/mtgpu.1" in probe.problems[0]
    assert probe.driver == "3.3.0"
    with pytest.raises(VisibilityError, match=r"MUSA_VISIBLE_DEVICES=1: there is no index 1"):
        Musa(access=here.access).probe({"MUSA_VISIBLE_DEVICES": "1"}, here.root)


def test_no_musa(tree: Callable[[str], Any]) -> None:
    here = tree("none")
    assert Musa(access=here.access).probe({"MUSA_VISIBLE_DEVICES": "0"}, here.root).devices == ()


@pytest.mark.parametrize(
    ("system", "machine", "count"),
    [("Darwin", "arm64", 1), ("Darwin", "x86_64", 0), ("Linux", "aarch64", 0)],
)
def test_mlx(system: str, machine: str, count: Any) -> None:
    probe = Mlx(system=system, machine=machine).probe({})
    assert len(probe.devices) == count
    assert probe.looked_for == (f"macOS on arm64: this is {system} on {machine}",)
