"""The verdict of all machines together: every planned unit ran exactly once, and ended well."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping  # noqa: TC003 - a field's type
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hwmatrix.finish.read import RED, Shard

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hwmatrix.model import Job

GREEN, RED_WORD, NEUTRAL = "green", "red", "neutral"
# GitHub's words for how a job came out.
_RESULTS = frozenset({"success", "failure", "cancelled", "skipped"})
# How many names a reason lists.
_NAMES = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """All that is held against each other.

    `expected` are the jobs that a decision comes to, None where none was given: then the reports
    are held against each other alone. `faults` are sessions that could not be planned, and reports
    that could not be read. `results` are those of the engine's own jobs, by name: `plan`, `checks`,
    `test`. `commit` and `table_hash` are those of this checkout, empty if unknown.
    """

    reports: tuple[Shard, ...]
    expected: tuple[Job, ...] | None = None
    neutral: bool = False
    faults: tuple[str, ...] = ()
    results: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""
    table_hash: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """`word` is green, red or neutral; reasons are empty unless it is red."""

    word: str
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    shards: tuple[Shard, ...]

    @property
    def exit_status(self) -> int:
        """1 for red; a neutral verdict stops nobody."""
        return 1 if self.word == RED_WORD else 0


def judge(case: Case) -> Verdict:
    """Return the verdict; every reason for red is listed, the gravest kinds first."""
    reasons = [*case.faults, *_results(case)]
    reasons += _presence(case)
    reasons += _agreement(case)
    reasons += _units(case)
    reasons += _verdicts(case.reports)
    if not reasons and case.results.get("test") == "failure":
        reasons.append(
            "the engine says that a test job failed, though every report is green: see its jobs"
        )
    nothing = not reasons and not case.reports and not case.expected
    if nothing and not case.neutral:
        reasons.append("there is no report: nothing proves that anything ran")
    word = RED_WORD if reasons else NEUTRAL if nothing else GREEN
    shards = tuple(sorted(case.reports, key=lambda r: (r.session, r.suites, r.shard, r.place)))
    return Verdict(word=word, reasons=tuple(reasons), notes=_notes(case), shards=shards)


def _results(case: Case) -> list[str]:
    """Return what the results of the engine's own jobs say; a failed test speaks by its report."""
    about = {"plan": "the gate or the plan", "checks": "the checks", "test": "the test jobs"}
    reasons = []
    for name, result in case.results.items():
        what = about.get(name, f"job {name}")
        if result not in _RESULTS:
            reasons.append(f"{what}: {result!r} is no result; it is one of {_listed(_RESULTS)}")
        elif result == "cancelled":
            reasons.append(f"{what} were cancelled" if what[-1] == "s" else f"{what} was cancelled")
        elif result == "failure" and name != "test":
            reasons.append(f"{what} failed: see the job {name!r}")
        elif result == "skipped" and (name != "test" or case.expected):
            count = len(case.expected or ())
            asked = f", though {count} were to run" if count and name == "test" else ""
            reasons.append(f"{what}: skipped{asked}: nothing ran")
    return reasons


def _presence(case: Case) -> list[str]:
    """Return the jobs without a report or with several, and the reports without a job."""
    if case.expected is None:
        return _complete(case.reports)
    reasons = []
    left = list(case.reports)
    for job in case.expected:
        mine = [report for report in left if _is_of(report, job)]
        left = [report for report in left if report not in mine]
        if not mine:
            reasons.append(f"{job.name}: its report is missing ({len(job.units)} units)")
        elif len(mine) > 1:
            reasons.append(f"{job.name}: {len(mine)} reports: {_listed(r.place for r in mine)}")
    return reasons + [_foreign(report, case.expected) for report in left]


def _is_of(report: Shard, job: Job) -> bool:
    return (
        report.session == job.session
        and report.suites == job.suites
        and (report.shard, report.shards) == (job.shard, job.shards)
        and report.plan_hash == job.plan_hash
    )


def _foreign(report: Shard, jobs: Sequence[Job]) -> str:
    """Say what a report is that no job was to make."""
    near = [job for job in jobs if job.session == report.session and job.suites == report.suites]
    if not near:
        why = "no job of this run has that session and these suites"
    elif report.plan_hash != near[0].plan_hash:
        why = f"it is of plan {report.plan_hash}, not of {near[0].plan_hash}"
    else:
        why = f"the plan has {near[0].shards} shard(s)"
    return f"foreign report {report.place}: {report.name}: {why}"


