"""The schedulers of transformers' continuous-batching engine keep to the order they promise.

First come, first served, by what each batch held; prefill first, where a prompt that was cut into
chunks is finished before others go on; cancelled requests give their place up; nobody starves.
True priorities (a number per request) exist in no scheduler of transformers: they are missing here
until a second engine joins the table.

Teeth: the order is read from the batches themselves, and the two schedulers must differ on the same
load.
"""

from __future__ import annotations

import pytest
from engine import batching, collect, counted, greedy, held, prompt
from tiny_models import qwen3
from transformers import ContinuousBatchingManager

from hwmatrix import register_amd_ci, register_cpu_ci, register_cuda_ci, register_xpu_ci

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
CAN_PAUSE = hasattr(ContinuousBatchingManager, "pause")
needs_pause = pytest.mark.skipif(
    not CAN_PAUSE, reason="this transformers cannot hold its engine while requests come in"
)
both_schedulers = pytest.mark.parametrize("scheduler", ["fifo", "prefill_first"])


@pytest.fixture(scope="module")
def model():
    return qwen3(attention="sdpa")


def serve(model, words: dict[str, list[int]], scheduler: str, *, cancel: str = "", **config):
    """Return the outputs in the order of finishing, and for each batch the requests in it."""
    from transformers.generation.continuous_batching import scheduler as module

    kind = module.SCHEDULER_MAPPING[scheduler]
    wanted = set(words) - {cancel}
    with counted(kind, "schedule_batch") as calls:
        manager_settings = {"max_batch_tokens": 64, "use_async_batching": False, **config}
        with batching(
            model, new_tokens=NEW, scheduler_type=scheduler, **manager_settings
        ) as manager:
            with held(manager):
                for name, ids in words.items():
                    manager.add_request(ids, request_id=name)
                if cancel:
                    manager.cancel_request(cancel)
            done = collect(manager, wanted)
    batches = [
        [(future.state.request_id, future.query_length) for future in result[0]]
        for _, result in calls
        if result[0]
    ]
    return done, batches


def first_seen(batches) -> list[str]:
    order: list[str] = []
    for batch in batches:
        order += [name for name, _ in batch if name not in order]
    return order


@both_schedulers
def test_requests_begin_in_the_order_in_which_they_came(model, scheduler):
    words = {f"r{at}": prompt(50, at) for at in range(6)}
    done, batches = serve(model, words, scheduler)
    assert first_seen(batches) == list(words)
    assert first_seen(batches) != sorted(words, reverse=True)
    assert list(done) == list(words), "equals finish in the order in which they began"


@both_schedulers
def test_nobody_starves_behind_a_long_prompt(model, scheduler):
    words = {"long": prompt(400, 1), **{f"s{at}": prompt(10, 10 + at) for at in range(4)}}
    done, _ = serve(model, words, scheduler)
    assert set(done) == set(words)
    for name, output in done.items():
        assert output.generated_tokens == greedy(model, words[name], NEW), name


@needs_pause
def test_the_schedulers_differ_where_a_prompt_was_cut(model):
    # "a" decodes when the long prompt, cut into chunks of what is left of 64, goes on.
    words = {"a": prompt(10, 1), "long": prompt(300, 2)}
    shares = {}
    for scheduler in ("fifo", "prefill_first"):
        _, batches = serve(model, words, scheduler)
        mixed = [dict(batch) for batch in batches[1:] if "long" in dict(batch)]
        chunks = [batch for batch in mixed if batch["long"] > 1]
        shares[scheduler] = [(batch.get("a", 0), batch["long"]) for batch in chunks[:3]]
    # First come, first served: decoding keeps its place and the chunk takes the other 63 tokens.
    assert all(share == (1, 63) for share in shares["fifo"])
    # Prefill first: the chunk takes the whole batch.
    assert all(share == (0, 64) for share in shares["prefill_first"])


@both_schedulers
def test_no_batch_is_larger_than_its_limit(model, scheduler):
    words = {f"r{at}": prompt(length, at) for at, length in enumerate((90, 5, 70, 33, 64, 1))}
    done, batches = serve(model, words, scheduler)
    sizes = [sum(length for _, length in batch) for batch in batches]
    assert max(sizes) <= 64
    assert max(sizes) > 32, "batches are filled"
    assert len(done) == len(words)


@needs_pause
@both_schedulers
def test_a_cancelled_request_gives_its_place_up(model, scheduler):
    words = {f"r{at}": prompt(60, at) for at in range(4)}
    done, batches = serve(model, words, scheduler, cancel="r1")
    assert list(done) == ["r0", "r2", "r3"]
    assert "r1" not in first_seen(batches)
    for name, output in done.items():
        assert output.generated_tokens == greedy(model, words[name], NEW), name
