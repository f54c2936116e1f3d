"""A key-value cache that leaves the device and comes back changes no token.

Two ways of transformers: a cache that keeps its layers on the host and brings each back in time,
and the continuous-batching engine that moves whole requests out when its pages run out. Both refuse
on a CPU, where there is nothing to move between. What runs there is the same pressure without the
host: pages run out, requests are evicted and computed again.

Teeth: the number of evictions is counted and must be zero with room enough; layers are looked at
while they are away; a layer that comes back from the host with one element changed gives another
log-probability.
"""

from __future__ import annotations

import pytest
import torch
from engine import batching, collect, counted, greedy, held, prompt, settings
from platform_facts import DEVICE
from tiny_models import qwen3

from hwmatrix import (
    register_amd_ci,
    register_cpu_ci,
    register_cuda_ci,
    register_xpu_ci,
    skip_on,
)
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

NO_DEVICE = "a CPU has no second memory to move the cache to, and transformers refuses"
NEW = 24


@pytest.fixture(scope="module")
def model():
    return qwen3(attention="sdpa")


def run_under_pressure(model, *, blocks: int, **config):
    """Return final outputs of six requests and how often one was evicted and begun again."""
    from transformers.generation.continuous_batching.requests import RequestState

    words = {f"r{seed}": prompt(60, seed) for seed in range(6)}
    with (
        counted(RequestState, "create_equivalent_initial_request") as evictions,
        batching(model, new_tokens=NEW, num_blocks=blocks, **config) as manager,
    ):
        with held(manager):
            for name, ids in words.items():
                manager.add_request(ids, request_id=name)
        done = collect(manager, set(words))
    return words, {name: output.generated_tokens for name, output in done.items()}, len(evictions)


def test_evicted_requests_are_computed_again_and_right(model):
    words, found, evictions = run_under_pressure(model, blocks=16)
    record_measurement("evictions at 16 pages of 16", evictions, better="higher")
    assert evictions > 0
    for name, ids in words.items():
        assert found[name] == greedy(model, ids, NEW), name


def test_with_room_enough_nothing_is_evicted(model):
    words, found, evictions = run_under_pressure(model, blocks=64)
    assert evictions == 0
    for name, ids in words.items():
        assert found[name] == greedy(model, ids, NEW), name


@skip_on("cpu", reason=NO_DEVICE)
def test_an_offloaded_cache_gives_the_same_tokens(model):
    from transformers import DynamicCache

    words = prompt(60, 1)
    cache = DynamicCache(config=model.config, offloading=True)
    ids = torch.tensor([words], device=DEVICE)
    mask = torch.ones_like(ids)
    out = model.generate(
        ids, attention_mask=mask, past_key_values=cache, generation_config=settings(NEW)
    )
    assert out[0, len(words) :].tolist() == greedy(model, words, NEW)
    places = [layer.keys.device.type for layer in cache.layers]
    assert "cpu" in places, "layers are away while they are not needed"


@skip_on("cpu", reason=NO_DEVICE)
def test_layers_are_bit_equal_after_the_round_trip(model):
    from transformers import DynamicCache

    ids = torch.tensor([prompt(60, 2)], device=DEVICE)
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        model(ids, past_key_values=cache)
        before = [(layer.keys.clone(), layer.values.clone()) for layer in cache.layers]
        for layer in cache.layers:
            layer.offload()
        torch.accelerator.synchronize()
        assert {layer.keys.device.type for layer in cache.layers} == {"cpu"}
        for layer in cache.layers:
            layer.prefetch()
        torch.accelerator.synchronize()
    for layer, (keys, values) in zip(cache.layers, before, strict=True):
        assert layer.keys.device == keys.device
        assert torch.equal(layer.keys, keys)
        assert torch.equal(layer.values, values)
    cache.layers[0].keys[0, 0, 0, 0] += 1
    assert not torch.equal(cache.layers[0].keys, before[0][0])


@skip_on("cpu", reason=NO_DEVICE)
def test_requests_that_were_moved_out_go_on_where_they_were(model):
    from transformers.generation.continuous_batching.offloading_manager import OffloadingManager

    with counted(OffloadingManager, "restore_scheduled_requests") as restores:
        words, found, begun_again = run_under_pressure(model, blocks=16, cpu_offload_space=0.25)
    assert restores
    record_measurement("requests begun again with a host to move to", begun_again)
    for name, ids in words.items():
        assert found[name] == greedy(model, ids, NEW), name
