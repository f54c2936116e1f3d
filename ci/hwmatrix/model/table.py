"""What test files and the table say: registrations, and the rows of `ci/matrix.toml`."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - codec.py resolves the hints at run time
from dataclasses import dataclass, field

from hwmatrix.model.ci import CiRow, ContainerRow
from hwmatrix.model.words import Backend, GateEvent, Isolation


@dataclass(frozen=True, kw_only=True, slots=True)
class Disabled:
    """Why a registration is switched off; `owner` and `until` (ISO date) are optional."""

    reason: str
    owner: str = ""
    until: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Registration:
    """One `register_<backend>_ci(...)` call, read from the syntax tree.

    Either `suite` is set, or both `stage` and `runner_config`. `path` is relative to the
    project's root with forward slashes; `line` and `column` count from 1.
    """

    path: str
    line: int
    backend: Backend
    est_s: float
    column: int = 1
    suite: str = ""
    stage: str = ""
    runner_config: str = ""
    nightly: bool = False
    disabled: Disabled | None = None
    in_process_group: str = ""

    @property
    def where(self) -> str:
        """`path:line`."""
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetPolicy:
    """How a budget follows from an estimate (seconds).

    One test may take `limit = max(floor_s, factor x estimate)`; the file may take
    `startup_s + limit + max(estimate, grace_s)`: when one test hangs until its limit, the rest
    of the file still fits.
    """

    factor: float
    floor_s: float
    startup_s: float
    grace_s: float

    def test_limit_s(self, est_s: float) -> float:
        """Return the time after which one test is told to stop."""
        return max(self.floor_s, self.factor * est_s)

    def budget_s(self, est_s: float) -> float:
        """Return the time after which the whole file is killed."""
        return self.startup_s + self.test_limit_s(est_s) + max(est_s, self.grace_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """One build of torch for a backend: `torch` is the exact version with its local label."""

    backend: Backend
    name: str
    torch: str
    index: str
    requirements: str
    constraints: str = ""
    retired: str = ""
    toolkit: str = ""
    companions: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class BackendRow:
    """What the table says of a backend: default variant and environment switches.

    `setup_s` is what making the environment and starting up costs on each machine (seconds).
    """

    backend: Backend
    default_variant: str
    variants: Mapping[str, Variant]
    env: Mapping[str, str] = field(default_factory=dict)
    preload: tuple[str, ...] = ()
    setup_s: float = 0.0
    container: ContainerRow = field(default_factory=ContainerRow)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunnerConfig:
    """The shape of a machine as one slot needs it.

    `devices` is what one worker owns; `slots` is how many of those a machine of this shape is
    planned with (the probe decides at run time). `memory_gib` is per device, 0 for any. `arch`
    and `labels` are per backend.
    """

    name: str
    devices: int
    max_job_minutes: float
    slots: int = 1
    memory_gib: float = 0.0
    arch: Mapping[Backend, tuple[str, ...]] = field(default_factory=dict)
    labels: Mapping[Backend, tuple[str, ...]] = field(default_factory=dict)
    about: str = ""
    line: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Tier:
    """When suites run and how dear they are.

    `retries`: how often a unit runs again after a fault of the machine.
    """

    name: str
    budget: BudgetPolicy
    about: str = ""
    nightly: bool = False
    fail_fast: bool = False
    retries: int = 0
    target_minutes: float = 0.0
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Suite:
    """Keyed by (backend, name); the row says its tier and runner config.

    `exclusive`: each of its files has the host for itself.
    """

    backend: Backend
    name: str
    tier: str
    runner_config: str
    aliases: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    isolation: Isolation | None = None
    exclusive: bool = False
    about: str = ""
    line: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class GateRule:
    """One `[[gate]]` row: which events start which sessions, and under which conditions.

    Empty `backends`, `tiers`, `suites` and `branches` mean all, empty `variants` the default one
    of each backend, empty `paths` whatever changed. All of `labels` are needed, except on the
    events in `bypass_labels`.
    """

    name: str
    events: tuple[GateEvent, ...]
    cron: tuple[str, ...] = ()
    backends: tuple[Backend, ...] = ()
    tiers: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    bypass_labels: tuple[GateEvent, ...] = ()
    drafts: bool = False
    branches: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    continue_on_error: tuple[GateEvent, ...] = (GateEvent.SCHEDULE,)
    env: Mapping[str, str] = field(default_factory=dict)
    about: str = ""
    line: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Matrix:
    """The whole of `ci/matrix.toml`, validated. Suites keep the order of the file."""

    path: str
    roots: tuple[str, ...]
    python_files: tuple[str, ...]
    backends: Mapping[Backend, BackendRow]
    tiers: Mapping[str, Tier]
    runner_configs: Mapping[str, RunnerConfig]
    suites: tuple[Suite, ...]
    gates: tuple[GateRule, ...] = ()
    ci: CiRow = field(default_factory=CiRow)

    def suites_of(self, backend: Backend, tier: str) -> tuple[Suite, ...]:
        """Return the suites of one session, in the order of the table."""
        return tuple(s for s in self.suites if s.backend is backend and s.tier == tier)


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionName:
    """`amd-extra-a` is (amd, extra-a, default variant); `amd-extra-a-rocm-7.1` names one."""

    backend: Backend
    tier: str
    variant: str
    name: str
    retired: str = ""
