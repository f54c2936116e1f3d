"""Layers with a sliding window hold what the window sees and let go of the rest.

GPT-OSS alternates full and windowed attention. The cache of a windowed layer must stay as long as
its window however long the text grows, and give exactly the answers of a mask over the whole text.

Teeth: the full layers of the same model must keep growing; a window that is one token too short
changes the log-probabilities beyond the bound, and so does none at all.
"""

from __future__ import annotations

import pytest
import torch
from platform_facts import DEVICE
from tiny_models import gpt_oss, logprobs, tokens

from hwmatrix import register_amd_ci, register_cpu_ci, register_cuda_ci, register_xpu_ci
from hwmatrix.kit import assert_logprob_kl, logprob_kl

register_cpu_ci(
    15,
    suite="stage-b-test-cpu",
)
register_cuda_ci(
    30,
    suite="stage-b-test-1-gpu-small",
)
# amd and xpu: copied from cuda, never measured there.
register_amd_ci(
    30,
    suite="stage-b-test-1-gpu-small-amd",
)
register_xpu_ci(
    30,
    suite="stage-b-test-1-gpu-xpu",
)

WINDOW, LENGTH, MAX_KL = 32, 150, 5e-9


def decode(model, ids: torch.Tensor, first: int):
    """Return the log-probabilities of the tokens after `first` and each step's cache lengths."""
    from transformers import DynamicCache

    cache, found, lengths = DynamicCache(config=model.config), [], []
    with torch.inference_mode():
        model(ids[:, :first], past_key_values=cache)
        for at in range(first, ids.shape[1]):
            out = model(ids[:, at : at + 1], past_key_values=cache)
            found.append(out.logits.double().cpu().log_softmax(-1))
            lengths.append([layer.keys.shape[2] for layer in cache.layers])
    return torch.cat(found, 1), lengths


@pytest.fixture(scope="module")
def exact():
    return logprobs(gpt_oss(torch.float64, "cpu"), tokens(1, LENGTH, device="cpu"))


def test_windowed_layers_hold_their_window_and_full_ones_grow():
    model = gpt_oss()
    _, lengths = decode(model, tokens(1, LENGTH), 20)
    kinds = model.config.layer_types
    assert set(kinds) == {"sliding_attention", "full_attention"}
    for at, kind in enumerate(kinds):
        grown = [row[at] for row in lengths]
        if kind == "full_attention":
            assert grown == list(range(21, LENGTH + 1))
        else:
            # The window counts the token itself: one less is kept for the next step.
            assert max(grown) <= WINDOW
            assert grown[-1] >= WINDOW - 1


@pytest.mark.parametrize("first", [1, 20, 33, 100])
def test_released_entries_change_nothing(first, exact):
    actual, _ = decode(gpt_oss(), tokens(1, LENGTH), first)
    assert_logprob_kl(actual, exact[:, first:], MAX_KL, name=f"KL sliding window from {first}")


@pytest.mark.parametrize("window", [WINDOW - 1, WINDOW + 1, 512])
def test_another_window_gives_other_answers(window, exact):
    model = gpt_oss(torch.float32, "cpu")
    model.config.sliding_window = window
    for layer in model.model.layers:
        if layer.self_attn.sliding_window is not None:
            layer.self_attn.sliding_window = window
    found = logprob_kl(logprobs(model, tokens(1, LENGTH, device="cpu")), exact)
    print("window", window, found)
    assert found.mean > 1000 * MAX_KL


def test_memory_of_the_windowed_layers_stays_the_same():
    from transformers import DynamicCache

    model, sizes = gpt_oss(), []
    for length in (64, 256):
        cache = DynamicCache(config=model.config)
        with torch.inference_mode():
            model(tokens(1, length), past_key_values=cache)
        held = [layer.keys for layer in cache.layers]
        sizes.append([keys.numel() for keys in held])
        assert {keys.device.type for keys in held} == {torch.device(DEVICE).type}
    windowed, full = ([row[at] for row in sizes] for at in (0, 1))
    assert windowed[0] == windowed[1]
    assert full[1] == 4 * full[0]
