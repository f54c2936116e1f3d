"""Every kernel of scaled_dot_product_attention agrees with a float64 softmax, where it exists.

Bound. The inputs are rounded to the tested dtype first and the reference starts from those, so
only the kernel's own rounding counts. With u the roundoff of the dtype, s the largest |score| and
v the largest |value|: rounding the scores to the dtype moves each by at most s u, hence each
probability by a factor within 1 +- 2 s u; rounding probabilities, their sum and the output adds
at most 4 u. So |error| <= v (2 s u + 4 u), plus the same terms in float32 for the sums over the
head dimension and the keys: v (2 s D + N) u32.

Teeth: dropping the causal mask, dropping the last key, and a scale that is 10 % off all break the
bound (`test_the_bound_rejects_*`), and a mask aligned to the wrong corner breaks it for chunks.
"""

from __future__ import annotations

import math

import pytest
import torch
from platform_facts import PLATFORM, draw, roundoff
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

from hwmatrix import register_amd_ci, register_cpu_ci, register_cuda_ci, register_xpu_ci

register_cpu_ci(10, suite="stage-b-test-cpu")
register_cuda_ci(22, suite="stage-b-test-1-gpu-small")
# amd and xpu: copied from cuda, never measured there.
register_amd_ci(22, suite="stage-b-test-1-gpu-small-amd")
register_xpu_ci(22, suite="stage-b-test-1-gpu-xpu")

KERNELS = {
    "math": SDPBackend.MATH,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "overrideable": SDPBackend.OVERRIDEABLE,
}
BATCH, HEADS, DIM, LENGTH = 2, 4, 64, 192


def kernels_and_dtypes():
    for kernel, takes in PLATFORM.sdpa.items():
        if isinstance(takes, str):
            yield pytest.param(kernel, None, id=kernel, marks=pytest.mark.skip(reason=takes))
            continue
        for dtype in takes:
            yield pytest.param(kernel, dtype, id=f"{kernel}-{str(dtype).removeprefix('torch.')}")


every_kernel = pytest.mark.parametrize(("kernel", "dtype"), list(kernels_and_dtypes()))


def inputs(queries: int, keys: int, dtype: torch.dtype):
    shapes = ((queries, 11), (keys, 12), (keys, 13))
    return tuple(draw(BATCH, HEADS, n, DIM, seed=seed, dtype=dtype) for n, seed in shapes)


def reference(q, k, v, *, causal: bool):
    """The attention in float64, and the largest |score|; the last query sees every key."""
    q, k, v = (t.double().cpu() for t in (q, k, v))
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    largest = scores.abs().max().item()
    if causal:
        queries, keys = scores.shape[-2:]
        hidden = torch.ones(queries, keys, dtype=torch.bool).triu(keys - queries + 1)
        scores = scores.masked_fill(hidden, -math.inf)
    return scores.softmax(-1) @ v, largest


def bound(dtype: torch.dtype, largest_score: float, v: torch.Tensor) -> float:
    in_dtype = (2 * largest_score + 4) * roundoff(dtype)
    in_sums = (2 * largest_score * DIM + v.shape[-2]) * roundoff(torch.float32)
    return v.abs().max().item() * (in_dtype + in_sums)


def error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    return (actual.double().cpu() - expected).abs().max().item()


@every_kernel
def test_prefill_is_within_the_bound(kernel, dtype):
    q, k, v = inputs(LENGTH, LENGTH, dtype)
    expected, largest = reference(q, k, v, causal=True)
    with sdpa_kernel(KERNELS[kernel]):
        actual = scaled_dot_product_attention(q, k, v, is_causal=True)
    assert actual.dtype == dtype
    assert error(actual, expected) <= bound(dtype, largest, v)


@every_kernel
def test_decode_is_within_the_bound(kernel, dtype):
    q, k, v = inputs(1, LENGTH, dtype)
    expected, largest = reference(q, k, v, causal=False)
    with sdpa_kernel(KERNELS[kernel]):
        actual = scaled_dot_product_attention(q, k, v)
    assert error(actual, expected) <= bound(dtype, largest, v)


@pytest.mark.parametrize("dtype", PLATFORM.dtypes, ids=str)
def test_chunked_prefill_equals_the_whole(dtype):
    q, k, v = inputs(LENGTH, LENGTH, dtype)
    expected, largest = reference(q, k, v, causal=True)
    chunks = []
    for start in range(0, LENGTH, 64):
        stop = start + 64
        bias = causal_lower_right(64, stop)
        chunks.append(
            scaled_dot_product_attention(
                q[:, :, start:stop], k[:, :, :stop], v[:, :, :stop], attn_mask=bias
            )
        )
    assert error(torch.cat(chunks, dim=2), expected) <= bound(dtype, largest, v)


@pytest.mark.parametrize("dtype", PLATFORM.dtypes, ids=str)
def test_grouped_queries_equal_repeated_keys(dtype):
    q, k, v = inputs(LENGTH, LENGTH, dtype)
    k, v = k[:, :2], v[:, :2]
    repeated = (t.repeat_interleave(2, dim=1) for t in (k, v))
    expected, largest = reference(q, *repeated, causal=True)
    actual = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    assert error(actual, expected) <= bound(dtype, largest, v)


@pytest.mark.parametrize("dtype", PLATFORM.dtypes, ids=str)
class TestTheBoundRejects:
    def test_a_missing_causal_mask(self, dtype):
        q, k, v = inputs(LENGTH, LENGTH, dtype)
        expected, largest = reference(q, k, v, causal=True)
        wrong = scaled_dot_product_attention(q, k, v)
        assert error(wrong, expected) > bound(dtype, largest, v)

    def test_a_dropped_last_key(self, dtype):
        # The last key is the needle that the query looks for; among 192 equals it hardly counts.
        q, k, v = inputs(1, LENGTH, dtype)
        k[:, :, -1:] = 0.6 * q
        expected, largest = reference(q, k, v, causal=False)
        wrong = scaled_dot_product_attention(q, k[:, :, :-1], v[:, :, :-1])
        assert error(wrong, expected) > bound(dtype, largest, v)

    def test_a_scale_ten_percent_off(self, dtype):
        q, k, v = inputs(LENGTH, LENGTH, dtype)
        expected, largest = reference(q, k, v, causal=True)
        wrong = scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.1 / math.sqrt(DIM))
        assert error(wrong, expected) > bound(dtype, largest, v)

    def test_a_chunk_masked_from_the_wrong_corner(self, dtype):
        q, k, v = inputs(LENGTH, LENGTH, dtype)
        expected, largest = reference(q, k, v, causal=True)
        wrong = scaled_dot_product_attention(
            q[:, :, 64:128], k[:, :, :128], v[:, :, :128], is_causal=True
        )
        assert error(wrong, expected[:, :, 64:128]) > bound(dtype, largest, v)
