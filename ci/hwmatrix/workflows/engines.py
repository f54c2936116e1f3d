"""Jobs in the words of a CI engine, within its limits.

An engine is a name and one function from jobs to named texts. GitHub Actions reads them from
`$GITHUB_OUTPUT`; the plain one is for every other (Slurm, Buildkite): one JSON list on standard
output, each job with the words of its command.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Protocol

from hwmatrix.errors import JobsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hwmatrix.model import Job

# docs.github.com, "Usage limits": a matrix makes at most 256 jobs in a run of a workflow.
GITHUB_JOBS = 256
# docs.github.com, "jobs.<job_id>.outputs": 1 MB per job, counted in UTF-16, two bytes a character.
GITHUB_OUTPUT_CHARS = 524_288
# Linux takes 128 KiB in one variable (MAX_ARG_STRLEN), and arguments travel in one.
VARIABLE_BYTES = 131_072
_ROOM = 4_096


class Engine(Protocol):
    """What an engine makes of jobs."""

    @property
    def name(self) -> str:
        """What `--engine` calls it."""

    def outputs(self, jobs: Sequence[Job], *, max_parallel: int) -> Mapping[str, str]:
        """Return named texts, ASCII, each on one line.

        Raises:
            JobsError: over a limit of the engine.
        """


class GitHub:
    """GitHub Actions: `matrix` for `strategy.matrix`, `count`, `max_parallel`."""

    name = "github"

    def outputs(self, jobs: Sequence[Job], *, max_parallel: int) -> Mapping[str, str]:
        """Return the outputs of the plan job; see `Engine`."""
        if len(jobs) > GITHUB_JOBS:
            raise JobsError(_too_many(jobs))
        entries = [_entry(job) for job in jobs]
        for job, entry in zip(jobs, entries, strict=True):
            longest = max(len(_json(entry["args"])), len(_json(entry["env"])))
            if longest > VARIABLE_BYTES - _ROOM:
                raise JobsError(
                    f"{job.name}: its arguments take {longest} bytes; a variable holds "
                    f"{VARIABLE_BYTES}. Choose suites in place of {len(job.args)} words."
                )
        text = _json({"include": entries})
        if len(text) > GITHUB_OUTPUT_CHARS - _ROOM:
            raise JobsError(
                f"{len(jobs)} jobs take {len(text)} characters; GitHub takes "
                f"{GITHUB_OUTPUT_CHARS} from a job. Choose fewer sessions, or suites in place of "
                "files."
            )
        side_by_side = min(max_parallel or GITHUB_JOBS, max(1, len(jobs)))
        return {"count": str(len(jobs)), "matrix": text, "max_parallel": str(side_by_side)}


class Plain:
    """Any other engine: `jobs`, a JSON list in which each job has the words of its command."""

    name = "plain"

    def outputs(self, jobs: Sequence[Job], *, max_parallel: int) -> Mapping[str, str]:
        """Return the jobs as one JSON list; `max_parallel` is that engine's own affair."""
        del max_parallel
        return {"jobs": _json([_plain(job) for job in jobs])}


ENGINES: Mapping[str, Engine] = {engine.name: engine for engine in (GitHub(), Plain())}


def lines_for(outputs: Mapping[str, str], delimiter: str) -> str:
    """Return what is appended to `$GITHUB_OUTPUT`: each value between lines of `delimiter`.

    A value with that line in it could declare outputs of its own: `delimiter` must be a fresh
    random word.

    Raises:
        JobsError: a value holds the delimiter.
    """
    for name, value in outputs.items():
        if delimiter in value or delimiter in name:
            raise JobsError(f"output {name!r} holds the delimiter {delimiter!r}; run it again.")
    return "".join(f"{n}<<{delimiter}\n{v}\n{delimiter}\n" for n, v in outputs.items())


def _entry(job: Job) -> dict[str, object]:
    """Return what the workflow reads as `matrix.*`; an empty container means none."""
    container: object = ""
    overlay = requirements = ""
    if job.container is not None:
        made: dict[str, object] = {"image": job.container.image}
        if job.container.volumes:
            made["volumes"] = list(job.container.volumes)
        if job.container.options:
            made["options"] = job.container.options
        container = made
        overlay, requirements = job.container.overlay, job.container.requirements
    return {
        "name": job.name,
        "session": job.session,
        "args": list(job.args),
        "env": dict(job.env),
        "runs_on": list(job.labels),
        "timeout": job.timeout_minutes,
        "container": container,
        "overlay": overlay,
        "requirements": requirements,
        "report": job.report,
    }


def _plain(job: Job) -> dict[str, object]:
    command = ["python3", "-m", "hwmatrix", "session", job.session, *job.args]
    return {**_entry(job), "command": command, "shard": job.shard, "shards": job.shards}


def _json(value: object) -> str:
    """Return `value` on one line, ASCII only: nothing in it can end the line."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("##[", "\\u0023#[")  # a command to GitHub's runner, anywhere in a line


def _too_many(jobs: Sequence[Job]) -> str:
    counts: dict[str, int] = {}
    for job in jobs:
        counts[job.session] = counts.get(job.session, 0) + 1
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:5]
    return (
        f"{len(jobs)} jobs; GitHub runs {GITHUB_JOBS} from one matrix. Most have: "
        f"{', '.join(f'{name} {count}' for name, count in most)}. Raise their target_minutes, or "
        "start fewer sessions with one event."
    )
