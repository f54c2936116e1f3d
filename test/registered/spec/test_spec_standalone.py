"""Speculative decoding gives greedy decoding's tokens, and really accepts drafts.

Drafts come from a model of its own or from n-grams of the prompt. Equality alone proves little: an
engine that rejects every draft gives the same tokens. So accepted drafts are counted, and the
number of the large model's forward passes with them.

Teeth: a good draft model is accepted and saves passes, a random one is hardly accepted and still
gives the right tokens; a broken verifier, which takes drafts as they come, gives other tokens and
is noticed.
"""

from __future__ import annotations

import contextlib

import pytest
import torch
from engine import greedy, prompt
from platform_facts import DEVICE, PLATFORM, why_no_attention
from tiny_models import qwen3

from hwmatrix import register_amd_ci, register_cpu_ci, register_cuda_ci
from hwmatrix.kit import record_measurement

register_cpu_ci(
    30,
    suite="stage-b-test-cpu",
)
register_cuda_ci(
    35,
    suite="extra-a-test-1-gpu-large",
)
# amd: copied from cuda, never measured there.
register_amd_ci(
    35,
    suite="extra-a-test-1-gpu-large-amd",
)

NEW, DRAFT = 48, 4


def attention_cases():
    for name in PLATFORM.attention:
        if name == "flex_attention":
            continue  # each draft length compiles anew
        why = why_no_attention(name, decode=True)
        yield pytest.param(name, marks=[pytest.mark.skip(reason=why)] if why else [])


every_attention = pytest.mark.parametrize("attention", list(attention_cases()))


def draft_model(attention: str, noise: float):
    """Return a copy of the large model with noise on its weights: from a twin to a stranger."""
    model = qwen3(attention=attention)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            drawn = torch.randn(parameter.shape, generator=generator) * noise
            parameter.add_(drawn.to(parameter))
    model.generation_config.num_assistant_tokens = DRAFT
    model.generation_config.num_assistant_tokens_schedule = "constant"
    model.generation_config.assistant_confidence_threshold = 0.0
    return model


def forgetful(attention: str = "sdpa"):
    """Return a model that sees the last token alone: its greedy text falls into a cycle."""
    model = qwen3(attention=attention)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
    return model


@contextlib.contextmanager
def accepted():
    """Keep how many drafts each round accepted, whatever they came from."""
    from transformers.generation import candidate_generator as module

    counts: list[int] = []
    kinds = (module.AssistedCandidateGenerator, module.PromptLookupCandidateGenerator)
    originals = [kind.update_candidate_strategy for kind in kinds]

    def spy_on(original):
        def spy(self, input_ids, scores, num_matches):
            counts.append(int(num_matches))
            return original(self, input_ids, scores, num_matches)

        return spy

    for kind, original in zip(kinds, originals, strict=True):
        kind.update_candidate_strategy = spy_on(original)
    try:
        yield counts
    finally:
        for kind, original in zip(kinds, originals, strict=True):
            kind.update_candidate_strategy = original


def speculate(model, words: list[int], new: int = NEW, **how: object) -> tuple[list[int], int]:
    """Return the new tokens and the number of forward passes of the large model."""
    passes = []
    hook = model.register_forward_hook(lambda *_: passes.append(1))
    try:
        ids = torch.tensor([words], device=DEVICE)
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=new,
            do_sample=False,
            pad_token_id=0,
            **how,
        )
    finally:
        hook.remove()
    return out[0, len(words) :].tolist(), len(passes)


@every_attention
def test_a_twin_as_draft_is_accepted_and_saves_passes(attention):
    model, words = qwen3(attention=attention), prompt(40, 1)
    with accepted() as counts:
        found, passes = speculate(model, words, assistant_model=draft_model(attention, 0.0))
    record_measurement(f"accepted drafts twin {attention}", sum(counts), better="higher")
    assert found == greedy(model, words, NEW)
    assert sum(counts) >= 0.7 * NEW
    assert passes <= NEW / 2


@every_attention
@pytest.mark.parametrize("noise", [0.002, 1.0], ids=["relative", "stranger"])
def test_any_draft_model_gives_the_greedy_tokens(attention, noise):
    model, words = qwen3(attention=attention), prompt(40, 1)
    with accepted() as counts:
        found, _ = speculate(model, words, assistant_model=draft_model(attention, noise))
    record_measurement(f"accepted drafts noise {noise} {attention}", sum(counts), better="higher")
    assert found == greedy(model, words, NEW)
    if noise == 1.0:
        assert sum(counts) <= 0.2 * NEW, "the negative control of the count"
    else:
        assert sum(counts) >= 4


@every_attention
def test_n_grams_of_a_text_that_repeats_are_accepted(attention):
    model, words = forgetful(attention), prompt(40, 2)
    expected = greedy(model, words, 200)
    assert len(set(expected[-100:])) < 100, "the text repeats"
    with accepted() as counts:
        found, passes = speculate(model, words, 200, prompt_lookup_num_tokens=DRAFT)
    record_measurement(f"accepted n-gram drafts {attention}", sum(counts), better="higher")
    assert found == expected
    assert sum(counts) >= 60
    assert passes <= 140


def test_n_grams_of_a_text_that_does_not_repeat_are_rejected():
    model, words = qwen3(attention="sdpa"), prompt(40, 1)
    with accepted() as counts:
        found, _ = speculate(model, words * 2, prompt_lookup_num_tokens=DRAFT)
    assert found == greedy(model, words * 2, NEW)
    assert sum(counts) <= 0.2 * NEW


def test_a_verifier_that_takes_every_draft_is_noticed():
    # The stranger's own text is what an engine without verification would give out.
    model, words = qwen3(attention="sdpa"), prompt(40, 1)
    unverified = greedy(draft_model("sdpa", 1.0), words, NEW)
    assert unverified != greedy(model, words, NEW)
