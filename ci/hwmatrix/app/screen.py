"""What a person, or a program asking for JSON, gets to see of a session."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from hwmatrix import reporting
from hwmatrix.errors import RunFolderError
from hwmatrix.model import Outcome
from hwmatrix.redact import redactor

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TextIO

    from hwmatrix.app.place import Place
    from hwmatrix.app.request import SessionRequest
    from hwmatrix.model import Environment, Plan, Probe, RunSpec


def columns(place: Place) -> int:
    """Return the columns to fill: `$COLUMNS`, else the terminal's, or 100 where there is none."""
    given = place.env.get("COLUMNS", "")
    if given.isascii() and given.isdigit() and int(given):
        return int(given)
    return shutil.get_terminal_size((100, 24)).columns


def screen_of(stream: TextIO, place: Place) -> reporting.Screen:
    """Return what `stream` can show."""
    return reporting.detect(stream, place.env, width=columns(place))


def plan_text(plan: Plan, stream: TextIO, place: Place, *, whole: bool) -> str:
    """Return the plan as a table fitted to `stream`; `whole` lists what was not selected too."""
    shown = screen_of(stream, place)
    return reporting.plan_table(plan, shown.width, shown.color, unicode=shown.unicode, whole=whole)


def show_plan(plan: Plan, request: SessionRequest, place: Place) -> None:
    """Print the plan on standard output, as a table or as JSON."""
    text = (
        reporting.plan_json(plan) if request.json else plan_text(plan, place.out, place, whole=True)
    )
    place.out.write(text)
    place.out.flush()


def show_start(spec: RunSpec, environment: Environment, probe: Probe, place: Place) -> None:
    """Print the one table before anything runs: what, where, how long, which budget."""
    place.say(plan_text(spec.plan, place.err, place, whole=False))
    place.say(environment_line(environment))
    names = sorted({device.name for device in probe.devices if device.name})
    widths = Counter(len(slot.devices) for slot in spec.slots)
    owned = " or ".join(
        f"{count} of {width} device{'s' * (width != 1)} each"
        for width, count in sorted(widths.items())
    )
    place.say(f"slots        {owned}" + (f": {', '.join(names)}" if names else ""))
    for note in environment.notes:
        place.say(f"note         {note}")
    place.say(f"run folder   {spec.folder}\n")


def environment_line(environment: Environment) -> str:
    """Return which torch is tested, where it lies, and whether it was made here."""
    made = "reused" if environment.reused else "made"
    how = "used as it is" if environment.found else made
    return f"environment  torch {environment.torch or 'unknown'}, {how}: {environment.folder}"


def live_view(spec: RunSpec, folder: Path, place: Place) -> reporting.Live:
    """Return the progress on standard error; a terminal may change its width meanwhile."""
    return reporting.Live(
        folder,
        spec,
        place.err,
        screen=screen_of(place.err, place),
        width=lambda: screen_of(place.err, place).width,
        redact=redactor(place.env),
    )


def show_report(
    folder: Path, place: Place, *, as_json: bool, known: reporting.Report | None = None
) -> int:
    """Write the reports of a run, print the verdict, and return its exit status.

    `known` is what was read while the run went on. It counts where the folder no longer holds it:
    a test that removes files takes no result away with them.

    Raises:
        RunFolderError: the folder cannot be read (and nothing is known), or cannot be written.
    """
    report = _report(folder, place, known)
    shown = screen_of(place.err, place)
    place.say(reporting.render(report, shown.width, shown.color, unicode=shown.unicode))
    written = reporting.write_all(report, folder)
    if as_json:
        json_file = next(path for path in written if path.suffix == ".json")
        place.out.write(json_file.read_text(encoding="utf-8"))
        place.out.flush()
    return 0 if report.verdict.green else 1


def _report(folder: Path, place: Place, known: reporting.Report | None) -> reporting.Report:
    """Return what the folder tells, or what is `known` where files of it are gone; red then."""
    try:
        report = reporting.build(folder, secrets=redactor(place.env))
    except RunFolderError as error:
        if known is None:
            raise
        return _with_reason(known, f"the run's folder was removed or spoilt meanwhile: {error}")
    ended = {unit.unit.id for unit in report.units if unit.outcome is not Outcome.NOT_RUN}
    lost = [
        unit.unit.id
        for unit in (known.units if known else ())
        if unit.outcome is not Outcome.NOT_RUN and unit.unit.id not in ended
    ]
    if known is None or not lost:
        return report
    return _with_reason(
        known, f"the journal lost {len(lost)} ended file(s): something removed its lines meanwhile"
    )


def _with_reason(report: reporting.Report, reason: str) -> reporting.Report:
    """Return `report`, red, with `reason` before the others."""
    verdict = replace(report.verdict, green=False, reasons=(reason, *report.verdict.reasons))
    return replace(report, verdict=verdict)
