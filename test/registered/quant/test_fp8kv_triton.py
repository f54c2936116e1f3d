"""A Triton decode kernel over an 8-bit key-value cache is right about the cache that it reads.

The cache holds keys and values in one of three formats with a scale per head; the kernel reads
pages by a table, brings them to float32 and runs softmax online. On a GPU it is compiled, on a CPU
Triton's interpreter runs it. e4m3fnuz is the format of AMD's gfx942; compiled Triton for NVIDIA
does not take it, and says so.

Two references in float64: over the cache as it was stored (only the kernel's arithmetic counts:
1e-5 of the largest value) and over the numbers before quantisation (what the format costs: bounded
by its mantissa, v (2 s + 1) 2^-(m+1) twice, with s the largest score).

Teeth: the cost must be there (a kernel that reads a full-precision copy would show none), a missing
scale, the other e4m3 format's reading of the same bytes, and a length that is one too short are
each beyond the kernel's limit.
"""

from __future__ import annotations

import math
import os

from platform_facts import BACKEND, DEVICE, PLATFORM, draw

if DEVICE == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported

import pytest
import torch
import triton
import triton.language as tl

from hwmatrix import register_amd_ci, register_cpu_ci, register_cuda_ci
from hwmatrix.kit import record_measurement

register_cpu_ci(
    40,
    suite="stage-b-test-cpu",
)
register_cuda_ci(
    20,
    suite="extra-a-test-1-gpu-large",
)
# amd: copied from cuda, never measured there.
register_amd_ci(
    20,
    suite="extra-a-test-1-gpu-large-amd",
)

MANTISSA = {"float8_e4m3fn": 3, "float8_e4m3fnuz": 3, "float8_e5m2": 2}
LARGEST = {"float8_e4m3fn": 448.0, "float8_e4m3fnuz": 240.0, "float8_e5m2": 57344.0}
HEADS, DIM, PAGE, PAGES = 4, 64, 32, 24
LENGTHS = (1, 33, 200)
KERNEL_LIMIT = 1e-5


@triton.jit
def decode_kernel(  # noqa: PLR0917 - Triton passes pointers by place
    q_ptr, k_ptr, v_ptr, k_scale_ptr, v_scale_ptr, table_ptr, length_ptr, out_ptr,
    pages: tl.constexpr, heads: tl.constexpr, dim: tl.constexpr, page: tl.constexpr,
):  # fmt: skip
    """One query of one head of one sequence against its pages."""
    sequence, head = tl.program_id(0), tl.program_id(1)
    length = tl.load(length_ptr + sequence)
    columns, rows = tl.arange(0, dim), tl.arange(0, page)
    q = tl.load(q_ptr + (sequence * heads + head) * dim + columns)
    k_scale, v_scale = tl.load(k_scale_ptr + head), tl.load(v_scale_ptr + head)
    top, total = -float("inf"), 0.0
    gathered = tl.zeros([dim], dtype=tl.float32)
    for at in range(tl.cdiv(length, page)):
        place = tl.load(table_ptr + sequence * pages + at)
        seen = at * page + rows < length
        cell = ((place * page + rows)[:, None] * heads + head) * dim + columns[None, :]
        k = tl.load(k_ptr + cell).to(tl.float32) * k_scale
        scores = tl.sum(k * q[None, :], axis=1) / (dim**0.5)
        scores = tl.where(seen, scores, -float("inf"))
        new_top = tl.maximum(top, tl.max(scores, axis=0))
        weights = tl.exp(scores - new_top)
        shrink = tl.exp(top - new_top)
        v = tl.load(v_ptr + cell).to(tl.float32) * v_scale
        gathered = gathered * shrink + tl.sum(weights[:, None] * v, axis=0)
        total = total * shrink + tl.sum(weights, axis=0)
        top = new_top
    tl.store(out_ptr + (sequence * heads + head) * dim + columns, gathered / total)


def numbers():
    """Return queries, keys and values in float32: (sequences, heads, dim), (pool, heads, dim)."""
    q = draw(len(LENGTHS), HEADS, DIM, seed=181, dtype=torch.float32)
    k, v = (draw(PAGES * PAGE, HEADS, DIM, seed=s, dtype=torch.float32) for s in (182, 183))
    # Heads of different size: a scale per tensor would waste the range of the small ones.
    sizes = torch.tensor([0.05, 0.3, 1.0, 3.0], device=DEVICE)[None, :, None]
    return q, k * sizes, v * sizes


def table() -> torch.Tensor:
    """Return each sequence's pages, scattered over the pool."""
    order = torch.randperm(PAGES, generator=torch.Generator().manual_seed(184))
    rows = torch.zeros(len(LENGTHS), PAGES, dtype=torch.int32)
    start = 0
    for at, length in enumerate(LENGTHS):
        count = math.ceil(length / PAGE)
        rows[at, :count] = order[start : start + count]
        start += count
    return rows.to(DEVICE)


