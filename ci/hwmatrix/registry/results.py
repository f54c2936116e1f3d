"""What a scan comes to: registrations, problems, and what only lint cares about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hwmatrix.errors import Problem
from hwmatrix.registry import source

if TYPE_CHECKING:
    from hwmatrix.model import Backend, Registration


@dataclass(frozen=True)
class RegistrationProblem(Problem):
    """A finding in a test file, and the backends whose sessions it stops.

    Empty `backends` means that it could be any of them: the file cannot be read at all, or the
    call names a backend that does not exist. Sessions of other backends go on.
    """

    backends: frozenset[Backend] = frozenset()

    def concerns(self, backend: Backend) -> bool:
        """Return whether a session of `backend` must stop for it."""
        return not self.backends or backend in self.backends


class FileResult(NamedTuple):
    """What one file holds, in order of place. `remarks` stop no session; lint reports them."""

    registrations: tuple[Registration, ...] = ()
    problems: tuple[RegistrationProblem, ...] = ()
    remarks: tuple[RegistrationProblem, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Scan:
    """The registrations of a tree and every problem in it, each sorted by path and place.

    `remarks` are findings that can stop no session (a test file without registrations that does
    not parse); `unregistered` are the test files in which no registration stands. Lint reports
    both. `files` counts the test files, `reused` those whose result came from the cache.
    """

    registrations: tuple[Registration, ...] = ()
    problems: tuple[RegistrationProblem, ...] = ()
    remarks: tuple[RegistrationProblem, ...] = ()
    unregistered: tuple[str, ...] = ()
    files: int = 0
    reused: int = 0


def refused(path: str, fault: source.Fault, data: bytes | None = None) -> FileResult:
    """Return the problem of a file that cannot be read or parsed; `data` holds its bytes if known.

    It concerns the backends whose markers the bytes mention, in code or not. Bytes that mention
    none make it a remark, since no session can depend on them; without bytes it could be any.
    """
    problem = RegistrationProblem(
        path=path,
        line=fault.line,
        found=fault.found,
        todo=fault.todo,
        rule=fault.rule,
        backends=frozenset() if data is None else source.mentioned(data),
    )
    if data is not None and not source.MENTION.search(data):
        return FileResult(remarks=(problem,))
    return FileResult(problems=(problem,))
