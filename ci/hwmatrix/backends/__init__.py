"""Backends: one file each, with the facts of its variables and a probe that needs no torch.

`BACKENDS[backend].probe(env)` finds devices, `check` says whether they do for a suite, `make_slots`
hands them out.
"""

from __future__ import annotations

from hwmatrix.backends.cpu import usable_cores
from hwmatrix.backends.facts import DEVICE_VARIABLES, BackendFacts
from hwmatrix.backends.hardware import check, fitting
from hwmatrix.backends.slots import make_slots
from hwmatrix.backends.table import BACKENDS

__all__ = [
    "BACKENDS",
    "DEVICE_VARIABLES",
    "BackendFacts",
    "check",
    "fitting",
    "make_slots",
    "usable_cores",
]
