"""Copies between device and host are bit-equal, in order, and as asynchronous as they say.

Values are compared as bytes: a copy may not change the payload of a NaN or the sign of a zero.

Teeth: one flipped bit is seen by the comparison (`test_one_flipped_bit_is_seen`), and a strided
copy is held against the wrong stride as well.
"""

from __future__ import annotations

import unittest

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

DTYPES = (
    torch.uint8,
    torch.int64,
    torch.bool,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float8_e4m3fn,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2,
)
NO_DEVICE = "host and device are the same memory"


def patterns(size: int, dtype: torch.dtype) -> torch.Tensor:
    """Return host memory with every byte value in it, read as `dtype` (0 and 1 for bool)."""
    raw = torch.arange(size * dtype.itemsize, dtype=torch.int64).mul(2654435761).remainder(251)
    raw = raw.to(torch.uint8)
    return (raw % 2).view(torch.bool) if dtype == torch.bool else raw.view(dtype)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    a, b = (t.cpu().contiguous().view(torch.uint8) for t in (a, b))
    return torch.equal(a, b)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [1, 255, 1 << 18])
def test_round_trip_is_bit_equal(dtype, size):
    host = patterns(size, dtype)
    there = torch.empty(size, dtype=dtype, device=DEVICE)
    there.copy_(host)
    back = torch.empty_like(host)
    back.copy_(there)
    assert same_bits(back, host)
    assert back.data_ptr() != host.data_ptr()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32], ids=str)
def test_strided_copies_touch_only_their_elements(dtype):
    host = patterns(96 * 64, dtype).view(96, 64)
    there = host.to(DEVICE, copy=True)
    canvas = torch.zeros(96, 128, dtype=dtype, device=DEVICE)
    canvas[:, ::2].copy_(there)
    assert same_bits(canvas[:, ::2], host)
    assert same_bits(canvas[:, 1::2], torch.zeros_like(host))
    back = torch.zeros(64, 96, dtype=dtype)
    back.t().copy_(there)
    assert same_bits(back, host.t())
    assert not same_bits(back.view(96, 64), host), "a copy that ignores strides would pass"


def test_copies_to_a_view_leave_its_neighbours():
    pool = torch.full((8, 1024), 7, dtype=torch.int32, device=DEVICE)
    pool[3].copy_(torch.arange(1024, dtype=torch.int32))
    assert torch.equal(pool[3].cpu(), torch.arange(1024, dtype=torch.int32))
    others = torch.cat([pool[:3], pool[4:]]).cpu()
    assert bool((others == 7).all())


def test_converting_copy_rounds_to_nearest_even():
    # Between 1 and 1 + 2^-7 bfloat16 has nothing: a tie goes down, the next float32 goes up.
    host = torch.tensor([1 + 2.0**-8, 1 + 2.0**-8 + 2.0**-23, 1 + 3 * 2.0**-8])
    there = torch.empty(3, dtype=torch.bfloat16, device=DEVICE)
    there.copy_(host)
    assert there.float().tolist() == [1.0, 1 + 2.0**-7, 1 + 2 * 2.0**-7]


def test_one_flipped_bit_is_seen():
    host = patterns(4096, torch.float32)
    there = host.to(DEVICE, copy=True)
    there.view(torch.uint8)[2049] ^= 1
    assert not same_bits(there, host)


@skip_on("cpu", reason=NO_DEVICE)
class TestPinnedMemory(unittest.TestCase):
    """Page-locked host memory and copies that do not block the host."""

    def test_async_round_trip(self) -> None:
        host = patterns(1 << 22, torch.float32).pin_memory()
        self.assertTrue(host.is_pinned())
        there = host.to(DEVICE, non_blocking=True)
        back = torch.empty_like(host, pin_memory=True)
        back.copy_(there, non_blocking=True)
        synchronize()
        self.assertTrue(same_bits(back, host))

    def test_the_stream_keeps_the_order(self) -> None:
        # The host buffer is filled again only after the event: the device saw the first fill.
        module = getattr(torch, DEVICE)
        host = torch.full((1 << 22,), 1.0).pin_memory()
        there = torch.empty(1 << 22, device=DEVICE)
        there.copy_(host, non_blocking=True)
        done = module.Event()
        done.record()
        done.synchronize()
        host.fill_(2.0)
        self.assertEqual(there.sum().item(), float(1 << 22))

    def test_two_streams_meet_at_an_event(self) -> None:
        module = getattr(torch, DEVICE)
        copies, compute = module.Stream(), module.Stream()
        host = torch.arange(1 << 22, dtype=torch.float32).pin_memory()
        ready = module.Event()
        with module.stream(copies):
            there = host.to(DEVICE, non_blocking=True)
            ready.record(copies)
        with module.stream(compute):
            compute.wait_event(ready)
            total = there.double().sum()
        there.record_stream(compute)
        module.synchronize()
        self.assertEqual(total.item(), float((1 << 22) * ((1 << 22) - 1) // 2))


class TestHostMemory(unittest.TestCase):
    """What holds on the host alone, and must hold before any device joins in."""

    def test_to_without_copy_is_the_same_memory(self) -> None:
        there = torch.zeros(16, device=DEVICE)
        self.assertEqual(there.to(DEVICE).data_ptr(), there.data_ptr())
        self.assertNotEqual(there.to(DEVICE, copy=True).data_ptr(), there.data_ptr())

    def test_numpy_shares_host_memory_and_no_device_memory(self) -> None:
        host = torch.zeros(16)
        host.numpy()[3] = 5
        self.assertEqual(host[3].item(), 5)
        there = host.to(DEVICE, copy=True)
        there.cpu().numpy()[3] = 9
        expected = 9 if DEVICE == "cpu" else 5
        self.assertEqual(there[3].item(), expected)

    def test_overlapping_copy_is_refused_or_right(self) -> None:
        # An expanded destination writes one element many times: torch must refuse it.
        narrow = torch.zeros(1, device=DEVICE).expand(8)
        with self.assertRaisesRegex(RuntimeError, "more than one element"):
            narrow.copy_(torch.arange(8.0))
