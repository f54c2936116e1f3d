"""summary.md: what a CI job shows on its page."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from hwmatrix.model import Outcome
from hwmatrix.reporting.commands import reproduce, reproduce_red
from hwmatrix.reporting.failures import groups, more, never_started
from hwmatrix.reporting.screen import clean, duration, plural
from hwmatrix.reporting.verdict import run_reasons, where

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hwmatrix.reporting.result import Report, UnitResult

# GitHub takes 1 MiB per step; far less is what people read.
_FAILURES = 50
_SLOWEST = 10
# An estimate this many times off misplaces its file in every plan.
OFF_BY = 2.0
# Below this a file's time is mostly its process's start, not what was estimated.
_MEASURABLE_S = 5.0


def summary_md(report: Report) -> str:
    """Return the verdict, the failures with their commands, and what the times say."""
    verdict, plan = report.verdict, report.plan
    sign = "✅" if verdict.green else "❌"
    shard = f", shard {plan.shard}/{plan.shards}" if plan.shards > 1 else ""
    lines = [f"## {sign} {_inline(plan.session)}{shard}: {verdict.word}", ""]
    lines += [_counts(report), ""]
    lines += [f"{_inline(report.resumption)}.", ""] if report.resumed else []
    lines += [f"- {_inline(reason)}" for reason in run_reasons(verdict, report.units)]
    lines += _infrastructure(report)
    lines += _failures(report)
    lines += _flaky(report.units)
    lines += _idle(report.units)
    lines += _times(report.units)
    lines += _estimates(report.units)
    lines += _left_out(report)
    lines += ["", f"Run `{_inline(report.spec.run_id)}`, plan `{_inline(plan.hash)}`. Again:", ""]
    lines += _code(reproduce(report))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def _counts(report: Report) -> str:
    def line(found: Iterable[tuple[Outcome, int]], noun: str) -> str:
        rows = list(found)
        total = plural(sum(many for _, many in rows), noun)
        return f"{total} ({', '.join(f'{many} {outcome}' for outcome, many in rows)})"

    verdict = report.verdict
    units = line(verdict.units.items(), "unit")
    tests = line(verdict.tests.items(), "test") if verdict.tests else "no tests"
    return f"{units}, {tests} in {duration(report.seconds)}."


def _infrastructure(report: Report) -> list[str]:
    rows = [f"- {_inline(words)}" for words in (*report.infrastructure, *report.notes)]
    return ["", "### Infrastructure", "", *rows] if rows else []


def _failures(report: Report) -> list[str]:
    red = [unit for unit in report.units if unit.is_red]
    if not red:
        return []
    lines = ["", "### Not passed"]
    for reason, units in never_started(report.units).items():
        lines += ["", f"**{plural(len(units), 'file')}** not run: {_inline(reason)}", ""]
        lines += [f"- {_inline(where(unit))}" for unit in units[:_FAILURES]]
        lines.append(f"- {more(len(units) - _FAILURES, 'file')}" if len(units) > _FAILURES else "")
    begun = [unit for unit in red if unit.spans or unit.outcome is not Outcome.NOT_RUN]
    for unit in begun[:_FAILURES]:
        lines += ["", f"**{_inline(where(unit))}** {unit.outcome}: {_inline(unit.reason)}", ""]
        found = groups(unit)
        for group in found[:_SLOWEST]:
            names = group.title(lambda test: f"`{_tick(test.name)}`")
            lines.append(f"- {names}: {_inline(group.text)}")
        if len(found) > _SLOWEST:
            lines.append(f"- {more(sum(len(g.tests) for g in found[_SLOWEST:]), 'test')}")
        lines += ["", *_code(reproduce(report, unit))]
    if len(begun) > _FAILURES:
        lines += ["", f"{more(len(begun) - _FAILURES, 'file')}: see report.json"]
    if len(red) > 1 and not report.running:
        lines += ["", "All of these again:", "", *_code(reproduce_red(report))]
    return lines


def _flaky(units: Sequence[UnitResult]) -> list[str]:
    rows = []
    for unit in units:
        if unit.flaky:
            tests = [f"`{_tick(t.name)}` at try {t.tries}" for t in unit.tests if t.flaky]
            said = [*tests, *(_inline(note) for note in unit.notes)]
            rows.append(f"- {_inline(where(unit))}: passed, {'; '.join(said)}")
    return ["", "### Flaky", "", *rows] if rows else []


def _idle(units: Sequence[UnitResult]) -> list[str]:
    rows = [
        f"- {_inline(where(unit))}: {_inline(words)}"
        for unit in units
        if not unit.is_red and not unit.flaky
        for words in [
            *([unit.reason] if unit.outcome is not Outcome.PASSED else []),
            *unit.notes,
        ]
    ]
    return ["", "### Ran nothing, and notes", "", *rows] if rows else []


def _times(units: Sequence[UnitResult]) -> list[str]:
    slowest = sorted((u for u in units if u.spans), key=lambda u: -u.seconds)[:_SLOWEST]
    if not slowest:
        return []
    rows = [
        f"| {_cell(where(u))} | {duration(u.seconds)} | {u.unit.est_s:g} s | {u.unit.budget_s:g} s"
        f" | {_share(u):.0%} | {u.slot} |"
        for u in slowest
    ]
    head = ["| file | time | estimate | budget | used | slot |", "|---|--:|--:|--:|--:|--:|"]
    return ["", "### Slowest, and use of budgets", "", *head, *rows]


def _share(unit: UnitResult) -> float:
    return unit.seconds / unit.unit.budget_s if unit.unit.budget_s > 0 else 0.0


def misestimated(units: Sequence[UnitResult]) -> list[tuple[UnitResult, float]]:
    """Return the passed units whose time is off their estimate by more than a factor of two.

    The second value is time / estimate. Files under five seconds on both sides are left out.
    """
    found = []
    for unit in units:
        est = unit.unit.est_s
        if unit.outcome is not Outcome.PASSED or est <= 0 or max(unit.seconds, est) < _MEASURABLE_S:
            continue
        factor = unit.seconds / est
        if factor > OFF_BY or factor < 1 / OFF_BY:
            found.append((unit, factor))
    return sorted(found, key=lambda pair: -max(pair[1], 1 / max(pair[1], 1e-6)))


def _estimates(units: Sequence[UnitResult]) -> list[str]:
    found = misestimated(units)
    if not found:
        return []
    rows = [
        f"| {_cell(where(u))} | {u.unit.est_s:g} s | {duration(u.seconds)} | {factor:.1f} |"
        for u, factor in found[:_FAILURES]
    ]
    head = ["| file | estimate | time | time / estimate |", "|---|--:|--:|--:|"]
    return ["", "### Estimates off by more than a factor of 2", "", *head, *rows]


def _left_out(report: Report) -> list[str]:
    lines: list[str] = []
    for word, rows in (
        ("Disabled", report.plan.disabled),
        ("Not selected", report.plan.deselected),
    ):
        if rows:
            lines += ["", f"<details><summary>{word}: {plural(len(rows), 'file')}</summary>", ""]
            lines += [f"- {_inline(path)}: {_inline(reason)}" for path, reason in rows]
            lines += ["", "</details>"]
    return lines


def _inline(words: str) -> str:
    """Return `words` on one line, with nothing that Markdown or HTML would act on."""
    line = html.escape(" ".join(clean(words).split()), quote=False)
    return "".join(f"\\{char}" if char in "\\`*_[]#|~" else char for char in line)


def _cell(words: str) -> str:
    return _inline(words)


def _tick(words: str) -> str:
    """Return `words` for inside backticks."""
    return " ".join(clean(words).replace("`", "'").split())


def _code(words: str) -> list[str]:
    fence = "```"
    while fence in words:
        fence += "`"
    return [f"{fence}sh", clean(words), fence]