def quantise(x: torch.Tensor, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    scale = x.abs().amax(dim=(0, 2)) / LARGEST[name]
    scaled = (x / scale[None, :, None]).clamp(-LARGEST[name], LARGEST[name])
    return scaled.to(getattr(torch, name)), scale


def run(q, k, v, k_scale, v_scale, *, lengths=LENGTHS) -> torch.Tensor:
    out = torch.empty_like(q)
    counts = torch.tensor(lengths, dtype=torch.int32, device=DEVICE)
    decode_kernel[(len(LENGTHS), HEADS)](
        q, k, v, k_scale, v_scale, table(), counts, out, PAGES, HEADS, DIM, PAGE
    )
    return out


def reference(q, k, v) -> tuple[torch.Tensor, float]:
    """Return attention in float64 over the tokens that the table names, and the largest score."""
    found, largest = [], 0.0
    for at, length in enumerate(LENGTHS):
        places = torch.arange(length, device=DEVICE)
        cells = table()[at].long()[places // PAGE] * PAGE + places % PAGE
        keys, values = (t[cells].double().transpose(0, 1) for t in (k, v))
        scores = (keys @ q[at].double()[:, :, None])[..., 0] / math.sqrt(DIM)
        largest = max(largest, scores.abs().max().item())
        found.append((scores.softmax(-1)[:, None] @ values)[:, 0])
    return torch.stack(found), largest


def off(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the largest error as a part of the head's largest value."""
    largest = expected.abs().amax(dim=(0, 2), keepdim=True)
    return ((actual.double() - expected).abs() / largest).max().item()


def formats():
    for name in MANTISSA:
        why = ""
        if name == "float8_e4m3fnuz" and BACKEND == "cuda":
            why = "compiled Triton has no e4m3fnuz for NVIDIA; it is AMD's format"
        if name not in PLATFORM.fp8_storage:
            why = f"torch has no {name} on {BACKEND}"
        yield pytest.param(name, marks=[pytest.mark.skip(reason=why)] if why else [])


every_format = pytest.mark.parametrize("name", list(formats()))


@every_format
class TestCache:
    def test_kernel_is_right_about_the_stored_cache(self, name):
        q, k, v = numbers()
        (stored_k, k_scale), (stored_v, v_scale) = quantise(k, name), quantise(v, name)
        actual = run(q, stored_k, stored_v, k_scale, v_scale)
        back = (
            stored.double() * scale[None, :, None].double()
            for stored, scale in ((stored_k, k_scale), (stored_v, v_scale))
        )
        expected, _ = reference(q, *back)
        found = off(actual, expected)
        record_measurement(f"triton decode {name} error", found, limit=KERNEL_LIMIT)
        assert found <= KERNEL_LIMIT

    def test_format_costs_what_its_mantissa_says(self, name):
        q, k, v = numbers()
        (stored_k, k_scale), (stored_v, v_scale) = quantise(k, name), quantise(v, name)
        expected, largest = reference(q, k, v)
        cost = (run(q, stored_k, stored_v, k_scale, v_scale).double() - expected).abs()
        values = v.double().abs().amax(dim=(0, 2))
        bound = 2 * values * (2 * largest + 1) * 2.0 ** -(MANTISSA[name] + 1)
        record_measurement(f"triton decode {name} cost", off(expected + cost, expected))
        assert bool((cost <= bound[None, :, None]).all())
        assert off(expected + cost, expected) > 100 * KERNEL_LIMIT

    @pytest.mark.parametrize("mistake", ["no scale", "one token short", "other reading"])
    def test_mistakes_are_beyond_the_limit(self, name, mistake):
        q, k, v = numbers()
        (stored_k, k_scale), (stored_v, v_scale) = quantise(k, name), quantise(v, name)
        right = run(q, stored_k, stored_v, k_scale, v_scale).double()
        if mistake == "no scale":
            wrong = run(q, stored_k, stored_v, torch.ones_like(k_scale), v_scale)
        elif mistake == "one token short":
            wrong = run(q, stored_k, stored_v, k_scale, v_scale, lengths=(1, 32, 199))
        else:
            other = "float8_e5m2" if name == "float8_e4m3fn" else "float8_e4m3fn"
            misread = stored_v.view(getattr(torch, other)).float().nan_to_num(0.0)
            stored_again = misread.clamp(-LARGEST[name], LARGEST[name]).to(stored_v.dtype)
            wrong = run(q, stored_k, stored_again, k_scale, v_scale)
        assert off(wrong, right) > 100 * KERNEL_LIMIT


def test_full_precision_cache_shows_no_cost():
    q, k, v = numbers()
    one = torch.ones(HEADS, device=DEVICE)
    expected, _ = reference(q, k, v)
    found = off(run(q, k, v, one, one), expected)
    record_measurement("triton decode float32 error", found, limit=KERNEL_LIMIT)
    assert found <= KERNEL_LIMIT
