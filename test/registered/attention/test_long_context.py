"""Attention over a long context is right at its far end and never builds the whole score matrix.

The keys are long (32768 on a GPU, 2048 on a CPU) and the reference is made in float64 for a sample
of the queries, the last one among them. Two needles are put far apart: values that only a query
which truly sees that far can return.

Bound: as in test_sdpa_kernels, v (2 s u + 4 u) + v (2 s D + N) u32, with the roundoff of the
dtype u, the largest score s, value v, head dimension D and N keys.

Teeth: an attention that forgets the first half, or slides a window over the last 1024 keys, misses
a needle by more than five times the bound; so does one that sees a key behind the causal edge.
The memory check fails for the math kernel, which does build the matrix.
"""

from __future__ import annotations

import math

import pytest
import torch
from platform_facts import BACKEND, DEVICE, PLATFORM, draw, roundoff
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from hwmatrix import register_amd_ci, register_cpu_ci, register_cuda_ci, skip_on

# On the CPU a small form runs with stage-b.
register_cpu_ci(10, suite="stage-b-test-cpu")
register_cuda_ci(18, suite="extra-a-test-1-gpu-large")
# amd: copied from cuda, never measured there.
register_amd_ci(18, suite="extra-a-test-1-gpu-large-amd")

LENGTH = 2048 if DEVICE == "cpu" else 32_768
HEADS, DIM, WINDOW = 2, 64, 1024
NEEDLES = (LENGTH // 64, LENGTH // 4 + 5)  # neither is within the window of the last query
DTYPES = (torch.bfloat16, torch.float16)
no_memory_counter = skip_on("cpu", "xpu", reason="torch counts device memory on CUDA and ROCm")
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def numbers(dtype: torch.dtype):
    """Return q, k, v of (1, heads, length, dim), the last query looking for the needles."""
    q, k, v = (draw(1, HEADS, LENGTH, DIM, seed=s).mul(0.5) for s in (141, 142, 143))
    for place in NEEDLES:
        k[:, :, place] = 6 * q[:, :, -1]
        v[:, :, place] = 4
    return tuple(t.to(dtype) for t in (q, k, v))


def sample() -> list[int]:
    return [0, 1, LENGTH // 3, LENGTH // 2, LENGTH - 2, LENGTH - 1]


def reference(q, k, v):
    """Return the sampled rows in float64 and the bound."""
    u = roundoff(q.dtype)
    q, k, v = (t.double() for t in (q[:, :, sample()], k, v))
    scores = q @ k.transpose(-1, -2) / math.sqrt(DIM)
    places = torch.arange(LENGTH, device=DEVICE)
    hidden = places[None] > torch.tensor(sample(), device=DEVICE)[:, None]
    largest = scores.masked_fill(hidden, 0).abs().max().item()
    rows = scores.masked_fill(hidden, -math.inf).softmax(-1) @ v
    sums = (2 * largest * DIM + LENGTH) * roundoff(torch.float32)
    return rows, v.abs().max().item() * ((2 * largest + 4) * u + sums)


def off(actual: torch.Tensor, rows: torch.Tensor) -> float:
    return (actual.double() - rows).abs().max().item()


@every_dtype
def test_far_needles_are_found(dtype):
    q, k, v = numbers(dtype)
    rows, bound = reference(q, k, v)
    actual = scaled_dot_product_attention(q, k, v, is_causal=True)[:, :, sample()]
    assert off(actual, rows) <= bound
    assert actual[:, :, -1].min().item() > 2, "the last query returns what the needles hold"


@every_dtype
def test_decode_at_the_far_end_equals_prefill(dtype):
    q, k, v = numbers(dtype)
    rows, bound = reference(q, k, v)
    actual = scaled_dot_product_attention(q[:, :, -1:], k, v)
    assert off(actual[:, :, 0], rows[:, :, -1]) <= bound


@every_dtype
@pytest.mark.parametrize("mistake", ["first half forgotten", "window of 1024"])
def test_mistakes_miss_a_needle(mistake, dtype):
    q, k, v = numbers(dtype)
    rows, bound = reference(q, k, v)
    start = LENGTH // 2 if mistake == "first half forgotten" else LENGTH - WINDOW
    wrong = scaled_dot_product_attention(q[:, :, -1:], k[:, :, start:], v[:, :, start:])
    assert off(wrong[:, :, 0], rows[:, :, -1]) > 5 * bound


@every_dtype
def test_a_key_behind_the_causal_edge_is_seen(dtype):
    q, k, v = numbers(dtype)
    rows, bound = reference(q, k, v)
    k[:, :, -1], v[:, :, -1] = 6 * q[:, :, -2], 4
    right = scaled_dot_product_attention(q, k, v, is_causal=True)[:, :, -2]
    wrong = scaled_dot_product_attention(q[:, :, -2:-1], k, v)[:, :, 0]
    assert off(right, rows[:, :, -2]) <= bound
    assert off(wrong, rows[:, :, -2]) > 5 * bound


@no_memory_counter
@pytest.mark.parametrize("kernel", ["flash", "efficient"])
def test_memory_grows_with_the_length_alone(kernel):
    if isinstance(PLATFORM.sdpa[kernel], str):
        pytest.skip(PLATFORM.sdpa[kernel])
    q, k, v = numbers(torch.bfloat16)
    matrix = HEADS * LENGTH * LENGTH * 2
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    backend = {"flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION}
    with sdpa_kernel(backend[kernel]):
        scaled_dot_product_attention(q, k, v, is_causal=True)
    taken = torch.cuda.max_memory_allocated() - before
    assert taken < matrix / 10, BACKEND


@no_memory_counter
def test_the_math_kernel_does_build_the_matrix():
    q, k, v = (t[:, :, :8192] for t in numbers(torch.bfloat16))
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    with sdpa_kernel(SDPBackend.MATH):
        scaled_dot_product_attention(q, k, v, is_causal=True)
    assert torch.cuda.max_memory_allocated() - before > HEADS * 8192 * 8192 * 2 / 10
