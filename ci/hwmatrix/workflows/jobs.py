"""The jobs of one session: one per runner config of its suites and shard."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from hwmatrix.errors import JobsError
from hwmatrix.model import Container, Job

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hwmatrix.model import Chosen, Matrix, RunnerConfig, SessionName, Suite
    from hwmatrix.workflows.sharding import Split


def group_by_runner(suites: Iterable[Suite]) -> dict[str, tuple[Suite, ...]]:
    """Return the suites by runner config, in the order of the table: each needs its own machine."""
    groups: dict[str, list[Suite]] = {}
    for suite in suites:
        groups.setdefault(suite.runner_config, []).append(suite)
    return {name: tuple(members) for name, members in groups.items()}


def make_jobs(
    matrix: Matrix, session: SessionName, chosen: Chosen, config: RunnerConfig, split: Split
) -> tuple[Job, ...]:
    """Return one job per shard of `split`, in order.

    The limits nest: a job's is above the deadline of the session that it runs.

    Raises:
        JobsError: no machine of this shape has labels for the session's backend.
    """
    labels = config.labels.get(session.backend, ())
    if not labels:
        raise JobsError(
            f"{matrix.path}:{config.line}: runner config {config.name} has no labels for "
            f"{session.backend}, so no job of {session.name} can find a machine. "
            f"Add labels = {{ {session.backend} = [...] }}."
        )
    row = matrix.backends[session.backend].container
    image = row.images.get(session.variant, "")
    container = Container(
        image=image,
        volumes=row.volumes,
        options=row.options,
        overlay=row.overlay,
        requirements=row.requirements,
    )
    return tuple(
        Job(
            session=session.name,
            backend=session.backend,
            runner_config=config.name,
            suites=split.plan.suites,
            shard=number,
            shards=split.plan.shards,
            plan_hash=split.plan.hash,
            units=tuple(unit.id for unit in split.plan.units if unit.shard == number),
            labels=labels,
            timeout_minutes=_timeout_minutes(time.deadline_s, matrix.ci.overhead_s),
            args=_args(chosen, split, number, container if image else None),
            env=chosen.env,
            container=container if image else None,
            setup_s=split.plan.setup_s,
            run_s=time.run_s,
            deadline_s=time.deadline_s,
        )
        for number, time in enumerate(split.times, start=1)
    )


def _timeout_minutes(deadline_s: float, overhead_s: float) -> int:
    """Return whole minutes, above the deadline even where nothing is allowed around it."""
    return max(math.ceil((deadline_s + overhead_s) / 60), math.floor(deadline_s / 60) + 1)


def _args(
    chosen: Chosen, split: Split, number: int, container: Container | None
) -> tuple[str, ...]:
    """Return what the session is given: as words, so that no shell ever splits them."""
    words = [word for name in split.plan.suites for word in ("--suite", name)]
    if split.plan.shards > 1:
        words += ["--shard", f"{number}/{split.plan.shards}"]
    if chosen.continue_on_error:
        words.append("--continue-on-error")
    if container is not None:
        words.append("--no-venv")
        words += ["--overlay", container.overlay] if container.overlay else []
    return (*words, *chosen.paths)


def check_names(jobs: Sequence[Job]) -> None:
    """Refuse two jobs of one name: branch protection and reports could not tell them apart.

    Raises:
        JobsError: a session was chosen twice.
    """
    twice = [name for name, count in Counter(job.name for job in jobs).items() if count > 1]
    if twice:
        raise JobsError(
            f"jobs of the same name: {', '.join(twice)}. A session stands in a decision once; name "
            "all its suites and files there."
        )
