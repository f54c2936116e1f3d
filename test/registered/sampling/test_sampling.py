"""Sampling draws from the distribution that the logits describe, with every filter applied.

The reference is the distribution in float64 on the host. N draws are counted and held against it
by Pearson's chi-square at a one-in-a-million level: the limit for d degrees of freedom is
Wilson and Hilferty's d (1 - 2/(9d) + 4.753 sqrt(2/(9d)))^3. Seeds are fixed, so a run is
repeatable on its backend.

Teeth: temperature 1.05 in place of 1, a top-k off by one, top-p without the token that crosses the
threshold, and draws without replacement are each rejected by the same test
(`TestTheTestRejects`).
"""

from __future__ import annotations

import math
import unittest

import pytest
import torch
from platform_facts import DEVICE, draw
from torch.distributions import Categorical

from hwmatrix import register_amd_ci, register_cpu_ci, register_cuda_ci, register_xpu_ci

register_cpu_ci(10, suite="stage-b-test-cpu")
register_cuda_ci(10, suite="stage-b-test-1-gpu-small")
# amd and xpu: copied from cuda, never measured there.
register_amd_ci(10, suite="stage-b-test-1-gpu-small-amd")
register_xpu_ci(10, suite="stage-b-test-1-gpu-xpu")

VOCABULARY = 200
DRAWS = 120_000
Z = 4.753  # the normal quantile of 1 - 1e-6


def logits() -> torch.Tensor:
    return 1.5 * draw(VOCABULARY, seed=31, dtype=torch.float32)


def filtered(raw: torch.Tensor, *, temperature=1.0, top_k=0, top_p=1.0) -> torch.Tensor:
    """Return logits with -inf where top-k, then top-p, leave a token out (device code)."""
    scaled = raw / temperature
    if top_k:
        kept = scaled.topk(top_k).values[-1]
        scaled = scaled.masked_fill(scaled < kept, -math.inf)
    if top_p < 1:
        ordered, places = scaled.sort(descending=True)
        probabilities = ordered.softmax(-1)
        before = probabilities.cumsum(-1) - probabilities
        scaled = scaled.masked_fill(
            torch.zeros_like(scaled, dtype=torch.bool).scatter(0, places, before >= top_p),
            -math.inf,
        )
    return scaled


def reference(*, temperature=1.0, top_k=0, top_p=1.0) -> torch.Tensor:
    """Return the distribution in float64, by plain loops over a sorted list."""
    weights = [math.exp(value / temperature) for value in logits().double().cpu().tolist()]
    order = sorted(range(VOCABULARY), key=lambda i: -weights[i])
    kept = order[: top_k or VOCABULARY]
    whole = sum(weights[i] for i in kept)
    nucleus, mass = [], 0.0
    for i in kept:
        if mass / whole >= top_p:
            break
        nucleus.append(i)
        mass += weights[i]
    result = torch.zeros(VOCABULARY, dtype=torch.float64)
    for i in nucleus:
        result[i] = weights[i] / mass
    return result


def chi_square(samples: torch.Tensor, expected: torch.Tensor) -> tuple[float, float]:
    """Return the statistic and its limit; a draw of an impossible token gives infinity."""
    counts = torch.bincount(samples.cpu(), minlength=VOCABULARY).double()
    possible = expected > 0
    if counts[~possible].sum() > 0:
        return math.inf, 0.0
    wanted = expected[possible] * samples.numel()
    statistic = ((counts[possible] - wanted) ** 2 / wanted).sum().item()
    d = int(possible.sum()) - 1
    limit = d * (1 - 2 / (9 * d) + Z * math.sqrt(2 / (9 * d))) ** 3
    return statistic, limit


def multinomial(scaled: torch.Tensor, seed: int) -> torch.Tensor:
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return torch.multinomial(scaled.softmax(-1), DRAWS, replacement=True, generator=generator)


