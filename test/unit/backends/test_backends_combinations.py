"""Every combination of inherited variables: the slots are right, or the refusal says why.

"Right" is checked by going round: under the variables that a slot sets and removes, the probe must
find that slot's devices and no other.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwmatrix.backends import amd, cuda, make_slots, masks, npu, xpu
from hwmatrix.errors import VisibilityError
from hwmatrix.model import Backend, Device, Probe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Visible = Callable[[Mapping[str, str]], Sequence[Device]]

UNSET = None


def combinations(values: Mapping[str, Sequence[str | None]]) -> Iterator[dict[str, str]]:
    for chosen in itertools.product(*values.values()):
        named = zip(values, chosen, strict=True)
        yield {name: value for name, value in named if value is not UNSET}


def outcome(visible: Visible, env: Mapping[str, str]) -> tuple[tuple[Device, ...], str]:
    """Return the devices, or the words of the refusal."""
    try:
        return tuple(visible(env)), ""
    except VisibilityError as error:
        return (), str(error)


def go_round(backend: Backend, visible: Visible, values: Mapping[str, Sequence[str | None]]) -> int:
    """Check each combination; return how many were refused."""
    refused = 0
    for env in combinations(values):
        devices, refusal = outcome(visible, env)
        if refusal:
            assert any(f"{name}={value}" in refusal for name, value in env.items())
            refused += 1
            continue
        keys = [device.key for device in devices]
        assert len(keys) == len(set(keys)), env
        if not devices:
            continue
        probe = Probe(backend=backend, devices=devices)
        slots = make_slots(probe, widths=[1], count=None, env=env, cores=8)
        assert [slot.devices[0].key for slot in slots] == keys
        for slot in slots:
            kept = {name: value for name, value in env.items() if name not in slot.unset}
            seen = visible({**kept, **slot.env})
            assert [device.key for device in seen] == [slot.devices[0].key], env
    return refused


OTHERS = [UNSET, "", "7"]


def test_amd(tree: Callable[[str], Any]) -> None:
    nodes = amd._nodes(tree("mi300x").root)[:4]
    ids = [f"GPU-{node.unique_id}" for node in nodes]
    lists = [UNSET, "", "0", "2,3", "3,2", "0-3", "-1", f"{ids[1]},{ids[2]}", "9"]
    values = {
        "HIP_VISIBLE_DEVICES": lists,
        "ROCR_VISIBLE_DEVICES": lists,
        "CUDA_VISIBLE_DEVICES": lists,
        "GPU_DEVICE_ORDINAL": [UNSET, "", "2,3"],
        "ZE_AFFINITY_MASK": [UNSET, "7"],
    }
    refused = go_round(Backend.AMD, lambda env: amd._visible(nodes, env), values)
    assert 0 < refused < len(lists) ** 3 * 6


@pytest.mark.parametrize("machine", ["cuda-h200-x2", "cuda-mig", "cuda-mixed", "cuda-one-lost"])
def test_cuda(nvidia: Callable[[str], cuda.Cuda], machine: str) -> None:
    backend = nvidia(machine)
    gpus = backend.ask({}).gpus
    ids = [gpu.uuid for gpu in gpus] + [item.uuid for gpu in gpus for item in gpu.instances]
    values = {
        "CUDA_VISIBLE_DEVICES": [
            *[UNSET, "", "0", "1", "1,0", "0-1", "0,0", "5", "-1", "1,-1,0", "x"],
            *ids,
            ",".join(reversed(ids)),
            f"0,{ids[0]}",
        ],
        "CUDA_DEVICE_ORDER": [UNSET, "PCI_BUS_ID", "FASTEST_FIRST"],
        "HIP_VISIBLE_DEVICES": OTHERS,
        "ROCR_VISIBLE_DEVICES": OTHERS,
        "ASCEND_RT_VISIBLE_DEVICES": OTHERS,
    }
    assert go_round(Backend.CUDA, lambda env: backend.probe(env).devices, values) > 0


def test_xpu() -> None:
    cards = [Device(key=f"0000:0{i}:00.0", token=str(i)) for i in range(3)]
    values = {
        "ZE_AFFINITY_MASK": [UNSET, "", "0", "2,1", "0-2", "0.1,2.0", "1,1", "3", "0.0,0.0", "-1"],
        "ONEAPI_DEVICE_SELECTOR": [UNSET, "level_zero:*", "level_zero:1", "opencl:*"],
        "SYCL_DEVICE_FILTER": [UNSET, "gpu", "cpu"],
        "CUDA_VISIBLE_DEVICES": OTHERS,
        "HIP_VISIBLE_DEVICES": OTHERS,
    }
    assert go_round(Backend.XPU, lambda env: xpu._visible(cards, env), values) > 0


def test_npu() -> None:
    chips = [Device(key=f"davinci{i}", token=str(i)) for i in range(4)]
    values = {
        "ASCEND_RT_VISIBLE_DEVICES": [UNSET, "", "0", "1,3", "3,1", "0-3", "1,1", "4", "-1", "a"],
        "CUDA_VISIBLE_DEVICES": OTHERS,
        "ZE_AFFINITY_MASK": OTHERS,
        "ROCR_VISIBLE_DEVICES": OTHERS,
    }
    assert go_round(Backend.NPU, lambda env: npu._visible(chips, env), values) > 0


class TestAnyTextIsAListOrRefused:
    """`select` gives distinct positions that exist, in the list's order, or says why not."""

    IDS = (("GPU-aa11",), ("GPU-aa22",), (), ("MIG-cc",))

    @given(st.text(alphabet="0123456789,- GPUaMIc.\t", max_size=16) | st.text(max_size=12))
    def test_positions(self, value: str) -> None:
        positions: tuple[int, ...] = ()
        refusal = "V="
        try:
            positions = masks.select("V", value, self.IDS)
        except VisibilityError as error:
            refusal = str(error)
        assert refusal.startswith("V=")
        assert len(set(positions)) == len(positions)
        assert all(0 <= position < len(self.IDS) for position in positions)

    @given(st.lists(st.integers(0, 7), unique=True))
    def test_plain_indices_are_themselves(self, indices: list[int]) -> None:
        value = ",".join(map(str, indices))
        assert masks.select("V", value, [()] * 8) == tuple(indices)

    @given(st.integers(0, 7), st.integers(0, 7))
    def test_a_range_is_its_list(self, first: int, last: int) -> None:
        first, last = sorted((first, last))
        expected = tuple(range(first, last + 1))
        assert masks.select("V", f"{first}-{last}", [()] * 8) == expected
