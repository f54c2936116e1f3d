"""Reports and decision to one verdict: read, plan again what should have run, judge, tell."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix import finish, reporting
from hwmatrix.app import ci, origin
from hwmatrix.app import decision as decisions
from hwmatrix.errors import HwMatrixError, RunFolderError, UsageError
from hwmatrix.redact import redactor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hwmatrix.app.place import Place
    from hwmatrix.model import Job

# Results of the engine's jobs: {"plan": "success", "checks": ..., "test": ...}.
NEEDS = "HWMATRIX_NEEDS"


def run(place: Place, *, reports: Sequence[Path], decision: Path | None, as_json: bool) -> int:
    """Print the verdict, write it to the step's page, and return 0, or 1 for red.

    Raises:
        UsageError: neither reports nor a decision were given, or `$HWMATRIX_NEEDS` is not right.
    """
    if not reports and decision is None:
        raise UsageError("finish: name reports, or folders that hold some, or give --decision.")
    shards, faults = read_reports(reports, place)
    results = _results(place)
    expected, neutral, unplanned = _expected(decision, results, place)
    case = finish.Case(
        reports=shards,
        expected=expected,
        neutral=neutral,
        faults=(*unplanned, *faults),
        results=results,
        commit=origin.commit(place.root, place.env),
        table_hash=origin.table_hash(place.table),
    )
    verdict = finish.judge(case)
    place.say(finish.as_text(verdict).rstrip("\n"))
    if as_json:
        place.out.write(finish.as_json(verdict))
        place.out.flush()
    page = place.env.get("GITHUB_STEP_SUMMARY", "")
    if page:
        ci.append(Path(page), finish.as_markdown(verdict))
    return verdict.exit_status


def _results(place: Place) -> dict[str, str]:
    text = place.env.get(NEEDS, "")
    try:
        value = json.loads(text) if text else {}
    except ValueError as error:
        raise UsageError(f"{NEEDS} is no JSON: {error}.") from error
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise UsageError(f"{NEEDS} must be a JSON object of texts: job and result.")
    return value


def _expected(
    decision: Path | None, results: dict[str, str], place: Place
) -> tuple[tuple[Job, ...] | None, bool, list[str]]:
    """Return the jobs that should have run, whether none should on purpose, and faults.

    After a gate that failed there is no decision to read, and that alone is red.
    """
    if decision is None:
        return None, False, []
    if results.get("plan", "success") != "success":
        return (), False, []
    try:
        chosen = decisions.read(decision)
        made = ci.jobs_of(chosen, place)
    except HwMatrixError as error:
        return (), False, [f"what was to run cannot be told: {error}"]
    faults = [f"{name}: could not be planned: {error}" for name, error in made.faults]
    return made.jobs, chosen.neutral, faults


def read_reports(paths: Sequence[Path], place: Place) -> tuple[tuple[finish.Shard, ...], list[str]]:
    """Return the reports at `paths`, files or folders, and what could not be read.

    A run that was killed before it wrote its report left a plan and a journal: its report is made
    from those. The same run met twice (a link to it, say) counts once.
    """
    shards: list[finish.Shard] = []
    faults: list[str] = []
    seen: set[Path] = set()
    for path in paths:
        found, missing = _files(path if path.is_absolute() else place.cwd / path)
        if missing:
            faults.append(f"{path}: {missing}")
        for file in found:
            if file.resolve() in seen:
                continue
            seen.add(file.resolve())
            try:
                shards.append(_read(file, place))
            except (OSError, ValueError, RecursionError, RunFolderError) as error:
                faults.append(f"{file}: cannot be read as a report: {error}")
    return tuple(shards), faults


def _files(path: Path) -> tuple[list[Path], str]:
    """Return report.json, or plan.json where a run has no report, of every run at or below."""
    if path.is_file():
        return [path], ""
    if not path.is_dir():
        return [], "there is no such file or folder"
    found = []
    for folder, below, files in os.walk(path):
        name = next((each for each in ("report.json", "plan.json") if each in files), "")
        if name:
            found.append(Path(folder) / name)
            below.clear()  # what tests wrote inside a run is theirs
        below.sort()
    return found, ""


def _read(file: Path, place: Place) -> finish.Shard:
    if file.name == "plan.json":
        report = reporting.build(file.parent, secrets=redactor(place.env))
        text = reporting.report_json(report)
    else:
        text = file.read_text(encoding="utf-8")
    return finish.parse(json.loads(text), str(file))
