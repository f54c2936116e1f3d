"""The workflow files of a table: one for everything, and one per schedule."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from hwmatrix.model import GateEvent
from hwmatrix.workflows.pins import PINS, uses
from hwmatrix.workflows.template import (
    CHECKOUT_STEP,
    INPUTS,
    MAIN,
    OUTSIDE,
    PYTHON_STEP,
    SCHEDULE,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hwmatrix.model import GateRule, Matrix

FOLDER = ".github/workflows"
# The first words of every file made here; a file without them is left alone.
MARK = "# Generated from "


def workflow_files(matrix: Matrix) -> dict[str, str]:
    """Return path (from the project's root) -> text of every workflow file."""
    files = {f"{FOLDER}/hwmatrix.yml": _main(matrix)}
    for name, cron in _schedules(matrix.gates):
        words = {"HEADER": _header(), "NAME": name, "CRON": cron}
        files[f"{FOLDER}/hwmatrix-{name}.yml"] = _fill(SCHEDULE, words)
    return files


def _header() -> str:
    return (
        f"{MARK}ci/matrix.toml by `python -m hwmatrix workflow`: change the table, not this file."
    )


def _main(matrix: Matrix) -> str:
    ci = matrix.ci
    concerns = _concerns(matrix.gates)
    words = {
        "HEADER": _header(),
        "EVENTS": _events(matrix),
        "CONCERNS": concerns,
        # Runs of one pull request end each other; every other run has a group of its own.
        "PULL": f"({concerns}) && github.event.pull_request.number || github.run_id",
        "LABELS": json.dumps(list(ci.labels)),
        "CHECKS": " ".join(ci.checks),
        "DAYS": str(ci.retention_days),
        "CHECKOUT_STEP": _checkout(ci.python, ""),
        "TEST_CHECKOUT_STEP": _checkout(ci.python, OUTSIDE),
        **{name: uses(name) for name in PINS},
    }
    return _fill(MAIN, words)


def _fill(template: str, words: dict[str, str]) -> str:
    """Put `words` in, in one pass: what a value holds is never taken for a word."""
    return re.sub(r"@([A-Z_]+)@", lambda match: words[match[1]], template)


def _checkout(python: str, condition: str) -> str:
    pinned = {name: uses(name) for name in PINS}
    text = _fill(CHECKOUT_STEP, pinned)
    if python:
        text += _fill(PYTHON_STEP, {**pinned, "PYTHON": python, "IF": condition})
    return text.rstrip("\n")


def _events(matrix: Matrix) -> str:
    """Return the events under `on:`: those that gate rows answer to.

    Without gate rows: by hand. Schedules have files of their own, which call this one.
    """
    events = {event for rule in matrix.gates for event in rule.events} or {GateEvent.DISPATCH}
    lines: list[str] = []
    if GateEvent.PULL_REQUEST in events:
        types = "opened, reopened, synchronize, ready_for_review, labeled"
        lines += ["  pull_request:", f"    types: [{types}]"]
    if GateEvent.PUSH in events:
        lines += ["  push:", *_branches(matrix.gates)]
    if GateEvent.MERGE_GROUP in events:
        lines.append("  merge_group:")
    for event in (GateEvent.DISPATCH, GateEvent.CALL):
        called = event is GateEvent.CALL and GateEvent.SCHEDULE in events
        if event in events or called:
            lines += [f"  {event}:", *_inputs(event)]
    return "\n".join(lines)


def _branches(gates: Iterable[GateRule]) -> list[str]:
    """Return the branches to which a push matters, `**` where any row takes all."""
    rows = [rule.branches or ("**",) for rule in gates if GateEvent.PUSH in rule.events]
    names = list(dict.fromkeys(name for branches in rows for name in branches))
    return [f"    branches: {json.dumps(names)}"]


def _inputs(event: GateEvent) -> list[str]:
    """Return the inputs: explained where a person fills them in, in one line where none does."""
    if event is GateEvent.CALL:
        return [f"    inputs: {{ {', '.join(f'{name}: {{ type: string }}' for name in INPUTS)} }}"]
    rows = [
        f"      {name}: {{ description: {json.dumps(about)}, type: string }}"
        for name, about in INPUTS.items()
    ]
    return ["    inputs:", *rows]


def _concerns(gates: Iterable[GateRule]) -> str:
    """Return the expression that is false for a label event whose label no gate row names."""
    labels = sorted({label for rule in gates for label in rule.labels})
    # What would end a YAML line, an expression or its text stands there as JSON escapes it.
    listed = json.dumps(labels)
    for char in ":#{}$'":
        listed = listed.replace(char, f"\\u{ord(char):04x}")
    return (
        "github.event.action != 'labeled' || "
        f"contains(fromJSON('{listed}'), github.event.label.name)"
    )


def _schedules(gates: Iterable[GateRule]) -> list[tuple[str, str]]:
    """Return (name, cron) of each cron, once, named after the first row that has it."""
    found: dict[str, str] = {}
    for rule in gates:
        for number, cron in enumerate(rule.cron, start=1):
            name = rule.name if len(rule.cron) == 1 else f"{rule.name}-{number}"
            while cron not in found and name in found.values():
                name += "-again"  # row `a-1` beside the first cron of row `a`
            found.setdefault(cron, name)
    return [(name, cron) for cron, name in found.items()]
