"""Clean rows to the Matrix: references between rows are checked here, and defaults laid under."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from hwmatrix.matrix.check import each, quote
from hwmatrix.matrix.ci_build import ci_row, container_row
from hwmatrix.matrix.gate_build import gates
from hwmatrix.matrix.names import sessions
from hwmatrix.matrix.switches import switches
from hwmatrix.model import (
    Backend,
    BackendRow,
    BudgetPolicy,
    Isolation,
    Matrix,
    RunnerConfig,
    Suite,
    Tier,
    Variant,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hwmatrix.matrix.check import Checker, Row
    from hwmatrix.matrix.positions import KeyPath

# How vendors spell architectures; other backends' names have no fixed form.
_ARCH = {
    Backend.AMD: (re.compile(r"gfx[0-9a-f]{3,5}"), "gfx942, gfx950 ..."),
    Backend.CUDA: (re.compile(r"sm_[0-9]{2,3}[af]?"), "sm_90, sm_100 ..."),
}


def build(table: Row, checker: Checker) -> Matrix:
    """Return the Matrix; where `checker` has problems it is not fit for use."""
    project = table.row("project")
    matrix = Matrix(
        path=checker.path,
        roots=project.texts("roots"),
        python_files=project.texts("python_files"),
        backends=_backends(table.rows("backend"), checker),
        tiers=_tiers(table.rows("tier"), table.row("budget"), checker),
        runner_configs=_runners(table.rows("runner"), checker),
        suites=_suites(table, checker),
        ci=ci_row(table.row("ci")),
    )
    _check_session_names(matrix, checker)
    return dataclasses.replace(matrix, gates=gates(table.tables("gate"), matrix, checker))


def _backends(rows: Mapping[str, Row], checker: Checker) -> dict[Backend, BackendRow]:
    made = {}
    for name, row in rows.items():
        backend = Backend(name)
        variants = {
            key: _variant(backend, key, variant, checker)
            for key, variant in row.rows("variant").items()
        }
        _check_default_variant(row, variants, checker)
        made[backend] = BackendRow(
            backend=backend,
            default_variant=row.text("default_variant"),
            variants=variants,
            env=switches(row, checker),
            preload=row.texts("preload"),
            setup_s=row.number("setup_s"),
            container=container_row(row.row("container"), variants, checker),
        )
    return made


def _variant(backend: Backend, name: str, row: Row, checker: Checker) -> Variant:
    retired = row.text("retired")
    for key in ("torch", "index", "requirements"):
        # A key that is there but wrong has its own problem already.
        if not retired and not row.text(key) and not checker.has((*row.at, key)):
            checker.problem(
                row.at, f"lacks the key {key!r}.", "It is required unless `retired` says why not."
            )
    return Variant(
        backend=backend,
        name=name,
        torch=row.text("torch"),
        index=row.text("index"),
        requirements=row.text("requirements"),
        constraints=row.text("constraints"),
        retired=retired,
        toolkit=row.text("toolkit"),
        companions=row.texts("companions"),
    )


def _check_default_variant(row: Row, variants: Mapping[str, Variant], checker: Checker) -> None:
    name, at = row.text("default_variant"), (*row.at, "default_variant")
    current = [v.name for v in variants.values() if not v.retired]
    if not name:
        if variants and not checker.has(at):
            checker.problem(
                row.at, "lacks the key 'default_variant'.", f"Variants: {', '.join(current)}."
            )
    elif name not in variants:
        checker.refer(at, name, "variant of this backend", variants)
    elif variants[name].retired:
        checker.problem(
            at, f"is {quote(name)}, which is retired.", f"Current variants: {', '.join(current)}."
        )


def _tiers(rows: Mapping[str, Row], general: Row, checker: Checker) -> dict[str, Tier]:
    def number(row: Row, key: str) -> float:
        own = row.row("budget")
        return own.number(key) if key in own.given else general.number(key)

    return {
        name: Tier(
            name=name,
            budget=BudgetPolicy(
                factor=number(row, "factor"),
                floor_s=number(row, "floor_s"),
                startup_s=number(row, "startup_s"),
                grace_s=number(row, "grace_s"),
            ),
            about=row.text("about"),
            nightly=row.flag("nightly"),
            fail_fast=row.flag("fail_fast"),
            target_minutes=row.number("target_minutes"),
            env=switches(row, checker),
            retries=int(row.row("retries").number("infra")),
        )
        for name, row in rows.items()
    }


def _runners(rows: Mapping[str, Row], checker: Checker) -> dict[str, RunnerConfig]:
    made = {}
    for name, row in rows.items():
        arch = {Backend(key): names for key, names in row.texts_map("arch").items()}
        for backend, names in arch.items():
            _check_arch(backend, names, (*row.at, "arch", backend.value), checker)
        made[name] = RunnerConfig(
            name=name,
            devices=int(row.number("devices")),
            max_job_minutes=row.number("max_job_minutes"),
            slots=int(row.number("slots")),
            memory_gib=row.number("memory_gib"),
            arch=arch,
            labels={Backend(key): names for key, names in row.texts_map("labels").items()},
            about=row.text("about"),
            line=checker.line(row.at),
        )
    return made


def _check_arch(backend: Backend, names: Iterable[str], at: KeyPath, checker: Checker) -> None:
    pattern, examples = _ARCH.get(backend, (None, ""))
    for index, name in enumerate(names):
        if pattern and not pattern.fullmatch(name):
            checker.problem(
                (*at, index), f"is {quote(name)}.", f"Architectures of {backend}: {examples}"
            )


def _suites(table: Row, checker: Checker) -> tuple[Suite, ...]:
    made = []
    for backend_name, name, row in each(table.rows_of_rows("suite")):
        if backend_name not in table.rows("backend"):
            checker.problem(
                row.at,
                f"belongs to the backend {backend_name!r}, which has no row.",
                todo=f"Add [backend.{backend_name}].",
            )
        for key, noun, rows in (
            ("tier", "tier", table.rows("tier")),
            ("runner_config", "runner config", table.rows("runner")),
        ):
            if key in row.given and row.text(key) not in rows:
                checker.refer((*row.at, key), row.text(key), noun, rows)
        isolation = row.text("isolation")
        made.append(
            Suite(
                backend=Backend(backend_name),
                name=name,
                tier=row.text("tier"),
                runner_config=row.text("runner_config"),
                aliases=row.texts("aliases"),
                env=switches(row, checker),
                isolation=Isolation(isolation) if isolation else None,
                exclusive=row.flag("exclusive"),
                about=row.text("about"),
                line=checker.line(row.at),
            )
        )
    _check_aliases(made, checker)
    return tuple(made)


def _check_aliases(suites: Iterable[Suite], checker: Checker) -> None:
    """An alias means one suite of its backend, and is no suite's name there."""
    owner = {(suite.backend, suite.name): suite.name for suite in suites}
    names = frozenset(owner)
    for suite in suites:
        for index, alias in enumerate(suite.aliases):
            key = (suite.backend, alias)
            if key in owner:
                what = "the name of a suite" if key in names else "an alias"
                checker.problem(
                    ("suite", suite.backend.value, suite.name, "aliases", index),
                    f"is {quote(alias)}, which is {what} on {suite.backend} already "
                    f"({owner[key]!r}).",
                    todo="Remove one of them.",
                )
            owner.setdefault(key, suite.name)


def _check_session_names(matrix: Matrix, checker: Checker) -> None:
    """Two sessions of one name: nox would only warn, and run the last."""
    seen: dict[str, str] = {}
    for session in sessions(matrix):
        meaning = f"tier {session.tier!r}, variant {session.variant or 'none'!r}"
        if session.name in seen:
            checker.problem(
                ("tier", session.tier),
                f"makes a second session {session.name!r} ({seen[session.name]}; {meaning}).",
                todo="Rename the tier or the variant.",
            )
        seen[session.name] = f"{session.backend} {meaning}"
