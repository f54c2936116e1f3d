"""Nox sessions from the table: `hwmatrix.sessions.register()` in a noxfile is all it takes.

The only module that imports nox. A session is one command, `python -m hwmatrix session NAME`, so
whatever nox does can be done where nox is not to be had.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import nox  # noqa: TID251 - this is the one module that may
import nox.registry  # noqa: TID251 - as above

from hwmatrix import matrix as matrix_stage
from hwmatrix.app.place import TABLE
from hwmatrix.errors import HwMatrixError, MatrixError, Problem
from hwmatrix.model import Backend

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hwmatrix.model import Matrix, SessionName

# Nox kills a command 0.5 s after Ctrl-C. The guard needs the time in which stacks are dumped and
# process trees swept; it ends by itself well before this.
SWEEP_S = 30.0


def register(root: Path) -> None:
    """Declare one nox session per session of `root`'s table, and the tools beside them.

    A wrong table ends nox with the findings. Accelerator sessions are never run by a bare `nox`.
    """
    try:
        table = matrix_stage.load(root / TABLE)
        sessions = matrix_stage.sessions(table)
        _refuse_taken_names(sessions)
    except HwMatrixError as error:
        sys.stderr.write(f"noxfile: {error}\n")
        raise SystemExit(error.exit_code) from None
    for session in sessions:
        _declare(
            session.name,
            ["session", session.name],
            about=_about(session, table),
            tags=[session.backend.value, session.tier],
        )
    _declare("lint-registrations", ["lint"], about="everything wrong with table and registrations")
    _declare("lock", ["lock"], about="versions and hashes of a variant's packages (default: cpu)")
    _declare("assets", ["assets"], about="fetch the models and data that a session's files declare")
    _declare("gate", ["gate"], about="what an event of CI starts, and why (--event FILE)")
    _declare("matrix", ["matrix"], about="chosen sessions as the jobs of a CI engine")
    _declare("finish", ["finish"], about="one verdict from the reports of all machines")
    if _is_json_listing():
        nox.options.sessions = None


def _refuse_taken_names(sessions: Sequence[SessionName]) -> None:
    """Nox only warns when a name is declared twice and keeps the last: refuse."""
    taken = [session.name for session in sessions if session.name in nox.registry.get()]
    if taken:
        raise MatrixError(
            Problem(
                path=TABLE,
                found=f"session {name!r} is already declared in the noxfile.",
                todo="Rename the noxfile's own session, or the tier.",
            )
            for name in taken
        )


def _about(session: SessionName, table: Matrix) -> str:
    if session.retired:
        return f"retired: {session.retired}"
    about = table.tiers[session.tier].about
    where = f"{session.tier} on {session.backend}"
    variant = f" ({session.variant})" if session.backend is not Backend.CPU else ""
    return f"{where}{variant}: {about}" if about else f"{where}{variant}"


def _declare(name: str, command: Sequence[str], *, about: str, tags: Sequence[str] = ()) -> None:
    function = _command(command)
    function.__doc__ = about
    nox.session(name=name, python=False, default=_is_json_listing(), tags=list(tags))(function)


def _is_json_listing() -> bool:
    """Nox's JSON lists what a bare `nox` would run; asked for the list, tell of every session."""
    return "--json" in sys.argv and not {"-l", "--list", "--list-sessions"}.isdisjoint(sys.argv)


def _command(command: Sequence[str]) -> Callable[[nox.Session], None]:
    package_folder = str(Path(__file__).resolve().parent.parent)

    def run(session: nox.Session) -> None:
        paths = [package_folder, os.environ.get("PYTHONPATH", "")]
        session.run(
            sys.executable,
            "-m",
            "hwmatrix",
            *command,
            *session.posargs,
            env={
                "PYTHONPATH": os.pathsep.join(path for path in paths if path),
                # Nox leaves its commands alone when it is killed: they watch for its end.
                "HWMATRIX_PARENT": str(os.getpid()),
            },
            external=True,
            log=False,
            stderr=None,  # nox would fold it into standard output, where --json goes
            interrupt_timeout=SWEEP_S,
            terminate_timeout=SWEEP_S,
        )

    return run
