"""A key-value cache in pages gives the attention of a contiguous one, whatever the page order.

The cache is torch's own `PagedAttention` under flex attention, with pages handed out to three
sequences of different length in turn, so that no sequence lies in one piece; and, beside it, the
plain gather and scatter that other engines use on the same page table.

Bound: both sides run in float32 over the same numbers and differ in the order of the sums alone:
2 v (2 s D + 2 N) u32, with v the largest value, s the largest score, D the head dimension and N
the number of keys.

Teeth: swapping two entries of a page table, reading one token past a sequence's end, and writing
to the page of a neighbour each break the bound or the bit-equality.
"""

from __future__ import annotations

import itertools
import math
import unittest

import pytest
import torch
from platform_facts import DEVICE, draw, roundoff
from torch.nn.attention.experimental._paged_attention import PagedAttention
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

from hwmatrix import register_amd_ci, register_cpu_ci, register_cuda_ci, register_xpu_ci

register_cpu_ci(10, suite="stage-b-test-cpu")
register_cuda_ci(18, suite="stage-b-test-1-gpu-small")
# amd and xpu: copied from cuda, never measured there.
register_amd_ci(18, suite="stage-b-test-1-gpu-small-amd")
register_xpu_ci(18, suite="stage-b-test-1-gpu-xpu")

pytestmark = pytest.mark.filterwarnings(
    # Compiling is not what is tested here, and costs 40 s.
    "ignore:flex_attention called without torch.compile"
)

HEADS, DIM, PAGE, PAGES = 2, 32, 128, 16
LENGTHS = (300, 129, 500)
LONGEST = 512


def keys_and_values():
    shape = (len(LENGTHS), HEADS, LONGEST, DIM)
    return draw(*shape, seed=51, dtype=torch.float32), draw(*shape, seed=52, dtype=torch.float32)


