"""The verdict on the terminal: what passed, what did not run, what failed, and the verdict last."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from hwmatrix.model import Outcome
from hwmatrix.reporting.commands import reproduce, reproduce_red
from hwmatrix.reporting.failures import below, excerpt, groups, more, never_started
from hwmatrix.reporting.result import SEVERITY
from hwmatrix.reporting.screen import STYLE, Screen, duration, plural, table
from hwmatrix.reporting.verdict import run_reasons, where

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hwmatrix.reporting.result import Report, UnitResult

# Beyond this many units that passed, only the slowest are listed; report.json has them all.
_LISTED = 40
_SLOWEST = 10
# Reasons shown per unit; the log and report.json have the rest.
_GROUPS_SHOWN = 8


def render(
    report: Report,
    width: int = 100,
    color: bool = False,  # noqa: FBT001, FBT002 - the contract between the rooms has it so
    *,
    unicode: bool = False,
) -> str:
    """Return the verdict as lines of at most `width` columns (commands are never broken).

    What went well comes first and what failed last, just above the verdict: that is the part of a
    scrolled terminal that people see. Each failure ends with the command that runs it again.
    """
    screen = Screen(width=width, color=color, unicode=unicode)
    lines = [*_headline(report, screen), "", *_unit_table(report, screen)]
    lines += _told(report, screen)
    lines += _unstarted(report, screen)
    for unit in report.units:
        if unit.is_red and (unit.spans or unit.outcome is not Outcome.NOT_RUN):
            lines += _failure(report, unit, screen)
    lines += _run_reasons(report, screen)
    red = [unit for unit in report.units if unit.is_red]
    if report.running:
        pass  # what failed may be run again when the run has ended: its devices are in use
    elif len(red) > 1:
        lines += ["", screen.paint("run all of these again:", "bold"), f"  {reproduce_red(report)}"]
    elif not red and not report.verdict.green:
        lines += ["", screen.paint("run it again:", "bold"), f"  {reproduce(report)}"]
    lines += ["", *_last_lines(report, screen)]
    return "\n".join(lines) + "\n"


def _last_lines(report: Report, screen: Screen) -> list[str]:
    """Return the verdict, on as many lines as a narrow terminal needs."""
    line = verdict_line(report, Screen(unicode=screen.unicode))
    word = report.verdict.word.upper()
    first, *rest = screen.wrap(line, "")
    return [first.replace(word, screen.paint(word, report.verdict.word), 1), *rest]


def verdict_line(report: Report, screen: Screen) -> str:
    """Return the verdict on one line: the colour, the session, the counts and the time."""
    verdict = report.verdict
    units = _counts({o: verdict.units.get(o, 0) for o in SEVERITY}, "unit")
    tests = _counts({o: verdict.tests.get(o, 0) for o in SEVERITY}, "test")
    flaky = f"; {verdict.flaky_units} flaky" if verdict.flaky_units else ""
    word = screen.paint(verdict.word.upper(), verdict.word)
    rest = f"{report.plan.session}: {units}; {tests}{flaky}; {duration(report.seconds)}"
    return f"{word} {screen.safe(rest)}"


def _counts(found: dict[Outcome, int], noun: str) -> str:
    """Return `5 units: 4 passed, 1 failed`, or `5 units passed` when all are alike."""
    total = sum(found.values())
    kinds = [(many, outcome) for outcome, many in found.items() if many]
    if not kinds:
        return f"no {noun}s"
    if len(kinds) == 1:
        return f"{plural(total, noun)} {kinds[0][1]}"
    return f"{plural(total, noun)}: " + ", ".join(f"{many} {outcome}" for many, outcome in kinds)


def _headline(report: Report, screen: Screen) -> list[str]:
    plan = report.plan
    shard = f"  shard {plan.shard}/{plan.shards}" if plan.shards > 1 else ""
    first = f"{plan.session}  {plan.variant}{shard}  plan {plan.hash[:12]}"
    title = screen.paint(screen.clip(screen.safe(first), screen.width), "bold")
    return [title, *(screen.wrap(report.resumption, "") if report.resumed else [])]


def _unit_table(report: Report, screen: Screen) -> list[str]:
    shown, left_out = _chosen(report.units)
    if not shown:
        return ["no unit was planned for this shard"]
    head = ["outcome", "file", "time", "tests", "estimate", "budget", "slot"]
    rows = [head, *(_row(unit, screen) for unit in shown)]
    first, *body = ("  ".join(row).rstrip() for row in table(screen, rows, flex=1))
    lines = [screen.paint(first, "dim")]
    suite = ""
    many = len({unit.unit.suite for unit in shown}) > 1
    for unit, line in zip(shown, body, strict=True):
        if many and unit.unit.suite != suite:
            suite = unit.unit.suite
            lines.append(screen.paint(screen.clip(screen.safe(suite), screen.width), "bold"))
        lines.append(_tint(line, unit, screen))
    if left_out:
        lines.append(f"and {plural(left_out, 'faster unit')} that passed (report.json lists them)")
    return lines


def _tint(line: str, unit: UnitResult, screen: Screen) -> str:
    if unit.is_red:
        return screen.paint(line, STYLE[unit.outcome])
    word = screen.mark(unit.outcome)
    return screen.paint(word, STYLE[unit.outcome]) + line[len(word) :]


def _chosen(units: Sequence[UnitResult]) -> tuple[list[UnitResult], int]:
    """Return the units to list, by suite, in the plan's order, and how many were left out."""
    suites = list(dict.fromkeys(unit.unit.suite for unit in units))
    ordered = sorted(units, key=lambda unit: suites.index(unit.unit.suite))
    plain = [unit for unit in ordered if unit.outcome is Outcome.PASSED and not unit.flaky]
    if len(plain) <= _LISTED:
        return ordered, 0
    slowest = sorted(plain, key=lambda unit: -unit.seconds)[:_SLOWEST]
    kept = {unit.unit.id for unit in slowest}
    shown = [u for u in ordered if u.unit.id in kept or u not in plain]
    return shown, len(plain) - len(slowest)


