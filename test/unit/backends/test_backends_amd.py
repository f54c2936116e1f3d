"""amd: what the probe reads from recorded sysfs trees, and what inherited variables leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix.backends.amd import Amd, gfx_name
from hwmatrix.errors import VisibilityError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hwmatrix.model import Probe


def keys(probe: Probe) -> Any:
    return [device.key for device in probe.devices]


def tokens(probe: Probe) -> Any:
    return [device.token for device in probe.devices]


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (90402, "gfx942"),
        (90500, "gfx950"),
        (90010, "gfx90a"),
        (90008, "gfx908"),
        (110000, "gfx1100"),
        (100306, "gfx1036"),
        (120001, "gfx1201"),
        (0, ""),
        (-1, ""),
    ],
)
def test_target_version_is_decoded(version: int, name: str) -> None:
    assert gfx_name(version) == name


@pytest.mark.parametrize(
    ("machine", "name", "arch", "memory_gib"),
    [
        ("mi300x", "AMD Instinct MI300X OAM", "gfx942", 191.98),
        ("mi325x", "AMD Instinct MI325X", "gfx942", 255.98),
        ("mi355x", "AMD Instinct MI355X", "gfx950", 287.98),
    ],
)
def test_eight_gpus(
    tree: Callable[[str], Any], machine: str, name: str, arch: str, memory_gib: float
) -> None:
    here = tree(machine)
    probe = Amd(access=here.access).probe({}, here.root)
    assert len(probe.devices) == 8
    assert {(d.name, d.arch, d.memory_gib) for d in probe.devices} == {(name, arch, memory_gib)}
    assert keys(probe)[:2] == ["0000:05:00.0", "0000:26:00.0"]
    assert tokens(probe) == [str(i) for i in range(8)]
    assert probe.driver == "6.16.6"
    assert probe.problems == ()


def test_mixed_machine_keeps_the_order_of_the_topology(tree: Callable[[str], Any]) -> None:
    here = tree("amd-mixed")
    probe = Amd(access=here.access).probe({}, here.root)
    assert [d.arch for d in probe.devices] == ["gfx1100", "gfx942", "gfx942", "gfx1036"]
    assert probe.devices[3].name == "raphael"
    assert probe.devices[3].memory_gib == 0.5


def test_partitions_of_one_gpu_are_devices_with_their_own_keys(tree: Callable[[str], Any]) -> None:
    here = tree("amd-partitions")
    probe = Amd(access=here.access).probe({}, here.root)
    assert keys(probe) == [f"0000:05:00.{i}" for i in range(4)]
    assert {d.memory_gib for d in probe.devices} == {24.0}
    assert probe.driver == "in-kernel, 6.14.0-24-generic"


def test_a_gpu_that_the_container_was_not_given_is_not_counted(tree: Callable[[str], Any]) -> None:
    here = tree("amd-container")
    probe = Amd(access=here.access).probe({}, here.root)
    assert (keys(probe), tokens(probe)) == (["0000:26:00.0"], ["0"])


@pytest.mark.parametrize(
    ("machine", "problem"),
    [
        ("amd-no-kfd-permission", "no permission to read and write /dev/kfd (its group is"),
        ("amd-no-render-group", "no permission to read and write /dev/dri/renderD128"),
        ("amd-no-target-version", "the driver is too old, it gives no gfx_target_version"),
        ("amd-driver-too-old", "0000:05:00.0 (0x75a3) is on the bus but not in KFD's topology"),
    ],
)
def test_nothing_usable_and_the_reason(
    tree: Callable[[str], Any], machine: str, problem: str
) -> None:
    here = tree(machine)
    probe = Amd(access=here.access).probe({"HIP_VISIBLE_DEVICES": "0"}, here.root)
    assert probe.devices == ()
    assert any(problem in line for line in probe.problems)


def test_a_container_without_device_files(tree: Callable[[str], Any]) -> None:
    here = tree("mi300x")
    (here.root / "dev/kfd").unlink()
    probe = Amd(access=here.access).probe({}, here.root)
    assert probe.devices == ()
    assert probe.problems == ("/dev/kfd is absent; in a container pass --device /dev/kfd",)


def test_a_missing_render_node_takes_only_its_gpu(tree: Callable[[str], Any]) -> None:
    here = tree("mi300x")
    (here.root / "dev/dri/renderD128").unlink()
    probe = Amd(access=here.access).probe({}, here.root)
    assert len(probe.devices) == 7
    assert "0000:05:00.0 (gfx942): /dev/dri/renderD128 is absent" in probe.problems[0]


def test_none_at_all_says_where_it_looked(tree: Callable[[str], Any]) -> None:
    here = tree("none")
    probe = Amd(access=here.access).probe({"ROCR_VISIBLE_DEVICES": "0"}, here.root)
    assert probe.devices == ()
    assert probe.looked_for == (
        "/sys/class/kfd/kfd/topology/nodes: absent",
        "/dev/kfd: absent",
        "/dev/dri/renderD*: absent",
        "ROCR_VISIBLE_DEVICES=0",
    )


UUID_2 = "GPU-1f2a3b4c5d6e2229"
UUID_3 = "GPU-1f2a3b4c5d6e333a"


@pytest.mark.parametrize(
    ("env", "left"),
    [
        ({}, "01234567"),
        ({"HIP_VISIBLE_DEVICES": ""}, ""),
        ({"HIP_VISIBLE_DEVICES": "3,1"}, "31"),
        ({"HIP_VISIBLE_DEVICES": "2-4"}, "234"),
        ({"HIP_VISIBLE_DEVICES": f"{UUID_3}"}, "3"),
        ({"CUDA_VISIBLE_DEVICES": "2,3"}, "23"),
        ({"GPU_DEVICE_ORDINAL": "7"}, "7"),
        ({"ROCR_VISIBLE_DEVICES": "2,3"}, "23"),
        ({"ROCR_VISIBLE_DEVICES": f"{UUID_2},{UUID_3}"}, "23"),
        ({"ROCR_VISIBLE_DEVICES": ""}, ""),
        ({"ROCR_VISIBLE_DEVICES": "0,-1,5"}, "0"),
        # Slurm: the same list in both, both meant from all devices.
        ({"ROCR_VISIBLE_DEVICES": "2,3", "CUDA_VISIBLE_DEVICES": "2,3"}, "23"),
        (
            {
                "ROCR_VISIBLE_DEVICES": "5",
                "CUDA_VISIBLE_DEVICES": "5",
                "GPU_DEVICE_ORDINAL": "5",
                "HIP_VISIBLE_DEVICES": "5",
            },
            "5",
        ),
        ({"ROCR_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}, ""),
        # Layers, as AMD documents them: HIP counts among what ROCR leaves.
        ({"ROCR_VISIBLE_DEVICES": "4,6,7", "HIP_VISIBLE_DEVICES": "0,2"}, "47"),
        ({"ROCR_VISIBLE_DEVICES": f"{UUID_2},{UUID_3}", "HIP_VISIBLE_DEVICES": "1"}, "3"),
        ({"ROCR_VISIBLE_DEVICES": f"{UUID_3}", "HIP_VISIBLE_DEVICES": f"{UUID_3}"}, "3"),
        ({"ROCR_VISIBLE_DEVICES": "0,1", "HIP_VISIBLE_DEVICES": ""}, ""),
        ({"HIP_VISIBLE_DEVICES": "1,0", "CUDA_VISIBLE_DEVICES": "0,1"}, "10"),
        # Not AMD's: other vendors' variables mean nothing here.
        ({"ZE_AFFINITY_MASK": "9", "ASCEND_RT_VISIBLE_DEVICES": "9"}, "01234567"),
    ],
)
def test_inherited_variables_leave(
    tree: Callable[[str], Any], env: dict[str, str], left: Any
) -> None:
    here = tree("mi300x")
    probe = Amd(access=here.access).probe(env, here.root)
    assert "".join(tokens(probe)) == left


@pytest.mark.parametrize(
    ("env", "reason"),
    [
        (
            {"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"},
            "HIP_VISIBLE_DEVICES=0 and CUDA_VISIBLE_DEVICES=1 contradict each other",
        ),
        (
            {"HIP_VISIBLE_DEVICES": "0", "GPU_DEVICE_ORDINAL": ""},
            "contradict each other: both choose devices on the same level",
        ),
        (
            {"ROCR_VISIBLE_DEVICES": "0,1", "CUDA_VISIBLE_DEVICES": "2,3"},
            "ROCR_VISIBLE_DEVICES=0,1 and CUDA_VISIBLE_DEVICES=2,3 contradict each other",
        ),
        (
            {"ROCR_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "0"},
            "comes first and leaves 0 devices",
        ),
        (
            {"ROCR_VISIBLE_DEVICES": UUID_2, "HIP_VISIBLE_DEVICES": UUID_3},
            "contradict each other",
        ),
        ({"HIP_VISIBLE_DEVICES": "8"}, "there is no index 8; found 8 devices"),
        ({"ROCR_VISIBLE_DEVICES": "GPU-DEADBEEFDEADBEEF"}, "is none of the devices found here"),
        ({"ROCR_VISIBLE_DEVICES": "1,1"}, "already in the list"),
    ],
)
def test_inherited_variables_are_refused(
    tree: Callable[[str], Any], env: dict[str, str], reason: str
) -> None:
    here = tree("mi300x")
    with pytest.raises(VisibilityError, match=reason):
        Amd(access=here.access).probe(env, here.root)
