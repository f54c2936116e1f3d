"""Test files to registrations: read from the syntax tree, never by importing a test file.

`scan` walks the test roots, `expired` tells which switched-off registrations are overdue, and
`assets.declared` (not loaded with the rest, since it needs `ast`) which assets files need. What is
read, what is refused and why stands in `docs/registrations.md` and `docs/assets.md`.
"""

from __future__ import annotations

from hwmatrix.registry.expiry import expired
from hwmatrix.registry.results import RegistrationProblem, Scan
from hwmatrix.registry.tree import scan

__all__ = ["RegistrationProblem", "Scan", "expired", "scan"]