def _row(unit: UnitResult, screen: Screen) -> list[str]:
    passed, total = unit.count(Outcome.PASSED), len(unit.tests)
    flaky = " (flaky)" if unit.flaky else ""
    return [
        screen.mark(unit.outcome) + flaky,
        screen.safe(where(unit)),
        duration(unit.seconds) if unit.spans else "-",
        str(total) if passed == total else f"{passed}/{total}",
        f"{unit.unit.est_s:g} s",
        f"{unit.unit.budget_s:g} s",
        "-" if unit.slot is None else str(unit.slot),
    ]


def _told(report: Report, screen: Screen) -> list[str]:
    """Return what ran nothing and why, the flaky ones with both attempts, and the notes."""
    lines: list[str] = []
    for unit in report.units:
        said = list(unit.notes)
        if unit.outcome in {Outcome.SKIPPED, Outcome.DESELECTED}:
            said.insert(0, unit.reason)
        if unit.flaky:
            said += [f"{test.name} passed at try {test.tries}" for test in unit.tests if test.flaky]
        if not said or unit.is_red:
            continue
        word = "note" if unit.outcome is Outcome.PASSED else unit.outcome.value
        word = "flaky" if unit.flaky else word
        lines += ["", f"{screen.paint(word, 'yellow')}  {screen.safe(where(unit))}"]
        for words in said:
            lines += screen.wrap(words, "    ")
    for words in report.infrastructure:
        lines += ["", *screen.wrap(f"infrastructure: {words}", "")]
    for note in report.notes:
        lines += ["", *screen.wrap(f"note: {note}", "")]
    return lines


def _failure(report: Report, unit: UnitResult, screen: Screen) -> list[str]:
    word = screen.paint(unit.outcome.value.upper(), "red")
    lines = ["", f"{word}  {screen.paint(screen.safe(where(unit)), 'bold')}"]
    lines += screen.wrap(unit.reason, "    ")
    found = groups(unit)
    for group in found[:_GROUPS_SHOWN]:
        lines += screen.wrap(group.title(lambda test: test.name), "    - ")
        place = below(group.tests[0].place, report.spec.root)
        lines += screen.wrap(f"{group.text}{f' ({place})' if place else ''}", "        ")
    if len(found) > _GROUPS_SHOWN:
        rest = sum(len(group.tests) for group in found[_GROUPS_SHOWN:])
        lines.append(f"    {more(rest, 'test')}")
    for note in unit.notes:
        lines += screen.wrap(note, "    ")
    for line in excerpt(unit):
        lines.append(f"    | {screen.clip(screen.safe(line), screen.width - 6)}")
    if unit.log:
        log = PurePath(report.spec.folder, unit.log)
        lines.append(f"    log:   {screen.safe(below(str(log), report.spec.root))}")
    return lines if report.running else [*lines, f"    again: {reproduce(report, unit)}"]


def _unstarted(report: Report, screen: Screen) -> list[str]:
    """Return the units that were never started, by reason: their command is that of the whole."""
    lines: list[str] = []
    for reason, units in never_started(report.units).items():
        word = screen.paint("NOT RUN", "red")
        lines += ["", f"{word}  {plural(len(units), 'unit')}"]
        lines += screen.wrap(reason, "    ")
        for unit in units[:_LISTED]:
            lines += screen.wrap(where(unit), "    - ")
        if len(units) > _LISTED:
            lines.append(f"    {more(len(units) - _LISTED, 'unit')}")
        if len(units) == 1 and not report.running:
            lines.append(f"    again: {reproduce(report, units[0])}")
    return lines


def _run_reasons(report: Report, screen: Screen) -> list[str]:
    """Return the reasons for red that belong to no unit, one paragraph each."""
    lines: list[str] = []
    for reason in run_reasons(report.verdict, report.units):
        lines += screen.wrap(f"red because {reason}", "")
    return ["", *lines] if lines else []
