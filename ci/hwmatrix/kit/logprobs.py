"""Kullback-Leibler divergence between two engines' log-probabilities, and the check of a limit.

Two forms of input, both computed in float64:

- whole vocabulary: tensors (..., vocabulary) of log-probabilities or logits, normalised here;
- top k: for each position a mapping of token to log-probability, as serving engines return. Tokens
  that both sides list are compared one by one and the rest as one lump: by the data-processing
  inequality that is a lower bound of the divergence, and tight while the lump is small.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hwmatrix.kit.measure import record_measurement

if TYPE_CHECKING:
    from typing_extensions import Self


class Tensor(Protocol):
    """The methods of a torch tensor that are used here."""

    @property
    def shape(self) -> Sequence[int]:
        """Return the sizes."""

    def __sub__(self, other: Self) -> Self:
        """Return the difference."""

    def __mul__(self, other: Self) -> Self:
        """Return the product."""

    def detach(self) -> Self:
        """Return the values without their history."""

    def cpu(self) -> Self:
        """Return the values on the host."""

    def double(self) -> Self:
        """Return the values in float64."""

    def exp(self) -> Self:
        """Return e to the power of each value."""

    def sum(self, dim: int) -> Self:
        """Return the sum over a dimension."""

    def log_softmax(self, dim: int) -> Self:
        """Return normalised logarithms."""

    def flatten(self) -> Self:
        """Return one dimension."""

    def masked_fill(self, mask: Self, value: float) -> Self:
        """Return the values, with `value` where `mask` is true."""

    def __eq__(self, other: object) -> Self:  # type: ignore[override] # torch compares by element
        """Return where the values are equal."""

    def __hash__(self) -> int:
        """Tensors hash by identity."""

    def tolist(self) -> list[float]:
        """Return plain numbers."""


Rows = Sequence[Mapping[int, float]]
# At least this share of the reference's probability must lie on tokens that both sides list:
# below it the lump hides too much for the bound to mean anything.
LEAST_SHARED = 0.5


@dataclass(frozen=True)
class Divergence:
    """KL(reference || actual) in nats: mean, the largest, and where that is (an index)."""

    mean: float
    worst: float
    worst_at: tuple[int, ...]
    positions: int

    def __str__(self) -> str:
        """Return the figures with the place of the worst position."""
        at = ", ".join(str(index) for index in self.worst_at)
        return (
            f"mean KL {self.mean:.4g} over {self.positions} positions, "
            f"worst {self.worst:.4g} at position ({at})"
        )


def logprob_kl(actual: Tensor | Rows, reference: Tensor | Rows) -> Divergence:
    """Return KL(reference || actual), averaged over positions.

    Raises:
        ValueError: the two differ in shape or length, are empty, or share too little.
        TypeError: one is a tensor and the other a list of rows.
    """
    if isinstance(actual, Sequence) and isinstance(reference, Sequence):
        values = _by_rows(actual, reference)
        shape: Sequence[int] = (len(values),)
    elif isinstance(actual, Sequence) or isinstance(reference, Sequence):
        raise TypeError("one side is a tensor, the other a list of top-k rows; give both alike")
    else:
        values, shape = _by_tensors(actual, reference)
    if not values:
        raise ValueError("no position to compare")
    worst = max(range(len(values)), key=lambda i: math.inf if values[i] != values[i] else values[i])
    return Divergence(
        mean=math.fsum(values) / len(values),
        worst=values[worst],
        worst_at=_place(worst, shape),
        positions=len(values),
    )


def assert_logprob_kl(
    actual: Tensor | Rows,
    reference: Tensor | Rows,
    max_kl: float = 5e-3,
    *,
    name: str = "logprob KL",
) -> Divergence:
    """Return the divergence if its mean is at most `max_kl`; it is recorded either way.

    Raises:
        AssertionError: the mean is above `max_kl` or not a number; says where the worst one is.
        ValueError: the two cannot be compared.
    """
    found = logprob_kl(actual, reference)
    record_measurement(name, found.mean, limit=max_kl, unit="nats")
    if not found.mean <= max_kl:  # also true for NaN
        message = f"{name}: {found}; allowed: mean of at most {max_kl:.4g}"
        raise AssertionError(message)
    return found


def _by_tensors(actual: Tensor, reference: Tensor) -> tuple[list[float], Sequence[int]]:
    if tuple(actual.shape) != tuple(reference.shape):
        message = f"shapes differ: actual {tuple(actual.shape)}, reference {tuple(reference.shape)}"
        raise ValueError(message)
    p, q = (t.detach().cpu().double().log_softmax(-1) for t in (reference, actual))
    weights = p.exp()
    # 0 log 0 is 0: tokens that the reference rules out count nothing, whatever the other says.
    terms = (weights * (p - q)).masked_fill(weights == 0, 0.0)
    return terms.sum(-1).flatten().tolist(), tuple(reference.shape)[:-1]


def _by_rows(actual: Rows, reference: Rows) -> list[float]:
    if len(actual) != len(reference):
        message = f"lengths differ: actual {len(actual)}, reference {len(reference)} positions"
        raise ValueError(message)
    return [_row(at, a, r) for at, (a, r) in enumerate(zip(actual, reference, strict=True))]


def _row(at: int, actual: Mapping[int, float], reference: Mapping[int, float]) -> float:
    shared = sorted(actual.keys() & reference.keys())
    p = [math.exp(reference[token]) for token in shared]
    if math.fsum(p) < LEAST_SHARED:
        message = (
            f"position {at}: tokens listed on both sides hold {math.fsum(p):.3g} of the "
            f"reference's probability; at least {LEAST_SHARED} is needed. Ask for a larger k."
        )
        raise ValueError(message)
    total = math.fsum(
        mass * (reference[token] - actual[token]) for mass, token in zip(p, shared, strict=True)
    )
    p_rest = max(0.0, 1.0 - math.fsum(p))
    q_rest = max(0.0, 1.0 - math.fsum(math.exp(actual[token]) for token in shared))
    if p_rest <= _ROUNDING:
        return total
    return math.inf if q_rest == 0.0 else total + p_rest * math.log(p_rest / q_rest)


_ROUNDING = 1e-6  # what is left of 1 after engines print log-probabilities in float32


def _place(index: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the index of element `index` in row-major order."""
    place: list[int] = []
    for size in reversed(tuple(shape)):
        index, rest = divmod(index, size)
        place.insert(0, rest)
    return tuple(place)
