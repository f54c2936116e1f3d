"""Pages of a key-value pool go to a host pool and back bit for bit, in either layout.

Two paths: direct, a copy for each run of pages, and by a kernel that gathers the pages into one
staging buffer first (torch.index_select on the device, then one copy). Layouts are layer first, as
models write, and page first, as transfers like them.

Teeth: pages beside the copied ones hold a mark that must stay; a table with two pages swapped gives
other bytes; the host pool is filled with another mark before, so a copy that did nothing is seen.
"""

from __future__ import annotations

import pytest
import torch
from platform_facts import DEVICE, synchronize

from hwmatrix import (
    register_amd_ci,
    register_cpu_ci,
    register_cuda_ci,
    register_xpu_ci,
    skip_on,
)

register_cpu_ci(8, suite="stage-b-test-cpu")
register_cuda_ci(10, suite="stage-b-test-1-gpu-small")
# amd and xpu: copied from cuda, never measured there.
register_amd_ci(10, suite="stage-b-test-1-gpu-small-amd")
register_xpu_ci(10, suite="stage-b-test-1-gpu-xpu")

LAYERS, PAGES, PAGE, HEADS, DIM = 4, 32, 16, 2, 64
MARK = 7.0
DTYPES = (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
every_layout = pytest.mark.parametrize("layout", ["layer first", "page first"])
kernel = pytest.param(
    "kernel",
    marks=pytest.mark.skipif(
        DEVICE == "cpu", reason="there is one memory: nothing to stage for a copy"
    ),
)


def pool(dtype: torch.dtype, layout: str, *, host: bool, seed: int | None = None) -> torch.Tensor:
    """Return a pool with random bytes, or filled with the mark where there is no seed."""
    shape = (LAYERS, PAGES, PAGE, HEADS, DIM)
    if layout == "page first":
        shape = (PAGES, LAYERS, PAGE, HEADS, DIM)
    if seed is None:
        made = torch.full(shape, MARK).to(dtype)
    else:
        generator = torch.Generator().manual_seed(seed)
        size = torch.Size(shape).numel() * dtype.itemsize
        raw = torch.randint(256, (size,), dtype=torch.uint8, generator=generator)
        made = raw.view(dtype).view(shape)
    if host:
        return made.pin_memory() if DEVICE != "cpu" else made.clone()
    return made.to(DEVICE)


def page(of: torch.Tensor, layout: str, at: int) -> torch.Tensor:
    """Return one page over all layers, as bytes on the CPU."""
    part = of[:, at] if layout == "layer first" else of[at]
    return part.cpu().contiguous().view(torch.uint8)


def copy(source: torch.Tensor, target: torch.Tensor, layout: str, pairs, path: str) -> None:
    """Copy pages (from, to) between the pools, through the device's queue."""
    dim = 1 if layout == "layer first" else 0
    if path == "direct":
        for begin, end in pairs:
            target.select(dim, end).copy_(source.select(dim, begin), non_blocking=True)
    else:
        froms, tos = (torch.tensor(list(side)) for side in zip(*pairs, strict=True))
        # Bytes: index_select has no kernels for 8-bit floats on every backend.
        raw = source.view(torch.uint8).index_select(dim, froms.to(source.device))
        staged = raw.to(target.device)
        target.view(torch.uint8).index_copy_(dim, tos.to(target.device), staged)
    synchronize()


PAIRS = ((0, 5), (31, 0), (17, 18), (3, 31), (4, 6))


@every_dtype
@every_layout
@pytest.mark.parametrize("path", ["direct", kernel])
def test_pages_go_out_and_come_back_bit_equal(path, layout, dtype):
    device = pool(dtype, layout, host=False, seed=171)
    host = pool(dtype, layout, host=True)
    copy(device, host, layout, PAIRS, path)
    for begin, end in PAIRS:
        assert torch.equal(page(host, layout, end), page(device, layout, begin))
    untouched = sorted(set(range(PAGES)) - {end for _, end in PAIRS})
    mark = page(pool(dtype, layout, host=True), layout, 0)
    assert all(torch.equal(page(host, layout, at), mark) for at in untouched)
    back = pool(dtype, layout, host=False)
    copy(host, back, layout, [(end, begin) for begin, end in PAIRS], path)
    for begin, _ in PAIRS:
        assert torch.equal(page(back, layout, begin), page(device, layout, begin))


@every_layout
@pytest.mark.parametrize("path", ["direct", kernel])
def test_swapped_pages_are_noticed(path, layout):
    device = pool(torch.bfloat16, layout, host=False, seed=172)
    host = pool(torch.bfloat16, layout, host=True)
    copy(device, host, layout, [(1, 2), (2, 1)], path)
    assert not torch.equal(page(host, layout, 1), page(device, layout, 1))
    assert torch.equal(page(host, layout, 1), page(device, layout, 2))


@skip_on("cpu", reason="there is one memory: nothing to copy to")
@every_layout
def test_a_copy_under_computation_sees_the_pages_as_they_were(layout):
    # The device overwrites its pool after the copy was queued on the same stream.
    device = pool(torch.bfloat16, layout, host=False, seed=173)
    before = device.clone()
    host = pool(torch.bfloat16, layout, host=True)
    host.copy_(device, non_blocking=True)
    device.fill_(MARK)
    synchronize()
    assert torch.equal(host.view(torch.uint8), before.cpu().view(torch.uint8))
    assert not torch.equal(device.view(torch.uint8), before.view(torch.uint8))


@skip_on("cpu", reason="host memory need not be pinned for a copy to itself")
def test_the_host_pool_is_pinned():
    assert pool(torch.bfloat16, "page first", host=True).is_pinned()
