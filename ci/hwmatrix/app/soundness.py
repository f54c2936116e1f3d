"""What lint sees ahead: environments that cannot be made, estimates that no plan can hold."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from hwmatrix import matrix as matrix_stage
from hwmatrix import planning
from hwmatrix.environments.pinning import read_requirements
from hwmatrix.errors import EnvironmentBuildError, PlanError, Problem
from hwmatrix.matrix.positions import find_positions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hwmatrix.app.place import Place
    from hwmatrix.app.truth import Truth
    from hwmatrix.model import SessionName, Suite, Variant


def missing_files(facts: Truth, place: Place) -> tuple[Problem, ...]:
    """Return a problem for each file that a variant in use names and that cannot be read."""
    positions = find_positions(place.table.read_text(encoding="utf-8"))
    found = []
    for row in facts.matrix.backends.values():
        for variant in row.variants.values():
            keys = () if variant.retired else ("requirements", "constraints")
            for key in keys:
                if fault := _fault(place.root, variant, key):
                    at = ("backend", variant.backend.value, "variant", variant.name, key)
                    position = positions.of(at)
                    found.append(
                        Problem(
                            path=facts.matrix.path,
                            line=position.line,
                            column=position.column,
                            found=f"{variant.backend} variant {variant.name!r}: {fault}",
                            allowed="Paths count from the project's root.",
                            todo=f"Write the file, or correct the path in {facts.matrix.path}.",
                            rule="missing-file",
                        )
                    )
    return tuple(found)


def _fault(root: Path, variant: Variant, key: str) -> str:
    """Return why the file that `variant` names under `key`, or one that it names, is no good."""
    name = variant.requirements if key == "requirements" else variant.constraints
    if not name:
        return ""
    if not (root / name).is_file():
        return f"its {key} file {name!r} does not exist."
    try:
        read_requirements(root, dataclasses.replace(variant, requirements=name))
    except EnvironmentBuildError as error:
        return f"{error}".replace(f"{root}/", "")
    return ""


def overfull(facts: Truth) -> tuple[Problem, ...]:
    """Return a problem for each unit that no plan can hold, however many machines share it.

    Each suite is planned by itself, as CI runs it, with a machine for every file. A suite with
    another finding is left out: what it holds is not certain.
    """
    troubled = {(problem.backend, problem.suite) for problem in facts.assignment.problems}
    found: dict[Problem, None] = {}
    for session, suite in _suites(facts):
        if not {(suite.backend, suite.name), (suite.backend, "")} & troubled:
            found.update(dict.fromkeys(_plan_faults(facts, session, suite)))
    return tuple(found)


def _suites(facts: Truth) -> Iterator[tuple[SessionName, Suite]]:
    """Every suite with one session that runs it: variants share suites, budgets and machines."""
    seen = set()
    for session in matrix_stage.sessions(facts.matrix):
        if session.retired or (session.backend, session.tier) in seen:
            continue
        seen.add((session.backend, session.tier))
        for suite in facts.matrix.suites_of(session.backend, session.tier):
            yield session, suite


def _plan_faults(facts: Truth, session: SessionName, suite: Suite) -> tuple[Problem, ...]:
    registered = facts.assignment.by_suite.get((suite.backend, suite.name), ())
    count = sum(registration.disabled is None for registration in registered)
    try:
        planning.make_plan(
            facts.matrix,
            session,
            facts.assignment,
            suites=(suite.name,),
            shards=max(1, count),
            allow_empty=True,
        )
    except PlanError as error:
        return tuple(_alone(problem) for problem in error.problems)
    return ()


def _alone(problem: Problem) -> Problem:
    """Return `problem` without the number of a shard that nobody asked for."""
    found = re.sub(r"shard \d+ of \d+ may", "one file alone in its job may", problem.found)
    return dataclasses.replace(problem, found=found)
