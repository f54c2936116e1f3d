"""The table: `ci/matrix.toml` read, checked completely, and turned into the model's Matrix.

| module | what it holds |
|---|---|
| `table` (in words of `spec`) | the model of the file: every key, its type, range and meaning |
| `positions` | where each key stands in the text |
| `check`, `build`, `read` | text -> rows -> Matrix, all problems at once |
| `names` | default suite names, session names |
| `schema`, `reference`, `canonical` | for editors, for `docs/table.md`, for one way to write it |
"""

from __future__ import annotations

from hwmatrix.matrix.names import default_suite_name, find_session, sessions
from hwmatrix.matrix.read import load

__all__ = ["default_suite_name", "find_session", "load", "sessions"]
