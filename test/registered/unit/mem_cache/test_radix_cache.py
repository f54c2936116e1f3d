"""The prefix cache of transformers' engine finds what it has, and changes no token.

Blocks of tokens are known by a hash over all that came before them: a tree of prefixes. The number
of tokens found is counted at the cache itself.

Teeth: hits must be zero where they must be (first request, another prompt, a prompt that differs in
its first token, sharing switched off); tokens are compared with and without the cache.
"""

from __future__ import annotations

import pytest
from engine import PAGE, batching, collect, counted, greedy, prompt
from tiny_models import qwen3

from hwmatrix import register_amd_ci, register_cpu_ci, register_cuda_ci, register_xpu_ci
from hwmatrix.kit import record_measurement

register_cpu_ci(
    15,
    suite="stage-b-test-cpu",
)
register_cuda_ci(
    40,
    suite="stage-b-test-1-gpu-small",
)
# amd and xpu: copied from cuda, never measured there.
register_amd_ci(
    40,
    suite="stage-b-test-1-gpu-small-amd",
)
register_xpu_ci(
    40,
    suite="stage-b-test-1-gpu-xpu",
)

NEW = 8


@pytest.fixture(scope="module")
def model():
    return qwen3(attention="sdpa")


def serve(model, prompts: list[list[int]], **config):
    """Return for each prompt, one after the other: tokens found in the cache, and the answer."""
    from transformers.generation.continuous_batching import PagedAttentionCache

    found, answers = [], []
    with batching(model, new_tokens=NEW, **config) as manager:
        for at, words in enumerate(prompts):
            with counted(PagedAttentionCache, "search_prefix_match") as calls:
                manager.add_request(words, request_id=f"r{at}")
                answers.append(collect(manager, {f"r{at}"})[f"r{at}"].generated_tokens)
            found.append(max((result for _, result in calls), default=0))
    return found, answers


def test_hits_are_counted_in_whole_pages_of_the_shared_prefix(model):
    base = prompt(100, 1)
    prompts = [
        base,
        base,  # all whole pages but the last token
        base[:70] + prompt(30, 2),  # four pages of 16 in common
        base[:15] + prompt(30, 3),  # not one whole page in common
        prompt(100, 4),
    ]
    found, answers = serve(model, prompts)
    record_measurement(
        "prefix tokens found for a repeated prompt of 100", found[1], better="higher"
    )
    assert found == [0, 96, 64, 0, 0]
    assert answers == [greedy(model, words, NEW) for words in prompts]


def test_what_was_generated_is_a_prefix_too(model):
    base = prompt(2 * PAGE - 4, 5)
    answer = greedy(model, base, NEW)
    found, answers = serve(model, [base, base + answer + prompt(5, 6)])
    assert found == [0, 2 * PAGE]
    assert answers[1] == greedy(model, base + answer + prompt(5, 6), NEW)


def test_a_change_in_the_first_token_shares_nothing(model):
    base = prompt(100, 7)
    other = [base[0] ^ 1, *base[1:]]
    found, answers = serve(model, [base, other])
    assert found == [0, 0]
    assert answers[1] == greedy(model, other, NEW)
    assert answers[1] != answers[0]


def test_switched_off_it_finds_nothing_and_answers_alike(model):
    prompts = [prompt(100, 1), prompt(100, 1), prompt(100, 1)[:70] + prompt(30, 2)]
    with_cache = serve(model, prompts)
    without = serve(model, prompts, allow_block_sharing=False)
    assert sum(with_cache[0]) > 0
    assert sum(without[0]) == 0
    assert with_cache[1] == without[1]


def test_old_prefixes_make_room_for_new_ones(model):
    # 12 pages hold 192 tokens: one request of 108 and a part of another. Which prefix goes first
    # differs between versions; that the last is still there and others are not does not.
    asked = [prompt(100, seed) for seed in range(1, 7)]
    found, answers = serve(model, [*asked, asked[5], *asked[:5]], num_blocks=12)
    assert found[:6] == [0] * 6
    assert found[6] > 0
    assert min(found[7:]) == 0
    assert sum(found[7:]) <= 192
    assert answers[:6] == [greedy(model, words, NEW) for words in asked]
    assert answers[6:] == [answers[5], *answers[:5]]
