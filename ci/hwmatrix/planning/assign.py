"""Registrations to suites: every name is checked both ways, on every backend."""

from __future__ import annotations

import difflib
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hwmatrix.errors import Problem, close_match
from hwmatrix.model import Backend  # noqa: TC001 - a field of a dataclass, resolved at run time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hwmatrix.model import Matrix, Registration, Suite


@dataclass(frozen=True)
class NameProblem(Problem):
    """A name that does not fit: whose backend, and which suite it concerns.

    `suite` is empty where nobody can tell: then it concerns every session of `backend`.
    """

    backend: Backend | None = None
    suite: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Assignment:
    """Which registrations each suite has, sorted by path, and what is wrong.

    `idle` tells of suites that have registrations, all of them disabled: a session over such a
    suite alone has nothing to do, and lint lists them.
    """

    by_suite: Mapping[tuple[Backend, str], tuple[Registration, ...]]
    problems: tuple[NameProblem, ...] = ()
    idle: tuple[NameProblem, ...] = ()


def assign(registrations: Iterable[Registration], matrix: Matrix) -> Assignment:
    """Return the registrations of each declared suite; the order of the input is irrelevant.

    A registration means a suite by its name, by an alias, or by stage and runner config; of
    several suites with the same stage and runner config it means the one with the default name.
    A suite that nothing is registered for is a problem, as is a name that no suite has, and a
    file that names one suite in two ways (in one way twice: that the scan has told already).
    """
    names = _Names(matrix)
    spellings: set[tuple[str, ...]] = set()
    found: dict[tuple[Backend, str], dict[str, Registration]] = defaultdict(dict)
    problems: list[NameProblem] = []
    for registration in sorted(registrations, key=_order):
        suite = names.resolve(registration, problems)
        if suite is None:
            continue
        problems += _check_nightly(registration, suite, matrix)
        rows = found[suite.backend, suite.name]
        first = rows.setdefault(registration.path, registration)
        spelling = _spelling(registration)
        if first is not registration and spelling not in spellings:
            problems.append(_duplicate(registration, first, suite))
        spellings.add(spelling)
    by_suite = {
        (suite.backend, suite.name): tuple(found[suite.backend, suite.name].values())
        for suite in matrix.suites
    }
    problems += [_empty(s, matrix) for s in matrix.suites if not by_suite[s.backend, s.name]]
    idle = [
        _idle(suite, by_suite[suite.backend, suite.name], matrix)
        for suite in matrix.suites
        if by_suite[suite.backend, suite.name]
        and all(r.disabled for r in by_suite[suite.backend, suite.name])
    ]
    return Assignment(by_suite=by_suite, problems=_sorted(problems), idle=_sorted(idle))


def _order(registration: Registration) -> tuple[object, ...]:
    r = registration
    return (r.path, r.line, r.column, r.backend.value, r.suite, r.stage, r.runner_config, r.est_s)


def _spelling(registration: Registration) -> tuple[str, ...]:
    r = registration
    return (r.path, r.backend.value, r.suite, r.stage, r.runner_config)


def _sorted(problems: Iterable[NameProblem]) -> tuple[NameProblem, ...]:
    return tuple(sorted(problems, key=lambda p: (p.path, p.line, p.column, p.found)))


def _at(registration: Registration, rule: str, found: str, **more: str) -> NameProblem:
    """Return a problem at the place of a registration; `more` has allowed, todo, suite."""
    return NameProblem(
        path=registration.path,
        line=registration.line,
        column=registration.column,
        found=found,
        allowed=more.get("allowed", ""),
        todo=more.get("todo", ""),
        rule=rule,
        backend=registration.backend,
        suite=more.get("suite", ""),
    )


@dataclass(slots=True)
class _Names:
    """All suites by what registrations may call them."""

    matrix: Matrix
    by_name: dict[Backend, dict[str, Suite]] = field(default_factory=lambda: defaultdict(dict))

    def __post_init__(self) -> None:
        for suite in self.matrix.suites:
            for name in (suite.name, *suite.aliases):
                self.by_name[suite.backend][name] = suite

    def resolve(self, registration: Registration, problems: list[NameProblem]) -> Suite | None:
        """Return the suite that `registration` means; None with a problem added."""
        if registration.stage or registration.runner_config:
            return self._by_shape(registration, problems)
        suite = self.by_name[registration.backend].get(registration.suite)
        if suite is None:
            problems.append(self._unknown_name(registration))
        return suite

    def _unknown_name(self, registration: Registration) -> NameProblem:
        backend, name = registration.backend, registration.suite
        own = self.by_name[backend]
        near = _nearest(name, own)
        elsewhere = sorted(b.value for b, names in self.by_name.items() if name in names)
        hints = [
            f"It is a suite of {', '.join(elsewhere)}." if elsewhere else "",
            close_match(name, tuple(own)),
            "" if own else f"{self.matrix.path} declares no suite for {backend}.",
            "" if near or not own else _list("Its suites", self._suites_of(backend)),
        ]
        return _at(
            registration,
            "unknown-suite",
            f"{backend} has no suite {name!r}.",
            allowed=" ".join(hint for hint in hints if hint),
            todo=f"Suites are declared in {self.matrix.path}.",
            suite=own[near].name if near else "",
        )

    def _suites_of(self, backend: Backend) -> tuple[str, ...]:
        return tuple(suite.name for suite in self.matrix.suites if suite.backend is backend)

    def _by_shape(self, registration: Registration, problems: list[NameProblem]) -> Suite | None:
        stage, shape = registration.stage, registration.runner_config
        own = [s for s in self.matrix.suites if s.backend is registration.backend]
        fitting = [s for s in own if s.tier == stage and s.runner_config == shape]
        if len(fitting) > 1:
            # The default name is the suite's own, or an alias that it keeps.
            default = _default_names(registration)
            fitting = [s for s in fitting if default & {s.name, *s.aliases}] or fitting
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            problems.append(_ambiguous(registration, fitting, self.matrix))
        else:
            problems.append(_unknown_shape(registration, own, self.matrix))
        return None


