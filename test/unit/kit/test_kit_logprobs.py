from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix.kit import assert_logprob_kl, logprob_kl, measure

if TYPE_CHECKING:
    from collections.abc import Iterator

Sink = list[tuple[str, Any]]
torch = pytest.importorskip("torch", reason="the kit measures tensors, hwmatrix brings none")


@pytest.fixture(autouse=True)
def sink() -> Iterator[Sink]:
    found: Sink = []
    measure.begin(found.append)
    yield found
    measure.end()


def logits(seed: int = 0) -> Any:
    return torch.randn(3, 5, 50, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_hand(actual: Any, reference: Any) -> float:
    total, count = 0.0, 0
    for a, r in zip(
        actual.reshape(-1, 50).tolist(), reference.reshape(-1, 50).tolist(), strict=True
    ):
        za, zr = (math.log(math.fsum(map(math.exp, row))) for row in (a, r))
        total += math.fsum(
            math.exp(y - zr) * ((y - zr) - (x - za)) for x, y in zip(a, r, strict=True)
        )
        count += 1
    return total / count


def test_it_is_the_sum_written_out_with_the_reference_first() -> None:
    found = logprob_kl(logits(1), logits(2))
    assert found.mean == pytest.approx(by_hand(logits(1), logits(2)), rel=1e-12)
    assert found.mean != pytest.approx(by_hand(logits(2), logits(1)), rel=1e-3)
    assert found.positions == 15


def test_logits_and_log_probabilities_of_any_float_are_alike() -> None:
    exact = logprob_kl(logits(1), logits(2)).mean
    assert logprob_kl(logits(1).log_softmax(-1), logits(2) + 3).mean == pytest.approx(exact)
    assert logprob_kl(logits(1).float(), logits(2)).mean == pytest.approx(exact, rel=1e-5)


def test_within_the_limit_it_passes_and_is_recorded(sink: Sink) -> None:
    found = assert_logprob_kl(logits(1) + 1e-3 * logits(3), logits(1), name="KL of lora")
    assert 0 < found.mean < 1e-5
    assert sink[0][1]["name"] == "KL of lora"
    assert sink[0][1]["limit"] == 5e-3


def test_beyond_the_limit_the_worst_position_is_named(sink: Sink) -> None:
    actual = logits(1)
    actual[2, 3] = logits(9)[0, 0]
    with pytest.raises(
        AssertionError, match=r"worst [\d.]+ at position \(2, 3\); allowed: .*0\.01"
    ):
        assert_logprob_kl(actual, logits(1), max_kl=0.01)
    assert len(sink) == 1


def test_nan_never_passes_and_is_the_worst() -> None:
    actual = logits(1)
    actual[1, 4, 7] = math.nan
    with pytest.raises(AssertionError, match=r"mean KL nan .* worst nan at position \(1, 4\)"):
        assert_logprob_kl(actual, logits(1), max_kl=1e9)


def test_a_token_that_the_reference_rules_out_counts_nothing() -> None:
    actual, reference = logits(1), logits(1)
    reference[..., 0] = -math.inf
    reference = reference.log_softmax(-1)
    assert logprob_kl(reference, reference).mean == 0
    assert logprob_kl(actual, reference).mean > 0


def test_a_token_that_only_the_reference_allows_is_infinite() -> None:
    actual = logits(1)
    actual[0, 0, 0] = -math.inf
    with pytest.raises(AssertionError, match=r"worst inf at position \(0, 0\)"):
        assert_logprob_kl(actual, logits(1))


def test_shapes_and_kinds_must_agree() -> None:
    with pytest.raises(ValueError, match=r"shapes differ: actual \(2, 5, 50\), reference \(3"):
        logprob_kl(logits(1)[:2], logits(1))
    with pytest.raises(TypeError, match="one side is a tensor"):
        logprob_kl([{0: 0.0}], logits(1))
    with pytest.raises(ValueError, match="no position to compare"):
        logprob_kl([], [])
    with pytest.raises(ValueError, match="lengths differ: actual 1, reference 2"):
        logprob_kl([{0: 0.0}], [{0: 0.0}, {0: 0.0}])


def rows(tensor: Any, k: int) -> list[dict[int, float]]:
    best = tensor.log_softmax(-1).reshape(-1, 50).topk(k)
    return [
        dict(zip(tokens, values, strict=True))
        for tokens, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]


def test_top_k_rows_bound_the_whole_from_below_and_meet_it_at_full_width() -> None:
    actual, reference = logits(1) + 0.2 * logits(3), logits(1)
    whole = logprob_kl(actual, reference)
    assert logprob_kl(rows(actual, 50), rows(reference, 50)).mean == pytest.approx(whole.mean)
    short = logprob_kl(rows(actual, 40), rows(reference, 40))
    assert 0.5 * whole.mean < short.mean <= whole.mean
    assert short.positions == 15


def test_top_k_rows_tell_near_from_far() -> None:
    near = logits(1) + 1e-3 * logits(3)
    assert_logprob_kl(rows(near, 45), rows(logits(1), 45))
    with pytest.raises(AssertionError, match=r"allowed: mean of at most 0\.005"):
        assert_logprob_kl(rows(logits(2), 45), rows(logits(1), 45))


def test_lists_that_share_too_little_are_refused() -> None:
    with pytest.raises(ValueError, match=r"position 1: .* hold 0 .*larger k"):
        logprob_kl([{1: -0.1}, {1: -0.1}], [{1: -0.1}, {2: -0.1}])


def test_no_room_for_the_rest_is_infinite() -> None:
    with pytest.raises(AssertionError, match="worst inf"):
        assert_logprob_kl([{1: 0.0}], [{1: math.log(0.9)}])
