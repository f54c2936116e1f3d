"""A session keeps what it computed: later turns reuse it, retracting undoes, cancelling frees.

Turns go over a DynamicCache held by the caller, as chat front ends do; streaming and cancelling go
through transformers' continuous-batching engine; streaming over HTTP is in
serving/test_openai_server.py.

Teeth: each answer is held against a fresh run of the whole conversation; the number of tokens that
a turn really computed is counted, so a session that starts over passes no test; a cache that is not
cut back after a retracted turn gives another answer.
"""

from __future__ import annotations

import itertools

import pytest
import torch
from engine import batching, collect, greedy, prompt, settings
from platform_facts import DEVICE
from tiny_models import qwen3

from hwmatrix import register_amd_ci, register_cpu_ci, register_cuda_ci

register_cpu_ci(
    15,
    suite="stage-b-test-cpu",
)
register_cuda_ci(
    40,
    suite="extra-a-test-1-gpu-large",
)
# amd: copied from cuda, never measured there.
register_amd_ci(
    40,
    suite="extra-a-test-1-gpu-large-amd",
)

NEW = 12


@pytest.fixture(scope="module")
def model():
    return qwen3(attention="sdpa")


class Session:
    """A conversation over one cache; `computed` is how many tokens each forward pass took in."""

    def __init__(self, model) -> None:
        from transformers import DynamicCache

        self.model, self.tokens = model, []
        self.cache = DynamicCache(config=model.config)
        self.computed: list[int] = []

    def turn(self, words: list[int]) -> list[int]:
        self.tokens += words
        hook = self.model.model.embed_tokens.register_forward_hook(
            lambda _m, arguments, _o: self.computed.append(arguments[0].shape[1])
        )
        try:
            ids = torch.tensor([self.tokens], device=DEVICE)
            out = self.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                past_key_values=self.cache,
                generation_config=settings(NEW),
            )
        finally:
            hook.remove()
        answer = out[0, len(self.tokens) :].tolist()
        self.tokens += answer
        return answer

    def retract(self, count: int) -> None:
        """Take the last `count` tokens back, from the text and from the cache."""
        self.tokens = self.tokens[:-count]
        # The last token was given out but never taken in: it is in the text and in no cache.
        beyond = self.cache.get_seq_length() - len(self.tokens)
        if beyond > 0:
            self.cache.crop(-beyond)


def test_a_later_turn_computes_its_own_tokens_alone(model):
    session = Session(model)
    session.turn(prompt(70, 1))
    session.computed.clear()
    answer = session.turn(prompt(6, 2))
    # The last token of the first answer was given out but never taken in: 6 + 1.
    assert session.computed[0] == 7
    assert answer == greedy(model, session.tokens[:-NEW], NEW)
    assert answer != greedy(model, prompt(6, 2), NEW), "the first turn is remembered"


@pytest.mark.parametrize("pieces", [(5, 3, 40), (1, 1, 1, 1), (64, 64)], ids=str)
def test_turns_of_any_size_equal_one_fresh_run(model, pieces):
    session = Session(model)
    for seed, size in enumerate(pieces):
        answer = session.turn(prompt(size, 10 + seed))
        assert answer == greedy(model, session.tokens[:-NEW], NEW)
    assert sum(session.computed) == len(session.tokens) - 1


@pytest.mark.parametrize("count", [NEW, NEW + 5, 1])
def test_a_retracted_turn_leaves_no_trace(model, count):
    session = Session(model)
    session.turn(prompt(50, 3))
    session.turn(prompt(20, 4))
    session.retract(count)
    kept = list(session.tokens)
    session.computed.clear()
    answer = session.turn(prompt(9, 5))
    assert answer == greedy(model, kept + prompt(9, 5), NEW)
    assert session.computed[0] <= 10


def test_a_cache_that_was_not_cut_back_gives_another_answer(model):
    session = Session(model)
    session.turn(prompt(50, 3))
    session.turn(prompt(20, 4))
    stale, kept = session.cache.get_seq_length(), session.tokens[:40]
    ids = torch.tensor([prompt(9, 5)], device=DEVICE)
    with torch.inference_mode():
        mixed = model(ids, past_key_values=session.cache).logits[0, -1].argmax().item()
    assert stale > len(kept)
    assert mixed != greedy(model, kept + prompt(9, 5), 1)[0]


@pytest.mark.parametrize("page", [4, 16, 128])
def test_streamed_tokens_come_one_by_one_and_are_the_answer(model, page):
    words = prompt(70, 6)
    with batching(model, new_tokens=NEW, page_size=page) as manager:
        manager.add_request(words, request_id="a", streaming=True)
        seen = [list(output.generated_tokens) for output in manager.request_id_iter("a")]
    assert [len(tokens) for tokens in seen] == list(range(1, NEW + 1))
    assert all(longer[: len(part)] == part for part, longer in itertools.pairwise(seen))
    assert seen[-1] == greedy(model, words, NEW)


def test_mixed_chunks_of_prefill_and_decode_do_not_disturb_each_other(model):
    # 40 tokens a batch: the long prompts are cut into chunks that share batches with decoding.
    words = {f"r{seed}": prompt(length, seed) for seed, length in enumerate((90, 7, 130, 33, 61))}
    with batching(model, new_tokens=NEW, max_batch_tokens=40) as manager:
        for name, ids in words.items():
            manager.add_request(ids, request_id=name)
        done = collect(manager, set(words))
    for name, ids in words.items():
        assert done[name].generated_tokens == greedy(model, ids, NEW), name


def test_a_cancelled_request_ends_and_the_next_is_right(model):
    words = prompt(60, 8)
    with batching(model, new_tokens=400, max_batch_tokens=64) as manager:
        manager.add_request(words, request_id="long", streaming=True, max_new_tokens=400)
        first = next(iter(manager.request_id_iter("long")))
        assert not first.is_finished()
        manager.cancel_request("long")
        manager.add_request(prompt(30, 9), request_id="next", max_new_tokens=NEW)
        done = collect(manager, {"next"})
    assert done["next"].generated_tokens == greedy(model, prompt(30, 9), NEW)
    assert "long" not in done, "a cancelled request has no final output"
