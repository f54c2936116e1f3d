"""Green or red: the plan is accounted for and good, or it is not and here is why."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hwmatrix.model import Outcome
from hwmatrix.reporting.ledger import number, text
from hwmatrix.reporting.result import SEVERITY, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hwmatrix.model import RunSpec
    from hwmatrix.reporting.ledger import Ledger
    from hwmatrix.reporting.result import UnitResult


def judge_run(
    spec: RunSpec, units: Sequence[UnitResult], ledger: Ledger, *, running: int = 0
) -> Verdict:
    """Return the verdict; every reason for red is listed, units first, in the plan's order.

    Green needs: each unit of this shard passed, skipped or deselected; at least one test passed;
    no suite (whole in this shard) in which nothing ran, unless a selection was asked for; the
    journal whole, of this plan, and closed by an end that agrees. `running` is the pid of the
    supervisor of a run that goes on: red until it has ended.
    """
    reasons = [unit_reason(unit) for unit in units if unit.is_red]
    reasons += [] if running else _nothing_ran(spec, units)
    reasons += _journal(spec, ledger, running=running)
    flaky = sum(unit.flaky for unit in units)
    if not reasons:
        reasons += _end_disagrees(ledger, flaky=bool(flaky))
    return Verdict(
        green=not reasons,
        reasons=tuple(reasons),
        units=_tally(Counter(unit.outcome for unit in units)),
        tests=_tally(_tests(units)),
        flaky_units=flaky,
        flaky_tests=sum(test.flaky for unit in units for test in unit.tests),
    )


def unit_reason(unit: UnitResult) -> str:
    """Return the reason for red that this unit gives."""
    return f"{where(unit)}: {unit.outcome}: {unit.reason}"


def run_reasons(verdict: Verdict, units: Sequence[UnitResult]) -> list[str]:
    """Return the reasons for red that belong to no unit."""
    own = {unit_reason(unit) for unit in units if unit.is_red}
    return [reason for reason in verdict.reasons if reason not in own]


def where(unit: UnitResult) -> str:
    """Return the unit's file, or its files in a row."""
    return " ".join(unit.unit.files) or unit.unit.id


def strangers(spec: RunSpec, ledger: Ledger) -> tuple[str, ...]:
    """Return the units that the journal knows and this shard's plan does not."""
    known = {unit.id for unit in spec.plan.mine}
    return tuple(unit for unit in sorted(ledger.units) if unit not in known)


def _tests(units: Sequence[UnitResult]) -> Counter[Outcome]:
    found = Counter(test.outcome for unit in units for test in unit.tests)
    found[Outcome.DESELECTED] += sum(unit.deselected for unit in units)
    return found


def _tally(found: Counter[Outcome]) -> Mapping[Outcome, int]:
    return {outcome: found[outcome] for outcome in SEVERITY if found[outcome]}


def _ran(unit: UnitResult) -> bool:
    return any(test.outcome is not Outcome.SKIPPED for test in unit.tests) or unit.is_red


def _nothing_ran(spec: RunSpec, units: Sequence[UnitResult]) -> list[str]:
    if not any(unit.count(Outcome.PASSED) for unit in units):
        if not units:
            return ["nothing ran: the plan holds no unit for this shard"]
        if any(unit.is_red for unit in units):
            return ["no test passed"]
        whole = f"all {len(units)} units were" if len(units) > 1 else "the only unit was"
        return [f"nothing ran: {whole} skipped or deselected"]
    if spec.selection:
        return []
    found = []
    for suite in dict.fromkeys(unit.unit.suite for unit in units):
        mine = [unit for unit in units if unit.unit.suite == suite]
        if all(unit.outcome is Outcome.DESELECTED for unit in mine):
            continue  # by --lf
        planned = sum(unit.suite == suite for unit in spec.plan.units)
        if len(mine) == planned and not any(_ran(unit) for unit in mine):
            plural = f"all {len(mine)} files" if len(mine) > 1 else "its only file"
            found.append(f"suite {suite} ran nothing: {plural} skipped every test")
    return found


def lost(ledger: Ledger) -> str:
    """Return what of the journal is missing so that nobody can tell how the run went on, or ''."""
    if not ledger.lines:
        return "the journal is missing or empty: its files were removed or never written"
    if ledger.run_start is None and ledger.run_end is None:
        return "the journal has no lines of the supervisor: files were removed or never written"
    return ""


def retirements(ledger: Ledger) -> tuple[str, ...]:
    """Return the slots that could not be used any more, why, and where their unit went."""
    return tuple(_retirement(line, ledger) for line in ledger.retired)


def _retirement(line: Mapping[str, object], ledger: Ledger) -> str:
    slot, given = int(number(line.get("slot"))), text(line.get("given"))
    why = text(line.get("reason")) or "no reason given"
    found = f"slot {slot} was retired: {why}"
    if not given:
        return found
    record = ledger.units.get(given)
    starts = [part.start for part in record.ordered() if part.start] if record else []
    went = f"ran on slot {int(number(starts[-1].get('slot')))}" if starts else "was not run yet"
    if not starts and (ledger.run_end is not None or record is not None):
        went = "was run by no other slot"
    return f"{found}; {given} {went}"


def _done(spec: RunSpec, ledger: Ledger) -> str:
    """Return `2 of 7 files done`."""
    ended = 0
    for unit in spec.plan.mine:
        record = ledger.units.get(unit.id)
        latest = record.latest if record else None
        over = record is not None and (record.not_run or (latest and latest.end is not None))
        ended += len(unit.files) if over else 0
    total = sum(len(unit.files) for unit in spec.plan.mine)
    return f"{ended} of {total} file{'' if total == 1 else 's'} done"


def _journal(spec: RunSpec, ledger: Ledger, *, running: int) -> list[str]:
    found = [f"the journal is torn at {place}: what stood there is lost" for place in ledger.torn]
    found += [
        f"the journal tells of {unit}, which the plan of this shard does not hold"
        for unit in strangers(spec, ledger)
    ]
    missing = lost(ledger)
    if missing:
        found.append(missing)
    elif ledger.run_start is None:
        found.append("the journal lacks the start of the run")
    elif ledger.run_start.get("plan_hash") != spec.plan.hash:
        told = ledger.run_start.get("plan_hash")
        found.append(f"the journal is of plan {told}, not of {spec.plan.hash}")
    found += [f"the run was stopped: {reason}" for reason in ledger.stops]
    if running:
        found.append(f"still running (pid {running}): {_done(spec, ledger)}")
    elif ledger.run_end is None and not missing:
        found.append("the run has no end: it was killed, or it still runs")
    return found


def _end_disagrees(ledger: Ledger, *, flaky: bool) -> list[str]:
    """Return a reason when all units are well and yet the run's own exit status is not.

    Status 1 is right beside a unit that failed first and passed later: its failure was reported.
    """
    end = ledger.run_end or {}
    status = end.get("exit_status")
    if status == 0 or (status == 1 and flaky):
        return []
    why = text(end.get("reason"))
    shown = int(number(status)) if isinstance(status, int) else "unknown"
    return [f"every unit is well but the run ended with status {shown}{f': {why}' if why else ''}"]
