"""Planning: registrations and table to a frozen, hashed plan.

Pure: no clock, no disk, no environment; the same inputs give the same plan on every machine.

| module | what it holds |
|---|---|
| `assign` | registrations -> suites, every name checked both ways |
| `select` | suites and paths that a person picked |
| `units` | registrations -> units with budget, environment, weight |
| `split` | units -> shards |
| `nesting` | test < file < shard < job; makespan and deadline |
| `plan` | all of it in order, and the hash |
"""

from __future__ import annotations

from hwmatrix.planning.assign import Assignment, NameProblem, assign
from hwmatrix.planning.nesting import deadline_s, planned_on, run_s
from hwmatrix.planning.plan import make_plan

__all__ = [
    "Assignment",
    "NameProblem",
    "assign",
    "deadline_s",
    "make_plan",
    "planned_on",
    "run_s",
]
