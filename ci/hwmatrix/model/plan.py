"""What is to run: units and the plan."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - codec.py resolves the hints at run time
from dataclasses import dataclass, field

from hwmatrix.model.words import Backend, Isolation  # noqa: TC001 - as above


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """What is scheduled: one test file (or one declared group) of one suite.

    `selectors` are the pytest arguments that pick it: the files, or node ids under a selection
    by path. `test_limit_s < budget_s`; both count from the unit's own start. `exclusive`: nothing
    else runs on the host meanwhile.
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
    exclusive: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Frozen and hashed: units in the order in which they are to start.

    `units` are those of all shards; `mine` are those of `shard` (index from 1). `hash` covers
    everything that all shards share, and not which shard this machine runs. `slots` are those of
    the narrowest runner config on the machine planned with. `disabled` and
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