class Cache:
    """Torch's page table with pools for keys and values, filled page by page in turn."""

    def __init__(self) -> None:
        self.table = PagedAttention(PAGES, PAGE, len(LENGTHS), device=DEVICE)
        shape = (1, HEADS, PAGES * PAGE, DIM)
        self.keys, self.values = (torch.full(shape, math.nan, device=DEVICE) for _ in range(2))
        k, v = keys_and_values()
        for start in range(0, LONGEST, PAGE):
            for sequence, length in enumerate(LENGTHS):
                stop = min(start + PAGE, length)
                if start < stop:
                    self.write(
                        sequence, start, k[sequence, :, start:stop], v[sequence, :, start:stop]
                    )

    def write(self, sequence: int, start: int, k: torch.Tensor, v: torch.Tensor) -> None:
        stop = start + k.shape[1]
        at = torch.tensor([sequence], device=DEVICE)
        self.table.reserve(at[0], torch.tensor(stop, device=DEVICE))
        places = torch.arange(start, stop, device=DEVICE)[None]
        self.table.assign(at, places, k[None], v[None], self.keys, self.values)

    def gather(self, pool: torch.Tensor, sequence: int, length: int) -> torch.Tensor:
        """Return the first `length` tokens in order: (heads, length, dim)."""
        places = torch.arange(length, device=DEVICE)
        pages = self.table.page_table[sequence, places // PAGE]
        return pool[0, :, pages * PAGE + places % PAGE]

    def attend(self, q: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Decode with flex attention over the pages; q is (sequences, heads, 1, dim)."""

        def within(b, _h, _q, kv):
            return kv < lengths[b]

        logical = create_block_mask(
            within, len(LENGTHS), None, 1, LONGEST, device=DEVICE, BLOCK_SIZE=(1, PAGE)
        )
        physical = self.table.convert_logical_block_mask(logical)
        # Untouched memory holds NaN: a masked NaN still poisons a product with weight zero.
        keys, values = (pool.nan_to_num(0.0) for pool in (self.keys, self.values))
        shape = (len(LENGTHS), -1, -1, -1)
        return flex_attention(q, keys.expand(shape), values.expand(shape), block_mask=physical)


def contiguous(q: torch.Tensor, sequence: int, length: int) -> torch.Tensor:
    k, v = keys_and_values()
    k, v = k[sequence, :, :length], v[sequence, :, :length]
    return scaled_dot_product_attention(q[sequence], k, v)


def bound(q: torch.Tensor) -> float:
    k, v = keys_and_values()
    score = (q @ k.transpose(-1, -2)).abs().max().item() / math.sqrt(DIM)
    sums = 2 * score * DIM + 2 * LONGEST
    return 2 * v.abs().max().item() * sums * roundoff(torch.float32)


def query() -> torch.Tensor:
    return draw(len(LENGTHS), HEADS, 1, DIM, seed=53, dtype=torch.float32)


def off(actual: torch.Tensor, q: torch.Tensor) -> float:
    return max(
        (actual[i] - contiguous(q, i, length)).abs().max().item()
        for i, length in enumerate(LENGTHS)
    )


class TestPages(unittest.TestCase):
    """Gather and scatter through the page table, compared bit by bit."""

    def test_pages_of_a_sequence_are_scattered(self) -> None:
        pages = Cache().table.page_table[2, :4].tolist()
        steps = {after - before for before, after in itertools.pairwise(pages)}
        self.assertNotIn(steps, [{1}, {-1}])

    def test_gather_gives_back_what_was_written(self) -> None:
        cache = Cache()
        k, v = keys_and_values()
        for i, length in enumerate(LENGTHS):
            self.assertTrue(torch.equal(cache.gather(cache.keys, i, length), k[i, :, :length]))
            self.assertTrue(torch.equal(cache.gather(cache.values, i, length), v[i, :, :length]))

    def test_one_token_past_the_end_was_never_written(self) -> None:
        cache = Cache()
        past = cache.gather(cache.keys, 0, LENGTHS[0] + 1)[:, -1]
        self.assertTrue(bool(past.isnan().all()))

    def test_appending_a_token_moves_nothing_else(self) -> None:
        cache = Cache()
        before = [cache.gather(cache.keys, i, n).clone() for i, n in enumerate(LENGTHS)]
        token = draw(2, HEADS, 1, DIM, seed=54, dtype=torch.float32)
        cache.write(1, LENGTHS[1], token[0], token[1])
        for i, (length, old) in enumerate(zip(LENGTHS, before, strict=True)):
            self.assertTrue(torch.equal(cache.gather(cache.keys, i, length), old))
        self.assertTrue(torch.equal(cache.gather(cache.keys, 1, LENGTHS[1] + 1)[:, -1:], token[0]))

    def test_erased_pages_serve_the_next_sequence(self) -> None:
        cache = Cache()
        free = len(cache.table.empty_pages)
        held = set(cache.table.page_table[0, :3].tolist())
        cache.table.erase(torch.tensor([0], device=DEVICE))
        self.assertEqual(len(cache.table.empty_pages), free + 3)
        token = draw(2, HEADS, 1, DIM, seed=55, dtype=torch.float32)
        cache.write(0, 0, token[0], token[1])
        self.assertIn(cache.table.page_table[0, 0].item(), held)

    def test_a_full_pool_refuses(self) -> None:
        cache = Cache()
        with self.assertRaisesRegex((AssertionError, RuntimeError), "empty pages"):
            cache.table.reserve(
                torch.tensor(0, device=DEVICE), torch.tensor(PAGES * PAGE, device=DEVICE)
            )


def test_decode_over_pages_equals_contiguous():
    q = query()
    actual = Cache().attend(q, torch.tensor(LENGTHS, device=DEVICE))
    assert off(actual, q) <= bound(q)


def test_swapped_pages_are_noticed():
    cache = Cache()
    first = cache.table.page_table[0, 0].clone()
    second = cache.table.page_table[2, 0].clone()
    cache.table.page_table[0, 0], cache.table.page_table[2, 0] = second, first
    k, _ = keys_and_values()
    assert not torch.equal(cache.gather(cache.keys, 0, LENGTHS[0]), k[0, :, : LENGTHS[0]])


def test_a_length_off_by_one_is_noticed():
    q = query()
    actual = Cache().attend(q, torch.tensor([n - 1 for n in LENGTHS], device=DEVICE))
    assert off(actual, q) > bound(q)


def test_writing_to_a_neighbours_page_is_noticed():
    q = query()
    cache = Cache()
    token = 3 * draw(2, HEADS, 1, DIM, seed=56, dtype=torch.float32)
    cache.write(0, 100, token[0], token[1])
    actual = cache.attend(q, torch.tensor(LENGTHS, device=DEVICE))
    assert off(actual, q) > bound(q)
