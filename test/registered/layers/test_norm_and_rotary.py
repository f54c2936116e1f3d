"""RMSNorm, LayerNorm and rotary embeddings keep to float64 within the roundoff of their dtype.

Bound of the norms. With inputs already in the dtype, y = x / rms(x) * w. The sum of N squares in
float32 has a relative error of at most (N + 2) u32, its root half of that, and the quotient, the
product and the result add one roundoff each, three of the dtype at most: |error| <=
|y| (3 u + (N / 2 + 3) u32). LayerNorm subtracts the mean first, whose error is N u32 max|x|; that
is divided by the deviation and multiplied by w.

Bound of rotary. Each output is x1 c - x2 s with c and s from an angle of up to 2^20: in float32 the
angle itself is rounded, by angle x u32; made in float64 it is not. The test states both, and asks
that the float32 table is *worse* at long positions: engines that build it in float32 or, worse, in
bfloat16, drift there.

Teeth: eps of 1e-3 for 1e-6 on small inputs, a forgotten weight, a bfloat16 sum of squares, and
rotary tables in bfloat16 break their bounds.
"""

from __future__ import annotations

import unittest

import pytest
import torch
from platform_facts import DEVICE, PLATFORM, draw, roundoff
from torch.nn.functional import layer_norm, rms_norm

from hwmatrix import (
    register_amd_ci,
    register_cpu_ci,
    register_cuda_ci,
    register_npu_ci,
    register_xpu_ci,
)

register_cpu_ci(8, suite="stage-b-test-cpu")
register_cuda_ci(10, suite="stage-b-test-1-gpu-small")
# amd and xpu: copied from cuda, never measured there.
register_amd_ci(10, suite="stage-b-test-1-gpu-small-amd")
register_xpu_ci(10, suite="stage-b-test-1-gpu-xpu")
register_npu_ci(10, suite="stage-b-test-1-npu")

TOKENS, WIDTH, EPS = 64, 2048, 1e-6
HEAD, BASE = 128, 1e6
U32 = roundoff(torch.float32)
every_dtype = pytest.mark.parametrize("dtype", PLATFORM.dtypes, ids=str)


def numbers(dtype: torch.dtype, size: float = 1.0):
    x = draw(TOKENS, WIDTH, seed=71).mul(size).to(dtype)
    weight = draw(WIDTH, seed=72).mul(0.2).add(1).to(dtype)
    return x, weight


