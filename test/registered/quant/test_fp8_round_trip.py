"""Casts to 8-bit floats and back keep to the error that the format's mantissa allows.

Bound. A format with m mantissa bits rounds a value in its normal range to nearest with a relative
error of at most 2^-(m+1); below the smallest normal number 2^e the spacing is 2^(e-m), so the
absolute error is at most 2^(e-m-1). With a per-tensor scale a = amax / largest(format), a cast
of x / a back and times a errs by at most max(|x| 2^-(m+1), a 2^(e-m-1)), up to float32 roundoff of
the division and the product (2 u32 |x|).

Teeth: the bound of a format with one more mantissa bit is exceeded by the same data
(`test_the_bound_is_tight`); forgetting the scale fails; reading e4m3fn bytes as AMD's e4m3fnuz,
the mistake that ports make, gives half of every value and fails.
"""

from __future__ import annotations

import unittest

import pytest
import torch
from platform_facts import DEVICE, PLATFORM, draw, roundoff

from hwmatrix import register_amd_ci, register_cpu_ci, register_cuda_ci, register_xpu_ci

register_cpu_ci(8, suite="stage-b-test-cpu")
register_cuda_ci(10, suite="stage-b-test-1-gpu-small")
# amd and xpu: copied from cuda, never measured there.
register_amd_ci(10, suite="stage-b-test-1-gpu-small-amd")
register_xpu_ci(10, suite="stage-b-test-1-gpu-xpu")

# mantissa bits, exponent of the smallest normal number, largest finite value (OCP OFP8 1.0 and
# the "fnuz" formats of arXiv:2206.02915); written out here, not read from torch.finfo.
FORMATS = {
    "float8_e4m3fn": (3, -6, 448.0),
    "float8_e4m3fnuz": (3, -7, 240.0),
    "float8_e5m2": (2, -14, 57344.0),
}
every_format = pytest.mark.parametrize("name", PLATFORM.fp8_storage)
SIZE = 1 << 16


def quantise(x: torch.Tensor, name: str):
    largest = FORMATS[name][2]
    scale = x.abs().max() / largest
    return (x / scale).clamp(-largest, largest).to(getattr(torch, name)), scale


def allowed(x: torch.Tensor, scale: torch.Tensor, mantissa: int, smallest: int) -> torch.Tensor:
    x = x.double().abs()
    relative = x * 2.0 ** -(mantissa + 1)
    absolute = scale.double() * 2.0 ** (smallest - mantissa - 1)
    return torch.maximum(relative, absolute) + 2 * roundoff(torch.float32) * x


@every_format
@pytest.mark.parametrize("spread", [1e-3, 1.0, 300.0])
def test_scaled_round_trip_is_within_the_bound(name, spread):
    x = spread * draw(SIZE, seed=21, dtype=torch.float32)
    mantissa, smallest, _ = FORMATS[name]
    stored, scale = quantise(x, name)
    back = stored.float() * scale
    assert stored.element_size() == 1
    assert bool(((back.double() - x.double()).abs() <= allowed(x, scale, mantissa, smallest)).all())


@every_format
def test_the_bound_is_tight(name):
    x = draw(SIZE, seed=22, dtype=torch.float32)
    mantissa, smallest, _ = FORMATS[name]
    stored, scale = quantise(x, name)
    wrong = (stored.double() * scale.double() - x.double()).abs()
    assert bool((wrong > allowed(x, scale, mantissa + 1, smallest)).any())


@every_format
def test_forgetting_the_scale_is_rejected(name):
    x = 1e-3 * draw(SIZE, seed=23, dtype=torch.float32)
    mantissa, smallest, _ = FORMATS[name]
    stored, scale = quantise(x, name)
    wrong = (stored.double() - x.double()).abs()
    assert bool((wrong > allowed(x, scale, mantissa, smallest)).any())


@every_format
def test_every_code_survives(name):
    codes = torch.arange(256, dtype=torch.uint8, device=DEVICE).view(getattr(torch, name))
    values = codes.float()
    finite = values.isfinite()
    again = values[finite].to(getattr(torch, name))
    assert torch.equal(again.view(torch.uint8), codes[finite].view(torch.uint8))
    assert values[finite].max().item() == FORMATS[name][2]


@every_format
def test_ties_go_to_the_even_mantissa(name):
    mantissa, _, _ = FORMATS[name]
    step = 2.0**-mantissa
    ties = torch.tensor([1 + step / 2, 1 + 3 * step / 2, -(1 + step / 2)], device=DEVICE)
    expected = torch.tensor([1.0, 1 + 2 * step, -1.0], device=DEVICE)
    assert torch.equal(ties.to(getattr(torch, name)).float(), expected)


@every_format
def test_beyond_the_range_is_never_a_smaller_number(name):
    largest = FORMATS[name][2]
    beyond = torch.tensor([4 * largest, -4 * largest], device=DEVICE)
    back = beyond.to(getattr(torch, name)).float()
    assert bool((back.isnan() | (back.abs() >= largest)).all())
    assert torch.tensor([float("nan")], device=DEVICE).to(getattr(torch, name)).isnan().item()


class TestFnuzAgainstOcp(unittest.TestCase):
    """The two e4m3 formats hold different numbers in the same bits."""

    def test_same_bits_are_half_the_value(self) -> None:
        # The biases differ by one (7 and 8) and all finite codes but negative zero shift by it.
        x = draw(SIZE, seed=24, dtype=torch.float32)
        stored, scale = quantise(x, "float8_e4m3fn")
        misread = stored.view(torch.float8_e4m3fnuz).float()
        right = stored.float()
        finite = misread.isfinite()
        self.assertTrue(torch.equal(misread[finite], right[finite] / 2))
        mantissa, smallest, _ = FORMATS["float8_e4m3fn"]
        wrong = (misread.double() * scale.double() - x.double()).abs()
        self.assertTrue(bool((wrong > allowed(x, scale, mantissa, smallest)).any()))

    def test_largest_values_differ(self) -> None:
        self.assertEqual(torch.finfo(torch.float8_e4m3fn).max, 448.0)
        self.assertEqual(torch.finfo(torch.float8_e4m3fnuz).max, 240.0)
