"""Every failure that a person can see: one class each, each with its own exit code.

A message says where, what was found, what was allowed and what to do next. Exit code 1 is kept
for a red verdict and 0 for a green one; neither is an error. Nox folds every failure into exit 1,
so `report.json` and `--json` output carry `kind` as well.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True)
class Problem:
    """One finding: where it is, what was found, what was allowed, what to do.

    `path` is relative to the project's root, with forward slashes; `line` and `column` count
    from 1, and 0 means the whole file.
    """

    path: str
    found: str
    line: int = 0
    column: int = 0
    allowed: str = ""
    todo: str = ""
    rule: str = ""

    @property
    def where(self) -> str:
        """`path:line`, or the path alone where there is no line."""
        return f"{self.path}:{self.line}" if self.line else self.path

    def __str__(self) -> str:
        """Return the whole message on one line."""
        parts = (f"{self.where}: {self.found}", self.allowed, self.todo)
        return " ".join(part for part in parts if part)


class HwMatrixError(Exception):
    """Root of all errors that hwmatrix raises on purpose."""

    exit_code: ClassVar[int] = 70
    kind: ClassVar[str] = "error"


class UsageError(HwMatrixError):
    """The command line cannot be understood, or asks for what does not exist."""

    exit_code = 2
    kind = "usage"


class ProblemsError(HwMatrixError):
    """Several findings at once; `problems` holds them in order of place."""

    def __init__(self, problems: Iterable[Problem], *, intro: str = "") -> None:
        """Keep the findings sorted by path, line and column."""
        self.problems: tuple[Problem, ...] = tuple(
            sorted(problems, key=lambda p: (p.path, p.line, p.column, p.found))
        )
        lines = [intro] if intro else []
        lines += [str(problem) for problem in self.problems]
        super().__init__("\n".join(lines))


class RegistrationError(ProblemsError):
    """Registrations that cannot be read, or that name what does not exist."""

    exit_code = 3
    kind = "registration"


class MatrixError(ProblemsError):
    """`ci/matrix.toml` is not valid."""

    exit_code = 4
    kind = "matrix"


class PlanError(ProblemsError):
    """The plan cannot hold: a budget below its estimate, a shard over its job's limit."""

    exit_code = 5
    kind = "plan"


class NothingToDoError(HwMatrixError):
    """Nothing was selected, and `--allow-empty` was not given."""

    exit_code = 6
    kind = "nothing-to-do"


class HardwareError(HwMatrixError):
    """The machine lacks what the session needs; nothing was installed or run."""

    exit_code = 7
    kind = "hardware"


class VisibilityError(HwMatrixError):
    """The inherited device variables contradict each other or name no usable device."""

    exit_code = 8
    kind = "visibility"


class EnvironmentBuildError(HwMatrixError):
    """The environment under test could not be made."""

    exit_code = 9
    kind = "environment"


class GuardError(HwMatrixError):
    """The environment under test holds another build than the variant names."""

    exit_code = 10
    kind = "guard"


class RunFolderError(HwMatrixError):
    """The folder of a run cannot be written or read."""

    exit_code = 11
    kind = "run-folder"


class LeaseError(HwMatrixError):
    """A device or port that the session needs is held by someone else."""

    exit_code = 12
    kind = "lease"


class RetiredVariantError(HwMatrixError):
    """The variant asked for is retired; the message gives the table's reason."""

    exit_code = 13
    kind = "retired"


class AssetError(HwMatrixError):
    """A model or data set that a test declared is not on this machine or could not be fetched."""

    exit_code = 14
    kind = "asset"


class GateError(HwMatrixError):
    """Which sessions an event starts cannot be told; nothing is started, and CI is red."""

    exit_code = 15
    kind = "gate"


class JobsError(HwMatrixError):
    """The jobs of CI cannot be made: over the engine's limits, or no machine for one of them."""

    exit_code = 16
    kind = "jobs"


def close_match(name: str, allowed: Sequence[str], *, cutoff: float = 0.6) -> str:
    """Return `Did you mean 'x'?` for the nearest of `allowed`, or an empty string.

    `cutoff` is difflib's ratio, from 0 to 1; its default is difflib's own.
    """
    found = difflib.get_close_matches(name, allowed, n=1, cutoff=cutoff)
    return f"Did you mean {found[0]!r}?" if found else ""
