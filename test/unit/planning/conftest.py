"""A small matrix made by hand, registrations for it, and the plan of a session."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from hwmatrix.model import (
    Backend,
    BackendRow,
    BudgetPolicy,
    Disabled,
    Matrix,
    Plan,
    Registration,
    RunnerConfig,
    SessionName,
    Suite,
    Tier,
    Variant,
)
from hwmatrix.planning import assign, make_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

POLICY = BudgetPolicy(factor=3, floor_s=30, startup_s=60, grace_s=30)


def suite(backend: Backend, name: str, tier: str, runner_config: str, *aliases: str) -> Suite:
    return Suite(
        backend=backend, name=name, tier=tier, runner_config=runner_config, aliases=aliases, line=7
    )


SUITES = (
    suite(Backend.CPU, "stage-b-test-cpu", "stage-b", "cpu", "old-cpu"),
    suite(Backend.CPU, "nightly-cpu", "nightly", "cpu"),
    suite(Backend.CUDA, "stage-b-test-1-gpu", "stage-b", "1-gpu"),
    suite(Backend.CUDA, "stage-b-test-2-gpu", "stage-b", "2-gpu"),
    suite(Backend.AMD, "stage-b-test-1-gpu-amd", "stage-b", "1-gpu", "old-amd"),
    suite(Backend.AMD, "stage-b-special", "stage-b", "1-gpu"),
    suite(Backend.AMD, "extra-a-first", "extra-a", "1-gpu"),
    suite(Backend.AMD, "extra-a-second", "extra-a", "1-gpu"),
)


def backend_row(backend: Backend, variant: str) -> BackendRow:
    row = Variant(
        backend=backend,
        name=variant,
        torch=f"2.11.0+{variant}",
        index=f"https://index.example/{variant}",
        requirements=f"requirements/{variant}.in",
    )
    return BackendRow(
        backend=backend,
        default_variant=variant,
        variants={variant: row},
        env={"A": "backend", "B": "backend", "C": "backend"},
        setup_s=100,
    )


@pytest.fixture
def matrix() -> Matrix:
    return Matrix(
        path="ci/matrix.toml",
        roots=("test",),
        python_files=("test_*.py",),
        backends={
            Backend.CPU: backend_row(Backend.CPU, "cpu"),
            Backend.CUDA: backend_row(Backend.CUDA, "cuda"),
            Backend.AMD: backend_row(Backend.AMD, "rocm"),
        },
        tiers={
            "stage-b": Tier(name="stage-b", budget=POLICY, env={"B": "tier", "C": "tier"}),
            "extra-a": Tier(name="extra-a", budget=POLICY),
            "nightly": Tier(name="nightly", budget=POLICY, nightly=True),
        },
        runner_configs={
            "cpu": RunnerConfig(name="cpu", devices=1, slots=2, max_job_minutes=100, line=3),
            "1-gpu": RunnerConfig(name="1-gpu", devices=1, max_job_minutes=100, line=4),
            "2-gpu": RunnerConfig(name="2-gpu", devices=2, slots=2, max_job_minutes=90, line=5),
        },
        suites=SUITES,
    )


@pytest.fixture
def register() -> Callable[..., Registration]:
    """Make a registration: on cpu, in `stage-b-test-cpu`, unless said otherwise."""

    def made(
        path: str,
        est_s: float = 10,
        suite: str = "stage-b-test-cpu",
        backend: Backend = Backend.CPU,
        **more: object,
    ) -> Registration:
        plain = Registration(path=path, line=3, backend=backend, est_s=est_s, suite=suite)
        if isinstance(more.get("disabled"), str):
            more["disabled"] = Disabled(reason=str(more["disabled"]))
        return dataclasses.replace(plain, **more)  # type: ignore[arg-type]  # the tests' own names

    return made


@pytest.fixture
def session_of(matrix: Matrix) -> Callable[[str], SessionName]:
    def found(name: str) -> SessionName:
        backend, _, tier = name.partition("-")
        row = matrix.backends[Backend(backend)]
        return SessionName(backend=row.backend, tier=tier, variant=row.default_variant, name=name)

    return found


@pytest.fixture
def plan_of(matrix: Matrix, session_of: Callable[[str], SessionName]) -> Callable[..., Plan]:
    """Make the plan of a session over registrations."""
    table = matrix

    def made(
        registrations: Iterable[Registration],
        session: str = "cpu-stage-b",
        *,
        matrix: Matrix | None = None,
        suites: Sequence[str] = (),
        paths: Sequence[str] = (),
        shard: int = 1,
        shards: int = 1,
        history: Mapping[tuple[Backend, str, str], float] | None = None,
        allow_empty: bool = False,
    ) -> Plan:
        used = matrix or table
        return make_plan(
            used,
            session_of(session),
            assign(registrations, used),
            suites=suites,
            paths=paths,
            shard=shard,
            shards=shards,
            history=history,
            allow_empty=allow_empty,
        )

    return made
