"""A real language model still knows what it knew: capitals, small sums, ordinary English.

SmolLM2-135M-Instruct through transformers, three measures with a floor each, set below what was
measured in float32 on a CPU (capitals 20 of 20, sums 17 of 24) by about three problems: enough room
for another order of rounding, far above what a broken kernel leaves.

Teeth: a model whose second layer was zeroed, and one whose attention sees no position (rotary
tables of position zero everywhere), fall below every floor.
"""

from __future__ import annotations

import math

import pytest
import smollm2
import torch
from platform_facts import DEVICE

from hwmatrix import register_amd_ci, register_cpu_ci, register_cuda_ci, register_xpu_ci
from hwmatrix.kit import accuracy_gate, record_measurement

register_cpu_ci(
    40,
    suite="stage-b-test-cpu",
)
# cuda: copied from an earlier measurement on a CPU, not measured there.
register_cuda_ci(
    120,
    suite="stage-b-test-1-gpu-small",
)
# amd and xpu: copied from cuda, never measured there.
register_amd_ci(
    120,
    suite="stage-b-test-1-gpu-small-amd",
)
register_xpu_ci(
    120,
    suite="stage-b-test-1-gpu-xpu",
)

CAPITALS = {
    "France": "Paris",
    "Japan": "Tokyo",
    "Italy": "Rome",
    "Spain": "Madrid",
    "Germany": "Berlin",
    "Egypt": "Cairo",
    "Russia": "Moscow",
    "China": "Beijing",
    "Greece": "Athens",
    "Austria": "Vienna",
    "Portugal": "Lisbon",
    "England": "London",
    "Ireland": "Dublin",
    "Cuba": "Havana",
    "Peru": "Lima",
    "Kenya": "Nairobi",
    "Thailand": "Bangkok",
    "Norway": "Oslo",
    "Poland": "Warsaw",
    "Hungary": "Budapest",
}
TEXT = (
    "The sun rises in the east and sets in the west. Water boils when it is heated and freezes "
    "when it is cold. People have always looked at the stars at night and wondered how far away "
    "they are. A good teacher explains difficult things with simple words, and a good student "
    "asks questions until everything is clear. In the morning the farmer went to the field, and "
    "in the evening he came home, tired but happy."
)
SUMS = 24
FLOORS = {torch.float32: (0.85, 0.58, 22.0), torch.bfloat16: (0.85, 0.5, 23.0)}
DTYPES = [torch.float32] if DEVICE == "cpu" else [torch.float32, torch.bfloat16]


def capitals(tokenizer, model) -> float:
    """Return the share of capitals with which the model goes on."""
    texts = [f"The capital of Sweden is Stockholm. The capital of {name} is" for name in CAPITALS]
    found = smollm2.continuations(tokenizer, model, texts, 4)
    right = [
        text.strip().startswith(capital)
        for text, capital in zip(found, CAPITALS.values(), strict=True)
    ]
    return sum(right) / len(CAPITALS)


def perplexity(tokenizer, model) -> float:
    ids = tokenizer(TEXT, return_tensors="pt").to(model.device)["input_ids"]
    with torch.inference_mode():
        found = model(ids).logits.double().log_softmax(-1)
    picked = found[0, :-1].gather(1, ids[0, 1:, None])
    return math.exp(-picked.mean().item())


@pytest.fixture(scope="module", params=DTYPES, ids=str)
def subject(request):
    return request.param, *smollm2.load(request.param)


def test_it_knows_capitals(subject):
    dtype, tokenizer, model = subject
    accuracy_gate(f"capitals {dtype}", capitals(tokenizer, model), above=FLOORS[dtype][0])


def test_it_adds_small_numbers(subject):
    dtype, tokenizer, model = subject
    score = smollm2.addition_score(tokenizer, model, SUMS)
    accuracy_gate(f"few-shot sums {dtype}", score, above=FLOORS[dtype][1])


def test_it_reads_english(subject):
    dtype, tokenizer, model = subject
    limit = FLOORS[dtype][2]
    found = record_measurement(f"perplexity {dtype}", perplexity(tokenizer, model), limit=limit)
    assert found <= limit


def break_layer(model) -> None:
    with torch.no_grad():
        model.model.layers[1].mlp.down_proj.weight.zero_()
        model.model.layers[1].self_attn.o_proj.weight.zero_()


def break_positions(model) -> None:
    original = model.model.rotary_emb.forward
    model.model.rotary_emb.forward = lambda x, position_ids: original(x, 0 * position_ids)


@pytest.mark.parametrize("broken", [break_layer, break_positions])
def test_broken_models_fall_below_the_floors(broken):
    tokenizer, model = smollm2.load()
    broken(model)
    known, added, surprise = FLOORS[torch.float32]
    found = (capitals(tokenizer, model), smollm2.addition_score(tokenizer, model, 8))
    print(broken.__name__, found)
    assert perplexity(tokenizer, model) > surprise
    assert found[0] <= known
    assert found[1] <= added
