"""report.json: the whole report for programs. `docs/report.md` describes it for readers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hwmatrix.reporting.commands import reproduce, reproduce_red
from hwmatrix.reporting.failures import below, detail_limit
from hwmatrix.reporting.junit import totals
from hwmatrix.reporting.longrepr import shorten
from hwmatrix.reporting.result import RED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hwmatrix.model import Outcome
    from hwmatrix.reporting.result import Report, Span, TestResult, UnitResult

# Goes up when a key changes its meaning or goes away; new keys do not count.
VERSION = 1


def report_json(report: Report) -> str:
    """Return report.json's text. Seconds are floats, times seconds since the epoch."""
    return json.dumps(report_plain(report), indent=2, allow_nan=False) + "\n"


def report_plain(report: Report) -> dict[str, object]:
    """Return the report as dicts, lists and scalars, in the order in which people read it."""
    plan, verdict = report.plan, report.verdict
    limit = detail_limit(report.units)
    return {
        "version": VERSION,
        "kind": "verdict",
        "run": report.spec.run_id,
        "session": plan.session,
        "backend": plan.backend.value,
        "variant": plan.variant,
        "tier": plan.tier,
        "plan_hash": plan.hash,
        "shard": plan.shard,
        "shards": plan.shards,
        "suites": list(plan.suites),
        "planned": [
            [unit.id for unit in plan.units if unit.shard == number]
            for number in range(1, plan.shards + 1)
        ],
        "commit": report.spec.commit,
        "table_hash": report.spec.table_hash,
        "verdict": {
            "green": verdict.green,
            "reasons": list(verdict.reasons),
            "units": _counts(verdict.units),
            "tests": _counts(verdict.tests),
            "flaky_units": verdict.flaky_units,
            "flaky_tests": verdict.flaky_tests,
        },
        "complete": report.complete,
        "stopped": list(report.stops),
        "torn": list(report.torn),
        "notes": list(report.notes),
        "infrastructure": list(report.infrastructure),
        "running": report.running or None,
        "resumed": report.resumed,
        "command": reproduce(report),
        "command_red": reproduce_red(report),
        "started": report.started,
        "seconds": _round(report.seconds),
        "setup": {"planned_s": plan.setup_s, "seconds": _round(report.spec.setup_s)},
        "makespan_s": plan.makespan_s,
        "deadline_s": report.spec.deadline_s or plan.deadline_s,
        "slots": [
            {"slot": slot.index, "devices": [device.key for device in slot.devices]}
            for slot in report.spec.slots
        ],
        "junit": totals(report),
        "units": [_unit(report, unit, limit) for unit in report.units],
        "disabled": [{"path": path, "reason": reason} for path, reason in plan.disabled],
        "not_selected": [{"path": path, "reason": reason} for path, reason in plan.deselected],
    }


def _counts(found: Mapping[Outcome, int]) -> dict[str, int]:
    return {outcome.value: many for outcome, many in found.items()}


def _round(seconds: float) -> float:
    return round(seconds, 3)


def _unit(report: Report, unit: UnitResult, limit: int) -> dict[str, object]:
    return {
        "id": unit.unit.id,
        "suite": unit.unit.suite,
        "files": list(unit.unit.files),
        "outcome": unit.outcome.value,
        "reason": unit.reason,
        "flaky": unit.flaky,
        "seconds": _round(unit.seconds),
        "est_s": unit.unit.est_s,
        "test_limit_s": unit.unit.test_limit_s,
        "budget_s": unit.unit.budget_s,
        "devices": unit.unit.devices,
        "slot": unit.slot,
        "command": reproduce(report, unit),
        "deselected": unit.deselected,
        "warnings": unit.warnings,
        "notes": list(unit.notes),
        "processes": [_span(span) for span in unit.spans],
        "tests": [_test(report, unit, test, limit) for test in unit.tests],
    }


def _span(span: Span) -> dict[str, object]:
    return {
        "attempt": span.attempt,
        "part": span.part,
        "slot": span.slot,
        "devices": list(span.devices),
        "started": span.started,
        "seconds": _round(max(0.0, span.ended - span.started)) if span.started else 0.0,
        "outcome": span.outcome.value,
        "reason": span.reason,
        "log": span.log,
        "tail": span.tail,
        "killed": span.killed,
    }


def _test(report: Report, unit: UnitResult, test: TestResult, limit: int) -> dict[str, object]:
    found: dict[str, object] = {
        "id": test.id,
        "outcome": test.outcome.value,
        "reason": test.reason,
        "seconds": _round(test.seconds),
        "flaky": test.flaky,
        "tries": test.tries,
        "subtests": test.subtests,
        "line": test.line,
    }
    if test.measurements:
        found["measurements"] = [dict(measured) for measured in test.measurements]
    if test.outcome in RED:
        found |= {
            "place": below(test.place, report.spec.root),
            "detail": shorten(test.detail, limit),
            "output": shorten(test.output, limit),
            "command": reproduce(report, unit, test),
        }
    return found
