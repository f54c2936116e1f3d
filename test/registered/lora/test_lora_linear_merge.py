"""A low-rank adapter gives the same layer whether it is merged into the weight or kept beside it.

The adapter is put on with torch's own `parametrize` (computed at every call), merged with
`remove_parametrizations` (computed once and stored), and run unmerged as two thin products beside
the base layer, which is how engines serve many adapters at once.

Bound. In float64 all three agree to 1e-13 of the largest output. In a half format of roundoff u the
merged weight is rounded once, W' = (W + s B A)(1 + u): a dot product over K inputs then moves by at
most u sum |W'||x|; both outputs are rounded once more (2 u |y|), and the float32 sums add
2 K u32 sum |W||x|. The unmerged path rounds the inner product A x as well: u s |B| |A||x|.

Teeth: the base layer alone, a missing scale alpha / r, A and B of another adapter, and an adapter
with B = 0 (which makes every such test pass, so B is asserted non-zero) are each rejected.
"""

from __future__ import annotations

import unittest

import pytest
import torch
from platform_facts import DEVICE, draw, roundoff
from torch import nn
from torch.nn.functional import linear
from torch.nn.utils import parametrize

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

TOKENS, INPUTS, OUTPUTS, RANK, ALPHA = 32, 512, 384, 16, 32
SCALE = ALPHA / RANK
every_half = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)


class LoRA(nn.Module):
    """Adds s B A to the weight."""

    def __init__(self, a: torch.Tensor, b: torch.Tensor) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(a), nn.Parameter(b)

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight + SCALE * (self.b @ self.a)


def numbers(dtype: torch.dtype, adapter: int = 0):
    """Return x, W, A, B with outputs of order one."""
    x = draw(TOKENS, INPUTS, seed=61, dtype=dtype)
    weight = draw(OUTPUTS, INPUTS, seed=62).mul(INPUTS**-0.5).to(dtype)
    a = draw(RANK, INPUTS, seed=63 + 10 * adapter).mul(INPUTS**-0.5).to(dtype)
    b = draw(OUTPUTS, RANK, seed=64 + 10 * adapter).mul(0.2).to(dtype)
    assert b.abs().max() > 0
    return x, weight, a, b


def layer(weight: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> nn.Linear:
    result = nn.Linear(INPUTS, OUTPUTS, bias=False, device=DEVICE, dtype=weight.dtype)
    result.weight = nn.Parameter(weight.clone())
    parametrize.register_parametrization(result, "weight", LoRA(a, b))
    return result


def unmerged(x, weight, a, b):
    return linear(x, weight) + SCALE * linear(linear(x, a), b)


def reference(x, weight, a, b) -> torch.Tensor:
    x, weight, a, b = (t.double() for t in (x, weight, a, b))
    return x @ (weight + SCALE * (b @ a)).T


def allowed(x, weight, a, b) -> torch.Tensor:
    """Return the bound of the docstring for every output."""
    u = roundoff(x.dtype)
    x, weight, a, b = (t.double().abs() for t in (x, weight, a, b))
    base, thin = x @ weight.T, SCALE * ((x @ a.T) @ b.T)
    return (3 * u + 2 * INPUTS * roundoff(torch.float32)) * (base + thin) + 2 * u * thin


@every_half
@pytest.mark.parametrize("how", ["parametrized", "merged", "unmerged"])
def test_half_precision_is_within_the_bound(how, dtype):
    x, weight, a, b = numbers(dtype)
    if how == "unmerged":
        actual = unmerged(x, weight, a, b)
    else:
        module = layer(weight, a, b)
        if how == "merged":
            parametrize.remove_parametrizations(module, "weight")
        actual = module(x)
    wrong = (actual.double() - reference(x, weight, a, b)).abs()
    assert bool((wrong <= allowed(x, weight, a, b)).all())


@every_half
@pytest.mark.parametrize("mistake", ["base alone", "no scale", "another adapter"])
def test_mistakes_break_the_bound(mistake, dtype):
    x, weight, a, b = numbers(dtype)
    if mistake == "base alone":
        actual = linear(x, weight)
    elif mistake == "no scale":
        actual = linear(x, weight) + linear(linear(x, a), b)
    else:
        _, _, other_a, other_b = numbers(dtype, adapter=1)
        actual = unmerged(x, weight, other_a, other_b)
    wrong = (actual.double() - reference(x, weight, a, b)).abs()
    assert bool((wrong > allowed(x, weight, a, b)).any())


class TestDouble(unittest.TestCase):
    """The three ways in float64."""

    def close(self, actual: torch.Tensor, expected: torch.Tensor) -> None:
        off = ((actual - expected).abs().max() / expected.abs().max()).item()
        self.assertLessEqual(off, 1e-13)

    def test_merging_changes_nothing(self) -> None:
        x, weight, a, b = numbers(torch.float64)
        module = layer(weight, a, b)
        before = module(x)
        parametrize.remove_parametrizations(module, "weight")
        self.assertFalse(parametrize.is_parametrized(module))
        self.assertFalse(torch.equal(module.weight, weight))
        self.close(module(x), before)
        self.close(unmerged(x, weight, a, b), before)

    def test_removing_without_keeping_restores_the_base_bit_for_bit(self) -> None:
        x, weight, a, b = numbers(torch.float64)
        module = layer(weight, a, b)
        self.assertFalse(torch.equal(module(x), linear(x, weight)))
        parametrize.remove_parametrizations(module, "weight", leave_parametrized=False)
        self.assertTrue(torch.equal(module.weight, weight))

    def test_two_adapters_in_one_batch(self) -> None:
        # Half of the rows belong to each adapter: gathered A and B, one batched product.
        x, weight, a, b = numbers(torch.float64)
        _, _, other_a, other_b = numbers(torch.float64, adapter=1)
        which = torch.arange(TOKENS, device=DEVICE) % 2
        stack_a, stack_b = torch.stack([a, other_a]), torch.stack([b, other_b])
        inner = torch.bmm(stack_a[which], x[:, :, None])
        actual = linear(x, weight) + SCALE * torch.bmm(stack_b[which], inner)[..., 0]
        expected = torch.where(
            (which == 0)[:, None],
            reference(x, weight, a, b),
            reference(x, weight, other_a, other_b),
        )
        self.close(actual, expected)
        off = (actual - reference(x, weight, a, b)).abs().max().item()
        self.assertGreater(off, 1e-2)

    def test_only_the_adapter_learns(self) -> None:
        x, weight, a, b = numbers(torch.float64)
        module = layer(weight, a, b)
        module.parametrizations.weight.original.requires_grad_(requires_grad=False)
        module(x).square().sum().backward()
        adapter = module.parametrizations.weight[0]
        self.assertIsNone(module.parametrizations.weight.original.grad)
        # d/dB of ||x W'^T||^2 = 2 s y^T x A^T
        y = reference(x, weight, a, b)
        self.close(adapter.b.grad, 2 * SCALE * (y.T @ x) @ a.T)
        self.close(adapter.a.grad, 2 * SCALE * b.T @ (y.T @ x))
