"""Every attention implementation of the platform gives a Qwen3's answers, in prefill and decode.

Which platform uses which stands in one table, platform_facts.PLATFORMS. The reference is float64
with eager attention on the CPU over the whole sequence; prefill runs the sequence at once, decode
gives the last tokens one by one over a cache. KL(reference || tested) <= 5e-9 in float32 and 5e-3
in bfloat16, averaged over positions. Flex attention, which is compiled first, has a file of its
own.

Teeth: a paged implementation called outside its engine is refused (transformers 5.17) or wrong by
a nat (5.24); a cache that lost its first tokens and positions that are off in decode are each
beyond the limit of bfloat16.
"""

from __future__ import annotations

import functools

import pytest
import torch
from platform_facts import PLATFORM, why_no_attention
from tiny_models import logprobs, qwen3, tokens

from hwmatrix import register_amd_ci, register_cpu_ci, register_cuda_ci, register_xpu_ci
from hwmatrix.kit import assert_logprob_kl, logprob_kl

register_cpu_ci(
    15,
    suite="stage-b-test-cpu",
)
register_cuda_ci(
    35,
    suite="stage-b-test-1-gpu-small",
)
# amd and xpu: copied from cuda, never measured there.
register_amd_ci(
    35,
    suite="stage-b-test-1-gpu-small-amd",
)
register_xpu_ci(
    35,
    suite="stage-b-test-1-gpu-xpu",
)

LIMITS = {torch.float32: 5e-9, torch.bfloat16: 5e-3}
LENGTH, STEPS = 96, 6


def ids(device: str | None = None) -> torch.Tensor:
    return tokens(2, LENGTH, **({"device": device} if device else {}))


@functools.cache
def reference() -> torch.Tensor:
    return logprobs(qwen3(torch.float64, "cpu", attention="eager"), ids("cpu"))


def cases(*, decode: bool):
    for name in PLATFORM.attention:
        if name == "flex_attention":
            continue
        why = why_no_attention(name, decode=decode)
        skip = [pytest.mark.skip(reason=why)] if why else []
        for dtype in LIMITS:
            if name.startswith("flash") and dtype == torch.float32:
                continue  # flash attention has kernels for half formats alone
            shown = f"{name}-{str(dtype).removeprefix('torch.')}"
            yield pytest.param(name, dtype, id=shown, marks=skip)


names = ("name", "dtype")


def decode(model, *, lose: int = 0, shift: int = 0) -> torch.Tensor:
    """Return log-probabilities of the last STEPS positions, one token at a time over a cache.

    `lose` drops that many tokens from the cache's beginning, `shift` moves the positions: mistakes.
    """
    from transformers import DynamicCache

    whole = ids()
    cache = DynamicCache(config=model.config)
    found = []
    with torch.inference_mode():
        start = LENGTH - STEPS
        model(whole[:, :start], past_key_values=cache, use_cache=True)
        for layer in cache.layers if lose else ():
            layer.keys, layer.values = layer.keys[:, :, lose:], layer.values[:, :, lose:]
        for at in range(start, LENGTH):
            place = torch.full((2, 1), at + shift, device=whole.device)
            out = model(
                whole[:, at : at + 1], past_key_values=cache, position_ids=place, use_cache=True
            )
            found.append(out.logits.double().cpu().log_softmax(-1))
    return torch.cat(found, dim=1)


@pytest.mark.parametrize(names, list(cases(decode=False)))
def test_prefill_is_that_of_the_reference(name, dtype):
    actual = logprobs(qwen3(dtype, attention=name), ids())
    shown = str(dtype).removeprefix("torch.")
    assert_logprob_kl(actual, reference(), LIMITS[dtype], name=f"KL prefill {name} {shown}")


@pytest.mark.parametrize(names, list(cases(decode=True)))
def test_decode_is_that_of_the_reference(name, dtype):
    actual = decode(qwen3(dtype, attention=name))
    shown = str(dtype).removeprefix("torch.")
    expected = reference()[:, -STEPS:]
    assert_logprob_kl(actual, expected, LIMITS[dtype], name=f"KL decode {name} {shown}")


def test_a_paged_implementation_outside_its_engine_is_refused_or_wrong():
    model = qwen3(torch.float32)
    model.set_attn_implementation("paged|eager")
    try:
        found = logprob_kl(logprobs(model, ids()), reference())
    except ValueError as refused:
        assert "paged attention cache" in str(refused)  # noqa: PT017 - either of two is right
        return
    print("paged|eager in a plain forward", found)
    assert found.mean > 10 * LIMITS[torch.bfloat16]


@pytest.mark.parametrize("mistake", [{"lose": 40}, {"shift": 20}], ids=str)
def test_mistakes_in_decode_are_beyond_the_limit(mistake):
    found = logprob_kl(decode(qwen3(torch.float32), **mistake), reference()[:, -STEPS:])
    print(mistake, found)
    assert found.mean > LIMITS[torch.bfloat16]
