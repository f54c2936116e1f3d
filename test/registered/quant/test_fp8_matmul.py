"""The matrix unit's own product of 8-bit floats is the product of the numbers that they stand for.

Operands are quantised with a scale per tensor. The reference multiplies the *stored* numbers in
float64, so what quantisation loses does not count; what is left is the float32 (or shorter)
accumulation and the rounding of the result to bfloat16.

Bound: |error| <= u16 |y| + K 2^-13 sum |a||b|, with u16 bfloat16's roundoff. The second term allows
for Hopper's accumulator, which keeps 14 bits while it adds up within an instruction (DeepSeek-V3,
arXiv:2412.19437, section 3.3.2), as 2^-13 of the terms of one instruction (K = 32): with n = K / 32
instructions added in float32 it is 2^-13 of the sum of all terms. It is taken without the factor
K for the fast path as well. A separate case of small integers has exact sums and is compared for
equality.

Teeth: one scale left out, the operands' scales swapped with tensors, a transposed operand and the
other e4m3 format's reading of the same bytes break the bound.
"""

from __future__ import annotations

import unittest

import pytest
import torch
from platform_facts import DEVICE, PLATFORM, draw, roundoff

from hwmatrix import register_amd_ci, register_cpu_ci, register_cuda_ci, requires

# On the CPU a small form runs with stage-b.
register_cpu_ci(8, suite="stage-b-test-cpu")
register_cuda_ci(15, suite="extra-a-test-1-gpu-large")
# amd: copied from cuda, never measured there.
register_amd_ci(15, suite="extra-a-test-1-gpu-large-amd")

SIZE = 256 if DEVICE == "cpu" else 4096
NAME = PLATFORM.fp8_matmul
FORMAT = getattr(torch, NAME or "float8_e4m3fn")
has_fp8 = pytest.mark.skipif(not NAME, reason=PLATFORM.no_fp8_matmul)
fp8_machine = requires(
    arch=("x86_64", "aarch64", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "gfx94*", "gfx950"),
    reason="older matrix units have no 8-bit floats",
)


def quantise(x: torch.Tensor):
    largest = torch.finfo(FORMAT).max
    scale = (x.abs().max() / largest).float()
    return (x / scale).clamp(-largest, largest).to(FORMAT), scale


def product(a, b, scale_a, scale_b, *, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Return a @ b.T on the matrix unit; b is (columns, K), so its transpose is column-major."""
    return torch._scaled_mm(a, b.t(), scale_a=scale_a, scale_b=scale_b, out_dtype=dtype)


def numbers(rows: int, columns: int, inner: int):
    """Return both operands quantised; they differ in size by a thousand."""
    a, b = draw(rows, inner, seed=151).float(), draw(columns, inner, seed=152).mul(1e-3).float()
    return quantise(a), quantise(b)


def reference(a, b, scale_a, scale_b):
    """Return the product of the stored numbers in float64 and the bound for each."""
    a, b = a.double() * scale_a.double(), b.double() * scale_b.double()
    exact, absolute = a @ b.T, a.abs() @ b.abs().T
    return exact, roundoff(torch.bfloat16) * exact.abs() + 2.0**-13 * absolute


@has_fp8
@fp8_machine
class TestScaledProduct:
    @pytest.mark.parametrize(
        ("rows", "columns", "inner"),
        [(SIZE, SIZE, SIZE), (16, SIZE, SIZE), (SIZE, 48, 2 * SIZE)],
        ids=["square", "decode", "long sums"],
    )
    def test_it_is_within_the_bound(self, rows, columns, inner):
        (a, scale_a), (b, scale_b) = numbers(rows, columns, inner)
        expected, bound = reference(a, b, scale_a, scale_b)
        actual = product(a, b, scale_a, scale_b)
        assert actual.dtype == torch.bfloat16
        assert bool(((actual.double() - expected).abs() <= bound).all())

    def test_small_integers_are_exact(self):
        generator = torch.Generator().manual_seed(153)
        a, b = (
            torch.randint(-2, 3, (SIZE, 64), generator=generator).float().to(DEVICE)
            for _ in range(2)
        )
        one = torch.ones((), device=DEVICE)
        # Sums of 64 products up to 4 reach 256, which bfloat16 holds.
        actual = product(a.to(FORMAT), b.to(FORMAT), one, one)
        assert torch.equal(actual.double(), a.double() @ b.double().T)

    @pytest.mark.parametrize(
        "mistake", ["no scale of b", "scales squared", "transposed", "other e4m3 format"]
    )
    def test_mistakes_break_the_bound(self, mistake):
        (a, scale_a), (b, scale_b) = numbers(SIZE, SIZE, SIZE)
        expected, bound = reference(a, b, scale_a, scale_b)
        one = torch.ones((), device=DEVICE)
        if mistake == "no scale of b":
            wrong = product(a, b, scale_a, one)
        elif mistake == "scales squared":
            wrong = product(a, b, scale_a * scale_a, scale_b)
        elif mistake == "transposed":
            wrong = product(a, b.t().contiguous(), scale_a, scale_b)
        else:
            other = {"float8_e4m3fn": torch.float8_e4m3fnuz, "float8_e4m3fnuz": torch.float8_e4m3fn}
            misread = b.view(other[NAME]).float().nan_to_num(0.0).to(FORMAT)
            wrong = product(a, misread, scale_a, scale_b)
        assert bool(((wrong.double() - expected).abs() > bound).any())


class TestQuantise(unittest.TestCase):
    """The operands, whether or not the machine multiplies them."""

    def test_the_largest_value_meets_the_end_of_the_range(self) -> None:
        stored, scale = quantise(draw(64, 64, seed=154).float())
        self.assertEqual(stored.float().abs().max().item(), torch.finfo(FORMAT).max)
        self.assertGreater(scale.item(), 0)

    def test_outliers_cost_the_others_their_precision(self) -> None:
        # One value 10^6 times the rest pushes them below the smallest subnormal: all become zero.
        x = draw(64, 64, seed=155).float()
        x[0, 0] = 1e7
        stored, scale = quantise(x)
        self.assertEqual((stored.float() != 0).sum().item(), 1)
        without, _ = quantise(x[1:])
        self.assertLess((without.float() == 0).sum().item(), 100)
        self.assertGreater(scale.item(), 1e4)
