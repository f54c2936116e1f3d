"""The names that people type: suites and sessions, made from the table's rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwmatrix.errors import UsageError, close_match
from hwmatrix.model import Backend, SessionName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hwmatrix.model import BackendRow, Matrix

# Suite names began on CUDA and CPU machines; only later backends carry their own in the name.
_UNMARKED = frozenset({Backend.CPU, Backend.CUDA})


def default_suite_name(backend: Backend, tier: str, runner_config: str) -> str:
    """Return `{tier}-test-{runner config}`, with `-{backend}` after it except on cpu and cuda."""
    name = f"{tier}-test-{runner_config}"
    return name if backend in _UNMARKED else f"{name}-{backend}"


def sessions(matrix: Matrix) -> tuple[SessionName, ...]:
    """Return every session: backends in the order of `Backend`, tiers in that of the table.

    One per backend and tier that has suites (the default variant), then one for each further
    variant, retired ones included (`retired` holds the reason).
    """
    return tuple(_sessions(matrix))


def _sessions(matrix: Matrix) -> Iterator[SessionName]:
    for backend in Backend:
        row = matrix.backends.get(backend)
        if not row:
            continue
        for tier in matrix.tiers:
            if matrix.suites_of(backend, tier):
                yield from _sessions_of(row, tier)


def _sessions_of(row: BackendRow, tier: str) -> Iterator[SessionName]:
    name = f"{row.backend}-{tier}"
    yield SessionName(backend=row.backend, tier=tier, variant=row.default_variant, name=name)
    for variant in row.variants.values():
        if variant.name != row.default_variant:
            yield SessionName(
                backend=row.backend,
                tier=tier,
                variant=variant.name,
                name=f"{name}-{variant.name}",
                retired=variant.retired,
            )


def find_session(matrix: Matrix, name: str) -> SessionName:
    """Return the session called `name`; a retired one too, with its reason.

    Raises:
        UsageError: there is none of that name; the close match is offered.
    """
    known = {session.name: session for session in sessions(matrix)}
    if name in known:
        return known[name]
    current = [each.name for each in known.values() if not each.retired]
    message = [f"there is no session {name!r}.", close_match(name, tuple(known))]
    message.append(
        f"Sessions: {', '.join(current)}." if current else f"{matrix.path} declares no suite."
    )
    raise UsageError(" ".join(part for part in message if part))
