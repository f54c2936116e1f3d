"""What the stages hand to each other: frozen values, parsed once, with units in their names.

Standard library only and good on Python 3.10, since the environment under test imports it too.
Words are those of `docs/architecture.md`.
"""

from __future__ import annotations

from hwmatrix.model.asset import Asset, Declared
from hwmatrix.model.ci import Chosen, CiRow, Container, ContainerRow, Job
from hwmatrix.model.plan import Plan, Unit
from hwmatrix.model.run import Device, Environment, Probe, RunSpec, Slot, TorchCheck
from hwmatrix.model.table import (
    BackendRow,
    BudgetPolicy,
    Disabled,
    GateRule,
    Matrix,
    Registration,
    RunnerConfig,
    SessionName,
    Suite,
    Tier,
    Variant,
)
from hwmatrix.model.words import Backend, GateEvent, Isolation, Outcome

__all__ = [
    "Asset",
    "Backend",
    "BackendRow",
    "BudgetPolicy",
    "Chosen",
    "CiRow",
    "Container",
    "ContainerRow",
    "Declared",
    "Device",
    "Disabled",
    "Environment",
    "GateEvent",
    "GateRule",
    "Isolation",
    "Job",
    "Matrix",
    "Outcome",
    "Plan",
    "Probe",
    "Registration",
    "RunSpec",
    "RunnerConfig",
    "SessionName",
    "Slot",
    "Suite",
    "Tier",
    "TorchCheck",
    "Unit",
    "Variant",
]
