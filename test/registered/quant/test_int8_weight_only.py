"""Int8 weights give the product that their scales promise, exactly where integers allow it.

Bound of weight-only quantisation. A row of W with scale a = max|row| / 127 is rounded by at most
a / 2 a weight, so a dot product with x moves by at most a / 2 sum |x|, plus the roundoff of the
dtype in the product and the result. The int8 x int8 product accumulates in int32 and is exact.

Teeth: one scale for the whole matrix (rows differ in size by up to 1000) breaks the bound of a
scale per row, scales shifted by one row break it, 6-bit weights break the bound of a weight, and
int32 sums are chosen so that 16-bit accumulation would overflow.
"""

from __future__ import annotations

import unittest

import pytest
import torch
from platform_facts import BACKEND, DEVICE, PLATFORM, draw, missing_kernel, roundoff

from hwmatrix import register_amd_ci, register_cpu_ci, register_cuda_ci, register_xpu_ci

register_cpu_ci(10, suite="stage-b-test-cpu")
register_cuda_ci(10, suite="stage-b-test-1-gpu-small")
# amd and xpu: copied from cuda, never measured there.
register_amd_ci(10, suite="stage-b-test-1-gpu-small-amd")
register_xpu_ci(10, suite="stage-b-test-1-gpu-xpu")

TOKENS, INPUTS, OUTPUTS = 32, 256, 128
every_dtype = pytest.mark.parametrize("dtype", PLATFORM.dtypes, ids=str)


def numbers(dtype: torch.dtype):
    x = draw(TOKENS, INPUTS, seed=91, dtype=dtype)
    sizes = torch.logspace(-2, 1, OUTPUTS, dtype=torch.float64, device=DEVICE)
    weight = draw(OUTPUTS, INPUTS, seed=92) * sizes[:, None]
    return x, weight


def quantise(weight: torch.Tensor, *, per_row: bool = True, levels: int = 127):
    """Return int8 weights and a float64 scale per row."""
    largest = weight.abs().amax(1) if per_row else weight.abs().amax().expand(OUTPUTS)
    scale = largest / levels
    return (weight / scale[:, None]).round().clamp(-128, 127).to(torch.int8), scale


def allowed(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    u = roundoff(x.dtype)
    x = x.double().abs()
    # Rounding of the scale, of scale x int8 and of the result: three of the dtype.
    from_dtype = (3 * u + INPUTS * roundoff(torch.float32)) * (x @ weight.abs().T)
    return x.sum(1, keepdim=True) * scale / 2 * (1 + 3 * u) + from_dtype


def dequantised(x: torch.Tensor, stored: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return (x @ stored.to(x.dtype).T) * scale.to(x.dtype)


def test_each_weight_is_rounded_by_half_a_step():
    _, weight = numbers(torch.float32)
    stored, scale = quantise(weight)
    half_step = scale[:, None] / 2 * (1 + 1e-9)
    assert bool(((stored * scale[:, None] - weight).abs() <= half_step).all())
    coarse, coarse_scale = quantise(weight, levels=31)
    assert bool(((coarse * coarse_scale[:, None] - weight).abs() > half_step).any())


@every_dtype
def test_product_is_within_the_bound(dtype):
    x, weight = numbers(dtype)
    stored, scale = quantise(weight)
    wrong = (dequantised(x, stored, scale).double() - x.double() @ weight.T).abs()
    assert bool((wrong <= allowed(x, weight, scale)).all())


@pytest.mark.skipif(
    bool(missing_kernel("aten::_weight_int8pack_mm")),
    reason=missing_kernel("aten::_weight_int8pack_mm"),
)
@every_dtype
def test_fused_kernel_is_within_the_bound(dtype):
    x, weight = numbers(dtype)
    stored, scale = quantise(weight)
    actual = torch._weight_int8pack_mm(x, stored, scale.to(dtype))
    wrong = (actual.double() - x.double() @ weight.T).abs()
    assert bool((wrong <= allowed(x, weight, scale)).all())


@every_dtype
@pytest.mark.parametrize("mistake", ["one scale", "shifted scales"])
def test_mistakes_break_the_bound(mistake, dtype):
    x, weight = numbers(dtype)
    _, right = quantise(weight)
    if mistake == "one scale":
        stored, scale = quantise(weight, per_row=False)
    else:
        stored, scale = quantise(weight)
        scale = scale.roll(1)
    wrong = (dequantised(x, stored, scale).double() - x.double() @ weight.T).abs()
    assert bool((wrong > allowed(x, weight, right)).any())


class TestIntegerProduct(unittest.TestCase):
    """int8 x int8 -> int32, the tensor-core path of W8A8."""

    def product(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch._int_mm(a, b)

    @unittest.skipIf(missing_kernel("aten::_int_mm"), missing_kernel("aten::_int_mm"))
    def test_it_is_exact(self) -> None:
        generator = torch.Generator().manual_seed(93)
        a = torch.randint(-128, 128, (TOKENS, INPUTS), generator=generator).to(torch.int8)
        b = torch.randint(-128, 128, (OUTPUTS, INPUTS), generator=generator).to(torch.int8)
        actual = self.product(a.to(DEVICE), b.to(DEVICE).t())
        self.assertEqual(actual.dtype, torch.int32)
        self.assertTrue(torch.equal(actual.cpu().long(), a.long() @ b.long().T))

    @unittest.skipIf(missing_kernel("aten::_int_mm"), missing_kernel("aten::_int_mm"))
    def test_sums_beyond_16_bits_are_kept(self) -> None:
        a = torch.full((TOKENS, INPUTS), -128, dtype=torch.int8, device=DEVICE)
        b = torch.full((OUTPUTS, INPUTS), -128, dtype=torch.int8, device=DEVICE)
        expected = 128 * 128 * INPUTS
        self.assertGreater(expected, 2**16)
        self.assertTrue(bool((self.product(a, b.t()) == expected).all()))

    def test_rounding_hits_every_level(self) -> None:
        weight = torch.linspace(-127, 127, OUTPUTS * INPUTS, dtype=torch.float64, device=DEVICE)
        stored, scale = quantise(weight.view(OUTPUTS, INPUTS), per_row=False)
        self.assertEqual(stored.unique().numel(), 255, BACKEND)
        self.assertTrue(bool((scale == 1).all()))
