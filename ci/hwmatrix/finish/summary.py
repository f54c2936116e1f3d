"""The verdict of all machines: for the page of a step, for a log, for a program."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hwmatrix.finish.read import RED
from hwmatrix.finish.text import duration, fenced, inline, line, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hwmatrix.finish.judge import Verdict
    from hwmatrix.finish.read import Measured, Shard, UnitRow

# GitHub takes 1 MiB per step, and people read far less.
MOST_BYTES = 900_000
_FAILURES = 50
_ROWS = 10
_TESTS = 10
OFF_BY = 2.0
# Below this a file's time is mostly its process's start, not what was estimated.
_MEASURABLE_S = 5.0
# From this share of the way to its limit on, a measured value is worth a look.
_NEAR = 0.9
_SIGNS = {"green": "✅", "red": "❌", "neutral": "⚪"}


def as_text(verdict: Verdict) -> str:
    """Return the verdict for a log: no line of it is a command to the runner that reads it."""
    count = sum(len(shard.units) for shard in verdict.shards)
    head = f"{verdict.word.upper()}  {plural(len(verdict.shards), 'report')}, "
    lines = [head + plural(count, "unit")]
    lines += [f"  {line(reason)}" for reason in verdict.reasons]
    lines += [f"  note: {line(note)}" for note in verdict.notes]
    red = [shard.command_red for shard in verdict.shards if shard.command_red]
    lines += ["  again:", *(f"    {line(command)}" for command in red)] if red else []
    return "\n".join(lines) + "\n"


def as_json(verdict: Verdict) -> str:
    """Return the verdict for a program."""
    plain = {
        "version": 1,
        "kind": "finish",
        "verdict": verdict.word,
        "reasons": list(verdict.reasons),
        "notes": list(verdict.notes),
        "reports": [
            {
                "place": shard.place,
                "run": shard.run,
                "session": shard.session,
                "suites": list(shard.suites),
                "shard": shard.shard,
                "shards": shard.shards,
                "plan_hash": shard.plan_hash,
                "green": shard.green,
                "units": len(shard.units),
                "seconds": shard.seconds,
                "command_red": shard.command_red,
            }
            for shard in verdict.shards
        ],
    }
    return json.dumps(plain, indent=2) + "\n"


def as_markdown(verdict: Verdict) -> str:
    """Return the verdict for a step's page, within what such a page takes."""
    lines = [f"## {_SIGNS[verdict.word]} hwmatrix: {verdict.word}", ""]
    lines += [f"- {inline(reason)}" for reason in verdict.reasons[:_FAILURES]]
    more = len(verdict.reasons) - _FAILURES
    lines += [f"- and {plural(more, 'reason')} more"] if more > 0 else []
    lines += [f"- note: {inline(note)}" for note in verdict.notes]
    for part in (_machines, _failures, _flaky, _slowest, _estimates, _setups, _measurements):
        lines += part(verdict.shards)
    text = "\n".join(lines) + "\n"
    if len(text.encode()) > MOST_BYTES:
        text = text.encode()[:MOST_BYTES].decode(errors="ignore") + "\n\n(cut: see the reports)\n"
    return text


def _machines(shards: Sequence[Shard]) -> list[str]:
    if not shards:
        return []
    head = ["| machine | verdict | units | tests | time |", "|---|---|--:|--:|--:|"]
    rows = [
        f"| {inline(s.name)} | {'green' if s.green else '**red**'} | {len(s.units)} | "
        f"{sum(s.tests.values())} | {duration(s.seconds)} |"
        for s in shards
    ]
    return ["", *head, *rows]


def _all(shards: Sequence[Shard]) -> Iterator[tuple[Shard, UnitRow]]:
    for shard in shards:
        for unit in shard.units:
            yield shard, unit


def _failures(shards: Sequence[Shard]) -> list[str]:
    red = [(shard, unit) for shard, unit in _all(shards) if unit.outcome in RED]
    if not red:
        return []
    lines = ["", "### Not passed"]
    for shard, unit in red[:_FAILURES]:
        words = f"{unit.outcome}: {inline(unit.reason)}"
        lines += ["", f"**{inline(unit.where)}** ({inline(shard.session)}) {words}", ""]
        lines += [
            f"- {inline(test)}: {inline(outcome)}: {inline(reason)}"
            for test, outcome, reason in unit.tests[:_TESTS]
        ]
        more = len(unit.tests) - _TESTS
        lines += [f"- and {plural(more, 'test')} more"] if more > 0 else []
        lines += ["", *fenced(unit.command)]
    more = len(red) - _FAILURES
    return lines + (["", f"And {plural(more, 'file')} more: see the reports."] if more > 0 else [])


