"""What the stages hand to each other: frozen values, parsed once, with units in their names.

Standard library only and good on Python 3.10, since the environment under test imports it too.
Words are those of `docs/architecture.md`.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - codec.py resolves the hints at run time
from dataclasses import dataclass, field
from enum import Enum

from hwmatrix.errors import UsageError, close_match


class _Word(str, Enum):
    """A string enum that prints as its value (`enum.StrEnum` needs Python 3.11)."""

    def __str__(self) -> str:
        return str(self.value)


class Backend(_Word):
    """One kind of accelerator, with its environment switches and its device variable."""

    CPU = "cpu"
    CUDA = "cuda"
    AMD = "amd"
    XPU = "xpu"
    NPU = "npu"
    MUSA = "musa"
    MLX = "mlx"

    @classmethod
    def parse(cls, name: str) -> Backend:
        """Return the backend called `name`.

        Raises:
            UsageError: no backend has that name; the close match is offered.
        """
        try:
            return cls(name)
        except ValueError:
            names = [member.value for member in cls]
            hint = close_match(name, names)
            message = f"no backend is called {name!r}. {hint} Backends: {', '.join(names)}."
            raise UsageError(message.replace("  ", " ")) from None


class Outcome(_Word):
    """How a planned unit, or a test that it collected, ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    DESELECTED = "deselected"
    CRASHED = "crashed"
    TIMED_OUT = "timed out"
    NOT_RUN = "not run"


class Isolation(_Word):
    """How a unit's process begins: forked from the slot's server, or a fresh interpreter."""

    FORK = "fork"
    SPAWN = "spawn"


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
    """When suites run and how dear they are."""

    name: str
    budget: BudgetPolicy
    about: str = ""
    nightly: bool = False
    fail_fast: bool = False
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Suite:
    """Keyed by (backend, name); the row says its tier and runner config."""

    backend: Backend
    name: str
    tier: str
    runner_config: str
    aliases: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    isolation: Isolation | None = None
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """What is scheduled: one test file (or one declared group) of one suite.

    `selectors` are the pytest arguments that pick it: the files, or node ids under a selection
    by path. `test_limit_s < budget_s`; both count from the unit's own start.
    """

    id: str
    suite: str
    files: tuple[str, ...]
    selectors: tuple[str, ...]
    est_s: float
    test_limit_s: float
    budget_s: float
    devices: int
    shard: int
    env: Mapping[str, str] = field(default_factory=dict)
    isolation: Isolation | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Frozen and hashed: units in the order in which they are to start.

    `units` are those of all shards; `mine` are those of `shard` (index from 1). `hash` covers
    everything that all shards share, and not which shard this machine runs. `disabled` and
    `deselected` tell what was left out and why.
    """

    session: str
    backend: Backend
    variant: str
    tier: str
    suites: tuple[str, ...]
    units: tuple[Unit, ...]
    shard: int
    shards: int
    hash: str
    disabled: tuple[tuple[str, str], ...] = ()
    deselected: tuple[tuple[str, str], ...] = ()
    fail_fast: bool = False
    slots: int = 1
    setup_s: float = 0.0
    makespan_s: float = 0.0
    deadline_s: float = 0.0

    @property
    def mine(self) -> tuple[Unit, ...]:
        """The units that this machine runs, in order."""
        return tuple(unit for unit in self.units if unit.shard == self.shard)


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """One device that a session may use.

    `key` names it on this host whatever the mask (PCI address or UUID; `rank0` on cpu): leases
    are taken on it. `token` is what goes into the visibility variable. `memory_gib` and `arch`
    are empty where the probe cannot know.
    """

    key: str
    token: str
    name: str = ""
    arch: str = ""
    memory_gib: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """What was found on this machine for one backend, without torch.

    `devices` respects the inherited visibility variables. `looked_for` says what was looked at
    and `problems` what stands in the way (no permission, driver too old ...).
    """

    backend: Backend
    devices: tuple[Device, ...]
    driver: str = ""
    looked_for: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """What one worker owns: devices, and the variables to set and to remove for it."""

    index: int
    devices: tuple[Device, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class TorchCheck:
    """What the torch of one backend must say of itself, asked in the environment under test.

    `version` names the attributes of `torch.version` of which one must be set; `never` those that
    must be None. `modules` are imported with torch (torch_npu). `available` and `archs` are dotted
    names of functions: whether a device can be used, and the architectures built for.
    """

    version: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    available: str = ""
    archs: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """The environment under test: its interpreter, and what the guard saw in it.

    `env` holds variables that every process in it needs (PYTHONPATH for the core, say).
    """

    python: str
    folder: str
    torch: str = ""
    toolkit: str = ""
    stamp: str = ""
    reused: bool = False
    notes: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSpec:
    """All that supervisor, controller and workers need for one run; `plan.json` in the folder.

    `root` and `folder` are absolute. `pytest_args` go to every unit's pytest (`-k`, `-x` ...);
    `selection` is true when they can pick nothing from a file without that being a fault.
    """

    run_id: str
    plan: Plan
    root: str
    folder: str
    python: str
    slots: tuple[Slot, ...]
    pytest_args: tuple[str, ...] = ()
    selection: bool = False
    fail_fast: bool = False
    max_failures: int = 0
    deadline_s: float = 0.0
    isolation: Isolation = Isolation.SPAWN
    preload: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
