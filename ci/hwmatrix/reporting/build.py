"""`build`: from a run's folder to its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwmatrix import codec, journal
from hwmatrix.errors import RunFolderError
from hwmatrix.model import RunSpec
from hwmatrix.redact import redact_plain
from hwmatrix.reporting.ledger import Ledger, count, text
from hwmatrix.reporting.parts import RunState
from hwmatrix.reporting.presence import supervisor
from hwmatrix.reporting.result import Report
from hwmatrix.reporting.screen import plural
from hwmatrix.reporting.units import judge_unit
from hwmatrix.reporting.verdict import judge_run, lost, retirements, strangers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

PLAN_FILE = "plan.json"
# pytest's own switches that end a file early; `-x` may hide in a bundle such as `-vx`.
_EARLY = ("-x", "--exitfirst", "--maxfail", "--stepwise", "--sw")


def build(folder: Path, *, secrets: Callable[[str], str] | None = None) -> Report:
    """Return what the run in `folder` came to, at any moment: while it runs, after a kill, later.

    `secrets` (from `hwmatrix.redact.redactor`) is applied to every text of plan and journal.

    Raises:
        RunFolderError: plan.json or the journal cannot be read.
    """
    redact = secrets or _as_it_is
    spec = load_spec(folder, redact)
    ledger = Ledger(_lines(folder, redact))
    ledger.forget_earlier_parts()
    return assemble(spec, ledger, running=supervisor(ledger, folder.resolve().name))


def assemble(spec: RunSpec, ledger: Ledger, *, running: int = 0) -> Report:
    """Return the report of `spec` held against `ledger`.

    `running` is the pid of the run's supervisor while that runs on this machine, else 0.
    """
    ledger.forget_earlier_parts()
    state = run_state(spec, ledger, running=running)
    units = tuple(judge_unit(unit, ledger.units.get(unit.id), state) for unit in spec.plan.mine)
    return Report(
        spec=spec,
        units=units,
        verdict=judge_run(spec, units, ledger, running=running),
        started=ledger.first_time,
        ended=ledger.last_time,
        complete=ledger.run_end is not None,
        stops=tuple(ledger.stops),
        torn=tuple(ledger.torn),
        strangers=strangers(spec, ledger),
        notes=_notes(ledger),
        infrastructure=retirements(ledger),
        running=running,
        resumed=ledger.resumed,
    )


def load_spec(folder: Path, redact: Callable[[str], str]) -> RunSpec:
    """Return the plan of the run in `folder`.

    Raises:
        RunFolderError: plan.json is missing, unreadable or of another shape.
    """
    path = folder / PLAN_FILE
    try:
        spec = codec.load(RunSpec, path)
        return codec.from_plain(RunSpec, redact_plain(codec.to_plain(spec), redact))
    except FileNotFoundError:
        message = f"{path}: not found; {folder} is no folder of a run. They lie in .hwmatrix/runs."
        raise RunFolderError(message) from None
    except (OSError, ValueError, TypeError) as error:
        raise RunFolderError(f"{path}: cannot be read as the plan of a run: {error}") from error


def run_state(spec: RunSpec, ledger: Ledger, *, running: int = 0) -> RunState:
    """Return what holds for the whole run."""
    return RunState(
        ended=ledger.run_end is not None,
        running=running > 0,
        lost=lost(ledger),
        stop="; ".join(ledger.stops),
        end_reason=text((ledger.run_end or {}).get("reason")),
        selection=spec.selection,
        stops_early=spec.fail_fast or spec.max_failures > 0 or _stops_early(spec.pytest_args),
    )


def _stops_early(args: tuple[str, ...]) -> bool:
    return any(arg.split("=")[0] in _EARLY for arg in args)


def _lines(folder: Path, redact: Callable[[str], str]) -> list[Mapping[str, object]]:
    try:
        lines = list(journal.read(folder))
    except OSError as error:
        raise RunFolderError(f"{folder}: its journal cannot be read: {error}") from error
    plain = (redact_plain(line, redact) for line in lines) if redact is not _as_it_is else lines
    return [line for line in plain if isinstance(line, dict)]


def _notes(ledger: Ledger) -> tuple[str, ...]:
    end = ledger.run_end or {}
    killed = count(end.get("killed"))
    processes = "1 left-over process" if killed == 1 else f"{killed} left-over processes"
    notes = [f"{processes} killed at the end"] if killed else []
    return (*notes, *_unforked(ledger))


def _unforked(ledger: Ledger) -> list[str]:
    """Return why files began in fresh interpreters that were to be forked: seconds for each."""
    told: dict[str, set[str]] = {}
    for unit, record in ledger.units.items():
        for part in record.parts.values():
            why = text((part.start or {}).get("note"))
            if why:
                told.setdefault(why, set()).add(unit)
    return [f"{why} ({plural(len(units), 'file')})" for why, units in told.items()]


def _as_it_is(text_: str) -> str:
    return text_
