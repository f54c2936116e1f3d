"""Random state can be saved, restored, forked and split, and says so bit for bit.

Reproducing a failure on another day needs exactly this: the same seed gives the same numbers, a
state saved in the middle goes on where it was, and one stream never moves another.

Teeth: every equality stands beside the inequality of another seed, an unrestored state or the next
draw, so that a generator which always returns the same numbers fails too.
"""

from __future__ import annotations

import math
import unittest

import pytest
import torch
from platform_facts import BACKEND, DEVICE
from torch.nn.functional import dropout

from hwmatrix import (
    register_amd_ci,
    register_cpu_ci,
    register_cuda_ci,
    register_xpu_ci,
    skip_on,
)

register_cpu_ci(8, suite="stage-b-test-cpu")
register_cuda_ci(10, suite="stage-b-test-1-gpu-small")
# amd and xpu: copied from cuda, never measured there.
register_amd_ci(10, suite="stage-b-test-1-gpu-small-amd")
register_xpu_ci(10, suite="stage-b-test-1-gpu-xpu")

SIZE = 1 << 18


def uniform(generator: torch.Generator, out: torch.Tensor) -> torch.Tensor:
    return out.uniform_(generator=generator)


def normal(generator: torch.Generator, out: torch.Tensor) -> torch.Tensor:
    return out.normal_(generator=generator)


def exponential(generator: torch.Generator, out: torch.Tensor) -> torch.Tensor:
    return out.exponential_(generator=generator)


def bernoulli(generator: torch.Generator, out: torch.Tensor) -> torch.Tensor:
    return out.bernoulli_(0.3, generator=generator)


# Mean, standard deviation and fourth central moment of each, for the test of its moments.
SAMPLERS = {
    uniform: (0.5, math.sqrt(1 / 12), 1 / 80),
    normal: (0.0, 1.0, 3.0),
    exponential: (1.0, 1.0, 9.0),
    bernoulli: (0.3, math.sqrt(0.21), 0.21 * (1 - 3 * 0.21)),
}
every_sampler = pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda f: f.__name__)


def take(sampler, generator: torch.Generator, size: int = SIZE) -> torch.Tensor:
    return sampler(generator, torch.empty(size, device=DEVICE))


@every_sampler
def test_a_seed_repeats_and_another_differs(sampler):
    first, again, other = (take(sampler, torch.Generator(DEVICE).manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@every_sampler
def test_a_saved_state_goes_on_where_it_was(sampler):
    generator = torch.Generator(DEVICE).manual_seed(3)
    begin = take(sampler, generator, 1000)
    state = generator.get_state()
    wanted = take(sampler, generator)
    fresh = torch.Generator(DEVICE)
    fresh.set_state(state)
    assert torch.equal(take(sampler, fresh), wanted)
    assert not torch.equal(wanted[:1000], begin)


@every_sampler
def test_moments_are_those_of_the_distribution(sampler):
    # Six standard errors: of the mean sd / sqrt(n), of the variance sqrt((m4 - sd^4) / n).
    mean, deviation, fourth = SAMPLERS[sampler]
    drawn = take(sampler, torch.Generator(DEVICE).manual_seed(4)).double()
    assert abs(drawn.mean().item() - mean) <= 6 * deviation / math.sqrt(SIZE)
    spread = math.sqrt(max(fourth - deviation**4, 0.0) / SIZE)
    assert abs(drawn.var().item() - deviation**2) <= 6 * spread + 1e-9
    assert abs((drawn * 1.05).var().item() - deviation**2) > 6 * spread


@every_sampler
def test_neighbours_are_uncorrelated(sampler):
    drawn = take(sampler, torch.Generator(DEVICE).manual_seed(5)).double()
    drawn = (drawn - drawn.mean()) / drawn.std()
    for lag in (1, 2, 32, 128, 1024):
        correlation = (drawn[lag:] * drawn[:-lag]).mean().item()
        assert abs(correlation) <= 6 / math.sqrt(SIZE - lag), lag
    smooth = (drawn[1:] + drawn[:-1]) / math.sqrt(2)
    assert (smooth[1:] * smooth[:-1]).mean().item() > 6 / math.sqrt(SIZE)


class TestGlobalState(unittest.TestCase):
    """`manual_seed`, `fork_rng` and what moves which stream."""

    def test_a_fork_leaves_no_trace(self) -> None:
        torch.manual_seed(6)
        wanted = torch.rand(8, device=DEVICE)
        torch.manual_seed(6)
        devices = [] if DEVICE == "cpu" else [0]
        with torch.random.fork_rng(
            devices=devices, device_type="cuda" if DEVICE == "cpu" else DEVICE
        ):
            torch.manual_seed(7)
            inside = torch.rand(8, device=DEVICE)
        self.assertTrue(torch.equal(torch.rand(8, device=DEVICE), wanted))
        self.assertFalse(torch.equal(inside, wanted))

    def test_an_own_generator_does_not_move_the_global_one(self) -> None:
        torch.manual_seed(8)
        wanted = torch.rand(8, device=DEVICE)
        torch.manual_seed(8)
        torch.rand(1000, device=DEVICE, generator=torch.Generator(DEVICE).manual_seed(9))
        self.assertTrue(torch.equal(torch.rand(8, device=DEVICE), wanted))

    @skip_on("cpu", reason="host and device share one generator")
    def test_host_draws_do_not_move_the_device(self) -> None:
        torch.manual_seed(10)
        wanted = torch.rand(8, device=DEVICE)
        torch.manual_seed(10)
        torch.rand(1000)
        self.assertTrue(torch.equal(torch.rand(8, device=DEVICE), wanted))

    def test_dropout_repeats_and_keeps_its_share(self) -> None:
        x = torch.ones(SIZE, device=DEVICE)
        torch.manual_seed(11)
        first = dropout(x, 0.25)
        torch.manual_seed(11)
        self.assertTrue(torch.equal(dropout(x, 0.25), first))
        self.assertFalse(torch.equal(dropout(x, 0.25), first))
        kept = (first > 0).double().mean().item()
        self.assertLess(abs(kept - 0.75), 6 * math.sqrt(0.75 * 0.25 / SIZE))
        self.assertTrue(bool((first[first > 0] == torch.tensor(1 / 0.75, device=DEVICE)).all()))

    def test_permutations_are_whole(self) -> None:
        generator = torch.Generator(DEVICE).manual_seed(12)
        order = torch.randperm(10_000, device=DEVICE, generator=generator)
        self.assertTrue(torch.equal(order.sort().values, torch.arange(10_000, device=DEVICE)))
        fixed = (order == torch.arange(10_000, device=DEVICE)).sum().item()
        self.assertLess(fixed, 12, BACKEND)
