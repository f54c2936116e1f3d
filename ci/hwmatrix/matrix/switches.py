"""Environment switches of a row: names and values that a session may be given."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hwmatrix.matrix.check import Checker, Row

# Variables that a session itself sets: one owner each, or two of them contradict each other
# (ROCR and CUDA masks together leave no GPU).
_OWNED = frozenset(
    {
        "ASCEND_RT_VISIBLE_DEVICES",
        "ASCEND_VISIBLE_DEVICES",
        "CUDA_VISIBLE_DEVICES",
        "GPU_DEVICE_ORDINAL",
        "HIP_VISIBLE_DEVICES",
        "HWMATRIX_ARCH",
        "HWMATRIX_BACKEND",
        "HWMATRIX_DEVICES",
        "HWMATRIX_FOUND",
        "HWMATRIX_MEMORY_GIB",
        "HWMATRIX_RUN",
        "HWMATRIX_SLOT",
        "HWMATRIX_SUITE",
        "HWMATRIX_VARIANT",
        "MUSA_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "ZE_AFFINITY_MASK",
    }
)


def switches(row: Row, checker: Checker) -> Mapping[str, str]:
    """Return the row's `env`; a variable that has an owner already is a problem."""
    env = row.text_map("env")
    for name in env:
        if name in _OWNED:
            checker.problem(
                (*row.at, "env", name),
                "is set by the session itself, for each slot.",
                todo="Remove it; the runner config says how many devices a file owns.",
            )
    return env
