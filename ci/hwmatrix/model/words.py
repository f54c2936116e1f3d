"""The closed vocabularies."""

from __future__ import annotations

from enum import Enum

from hwmatrix.errors import UsageError, close_match


class _Word(str, Enum):
    """A string enum that prints as its value (`enum.StrEnum` needs Python 3.11)."""

    def __str__(self) -> str:
        return str(self.value)


class Backend(_Word):
    """One kind of accelerator, with its environment switches and its device variable."""

    CPU = "cpu"
    CUDA = "cuda"
    AMD = "amd"
    XPU = "xpu"
    NPU = "npu"
    MUSA = "musa"
    MLX = "mlx"

    @classmethod
    def parse(cls, name: str) -> Backend:
        """Return the backend called `name`.

        Raises:
            UsageError: no backend has that name; the close match is offered.
        """
        try:
            return cls(name)
        except ValueError:
            names = [member.value for member in cls]
            hint = close_match(name, names)
            message = f"no backend is called {name!r}. {hint} Backends: {', '.join(names)}."
            raise UsageError(message.replace("  ", " ")) from None


class Outcome(_Word):
    """How a planned unit, or a test that it collected, ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    DESELECTED = "deselected"
    CRASHED = "crashed"
    TIMED_OUT = "timed out"
    NOT_RUN = "not run"


class Isolation(_Word):
    """How a unit's process begins: forked from the slot's server, or a fresh interpreter."""

    FORK = "fork"
    SPAWN = "spawn"


class GateEvent(_Word):
    """What can start sessions in CI; named as GitHub names them."""

    PULL_REQUEST = "pull_request"
    PUSH = "push"
    MERGE_GROUP = "merge_group"
    SCHEDULE = "schedule"
    DISPATCH = "workflow_dispatch"
    CALL = "workflow_call"
