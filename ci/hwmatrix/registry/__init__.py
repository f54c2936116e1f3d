"""Test files to registrations: read from the syntax tree, never by importing a test file.

`scan` walks the test roots, `expired` tells which switched-off registrations are overdue. What is
read, what is refused and why stands in `docs/registrations.md`.
"""

from __future__ import annotations

from hwmatrix.registry.expiry import expired
from hwmatrix.registry.results import RegistrationProblem, Scan
from hwmatrix.registry.tree import scan

__all__ = ["RegistrationProblem", "Scan", "expired", "scan"]
