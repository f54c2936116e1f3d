"""Everything that is wrong with table and registrations, all of it in one go."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from typing import TYPE_CHECKING

from hwmatrix import gate, registry
from hwmatrix.app import soundness, truth
from hwmatrix.errors import Problem
from hwmatrix.registry.assets import declared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hwmatrix.app.place import Place


def findings(place: Place, *, today: dt.date) -> tuple[tuple[Problem, ...], truth.Truth]:
    """Return every finding of the tree, sorted by place, and what was read.

    Raises:
        MatrixError: the table itself is not valid; nothing can be held against it then.
    """
    facts = truth.read(place, thorough=True)
    found: list[Problem] = [*facts.problems, *facts.scan.remarks, *facts.assignment.idle]
    found += declared(place.root, facts.matrix.roots).problems
    found += gate.unreached(facts.matrix)
    found += soundness.missing_files(facts, place)
    found += soundness.overfull(facts)
    found += registry.expired(facts.scan.registrations, today)
    found += [
        Problem(
            path=path,
            found="registers for no backend, so no session ever runs it.",
            allowed="Every file that matches python_files under roots registers at least once.",
            todo="Add a register_<backend>_ci(...) call, or move the file out of the roots.",
            rule="unregistered",
        )
        for path in facts.scan.unregistered
    ]
    ordered = tuple(sorted(found, key=lambda p: (p.path, p.line, p.column, p.found)))
    return ordered, facts


def annotation(problem: Problem) -> str:
    """Return a GitHub workflow command that marks the place of a finding."""
    message = " ".join(part for part in (problem.found, problem.allowed, problem.todo) if part)
    place = f"file={_escape(problem.path, prop=True)}"
    if problem.line:
        place += f",line={problem.line},col={max(1, problem.column)}"
    return f"::error {place}::{_escape(message, prop=False)}"


def _escape(text: str, *, prop: bool) -> str:
    """Escape as GitHub's runner unescapes: a line break must not start a command of its own."""
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if prop else text


def run(place: Place, *, as_json: bool) -> int:
    """Print all findings; return 0 where there are none, else RegistrationError's code."""
    problems, facts = findings(place, today=dt.datetime.now(tz=dt.timezone.utc).date())
    count = len(facts.scan.registrations)
    if as_json:
        rows = [dataclasses.asdict(problem) for problem in problems]
        place.out.write(json.dumps({"registrations": count, "problems": rows}, indent=2) + "\n")
    else:
        _print(problems, place)
        files = len({r.path for r in facts.scan.registrations})
        verdict = f"{len(problems)} problem(s)" if problems else "no problems"
        place.out.write(f"{count} registrations in {files} files: {verdict}.\n")
    place.out.flush()
    return 3 if problems else 0


def _print(problems: Sequence[Problem], place: Place) -> None:
    for problem in problems:
        place.out.write(f"{problem}\n")
    if place.env.get("GITHUB_ACTIONS") == "true":
        for problem in problems:
            place.out.write(annotation(problem) + "\n")
