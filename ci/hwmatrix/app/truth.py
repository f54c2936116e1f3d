"""What is declared and what is registered, read once and held against each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hwmatrix import matrix as matrix_stage
from hwmatrix import planning, registry
from hwmatrix.errors import RegistrationError

if TYPE_CHECKING:
    from hwmatrix.app.place import Place
    from hwmatrix.errors import Problem
    from hwmatrix.model import Matrix, SessionName


@dataclass(frozen=True, kw_only=True, slots=True)
class Truth:
    """The table, the registrations, and how they fit together."""

    matrix: Matrix
    scan: registry.Scan
    assignment: planning.Assignment

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Every finding of scan and assignment, sorted by place."""
        found: list[Problem] = [*self.scan.problems, *self.assignment.problems]
        return tuple(sorted(found, key=lambda p: (p.path, p.line, p.column, p.found)))

    def problems_of(self, session: SessionName) -> tuple[Problem, ...]:
        """The findings that stop this session.

        Those that name its backend (and its tier, where the finding knows one). A file that
        nobody can read concerns no lane in particular: it stops none, and lint is red.
        """
        suites = {s.name for s in self.matrix.suites_of(session.backend, session.tier)}
        stopping: list[Problem] = [
            problem for problem in self.scan.problems if session.backend in problem.backends
        ]
        stopping += [
            problem
            for problem in self.assignment.problems
            if problem.backend is session.backend and (not problem.suite or problem.suite in suites)
        ]
        return tuple(stopping)


def read(place: Place, *, thorough: bool = False) -> Truth:
    """Return what the project at `place` declares and registers.

    `thorough` (lint) compiles every test file whole; planning stops at its last registration.

    Raises:
        MatrixError: the table is not valid.
    """
    table = matrix_stage.load(place.table)
    scan = registry.scan(
        place.root,
        table.roots,
        table.python_files,
        cache=place.state / "cache" / "registry.json",
        thorough=thorough,
    )
    return Truth(matrix=table, scan=scan, assignment=planning.assign(scan.registrations, table))


def check(truth: Truth, session: SessionName, place: Place) -> None:
    """Stop where a finding concerns this session; mention the rest in one line.

    Raises:
        RegistrationError: with every finding that concerns the session.
    """
    mine = truth.problems_of(session)
    if mine:
        raise RegistrationError(mine, intro=f"{session.name}: nothing was run.")
    others = len(truth.problems)
    if others:
        place.say(
            f"{session.name}: {others} registration problem(s) elsewhere in the tree; "
            "`python -m hwmatrix lint` lists them."
        )
