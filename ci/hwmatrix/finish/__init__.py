"""From the reports of all machines to one verdict: the shards are the plan, exactly once.

| module | what it holds |
|---|---|
| `read` | report.json to values, every oddity told |
| `judge` | expected jobs, reports and results of jobs to the verdict |
| `summary` | the verdict for a step's page, a log, a program |
"""

from __future__ import annotations

from hwmatrix.finish.judge import Case, Verdict, judge
from hwmatrix.finish.read import Measured, Shard, UnitRow, parse
from hwmatrix.finish.summary import as_json, as_markdown, as_text

__all__ = [
    "Case",
    "Measured",
    "Shard",
    "UnitRow",
    "Verdict",
    "as_json",
    "as_markdown",
    "as_text",
    "judge",
    "parse",
]
