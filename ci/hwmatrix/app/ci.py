"""Sessions to the jobs of a CI engine: planned here as each machine will plan them."""

from __future__ import annotations

import dataclasses
import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix import matrix as matrix_stage
from hwmatrix import planning, workflows
from hwmatrix.app import decision as decisions
from hwmatrix.app import truth
from hwmatrix.errors import (
    HwMatrixError,
    JobsError,
    NothingToDoError,
    RetiredVariantError,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hwmatrix.app.decision import Decision
    from hwmatrix.app.place import Place
    from hwmatrix.model import Chosen, Job, Plan, RunnerConfig, SessionName, Suite


@dataclass(frozen=True, kw_only=True, slots=True)
class Jobs:
    """The jobs of a decision. A session with a fault has none, and `finish` is red for it."""

    jobs: tuple[Job, ...]
    faults: tuple[tuple[str, HwMatrixError], ...] = ()
    notes: tuple[str, ...] = ()


def jobs_of(decision: Decision, place: Place) -> Jobs:
    """Return the jobs of every session of `decision`, in its order.

    The faults of one session stop no other: each is kept with its session's name.

    Raises:
        MatrixError: the table itself is not valid.
        JobsError: a session was chosen twice.
    """
    facts = truth.read(place)
    jobs: list[Job] = []
    faults: list[tuple[str, HwMatrixError]] = []
    notes: list[str] = []
    for chosen in decision.sessions:
        try:
            made, said = _session_jobs(chosen, facts, place)
        except HwMatrixError as error:  # noqa: PERF203 - each session stands alone
            faults.append((chosen.session, error))
        else:
            jobs += made
            notes += said
    workflows.check_names(jobs)
    return Jobs(jobs=tuple(jobs), faults=tuple(faults), notes=tuple(notes))


def _session_jobs(chosen: Chosen, facts: truth.Truth, place: Place) -> tuple[list[Job], list[str]]:
    session = matrix_stage.find_session(facts.matrix, chosen.session)
    if session.retired:
        raise RetiredVariantError(f"{session.name}: is retired: {session.retired}")
    truth.check(facts, session, place)
    suites = _suites(chosen, session, facts)
    jobs: list[Job] = []
    notes: list[str] = []
    for name, members in workflows.group_by_runner(suites).items():
        mine = _paths_of(members, chosen, facts)
        if chosen.paths and not mine:
            continue
        planner = _Planner(
            session=session,
            suites=members,
            config=facts.matrix.runner_configs[name],
            paths=mine,
            facts=facts,
        )
        split = planner.split()
        if split is None:
            notes.append(f"{session.name}: nothing is enabled on {name}")
            continue
        notes += [f"{session.name} on {name}: {split.note}"] if split.note else []
        here = dataclasses.replace(chosen, paths=mine)
        jobs += workflows.make_jobs(facts.matrix, session, here, planner.config, split)
    if not jobs:
        raise NothingToDoError(
            f"{session.name}: was chosen, and has nothing to run: every file of "
            f"{', '.join(suite.name for suite in suites)} is disabled or not among those named."
        )
    return jobs, notes


def _suites(chosen: Chosen, session: SessionName, facts: truth.Truth) -> tuple[Suite, ...]:
    """Return the suites chosen, checked by the planner's own rules."""
    own = facts.matrix.suites_of(session.backend, session.tier)
    if not chosen.suites and not chosen.paths:
        return own
    plan = planning.make_plan(
        facts.matrix,
        session,
        facts.assignment,
        suites=chosen.suites,
        shards=_files(own, facts),
        paths=chosen.paths,
        allow_empty=True,
    )
    return tuple(suite for suite in own if suite.name in plan.suites)


def _files(suites: Sequence[Suite], facts: truth.Truth) -> int:
    registered = (facts.assignment.by_suite.get((s.backend, s.name), ()) for s in suites)
    return max(1, sum(len(files) for files in registered))


def _paths_of(suites: Sequence[Suite], chosen: Chosen, facts: truth.Truth) -> tuple[str, ...]:
    """Return those of the chosen paths that some file of these suites lies at."""
    files = {
        registration.path
        for suite in suites
        for registration in facts.assignment.by_suite.get((suite.backend, suite.name), ())
    }
    return tuple(
        path
        for path in chosen.paths
        for name in [path.partition("::")[0].rstrip("/")]
        if name in files or any(file.startswith(f"{name}/") for file in files)
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Planner:
    """Plans of those suites of a session that share a runner config, by number of shards."""

    session: SessionName
    suites: tuple[Suite, ...]
    config: RunnerConfig
    paths: tuple[str, ...]
    facts: truth.Truth

    def split(self) -> workflows.Split | None:
        """Return the plan in as many shards as it should have; None for no file at all."""
        matrix = self.facts.matrix
        finest = self._plan(_files(self.suites, self.facts))
        if not finest.units:
            return None
        tier = matrix.tiers[self.session.tier]
        bounds = workflows.Bounds(
            config=self.config,
            table=matrix.path,
            setup_s=matrix.backends[self.session.backend].setup_s,
            overhead_s=matrix.ci.overhead_s,
            target_s=60 * (tier.target_minutes or matrix.ci.target_minutes),
            most=len(finest.units),
        )
        return workflows.choose_shards(self._plan, self._times, bounds)

    def _plan(self, shards: int) -> Plan:
        return planning.make_plan(
            self.facts.matrix,
            self.session,
            self.facts.assignment,
            suites=[suite.name for suite in self.suites],
            shards=shards,
            paths=self.paths,
            allow_empty=True,
        )

    def _times(self, plan: Plan) -> tuple[workflows.ShardTime, ...]:
        """Return the times of each shard, as the session will reckon them.

        One whose set-up took all of its time still gets a file's start-up allowance.
        """
        matrix = self.facts.matrix
        before_s = plan.setup_s + matrix.tiers[plan.tier].budget.startup_s
        places = planning.planned_on(plan, matrix)
        shards = [dataclasses.replace(plan, shard=n) for n in range(1, plan.shards + 1)]
        return tuple(
            workflows.ShardTime(
                run_s=planning.run_s(mine.mine, places),
                deadline_s=before_s + planning.deadline_s(mine, matrix, places),
            )
            for mine in shards
        )


def run_matrix(
    place: Place, *, names: Sequence[str], decision: Path | None, engine: str, as_json: bool
) -> int:
    """Write the jobs for the engine and show them; return 0.

    To `$GITHUB_OUTPUT` where the engine is GitHub and that is set, else to standard output.

    Raises:
        UsageError: neither or both of names and decision were given.
        HwMatrixError: the table is wrong; over a limit; no session at all could be planned.
    """
    if bool(names) == (decision is not None):
        raise UsageError("matrix: name sessions, or give --decision FILE; one of them.")
    chosen = decisions.read(decision) if decision else decisions.by_hand(names)
    made = jobs_of(chosen, place)
    if made.faults and not made.jobs:
        raise made.faults[0][1]
    for name, error in made.faults:
        place.say(f"hwmatrix: {name}: no job is started for it; finish will be red. {error}")
    facts = matrix_stage.load(place.table)
    outputs = workflows.ENGINES[engine].outputs(made.jobs, max_parallel=facts.ci.max_parallel)
    _show(made, chosen, place)
    file = place.env.get("GITHUB_OUTPUT", "") if engine == "github" else ""
    if file:
        append(Path(file), workflows.lines_for(outputs, f"hwmatrix_{secrets.token_hex(16)}"))
    if as_json or not file:
        place.out.write(json.dumps({n: _parsed(text) for n, text in outputs.items()}) + "\n")
        place.out.flush()
    return 0


def _parsed(text: str) -> object:
    return json.loads(text)


def append(path: Path, text: str) -> None:
    """Append `text` to a file that the CI engine reads.

    Raises:
        JobsError: it cannot be written.
    """
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise JobsError(f"{path}: cannot be written: {error.strerror or error}.") from error


def _show(made: Jobs, chosen: Decision, place: Place) -> None:
    """Tell a person what starts: one line per job."""
    if not made.jobs:
        place.say("no job: the gate chose nothing" if chosen.neutral else "no job")
    for job in made.jobs:
        place.say(
            f"{job.name}: {len(job.units)} units, about {job.run_s / 60:.1f} min after "
            f"{job.setup_s / 60:.1f} min of set-up, {job.timeout_minutes} min at most, on "
            f"{', '.join(job.labels)}: {job.command}"
        )
    for note in made.notes:
        place.say(f"note: {note}")