def _flaky(shards: Sequence[Shard]) -> list[str]:
    rows = [
        f"- {inline(unit.where)} ({inline(shard.session)}): passed when tried again"
        + "".join(f", {inline(test)}" for test in unit.flaky_tests[:_TESTS])
        for shard, unit in _all(shards)
        if unit.flaky or unit.flaky_tests
    ]
    return ["", "### Flaky", "", *rows[:_FAILURES]] if rows else []


def _slowest(shards: Sequence[Shard]) -> list[str]:
    ran = [(shard, unit) for shard, unit in _all(shards) if unit.seconds > 0]
    if not ran:
        return []
    head = ["| file | session | time | estimate | budget | used |", "|---|---|--:|--:|--:|--:|"]
    by_time = sorted(ran, key=lambda pair: -pair[1].seconds)[:_ROWS]
    lines = ["", "### Slowest", "", *head, *(_time_row(*pair) for pair in by_time)]
    tight = [pair for pair in ran if _share(pair[1]) > 0.5]  # noqa: PLR2004 - half of it
    tight.sort(key=lambda pair: -_share(pair[1]))
    if tight:
        lines += ["", "### More than half of the budget used", "", *head]
        lines += [_time_row(*pair) for pair in tight[:_ROWS]]
    return lines


def _time_row(shard: Shard, unit: UnitRow) -> str:
    return (
        f"| {inline(unit.where)} | {inline(shard.session)} | {duration(unit.seconds)} | "
        f"{unit.est_s:g} s | {unit.budget_s:g} s | {_share(unit):.0%} |"
    )


def _share(unit: UnitRow) -> float:
    return unit.seconds / unit.budget_s if unit.budget_s > 0 else 0.0


def _estimates(shards: Sequence[Shard]) -> list[str]:
    """Estimates off by more than a factor of 2, the worst first; only files that passed."""
    found = []
    for shard, unit in _all(shards):
        if unit.outcome != "passed" or unit.est_s <= 0 or unit.seconds <= 0:
            continue
        factor = unit.seconds / unit.est_s
        off = max(factor, 1 / factor)
        if off > OFF_BY and max(unit.seconds, unit.est_s) >= _MEASURABLE_S:
            found.append((off, factor, shard, unit))
    if not found:
        return []
    found.sort(key=lambda item: -item[0])
    rows = [
        f"| {inline(u.where)} | {inline(s.session)} | {u.est_s:g} s | {duration(u.seconds)} | "
        f"{factor:.1f} |"
        for _, factor, s, u in found[:_FAILURES]
    ]
    head = ["| file | session | estimate | time | time / estimate |", "|---|---|--:|--:|--:|"]
    return ["", "### Estimates off by more than a factor of 2", "", *head, *rows]


def _setups(shards: Sequence[Shard]) -> list[str]:
    """Set-ups beside `setup_s` of the table, where they are off by more than a factor of 2."""
    longest: dict[str, Shard] = {}
    for shard in shards:
        known = longest.get(shard.backend)
        if shard.setup_s > 0 and (known is None or shard.setup_s > known.setup_s):
            longest[shard.backend] = shard
    rows = [
        f"- {inline(backend)}: {duration(s.setup_s)} at most, `setup_s` says "
        f"{duration(s.setup_planned_s)}"
        for backend, s in longest.items()
        if s.setup_planned_s > 0
        and max(s.setup_s / s.setup_planned_s, s.setup_planned_s / s.setup_s) > OFF_BY
    ]
    return ["", "### Set-up off by more than a factor of 2", "", *rows] if rows else []


def _measurements(shards: Sequence[Shard]) -> list[str]:
    near: list[tuple[Shard, Measured]] = [
        (shard, found)
        for shard, unit in _all(shards)
        for found in unit.measured
        if found.used >= _NEAR
    ]
    if not near:
        return []
    near.sort(key=lambda pair: -pair[1].used)
    rows = [
        f"| {inline(m.name)} | {inline(m.test)} | {m.value:.6g} {inline(m.unit)} | {m.limit:.6g} | "
        f"{inline(m.better)} |"
        for _, m in near[:_FAILURES]
    ]
    head = ["| measured | test | value | limit | better |", "|---|---|--:|--:|---|"]
    return ["", "### Measurements near their limit", "", *head, *rows]
