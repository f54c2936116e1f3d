"""Torch's transformer layers give one answer on every path: fast, plain, padded, nested, in parts.

In eval mode `TransformerEncoderLayer` takes a fused path, in train mode the plain one; a padding
mask turns into nested tensors. All are compared in float64-made references.

Bound: the plain path in float64 is the reference; in float32 a layer of width E with two products
and two norms stays within 64 E u32 of the largest output (E terms in each sum, four sums in a row,
each norm stretching by at most the inverse of its deviation, about one here; the factor 64 leaves
eight for every one of them and is still far below the effect of the mistakes).

Teeth: a padded position that is attended to, a norm put on the other side and one head's weights
swapped with another's exceed the same bound.
"""

from __future__ import annotations

import copy
import unittest

import pytest
import torch
from platform_facts import DEVICE, draw, roundoff
from torch import nn

from hwmatrix import register_amd_ci, register_cpu_ci, register_cuda_ci, register_xpu_ci

register_cpu_ci(8, suite="stage-b-test-cpu")
register_cuda_ci(12, suite="stage-b-test-1-gpu-small")
# amd and xpu: copied from cuda, never measured there.
register_amd_ci(12, suite="stage-b-test-1-gpu-small-amd")
register_xpu_ci(12, suite="stage-b-test-1-gpu-xpu")

# Nested tensors warn that they are a prototype; what they compute is what is tested.
pytestmark = pytest.mark.filterwarnings("ignore:.*nested tensors.*prototype")

BATCH, LENGTH, WIDTH, HEADS = 3, 40, 64, 4
BOUND = 64 * WIDTH * roundoff(torch.float32)


def layer(*, norm_first: bool, dtype: torch.dtype = torch.float32) -> nn.TransformerEncoderLayer:
    torch.manual_seed(131)
    made = nn.TransformerEncoderLayer(
        WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=norm_first
    )
    return made.to(DEVICE, dtype)


def numbers(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return draw(BATCH, LENGTH, WIDTH, seed=132).float().to(dtype)


def padding() -> torch.Tensor:
    """Return True where a position is padding: lengths 40, 25 and 9."""
    lengths = torch.tensor([40, 25, 9], device=DEVICE)
    return torch.arange(LENGTH, device=DEVICE)[None] >= lengths[:, None]


def off(actual: torch.Tensor, expected: torch.Tensor, where: torch.Tensor | None = None) -> float:
    wrong = (actual.double() - expected.double()).abs()
    if where is not None:
        wrong = wrong[where]
    return (wrong.max() / expected.abs().max()).item()


def reference(*, norm_first: bool, mask: torch.Tensor | None = None) -> torch.Tensor:
    exact = layer(norm_first=norm_first, dtype=torch.float64).train()
    return exact(numbers(torch.float64), src_key_padding_mask=mask).detach()


both_norms = pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])


@both_norms
def test_fast_path_is_within_the_bound(norm_first):
    expected = reference(norm_first=norm_first)
    with torch.inference_mode():
        fast = layer(norm_first=norm_first).eval()(numbers())
    plain = layer(norm_first=norm_first).train()(numbers())
    assert off(fast, expected) <= BOUND
    assert off(plain, expected) <= BOUND


@both_norms
@pytest.mark.parametrize("path", ["fast", "plain"])
def test_padding_is_not_attended_to(path, norm_first):
    expected = reference(norm_first=norm_first, mask=padding())
    tested = layer(norm_first=norm_first).train(mode=path == "plain")
    with torch.inference_mode():
        actual = tested(numbers(), src_key_padding_mask=padding())
        unmasked = tested(numbers())
    assert off(actual, expected, ~padding()) <= BOUND
    assert off(unmasked, expected, ~padding()) > 10 * BOUND


@both_norms
def test_encoder_of_two_layers_with_nested_tensors(norm_first):
    expected = numbers(torch.float64)
    exact = layer(norm_first=norm_first, dtype=torch.float64).train()
    for _ in range(2):
        expected = exact(expected, src_key_padding_mask=padding())
    encoder = nn.TransformerEncoder(
        layer(norm_first=norm_first), 2, enable_nested_tensor=not norm_first
    )
    encoder = encoder.to(DEVICE).eval()
    with torch.inference_mode():
        actual = encoder(numbers(), src_key_padding_mask=padding())
    kept = ~padding()[:, : actual.shape[1]]
    assert off(actual, expected[:, : actual.shape[1]].detach(), kept) <= 2 * BOUND


class TestMistakes(unittest.TestCase):
    """What the bound must notice."""

    def test_norm_on_the_other_side(self) -> None:
        expected = reference(norm_first=False)
        self.assertGreater(off(layer(norm_first=True)(numbers()), expected), 10 * BOUND)

    def test_two_heads_swapped_in_the_values(self) -> None:
        expected = reference(norm_first=False)
        wrong = copy.deepcopy(layer(norm_first=False))
        size = WIDTH // HEADS
        with torch.no_grad():
            values = wrong.self_attn.in_proj_weight[2 * WIDTH :]
            values[: 2 * size] = values[: 2 * size].roll(size, dims=0).clone()
        self.assertGreater(off(wrong(numbers()), expected), 10 * BOUND)

    def test_rows_of_a_batch_do_not_meet(self) -> None:
        tested = layer(norm_first=True).eval()
        with torch.inference_mode():
            together = tested(numbers())
            alone = torch.cat([tested(row[None]) for row in numbers()])
            other = tested(numbers().flip(0))
        self.assertLessEqual(off(alone, together), BOUND)
        self.assertGreater(off(other, together), 10 * BOUND)


class TestMultiheadAttention(unittest.TestCase):
    """`nn.MultiheadAttention` against the sum written out."""

    def test_weights_are_a_distribution_and_give_the_output(self) -> None:
        torch.manual_seed(133)
        attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).to(DEVICE).double()
        x = numbers(torch.float64)
        out, weights = attention(x, x, x, average_attn_weights=False)
        self.assertLess((weights.sum(-1) - 1).abs().max().item(), 1e-12)
        values = x @ attention.in_proj_weight[2 * WIDTH :].T + attention.in_proj_bias[2 * WIDTH :]
        values = values.unflatten(-1, (HEADS, -1)).transpose(1, 2)
        expected = attention.out_proj((weights @ values).transpose(1, 2).flatten(2))
        self.assertLess(off(out, expected), 1e-12)
        self.assertGreater(off(out, attention.out_proj(values.transpose(1, 2).flatten(2))), 1e-3)
