"""A mixture of experts by torch's grouped product equals one product per expert.

Tokens are routed by softmax and top-k, sorted by expert, multiplied in one `grouped_mm` (one group
is empty on purpose), weighted and added back to their rows. Inputs of the exact cases are small
integers whose sums fit the dtype, so results are compared for equality.

Teeth: offsets that are off by one token, experts in another order, and weights that are not
renormalised after top-k are each noticed.
"""

from __future__ import annotations

import unittest

import pytest
import torch
from platform_facts import DEVICE, PLATFORM, draw, roundoff
from torch.nn.functional import grouped_mm, silu

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

EXPERTS, CHOSEN, TOKENS, HIDDEN, INNER = 8, 2, 96, 64, 128
EMPTY = 5  # no token goes to this expert
no_grouped_product = skip_on(
    "xpu", reason=PLATFORM.no_grouped_mm or "torch has no grouped product for XPU"
)


def route():
    """Return the chosen experts and their weights: (tokens, 2) each, weights summing to one."""
    scores = draw(TOKENS, EXPERTS, seed=81, dtype=torch.float32)
    scores[:, EMPTY] = -1e9
    weights, experts = scores.softmax(-1).topk(CHOSEN, dim=-1)
    return experts, weights / weights.sum(-1, keepdim=True)


def sort_by_expert(experts: torch.Tensor):
    """Return the order of the (token, choice) pairs by expert, and where each group ends."""
    order = experts.flatten().argsort(stable=True)
    counts = torch.bincount(experts.flatten(), minlength=EXPERTS)
    return order, counts.cumsum(0).to(torch.int32)


def integers(*shape: int, seed: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-1, 2, shape, generator=generator).to(DEVICE, dtype)


def one_by_one(x: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    result, start = [], 0
    for expert, end in enumerate(ends.tolist()):
        result.append(x[start:end].double() @ weights[expert].double())
        start = end
    return torch.cat(result)


@no_grouped_product
@pytest.mark.parametrize("dtype", PLATFORM.grouped_mm, ids=str)
class TestGroupedProduct:
    def test_it_equals_one_product_per_expert(self, dtype):
        experts, _ = route()
        order, ends = sort_by_expert(experts)
        # Sums of 64 products of -1, 0, 1 are integers up to 64: exact in bfloat16 too.
        x = integers(TOKENS, HIDDEN, seed=82, dtype=dtype)[order // CHOSEN]
        weights = integers(EXPERTS, HIDDEN, INNER, seed=83, dtype=dtype)
        actual = grouped_mm(x, weights, offs=ends)
        expected = one_by_one(x, weights, ends)
        assert ends[EMPTY] == ends[EMPTY - 1]
        assert torch.equal(actual.double(), expected)
        assert not torch.equal(expected, one_by_one(x, weights.flip(0), ends))

    def test_offsets_off_by_one_are_noticed(self, dtype):
        experts, _ = route()
        order, ends = sort_by_expert(experts)
        x = integers(TOKENS, HIDDEN, seed=82, dtype=dtype)[order // CHOSEN]
        weights = integers(EXPERTS, HIDDEN, INNER, seed=83, dtype=dtype)
        wrong = ends.clone()
        wrong[2] -= 1
        actual = grouped_mm(x, weights, offs=wrong).double()
        rows = (actual != one_by_one(x, weights, ends)).any(-1).nonzero().flatten().tolist()
        assert rows == [ends[2].item() - 1]

    def test_whole_layer_is_within_the_bound(self, dtype):
        experts, weights = route()
        x = draw(TOKENS, HIDDEN, seed=84).to(dtype)
        gate, up = (
            draw(EXPERTS, HIDDEN, INNER, seed=s).mul(HIDDEN**-0.5).to(dtype) for s in (85, 86)
        )
        down = draw(EXPERTS, INNER, HIDDEN, seed=87).mul(INNER**-0.5).to(dtype)
        matrices = (gate, up, down)
        expected, allowed = reference(x, matrices, experts, weights)
        actual = layer(x, matrices, experts, weights)
        assert (actual.double() - expected).norm().item() <= allowed
        plain = layer(x, matrices, experts, 0.9 * weights)
        assert (plain.double() - expected).norm().item() > allowed


def layer(x, matrices, experts, weights):
    gate, up, down = matrices
    order, ends = sort_by_expert(experts)
    rows = x[order // CHOSEN]
    inner = silu(grouped_mm(rows, gate, offs=ends)) * grouped_mm(rows, up, offs=ends)
    out = grouped_mm(inner, down, offs=ends).float() * weights.flatten()[order, None]
    result = torch.zeros(TOKENS, HIDDEN, device=DEVICE)
    return result.index_add_(0, order // CHOSEN, out)


def reference(x, matrices, experts, weights):
    """Return the layer in float64, and by how much the tested one may differ (Frobenius norm).

    Of the inner activations, up, silu and their product are rounded once each (3 u of their norm)
    and an error u |g| of the gate passes on through silu'. `down` stretches that by its largest
    singular value at most, the output is rounded once more, and the weights average it. Sums in
    float32 add 2 K u32 of what they sum, taken at its largest.
    """
    u = roundoff(x.dtype)
    x, gate, up, down, weights = (t.double() for t in (x, *matrices, weights))
    rows, which = x.repeat_interleave(CHOSEN, 0), experts.flatten()
    gates, ups = (torch.bmm(rows[:, None], w[which])[:, 0] for w in (gate, up))
    inner = silu(gates) * ups
    out = torch.bmm(inner[:, None], down[which])[:, 0]
    slope = gates.sigmoid() * (1 + gates * (1 - gates.sigmoid()))
    inner_error = u * (3 * inner.norm() + (gates * slope * ups).norm())
    stretch = torch.linalg.matrix_norm(down, ord=2).max()
    sums = 2 * INNER * roundoff(torch.float32) * (rows.norm() + inner.norm()) * stretch
    allowed = inner_error * stretch + u * out.norm() + sums
    return (out.unflatten(0, (TOKENS, CHOSEN)) * weights[..., None]).sum(1), allowed.item()


class TestRouting(unittest.TestCase):
    """Top-k routing, before any product."""

    def test_weights_sum_to_one_and_order_by_score(self) -> None:
        experts, weights = route()
        self.assertLess((weights.sum(-1) - 1).abs().max().item(), 4 * roundoff(torch.float32))
        self.assertTrue(bool((weights[:, 0] >= weights[:, 1]).all()))
        self.assertTrue(bool((experts[:, 0] != experts[:, 1]).all()))
        self.assertFalse(bool((experts == EMPTY).any()))

    def test_sorting_is_a_permutation_that_groups(self) -> None:
        experts, _ = route()
        order, ends = sort_by_expert(experts)
        grouped = experts.flatten()[order]
        self.assertTrue(torch.equal(order.sort().values.cpu(), torch.arange(TOKENS * CHOSEN)))
        self.assertTrue(bool((grouped.diff() >= 0).all()))
        self.assertEqual(ends[-1].item(), TOKENS * CHOSEN)

    def test_adding_back_undoes_the_sort(self) -> None:
        experts, weights = route()
        order, _ = sort_by_expert(experts)
        x = draw(TOKENS, HIDDEN, seed=88)
        out = x[order // CHOSEN] * weights.flatten()[order, None].double()
        back = torch.zeros_like(x).index_add_(0, order // CHOSEN, out)
        self.assertLess((back - x).abs().max().item(), 1e-6)
        lost = torch.zeros_like(x).index_add_(0, order[1:] // CHOSEN, out[1:])
        self.assertGreater((lost - x).abs().max().item(), 1e-3)
