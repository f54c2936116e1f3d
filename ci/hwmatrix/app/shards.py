"""Which shard this machine runs, where the engine that started it says so by variables.

| engine | variables | counts from |
|---|---|---|
| Slurm | `SLURM_ARRAY_TASK_ID`, `_COUNT`, `_MIN`, `_STEP` | the array's first index |
| Buildkite | `BUILDKITE_PARALLEL_JOB`, `_COUNT` | 0 |
| GitLab | `CI_NODE_INDEX`, `CI_NODE_TOTAL` | 1 |
| CircleCI | `CIRCLE_NODE_INDEX`, `CIRCLE_NODE_TOTAL` | 0 |

One machine in all says nothing: engines set that for jobs that are not spread at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hwmatrix.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

# Engines count in six digits at most; more is a mistake, and int() would take it.
_DIGITS = 9


@dataclass(frozen=True, slots=True)
class _Said:
    engine: str
    shard: int
    shards: int

    def __str__(self) -> str:
        return f"{self.engine} says {self.shard}/{self.shards}"


def shard_of(given: tuple[int, int] | None, env: Mapping[str, str]) -> tuple[int, int]:
    """Return (shard, shards), from 1: as `given` (`--shard`), as the engine says, or (1, 1).

    Raises:
        UsageError: variables that are no numbers or are not whole, or that contradict each other
            or `--shard`.
    """
    said = [found for found in (_slurm(env), *_counted(env)) if found]
    if given is not None:
        said.insert(0, _Said("--shard", *given))
    if not said:
        return (1, 1)
    first = said[0]
    if any((other.shard, other.shards) != (first.shard, first.shards) for other in said[1:]):
        raise UsageError(
            f"which shard is this? {', '.join(map(str, said))}. They must agree: leave --shard "
            "out, or unset the variables of the engine that does not spread this session."
        )
    return first.shard, first.shards


def _counted(env: Mapping[str, str]) -> list[_Said | None]:
    return [
        _pair(env, "Buildkite", "BUILDKITE_PARALLEL_JOB", "BUILDKITE_PARALLEL_JOB_COUNT", first=0),
        _pair(env, "GitLab", "CI_NODE_INDEX", "CI_NODE_TOTAL", first=1),
        _pair(env, "CircleCI", "CIRCLE_NODE_INDEX", "CIRCLE_NODE_TOTAL", first=0),
    ]


def _pair(
    env: Mapping[str, str], engine: str, index_name: str, count_name: str, *, first: int
) -> _Said | None:
    index, count = _number(env, index_name), _number(env, count_name)
    if count in {None, 1} and index in {None, first}:
        if index is None or count == 1:
            return None
        raise UsageError(f"{index_name} is set and {count_name} is not: set both, or neither.")
    if index is None or count is None:
        missing, there = (index_name, count_name) if index is None else (count_name, index_name)
        raise UsageError(f"{there} is set and {missing} is not: set both, or neither.")
    return _said(engine, index_name, index, first, count)


def _slurm(env: Mapping[str, str]) -> _Said | None:
    task = _number(env, "SLURM_ARRAY_TASK_ID")
    if task is None:
        return None
    count = _number(env, "SLURM_ARRAY_TASK_COUNT")
    if count is None:
        raise UsageError(
            "SLURM_ARRAY_TASK_ID is set and SLURM_ARRAY_TASK_COUNT is not: set both, or neither."
        )
    first = _number(env, "SLURM_ARRAY_TASK_MIN")
    first = 0 if first is None else first
    step = _number(env, "SLURM_ARRAY_TASK_STEP")
    step = 1 if step is None else step
    if step < 1 or (task - first) % step:
        raise UsageError(
            f"SLURM_ARRAY_TASK_ID is {task}, which is no step of {step} from {first} "
            "(SLURM_ARRAY_TASK_MIN): submit the array as one range, such as --array=0-7."
        )
    if count == 1 and task == first:
        return None
    return _said("Slurm", "SLURM_ARRAY_TASK_ID", (task - first) // step, 0, count)


def _said(engine: str, name: str, index: int, first: int, count: int) -> _Said:
    if not first <= index < first + count:
        raise UsageError(
            f"{name} is {index} of {count} machine(s); {engine} counts from {first}, so "
            f"{first} to {first + count - 1} are allowed. Correct it, or give --shard alone."
        )
    return _Said(engine, index - first + 1, count)


def _number(env: Mapping[str, str], name: str) -> int | None:
    """Return the variable as a number, None where it is unset or empty."""
    text = env.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise UsageError(f"{name} is {text[:40]!r}, which is no whole number from 0.")
    return int(text)
