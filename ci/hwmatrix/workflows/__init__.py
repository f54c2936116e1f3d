"""From chosen sessions to the jobs of a CI engine, and the workflow files that run them.

| module | what it holds |
|---|---|
| `sharding` | how many machines a session gets |
| `jobs` | the jobs of one session: labels, limits, arguments, container |
| `engines` | jobs in the words of an engine: GitHub Actions, or plain JSON |
| `template`, `render` | the workflow files |
| `pins` | the actions they use, by commit |
"""

from __future__ import annotations

from hwmatrix.workflows.engines import ENGINES, GITHUB_JOBS, GITHUB_OUTPUT_CHARS, Engine, lines_for
from hwmatrix.workflows.jobs import check_names, group_by_runner, make_jobs
from hwmatrix.workflows.render import FOLDER, MARK, workflow_files
from hwmatrix.workflows.sharding import Bounds, ShardTime, Split, choose_shards

__all__ = [
    "ENGINES",
    "FOLDER",
    "GITHUB_JOBS",
    "GITHUB_OUTPUT_CHARS",
    "MARK",
    "Bounds",
    "Engine",
    "ShardTime",
    "Split",
    "check_names",
    "choose_shards",
    "group_by_runner",
    "lines_for",
    "make_jobs",
    "workflow_files",
]
