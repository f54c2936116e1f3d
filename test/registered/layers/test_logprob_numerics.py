"""Log-probabilities and losses over a large vocabulary keep to float64, whole or in chunks.

Bound. log_softmax(x)_i = x_i - max - log sum exp(x_j - max). Inputs are given, so in float32 the
subtraction errs by u32 |x_i - max|, the sum of V terms by V u32 relative (that is, absolute in its
logarithm) and the last subtraction by u32 |result|: |error| <= u32 (|x_i - max| + V + 2 |result|).
In a half format the result is rounded once more, u |result|, and kernels may round each difference
to the format before its exponential (the CPU's does): the logarithm of the sum then moves by at
most u times the mean of |x - max| under the distribution.

Teeth: logits rounded to bfloat16 before the loss break the float32 bound; a log_softmax without
the maximum taken off overflows to infinity on the same input; a chunk left out of the
log-sum-exp shifts every log-probability; an ignored target that is counted changes the mean.
"""

from __future__ import annotations

import math
import unittest

import pytest
import torch
from platform_facts import DEVICE, PLATFORM, draw, roundoff
from torch.nn.functional import cross_entropy, kl_div, log_softmax

from hwmatrix import register_amd_ci, register_cpu_ci, register_cuda_ci, register_xpu_ci

register_cpu_ci(8, suite="stage-b-test-cpu")
register_cuda_ci(10, suite="stage-b-test-1-gpu-small")
# amd and xpu: copied from cuda, never measured there.
register_amd_ci(10, suite="stage-b-test-1-gpu-small-amd")
register_xpu_ci(10, suite="stage-b-test-1-gpu-xpu")

TOKENS, VOCABULARY = 32, 32_000
U32 = roundoff(torch.float32)
every_dtype = pytest.mark.parametrize("dtype", PLATFORM.dtypes, ids=str)


def logits(dtype: torch.dtype, shift: float = 0.0) -> torch.Tensor:
    return draw(TOKENS, VOCABULARY, seed=101).mul(4).add(shift).to(dtype)


def targets() -> torch.Tensor:
    generator = torch.Generator().manual_seed(102)
    return torch.randint(VOCABULARY, (TOKENS,), generator=generator).to(DEVICE)


def allowed(x: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    below = (x.double().amax(-1, keepdim=True) - x.double()).abs()
    half = 0.0 if x.dtype == torch.float32 else roundoff(x.dtype)
    mean_below = (expected.exp() * below).sum(-1, keepdim=True)
    in_sums = U32 * (below + VOCABULARY + 2 * expected.abs())
    return in_sums + half * (expected.abs() + mean_below)


@every_dtype
@pytest.mark.parametrize("shift", [0.0, 300.0], ids=["centred", "shifted"])
def test_log_softmax_is_within_the_bound(shift, dtype):
    x = logits(dtype, shift)
    expected = x.double().log_softmax(-1)
    wrong = (log_softmax(x, -1).double() - expected).abs()
    assert bool((wrong <= allowed(x, expected)).all())


@every_dtype
def test_chunks_of_the_vocabulary_add_up(dtype):
    # How vocabulary-parallel and fused losses work: a running log-sum-exp over pieces.
    x = logits(dtype)
    expected = x.double().log_softmax(-1)
    pieces = torch.stack([piece.float().logsumexp(-1) for piece in x.split(5000, dim=-1)])
    actual = x.float() - pieces.logsumexp(0)[:, None]
    limit = allowed(x.float(), expected)
    assert bool(((actual.double() - expected).abs() <= limit).all())
    short = x.float() - pieces[:-1].logsumexp(0)[:, None]
    assert bool(((short.double() - expected).abs() > limit).all())


@every_dtype
def test_cross_entropy_is_the_mean_of_the_targets(dtype):
    x, y = logits(dtype), targets()
    y[::4] = -100
    kept = y >= 0
    picked = x.double().log_softmax(-1)[kept].gather(1, y[kept, None])[:, 0]
    expected = -picked.mean()
    actual = cross_entropy(x, y, ignore_index=-100).double()
    limit = allowed(x, x.double().log_softmax(-1)).amax() + roundoff(dtype) * expected
    assert (actual - expected).abs() <= limit
    counted = -picked.sum() / TOKENS
    assert (counted - expected).abs() > limit


class TestLoss(unittest.TestCase):
    """Edges of the same functions in float32."""

    def test_rounding_logits_to_bfloat16_first_is_seen(self) -> None:
        x = logits(torch.float32)
        expected = x.double().log_softmax(-1)
        wrong = (x.bfloat16().float().log_softmax(-1).double() - expected).abs()
        self.assertTrue(bool((wrong > allowed(x, expected)).any()))

    def test_large_logits_do_not_overflow(self) -> None:
        x = logits(torch.float32, shift=300.0)
        self.assertTrue(bool(log_softmax(x, -1).isfinite().all()))
        naive = x - x.exp().sum(-1, keepdim=True).log()
        self.assertFalse(bool(naive.isfinite().any()))

    def test_masked_tokens_have_no_probability_and_no_gradient(self) -> None:
        x = logits(torch.float32)
        x[:, 7::11] = -math.inf
        x.requires_grad_()
        y = torch.full((TOKENS,), 3, device=DEVICE)
        cross_entropy(x, y).backward()
        self.assertTrue(bool((x.grad[:, 7::11] == 0).all()))
        self.assertTrue(bool(x.grad.isfinite().all()))
        self.assertTrue(bool((x.grad[:, 8::11] != 0).all()))

    def test_gradient_is_softmax_minus_target(self) -> None:
        x, y = logits(torch.float32).requires_grad_(), targets()
        cross_entropy(x, y, reduction="sum").backward()
        expected = x.detach().double().softmax(-1)
        expected[torch.arange(TOKENS, device=DEVICE), y] -= 1
        off = (x.grad.double() - expected).abs().max().item()
        self.assertLess(off, VOCABULARY * U32)
        self.assertGreater((x.grad.double() + expected).abs().max().item(), 0.5)

    def test_divergence_is_zero_only_for_itself(self) -> None:
        p, q = logits(torch.float32).log_softmax(-1), logits(torch.bfloat16).float().log_softmax(-1)
        for_itself = kl_div(p, p, reduction="batchmean", log_target=True).item()
        between = kl_div(q, p, reduction="batchmean", log_target=True).item()
        exact = (p.double().exp() * (p.double() - q.double())).sum(-1).mean().item()
        self.assertEqual(for_itself, 0.0)
        self.assertGreater(exact, 1e-6)
        self.assertAlmostEqual(between, exact, delta=0.05 * exact + VOCABULARY * U32 * 1e-2)
