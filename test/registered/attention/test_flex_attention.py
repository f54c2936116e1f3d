"""Compiled flex attention gives a Qwen3's answers, and its masks are the ones that were written.

The reference is float64 with eager attention on the CPU. KL(reference || flex) <= 5e-9 in float32
and 5e-3 in bfloat16. Compiling takes most of the time: a first call took 42 s on two CPU cores.

Teeth: an attention that sees the future, by flex's own mask, is beyond the limit.
"""

from __future__ import annotations

import functools
import math

import pytest
import torch
from platform_facts import DEVICE, PLATFORM, draw, roundoff, why_no_attention
from tiny_models import logprobs, qwen3, tokens
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from hwmatrix import register_amd_ci, register_cpu_ci, register_cuda_ci
from hwmatrix.kit import assert_logprob_kl

register_cpu_ci(
    100,
    suite="stage-b-test-cpu",
)
register_cuda_ci(
    60,
    suite="stage-b-test-1-gpu-small",
)
# amd: copied from cuda, never measured there.
register_amd_ci(
    60,
    suite="stage-b-test-1-gpu-small-amd",
)

LIMITS = {torch.float32: 5e-9, torch.bfloat16: 5e-3}
LENGTH = 256  # below 128 queries flex takes its decode kernel
WHY_NO_DECODE = why_no_attention("flex_attention", decode=True)


def ids(device: str = DEVICE) -> torch.Tensor:
    return tokens(2, LENGTH, device=device)


@functools.cache
def reference() -> torch.Tensor:
    return logprobs(qwen3(torch.float64, "cpu", attention="eager"), ids("cpu"))


@functools.cache
def compiled():
    return torch.compile(flex_attention)


@pytest.mark.parametrize("dtype", LIMITS, ids=str)
def test_prefill_is_that_of_the_reference(dtype):
    actual = logprobs(qwen3(dtype, attention="flex_attention"), ids())
    shown = str(dtype).removeprefix("torch.")
    assert_logprob_kl(actual, reference(), LIMITS[dtype], name=f"KL prefill flex {shown}")


@pytest.mark.skipif(bool(WHY_NO_DECODE), reason=WHY_NO_DECODE)
@pytest.mark.parametrize("dtype", LIMITS, ids=str)
def test_decode_is_that_of_the_reference(dtype):
    from transformers import DynamicCache

    model = qwen3(dtype, attention="flex_attention")
    cache, found = DynamicCache(config=model.config), []
    with torch.inference_mode():
        model(ids()[:, :-3], past_key_values=cache, use_cache=True)
        for at in range(LENGTH - 3, LENGTH):
            out = model(ids()[:, at : at + 1], past_key_values=cache, use_cache=True)
            found.append(out.logits.double().cpu().log_softmax(-1))
    shown = str(dtype).removeprefix("torch.")
    name = f"KL decode flex {shown}"
    assert_logprob_kl(torch.cat(found, 1), reference()[:, -3:], LIMITS[dtype], name=name)


@pytest.mark.parametrize("mask", ["causal", "window of 40", "none"])
def test_compiled_masks_are_those_written(mask):
    q, k, v = (draw(1, 2, 256, 64, seed=s, dtype=torch.float32) for s in (161, 162, 163))
    places = torch.arange(256, device=DEVICE)
    apart = places[:, None] - places[None]
    seen = {
        "causal": apart >= 0,
        "window of 40": (apart >= 0) & (apart < 40),
        "none": apart > -256,
    }[mask]

    def allow(_b, _h, query, key):
        return seen[query, key]

    block_mask = create_block_mask(allow, None, None, 256, 256, device=DEVICE)
    actual = compiled()(q, k, v, block_mask=block_mask)
    scores = (q.double() @ k.double().transpose(-1, -2) / math.sqrt(64)).masked_fill(
        ~seen, -math.inf
    )
    expected = scores.softmax(-1) @ v.double()
    # As in test_sdpa_kernels, for float32 alone: v (2 s D + N + 2 s + 4) u32. Triton multiplies
    # float32 in TF32 on NVIDIA unless told otherwise: then the scores carry its 2^-11.
    largest = scores[..., seen].abs().max().item()
    u = roundoff(torch.float32) if PLATFORM.device == "cpu" else 2.0**-11
    bound = v.abs().max().item() * (
        (2 * largest + 4) * u + (2 * largest * 64 + 256) * roundoff(torch.float32)
    )
    assert (actual.double() - expected).abs().max().item() <= bound
    if mask != "none":
        wrong = compiled()(q, k, v)
        assert (wrong.double() - expected).abs().max().item() > bound