def _complete(reports: Iterable[Shard]) -> list[str]:
    """Return what the reports lack among themselves: each plan has all its shards, once each."""
    groups: dict[tuple[str, tuple[str, ...]], list[Shard]] = defaultdict(list)
    for report in reports:
        groups[report.session, report.suites].append(report)
    reasons = []
    for members in groups.values():
        first = members[0]
        name = first.name.partition(" shard ")[0]
        plans = sorted({(r.plan_hash, r.shards) for r in members})
        if len(plans) > 1:
            told = _listed(f"{plan} of {count} shard(s)" for plan, count in plans)
            reasons.append(f"{name}: reports of different plans: {told}")
            continue
        found = Counter(report.shard for report in members)
        missing = [str(n) for n in range(1, first.shards + 1) if n not in found]
        doubled = [str(n) for n, count in sorted(found.items()) if count > 1]
        if missing:
            reasons.append(f"{name}: missing: shard {_listed(missing)} of {first.shards}")
        if doubled:
            reasons.append(f"{name}: more than one report of shard {_listed(doubled)}")
    return reasons


def _agreement(case: Case) -> list[str]:
    """Return where reports, and this checkout, are of different commits or tables."""
    reasons = []
    for what, own, told in (
        ("commit", case.commit, {r.commit for r in case.reports}),
        ("table", case.table_hash, {r.table_hash for r in case.reports}),
    ):
        known = sorted(value for value in told if value)
        if len(known) > 1:
            reasons.append(f"reports of different {what}s: {_listed(known)}")
        elif known and own and case.expected is not None and known[0] != own:
            reasons.append(f"the reports are of {what} {known[0]}, this checkout is of {own}")
        if known and "" in told:
            mute = [r.place for r in case.reports if not (r.commit, r.table_hash)[what != "commit"]]
            reasons.append(f"no {what} is told by {_listed(mute)}")
    return reasons


def _units(case: Case) -> list[str]:
    """Return units that no report has, that several have, or that the plan does not."""
    reasons = []
    groups: dict[tuple[str, tuple[str, ...], str], list[Shard]] = defaultdict(list)
    for report in case.reports:
        groups[report.session, report.suites, report.plan_hash].append(report)
    for members in groups.values():
        name = members[0].name.partition(" shard ")[0]
        if len({report.planned for report in members}) > 1:
            reasons.append(f"{name}: reports of one plan list different units")
        found = Counter(unit.id for report in members for unit in report.units)
        planned = Counter(unit for ids in members[0].planned for unit in ids)
        here = {report.shard for report in members}
        due = {u for number in here for u in _planned(members[0], number)}
        for what, units in (
            ("ran more than once", [u for u, n in found.items() if n > 1]),
            ("planned more than once", [u for u, n in planned.items() if n > 1]),
            ("not in the plan", [u for u in found if u not in planned]),
            ("in no report, though its shard reported", [u for u in due if u not in found]),
        ):
            if units:
                reasons.append(f"{name}: {what}: {_listed(sorted(units))}")
    return reasons + _against_jobs(case)


def _against_jobs(case: Case) -> list[str]:
    """Return the reports whose units are not those that this checkout plans for the job."""
    return [
        f"{job.name}: its report has other units than the plan"
        for job in case.expected or ()
        for report in case.reports
        if _is_of(report, job) and sorted(job.units) != sorted(u.id for u in report.units)
    ]


def _planned(report: Shard, number: int) -> tuple[str, ...]:
    return report.planned[number - 1] if number <= len(report.planned) else ()


def _verdicts(reports: Iterable[Shard]) -> list[str]:
    """Return the reasons of each red report; a green one whose units are not green is a lie."""
    reasons = []
    for report in reports:
        if not report.green:
            told = report.reasons or ("it is red and gives no reason",)
            reasons += [f"{report.name}: {reason}" for reason in told]
            continue
        red = [unit.where for unit in report.units if unit.outcome in RED]
        if red:
            reasons.append(f"{report.name}: says green, though not all is well: {_listed(red)}")
        elif not any(unit.outcome == "passed" for unit in report.units):
            reasons.append(f"{report.name}: says green, though nothing passed")
    return reasons


def _notes(case: Case) -> tuple[str, ...]:
    notes = []
    if case.neutral and not case.reports:
        notes.append("the gate chose nothing for this event, so nothing was to run")
    if case.reports and not any(report.commit for report in case.reports):
        notes.append("no report tells its commit")
    changed = sorted({r.commit for r in case.reports if r.commit.endswith("+changes")})
    notes += [
        f"run from files that differ from commit {c.removesuffix('+changes')}" for c in changed
    ]
    if case.expected is None:
        notes.append("no decision was given: the reports were held against each other alone")
    return tuple(notes)


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    more = len(every) - _NAMES
    return ", ".join(every[:_NAMES]) + (f" and {more} more" if more > 0 else "")