def rms_reference(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    x = x.double()
    return x * (x.square().mean(-1, keepdim=True) + EPS).rsqrt() * weight.double()


def rms_allowed(expected: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return expected.abs() * (3 * roundoff(dtype) + (WIDTH / 2 + 3) * U32)


@every_dtype
@pytest.mark.parametrize("size", [1e-2, 1.0, 50.0])
def test_rms_norm_is_within_the_bound(size, dtype):
    x, weight = numbers(dtype, size)
    expected = rms_reference(x, weight)
    actual = rms_norm(x, (WIDTH,), weight, EPS)
    assert actual.dtype == dtype
    assert bool(((actual.double() - expected).abs() <= rms_allowed(expected, dtype)).all())


@every_dtype
def test_layer_norm_is_within_the_bound(dtype):
    x, weight = numbers(dtype)
    wide = x.double() + 3
    x = wide.to(dtype)
    expected = layer_norm(x.double(), (WIDTH,), weight.double(), eps=EPS)
    actual = layer_norm(x, (WIDTH,), weight, eps=EPS)
    deviation = x.double().std(-1, keepdim=True)
    from_mean = WIDTH * U32 * x.double().abs().max() / deviation * weight.double().abs()
    allowed = rms_allowed(expected, dtype) + from_mean
    assert bool(((actual.double() - expected).abs() <= allowed).all())
    unweighted = layer_norm(x, (WIDTH,), eps=EPS)
    assert bool(((unweighted.double() - expected).abs() > allowed).any())


@every_dtype
@pytest.mark.parametrize("mistake", ["eps 1e-3", "no weight", "sum in bfloat16"])
def test_mistakes_in_rms_norm_break_the_bound(mistake, dtype):
    x, weight = numbers(dtype, 1e-2)
    expected = rms_reference(x, weight)
    if mistake == "eps 1e-3":
        actual = rms_norm(x, (WIDTH,), weight, 1e-3)
    elif mistake == "no weight":
        actual = rms_norm(x, (WIDTH,), None, EPS)
    else:
        total = torch.zeros(TOKENS, 1, dtype=torch.bfloat16, device=DEVICE)
        for piece in x.bfloat16().square().split(1, dim=-1):
            total += piece
        actual = x * (total / WIDTH + EPS).rsqrt().to(dtype) * weight
    assert bool(((actual.double() - expected).abs() > rms_allowed(expected, dtype)).any())


def table(positions: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cos and sin of position x frequency, all computed in `dtype`."""
    places = torch.arange(0, HEAD, 2, device=DEVICE, dtype=dtype)
    frequency = BASE ** -(places / HEAD)
    angle = positions.to(dtype)[:, None] * frequency
    return angle.cos(), angle.sin()


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class TestRotary(unittest.TestCase):
    """Rotary embeddings, in halves and as complex numbers."""

    def setUp(self) -> None:
        self.positions = torch.tensor([0, 1, 100, 4096, 32767, 131071], device=DEVICE)
        self.x = draw(6, HEAD, seed=73)
        self.exact = rotate(self.x, *table(self.positions, torch.float64))

    def off(self, actual: torch.Tensor) -> torch.Tensor:
        """Return the largest error per position."""
        return (actual.double() - self.exact).abs().amax(-1)

    def test_complex_product_is_the_same_rotation(self) -> None:
        cos, sin = table(self.positions, torch.float64)
        first, second = self.x.chunk(2, dim=-1)
        turned = torch.complex(first, second) * torch.polar(
            torch.ones_like(cos), torch.atan2(sin, cos)
        )
        self.assertLess(self.off(torch.cat([turned.real, turned.imag], -1)).max().item(), 1e-12)

    def test_float32_table_errs_by_the_rounded_angle(self) -> None:
        # The angle: rounding of the frequency (its exponent, power and the product: 16 u32 covers
        # ln(1e6) and the four roundings), times the position; then a few roundoffs of the products.
        actual = rotate(self.x.float(), *table(self.positions, torch.float32))
        largest = self.x.abs().max().item()
        allowed = 2 * largest * (20 * U32 * self.positions.double() + 6 * U32)
        self.assertTrue(bool((self.off(actual) <= allowed).all()))

    def test_float64_table_keeps_long_positions(self) -> None:
        cos, sin = (t.float() for t in table(self.positions, torch.float64))
        off = self.off(rotate(self.x.float(), cos, sin))
        self.assertLess(off.max().item(), 12 * U32 * self.x.abs().max().item())
        worse = self.off(rotate(self.x.float(), *table(self.positions, torch.float32)))
        self.assertGreater(worse[-1].item(), 10 * off[-1].item())

    def test_bfloat16_table_is_rejected(self) -> None:
        off = self.off(
            rotate(self.x.float(), *(t.float() for t in table(self.positions, torch.bfloat16)))
        )
        allowed = 2 * self.x.abs().max().item() * (20 * U32 * self.positions.double() + 6 * U32)
        self.assertGreater(off[3].item(), allowed[3].item())

    def test_scores_depend_on_the_distance_alone(self) -> None:
        q, k = draw(1, HEAD, seed=74), draw(1, HEAD, seed=75)
        near = torch.tensor([7, 3], device=DEVICE)
        far = near + 100_000
        scores = []
        for pair in (near, far, near.flip(0)):
            cos, sin = table(pair, torch.float64)
            scores.append((rotate(q, cos[:1], sin[:1]) * rotate(k, cos[1:], sin[1:])).sum().item())
        self.assertAlmostEqual(scores[0], scores[1], delta=1e-8)
        self.assertNotAlmostEqual(scores[0], scores[2], delta=1e-3)

    def test_lengths_are_kept(self) -> None:
        before, after = (t.square().sum(-1) for t in (self.x, self.exact))
        self.assertLess(((before - after).abs() / before).max().item(), 1e-13)