def _default_names(registration: Registration) -> set[str]:
    """Return the default name with and without the backend: in either form it is unmistakable."""
    name = f"{registration.stage}-test-{registration.runner_config}"
    return {name, f"{name}-{registration.backend}"}


def _ambiguous(registration: Registration, fitting: Sequence[Suite], matrix: Matrix) -> NameProblem:
    names = ", ".join(repr(suite.name) for suite in fitting)
    return _at(
        registration,
        "ambiguous-suite",
        f"{registration.backend} has {len(fitting)} suites with stage {registration.stage!r} and "
        f"runner_config {registration.runner_config!r}, none of them with the default name.",
        allowed=f"They are {names}.",
        todo=f"Name one with suite=, or give one the default name in {matrix.path}.",
    )


def _unknown_shape(registration: Registration, own: Sequence[Suite], matrix: Matrix) -> NameProblem:
    """Tell which half is wrong: the stage, the runner config, or only the pair."""
    stage, shape = registration.stage, registration.runner_config
    tiers = sorted({suite.tier for suite in own})
    tier = stage if stage in tiers else _nearest(stage, tiers)
    shapes = sorted({suite.runner_config for suite in own if suite.tier == tier})
    if stage not in tiers:
        allowed = [close_match(stage, tiers), _list("Its stages with suites", tiers)]
    else:
        allowed = [close_match(shape, shapes), _list("Runner configs there", shapes)]
    return _at(
        registration,
        "unknown-suite",
        f"{registration.backend} has no suite with stage {stage!r} and runner_config {shape!r}.",
        allowed=" ".join(part for part in allowed if part),
        todo=f"Suites are declared in {matrix.path}.",
        suite=next((suite.name for suite in own if suite.tier == tier), ""),
    )


def _nearest(name: str, allowed: Iterable[str]) -> str:
    """Return the one of `allowed` that `close_match` would offer, or an empty string."""
    found = difflib.get_close_matches(name, list(allowed), n=1, cutoff=0.6)
    return found[0] if found else ""


def _list(what: str, names: Sequence[str]) -> str:
    return f"{what}: {', '.join(names) or 'none'}."


def _check_nightly(
    registration: Registration, suite: Suite, matrix: Matrix
) -> tuple[NameProblem, ...]:
    nightly = matrix.tiers[suite.tier].nightly
    if nightly is registration.nightly:
        return ()
    says = "is nightly" if nightly else "is not nightly"
    todo = "Add nightly=True" if nightly else "Remove nightly=True"
    return (
        _at(
            registration,
            "nightly",
            f"registers for {suite.backend} suite {suite.name!r} with "
            f"nightly={registration.nightly}, but its tier {suite.tier!r} {says}.",
            todo=f"{todo}, or name a suite of another tier.",
            suite=suite.name,
        ),
    )


def _duplicate(registration: Registration, first: Registration, suite: Suite) -> NameProblem:
    return _at(
        registration,
        "duplicate",
        f"registers a second time for {suite.backend} suite {suite.name!r} "
        f"(the first is on line {first.line}).",
        allowed="A file registers once per suite; aliases count as the suite.",
        todo="Remove one of them.",
        suite=suite.name,
    )


def _of_suite(suite: Suite, matrix: Matrix, rule: str, found: str, todo: str) -> NameProblem:
    return NameProblem(
        path=matrix.path,
        line=suite.line,
        found=found,
        todo=todo,
        rule=rule,
        backend=suite.backend,
        suite=suite.name,
    )


def _empty(suite: Suite, matrix: Matrix) -> NameProblem:
    call = f"register_{suite.backend}_ci(..., suite={suite.name!r})"
    return _of_suite(
        suite,
        matrix,
        "empty-suite",
        f"{suite.backend} suite {suite.name!r} is declared, but no file registers for it.",
        f"Add {call} to a file, or remove the row.",
    )


def _idle(suite: Suite, registrations: Sequence[Registration], matrix: Matrix) -> NameProblem:
    count = len(registrations)
    return _of_suite(
        suite,
        matrix,
        "idle-suite",
        f"{suite.backend} suite {suite.name!r} runs nothing: {count} registered, all disabled.",
        "Enable a file, or remove the row and its registrations.",
    )
