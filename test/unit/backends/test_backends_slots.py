"""Slots, the hardware check and the table of backends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix.backends import BACKENDS, DEVICE_VARIABLES, check, fitting, make_slots
from hwmatrix.backends.amd import Amd
from hwmatrix.backends.cpu import Cpu
from hwmatrix.errors import HardwareError, UsageError, VisibilityError
from hwmatrix.model import Backend, Device, Probe, RunnerConfig

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EIGHT = tuple(
    Device(key=f"0000:0{i}:00.0", token=str(i), name="MI300X", arch="gfx942", memory_gib=191.98)
    for i in range(8)
)
AMD = Probe(backend=Backend.AMD, devices=EIGHT)


def config(name: str = "1-gpu-large", **facts: Any) -> Any:
    base = {"devices": 1, "max_job_minutes": 60.0}
    return RunnerConfig(name=name, **{**base, **facts})


# ---------------------------------------------------------------- the table
def test_every_backend_is_there_under_its_own_name() -> None:
    assert set(BACKENDS) == set(Backend)
    assert all(facts.backend is backend for backend, facts in BACKENDS.items())


@pytest.mark.parametrize("backend", list(Backend))
def test_a_slot_never_sets_and_removes_the_same_variable(backend: Backend) -> None:
    facts = BACKENDS[backend]
    assert facts.visibility not in facts.rivals
    assert not set(facts.env) & set(facts.rivals)
    if backend is not Backend.CPU:
        assert set(facts.rivals) | {facts.visibility} >= set(DEVICE_VARIABLES)


def test_no_two_backends_share_a_visibility_variable() -> None:
    names = [facts.visibility for facts in BACKENDS.values() if facts.visibility]
    assert len(names) == len(set(names))


# ---------------------------------------------------------------- slots
@pytest.mark.parametrize(
    ("devices", "count", "lists"),
    [
        (1, None, list("01234567")),
        (4, None, ["0,1,2,3", "4,5,6,7"]),
        (3, None, ["0,1,2", "3,4,5"]),
        (8, None, ["0,1,2,3,4,5,6,7"]),
        (2, 1, ["0,1"]),
        (2, 4, ["0,1", "2,3", "4,5", "6,7"]),
    ],
)
def test_slots_are_disjoint_and_set_one_variable(
    devices: int, count: Any, lists: list[str]
) -> None:
    slots = make_slots(AMD, widths=[devices], count=count, env={}, cores=16)
    assert [slot.env["HIP_VISIBLE_DEVICES"] for slot in slots] == lists
    owned = [device.key for slot in slots for device in slot.devices]
    assert len(owned) == len(set(owned))
    for index, slot in enumerate(slots):
        assert set(slot.env) & set(DEVICE_VARIABLES) == {"HIP_VISIBLE_DEVICES"}
        assert {"ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"} <= set(slot.unset)
        assert slot.index == index


@pytest.mark.parametrize(
    ("count", "lists"),
    [
        (None, ["0", "1", "2", "3", "4", "5", "6", "7", "0,1,2", "3,4,5"]),
        (3, ["0", "1", "2", "0,1,2", "3,4,5"]),
        (1, ["0", "0,1,2"]),
    ],
)
def test_slots_of_several_widths_overlap_and_are_counted_on(count: Any, lists: list[str]) -> None:
    slots = make_slots(AMD, widths=[3, 1, 3], count=count, env={}, cores=24)
    assert [slot.env["HIP_VISIBLE_DEVICES"] for slot in slots] == lists
    assert [slot.index for slot in slots] == list(range(len(lists)))
    assert [slot.env["HWMATRIX_SLOT"] for slot in slots] == [str(n) for n in range(len(lists))]
    wide = [slot for slot in slots if len(slot.devices) == 3]
    assert {slot.env["OMP_NUM_THREADS"] for slot in wide} == {str(24 // len(wide))}


def test_ranks_of_several_widths_share_their_names() -> None:
    probe = Probe(backend=Backend.CPU, devices=(Device(key="rank0", token="0"),))
    slots = make_slots(probe, widths=[1, 4], count=None, env={}, cores=2)
    keys = [[device.key for device in slot.devices] for slot in slots]
    assert keys == [["rank0"], ["rank1"], ["rank0", "rank1", "rank2", "rank3"]]


def test_a_slot_tells_its_facts_and_shares_the_cores() -> None:
    slots = make_slots(AMD, widths=[2], count=None, env={"MKL_NUM_THREADS": "5"}, cores=18)
    env = slots[1].env
    assert (env["HWMATRIX_SLOT"], env["HWMATRIX_DEVICES"]) == ("1", "2")
    assert (env["HWMATRIX_MEMORY_GIB"], env["HWMATRIX_ARCH"]) == ("191.98", "gfx942")
    assert env["OMP_NUM_THREADS"] == "4"
    assert "MKL_NUM_THREADS" not in env


def test_cuda_slots_count_by_bus(nvidia: Callable[[str], Any]) -> None:
    probe = nvidia("cuda-h200-x2").probe({})
    slots = make_slots(probe, widths=[1], count=None, env={}, cores=2)
    assert [slot.env["CUDA_VISIBLE_DEVICES"] for slot in slots] == ["0", "1"]
    assert {slot.env["CUDA_DEVICE_ORDER"] for slot in slots} == {"PCI_BUS_ID"}
    assert {slot.env["HWMATRIX_ARCH"] for slot in slots} == {"sm_90"}


def test_unlike_devices_claim_no_architecture() -> None:
    mixed = Probe(
        backend=Backend.AMD,
        devices=(EIGHT[0], Device(key="k", token="1", arch="gfx950")),
    )
    env = make_slots(mixed, widths=[2], count=None, env={}, cores=2)[0].env
    assert (env["HWMATRIX_ARCH"], env["HWMATRIX_MEMORY_GIB"]) == ("", "")


@pytest.mark.parametrize(
    ("devices", "count", "reason"),
    [
        (9, None, r"1 slots of 9 devices need 9 devices, found 8"),
        (4, 3, r"3 slots of 4 devices need 12 devices, found 8. Ask for at most --slots 2"),
    ],
)
def test_more_slots_than_devices(devices: int, count: Any, reason: str) -> None:
    with pytest.raises(HardwareError, match=reason):
        make_slots(AMD, widths=[devices], count=count, env={}, cores=8)


@pytest.mark.parametrize("count", [0, -1])
def test_no_slots_are_no_request(count: Any) -> None:
    with pytest.raises(UsageError, match=rf"--slots {count}: at least one"):
        make_slots(AMD, widths=[1], count=count, env={}, cores=8)


def test_mig_instances_go_one_to_a_slot(nvidia: Callable[[str], Any]) -> None:
    probe = nvidia("cuda-mig").probe({})
    assert len(make_slots(probe, widths=[1], count=None, env={}, cores=4)) == 3
    with pytest.raises(VisibilityError, match=r"cannot be made of MIG instances"):
        make_slots(probe, widths=[2], count=None, env={}, cores=4)


@pytest.mark.parametrize(
    ("cores", "devices", "count", "slots", "threads"),
    [
        (2, 1, None, 2, "1"),
        (2, 4, None, 1, "2"),
        (8, 4, None, 2, "4"),
        (7, 2, None, 3, "2"),
        (2, 1, 5, 5, "1"),
        (16, 1, 2, 2, "8"),
    ],
)
def test_cpu_slots_follow_the_cores(
    cores: int, devices: int, count: Any, slots: int, threads: str
) -> None:
    rank = Device(key="rank0", token="rank0", arch="x86_64", memory_gib=60.0)
    probe = Probe(backend=Backend.CPU, devices=(rank,))
    made = make_slots(probe, widths=[devices], count=count, env={}, cores=cores)
    assert len(made) == slots
    assert made[-1].devices[-1].key == f"rank{slots * devices - 1}"
    assert made[0].env["OMP_NUM_THREADS"] == threads
    assert made[0].env["HWMATRIX_MEMORY_GIB"] == f"{60 / (slots * devices):g}"
    assert not set(made[0].env) & set(DEVICE_VARIABLES)


def test_cpu_slots_without_facts() -> None:
    probe = Probe(backend=Backend.CPU, devices=())
    env = make_slots(probe, widths=[1], count=None, env={}, cores=1)[0].env
    assert (env["HWMATRIX_ARCH"], env["HWMATRIX_MEMORY_GIB"]) == ("", "")


# ---------------------------------------------------------------- check
def test_enough_is_silent(tree: Callable[[str], Any]) -> None:
    here = tree("mi300x")
    probe = Amd(access=here.access).probe({}, here.root)
    large = config(memory_gib=70.0, arch={Backend.AMD: ("gfx942", "gfx950")})
    four = config("4-gpu", devices=4, memory_gib=70.0)
    check(probe, [large, four], Backend.AMD)


def test_all_that_lacks_is_said_at_once() -> None:
    configs = [
        config("1-gpu-mi35x", arch={Backend.AMD: ("gfx950",)}),
        config("16-gpu", devices=16, memory_gib=70.0),
    ]
    with pytest.raises(HardwareError, match=r"^amd-extra-a: ") as caught:
        check(AMD, configs, Backend.AMD, session="amd-extra-a")
    text = str(caught.value)
    assert "1-gpu-mi35x needs 1 amd device of gfx950, found 8 x MI300X (gfx942, 191.98 GiB)" in text
    assert "16-gpu needs 16 amd devices with 70 GiB or more, found 8 x MI300X" in text
    assert "Nothing was installed or run." in text
    assert "--plan" in text


def test_none_says_what_was_looked_at_and_what_stands_in_the_way(
    tree: Callable[[str], Any],
) -> None:
    here = tree("amd-no-kfd-permission")
    probe = Amd(access=here.access).probe({}, here.root)
    reason = (
        r"needs 1 amd device, found none\. Looked for: /sys/class/kfd.*: 2 GPUs; /dev/kfd: present;"
        r".*In the way: no permission to read and write /dev/kfd.*Run on a machine with AMD GPUs"
    )
    with pytest.raises(HardwareError, match=reason):
        check(probe, [config()], Backend.AMD)


def test_only_fitting_devices_are_handed_out(tree: Callable[[str], Any]) -> None:
    here = tree("amd-mixed")
    probe = Amd(access=here.access).probe({}, here.root)
    large = config(memory_gib=70.0, arch={Backend.AMD: ("gfx942",)})
    assert [d.token for d in fitting(probe, large).devices] == ["1", "2"]
    with pytest.raises(
        HardwareError, match=r"found 1 x AMD Radeon PRO W7900 \(gfx1100, 44.98 GiB\)"
    ):
        check(probe, [config(devices=3, memory_gib=70.0)], Backend.AMD)


def test_what_the_probe_cannot_know_is_let_by() -> None:
    unknown = Probe(backend=Backend.XPU, devices=(Device(key="k", token="0"),))
    asked = config(memory_gib=20.0, arch={Backend.XPU: ("pvc",)})
    check(unknown, [asked], Backend.XPU)


@pytest.mark.parametrize(
    ("toolkit", "fits"), [("13.0", False), ("12.8", True), ("12.1", True), ("", True)]
)
def test_cuda_driver_and_toolkit(nvidia: Callable[[str], Any], toolkit: str, *, fits: bool) -> None:
    probe = nvidia("cuda-driver-too-old").probe({})
    if fits:
        check(probe, [config()], Backend.CUDA, toolkit=toolkit)
        return
    with pytest.raises(HardwareError, match=r"the driver is too old: 550.54.15 \(CUDA 12.4\)"):
        check(probe, [config()], Backend.CUDA, toolkit=toolkit)


def test_an_unknown_driver_is_left_to_the_guard() -> None:
    probe = Probe(backend=Backend.CUDA, devices=EIGHT, driver="")
    check(probe, [config()], Backend.CUDA, toolkit="13.0")


def test_cpu_ranks_are_never_short_but_memory_can_be(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 4194304 kB\n")
    probe = Cpu().probe({}, tmp_path)
    check(probe, [config("cpu-64-rank", devices=64)], Backend.CPU)
    with pytest.raises(HardwareError, match=r"with 16 GiB or more"):
        check(probe, [config("cpu-big", memory_gib=16.0)], Backend.CPU)
