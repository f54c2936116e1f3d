"""`--resume RUN`: go on with a run that was cut short, in its own folder, with its own plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix import reporting
from hwmatrix.app import origin
from hwmatrix.errors import UsageError
from hwmatrix.model import Outcome
from hwmatrix.redact import redactor

if TYPE_CHECKING:
    from hwmatrix.app.place import Place
    from hwmatrix.model import RunSpec


@dataclass(frozen=True, kw_only=True, slots=True)
class Earlier:
    """A run to go on with: its spec, and the units that it settled."""

    spec: RunSpec
    done: tuple[str, ...]

    def goes_on_as(self, spec: RunSpec) -> RunSpec:
        """Return the earlier spec with the slots, interpreter and deadline of `spec`."""
        return replace(
            self.spec,
            slots=spec.slots,
            at_once=spec.at_once,
            python=spec.python,
            env=spec.env,
            deadline_s=spec.deadline_s,
            setup_s=self.spec.setup_s + spec.setup_s,
            resumed=self.spec.resumed + 1,
            done=self.done,
        )


def find_run(name: str, place: Place) -> Path:
    """Return the folder of a run given by path, by id, or as `latest`.

    Raises:
        UsageError: there is none.
    """
    for folder in (Path(name), place.cwd / name, place.state / "runs" / name):
        if (folder / "plan.json").is_file():
            return folder.resolve()
    raise UsageError(
        f"no run at {name!r}: looked for plan.json there and under {place.state / 'runs'}. "
        "Give the folder that the session printed, or `latest`."
    )


def earlier(name: str, session: str, place: Place) -> Earlier:
    """Return the run called `name`, with what it settled: every unit that ended by itself.

    What was not run, or was cut short, is left to run. A failure stands: a run is resumed to be
    completed, not to be tried until it passes.

    Raises:
        UsageError: no such run, one of another session, one of another commit or table, or one
            with nothing left to run.
        RunFolderError: its folder cannot be read.
    """
    folder = find_run(name, place)
    report = reporting.build(folder, secrets=redactor(place.env))
    spec = report.spec
    if spec.plan.session != session:
        raise UsageError(
            f"{folder}: is a run of {spec.plan.session}, not of {session}. "
            f"Resume it with: {spec.plan.session} --resume {name}"
        )
    now = (origin.commit(place.root, place.env), origin.table_hash(place.table))
    if now != (spec.commit, spec.table_hash):
        raise UsageError(
            f"{folder}: was made from commit {spec.commit or 'unknown'} and another state of the "
            "table or the tree than is here now. Parts of different states make no one verdict: "
            "check that commit out, or start a new run."
        )
    done = tuple(u.unit.id for u in report.units if u.outcome is not Outcome.NOT_RUN)
    if len(done) == len(report.units):
        raise UsageError(
            f"{folder}: nothing is left to run: all {len(done)} files ended. "
            f"`python -m hwmatrix report {name}` shows its verdict."
        )
    return Earlier(spec=spec, done=done)
