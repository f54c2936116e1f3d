"""Measured values on their way into the report of the test that measured them.

They travel as `user_properties` of pytest's TestReport, which journal, JUnit and history carry
already: one property called `hwmatrix_measurement` a value, a flat mapping of
name, value, limit, unit and better.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

from hwmatrix.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

PROPERTY = "hwmatrix_measurement"

# The stack of running tests' `user_properties.append`, kept by hwmatrix.kit.plugin; a stack since
# tests of pytest plugins run a pytest inside a test.
_sinks: list[Callable[[tuple[str, object]], None]] = []


def begin(sink: Callable[[tuple[str, object]], None]) -> None:
    """Let measurements go to `sink` until the matching `end`."""
    _sinks.append(sink)


def end() -> None:
    """Give the sink before the last `begin` back."""
    _sinks.pop()


def record_measurement(
    name: str,
    value: float,
    *,
    limit: float | None = None,
    unit: str = "",
    better: str = "lower",
) -> float:
    """Return `value` after putting it into the report of the running test.

    It judges nothing: `limit` is kept beside the value so that drift towards it shows before it is
    crossed. `better` says which way is good: `lower` or `higher`. Outside a test it only prints.

    Raises:
        UsageError: no name, another `better`, or a test runs without hwmatrix.kit.plugin, so that
            the value would be lost.
    """
    if not name.strip():
        raise UsageError("record_measurement() has no name; give one that tells the quantity.")
    if better not in {"lower", "higher"}:
        raise UsageError(f"record_measurement() has better={better!r}; allowed: lower, higher.")
    shown = f"{value:.6g}{' ' + unit if unit else ''}"
    bound = "" if limit is None else f" (limit {limit:.6g})"
    print(f"measured: {name} = {shown}{bound}")  # noqa: T201 - pytest keeps it with the test
    if _sinks:
        made = {"name": name, "value": _plain(value), "limit": limit, "unit": unit}
        _sinks[-1]((PROPERTY, {**made, "better": better}))
    elif "PYTEST_CURRENT_TEST" in os.environ:
        raise UsageError(
            f"record_measurement({name!r}) would be lost: hwmatrix.kit.plugin is not loaded. "
            "Put `pytest_plugins = ['hwmatrix.kit.plugin']` into the top conftest.py."
        )
    return value


def accuracy_gate(name: str, score: float, *, above: float, label: str = "") -> float:
    """Return `score` if it is greater than `above`; it is recorded either way.

    `label` says what the score was measured on, where that is not what the gate is named after.

    Raises:
        AssertionError: the score is not above the gate, or is no number.
    """
    full = f"{name} [{label}]" if label else name
    record_measurement(full, float(score), limit=above, better="higher")
    if not score > above:  # also true for NaN
        message = f"{full}: score {score:.4g}, which is not above the gate of {above:.4g}"
        raise AssertionError(message)
    return score


def _plain(value: float) -> float | str:
    """Return `value`, or its name where JSON has no number for it."""
    return float(value) if math.isfinite(value) else str(float(value))
