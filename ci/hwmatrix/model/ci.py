"""What CI needs to know: how the table describes its machines, and the jobs that come of it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping  # noqa: TC003 - codec.py resolves the hints at run time
from dataclasses import dataclass, field

from hwmatrix.model.words import Backend  # noqa: TC001 - as above


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerRow:
    """How the jobs of one backend run in a container; `images` is per variant.

    `overlay` is where packages that the image lacks are (or, with `requirements`, are put).
    """

    images: Mapping[str, str] = field(default_factory=dict)
    volumes: tuple[str, ...] = ()
    options: str = ""
    overlay: str = ""
    requirements: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CiRow:
    """The `[ci]` table: what holds for all jobs. `max_parallel` 0 is as many as the engine runs.

    `target_minutes` is the wall clock that one job of a session should take, set-up included;
    0 asks for as few jobs as their limits allow. `overhead_s` is what a job does around its
    session: checkout, interpreter, upload.
    """

    labels: tuple[str, ...] = ("ubuntu-24.04",)
    python: str = ""
    checks: tuple[str, ...] = ("lint-registrations",)
    target_minutes: float = 0.0
    overhead_s: float = 300.0
    max_parallel: int = 0
    retention_days: int = 14


@dataclass(frozen=True, kw_only=True, slots=True)
class Container:
    """The container of one job."""

    image: str
    volumes: tuple[str, ...] = ()
    options: str = ""
    overlay: str = ""
    requirements: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """One session that the gate chose; no suites or paths means all of them."""

    session: str
    suites: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    continue_on_error: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One machine's part of one session: a shard of those suites that share a runner config.

    `units` are the ids that the shard holds; `plan_hash` is that of the plan of all `shards`.
    `run_s` is the estimated time of its tests, `deadline_s` that at which the session gives up.
    """

    session: str
    backend: Backend
    runner_config: str
    suites: tuple[str, ...]
    shard: int
    shards: int
    plan_hash: str
    units: tuple[str, ...]
    labels: tuple[str, ...]
    timeout_minutes: int
    args: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    container: Container | None = None
    setup_s: float = 0.0
    run_s: float = 0.0
    deadline_s: float = 0.0

    @property
    def name(self) -> str:
        """What the job is called: unique, and the same however many shards there are."""
        return f"{self.session} ({self.runner_config}) {self.shard}"

    @property
    def report(self) -> str:
        """What its report is called: a name that file systems and artifact stores take.

        Names of the table have no `+`, so two jobs never share one.
        """
        return f"report+{self.session}+{self.runner_config}+{self.shard}"

    @property
    def command(self) -> str:
        """What a person types to run the same."""
        return shlex.join(("nox", "-s", self.session, *(("--", *self.args) if self.args else ())))
