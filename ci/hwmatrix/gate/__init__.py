"""From an event of CI to sessions, with the reason for each that runs and each that does not.

| module | what it holds |
|---|---|
| `events` | GitHub's payload -> Event, checked |
| `globs` | which paths and branches a row takes |
| `selection` | what a dispatch or a call asked for, held against the table |
| `decide` | pure: event, table, labels, changes -> Decision |
| `decision` | the answer, and its JSON |
| `github`, `http`, `local` | labels and changed paths: from the API, from a file, from git |
| `reach` | suites that no row reaches, rows that reach no suite |
| `text`, `screen` | text from outside made safe to print; the answer for people |
"""

from __future__ import annotations

from hwmatrix.gate.decide import decide, needs
from hwmatrix.gate.decision import Chosen, Decision, Facts, Needs, Skipped
from hwmatrix.gate.events import Event, read_event, read_inputs
from hwmatrix.gate.reach import unreached
from hwmatrix.gate.screen import render

__all__ = [
    "Chosen",
    "Decision",
    "Event",
    "Facts",
    "Needs",
    "Skipped",
    "decide",
    "needs",
    "read_event",
    "read_inputs",
    "render",
    "unreached",
]
