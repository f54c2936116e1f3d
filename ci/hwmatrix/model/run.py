"""What a run has: devices, slots, the environment under test, and the spec of it all."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - codec.py resolves the hints at run time
from dataclasses import dataclass, field

from hwmatrix.model.plan import Plan  # noqa: TC001 - as above
from hwmatrix.model.words import Backend, Isolation


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
    """What one worker owns: devices, and the variables to set and to remove for it.

    Slots of different widths overlap; units on overlapping slots never run at the same time.
    """

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
    `found` is true where nothing was made or installed (`--no-venv`).
    """

    python: str
    folder: str
    torch: str = ""
    toolkit: str = ""
    stamp: str = ""
    reused: bool = False
    found: bool = False
    notes: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSpec:
    """All that supervisor, controller and workers need for one run; `plan.json` in the folder.

    `root` and `folder` are absolute. `pytest_args` go to every unit's pytest (`-k`, `-x` ...);
    `selection` is true when they can pick nothing from a file without that being a fault.
    `at_once` limits how many units run together; 0 leaves that to the slots.
    `retries`: how often a unit runs again after a fault of the machine. `resumed`: how many earlier
    parts this run has in the same folder; `done` are the units that they settled.
    `command` are the words that started the session, `options` the options of hwmatrix's own that
    it was given and that a run of a part of it needs too.
    `commit` and `table_hash` say what it was made from, `setup_s` how long that took (measured).
    """

    run_id: str
    plan: Plan
    root: str
    folder: str
    python: str
    slots: tuple[Slot, ...]
    at_once: int = 0
    pytest_args: tuple[str, ...] = ()
    selection: bool = False
    fail_fast: bool = False
    max_failures: int = 0
    deadline_s: float = 0.0
    isolation: Isolation = Isolation.SPAWN
    preload: tuple[str, ...] = ()
    retries: int = 0
    resumed: int = 0
    done: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""
    table_hash: str = ""
    command: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    setup_s: float = 0.0