def categorical(scaled: torch.Tensor, seed: int) -> torch.Tensor:
    torch.manual_seed(seed)
    return Categorical(logits=scaled).sample((DRAWS,))


def gumbel(scaled: torch.Tensor, seed: int) -> torch.Tensor:
    """Draw by argmax(logits + Gumbel noise), in batches, as engines do on the device."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    drawn = []
    for _ in range(10):
        noise = torch.empty(DRAWS // 10, VOCABULARY, device=DEVICE)
        noise.exponential_(generator=generator)
        drawn.append((scaled.softmax(-1) / noise).argmax(-1))
    return torch.cat(drawn)


SETTINGS = (
    {},
    {"temperature": 0.7},
    {"temperature": 1.3},
    {"top_k": 20},
    {"top_p": 0.8},
    {"temperature": 0.8, "top_k": 50, "top_p": 0.9},
)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("sampler", [multinomial, categorical, gumbel])
def test_draws_follow_the_distribution(sampler, settings):
    samples = sampler(filtered(logits(), **settings), seed=41)
    statistic, limit = chi_square(samples, reference(**settings))
    assert statistic <= limit


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_filters_keep_the_tokens_of_the_reference(settings):
    kept = filtered(logits(), **settings).isfinite().cpu()
    assert torch.equal(kept, reference(**settings) > 0)


class TestTheTestRejects(unittest.TestCase):
    """Near misses that an engine could make."""

    def reject(self, wrong: torch.Tensor, **settings: float) -> None:
        statistic, limit = chi_square(multinomial(wrong, seed=42), reference(**settings))
        self.assertGreater(statistic, limit)

    def test_a_temperature_five_percent_off(self) -> None:
        self.reject(filtered(logits(), temperature=1.05))

    def test_top_k_off_by_one(self) -> None:
        self.reject(filtered(logits(), top_k=19), top_k=20)
        self.reject(filtered(logits(), top_k=21), top_k=20)

    def test_top_p_without_the_crossing_token(self) -> None:
        kept = int((reference(top_p=0.8) > 0).sum())
        self.reject(filtered(logits(), top_k=kept - 1), top_p=0.8)

    def test_draws_without_replacement(self) -> None:
        weights = logits().softmax(-1).expand(DRAWS // 100, -1)
        torch.manual_seed(43)
        wrong = torch.multinomial(weights, 100, replacement=False).flatten()
        statistic, limit = chi_square(wrong, reference())
        self.assertGreater(statistic, limit)


class TestGreedy(unittest.TestCase):
    """Greedy decoding sees the order of the logits and nothing else."""

    def test_it_ignores_temperature_shift_and_filters(self) -> None:
        rows = draw(64, VOCABULARY, seed=33, dtype=torch.float32)
        best = rows.argmax(-1)
        for other in (rows / 0.01, rows * 0.5 + 8, rows.log_softmax(-1), rows.softmax(-1)):
            self.assertTrue(torch.equal(other.argmax(-1), best))
        for row, token in zip(rows[:8], best[:8], strict=True):
            self.assertEqual(filtered(row, top_k=1).isfinite().nonzero().item(), token.item())
            self.assertEqual(filtered(row, top_p=1e-6).isfinite().nonzero().item(), token.item())

    def test_a_row_gives_the_same_token_in_any_batch(self) -> None:
        rows = draw(64, VOCABULARY, seed=34, dtype=torch.float32)
        whole = rows.argmax(-1)
        alone = torch.stack([row.argmax(-1) for row in rows])
        self.assertTrue(torch.equal(whole, alone))
        self.assertFalse(torch.equal(whole, rows.argmin(-1)))

    def test_the_same_seed_gives_the_same_draws(self) -> None:
        first, again = (multinomial(logits(), seed=44) for _ in range(2))
        self.assertTrue(torch.equal(first, again))
        self.assertFalse(torch.equal(first, multinomial(logits(), seed=45)))
