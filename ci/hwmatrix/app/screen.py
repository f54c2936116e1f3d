"""What a person, or a program asking for JSON, gets to see of a session."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from hwmatrix import reporting
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


def plan_text(plan: Plan, stream: TextIO, place: Place) -> str:
    """Return the plan as a table fitted to `stream`."""
    shown = screen_of(stream, place)
    return reporting.plan_table(plan, shown.width, shown.color, unicode=shown.unicode)


def show_plan(plan: Plan, request: SessionRequest, place: Place) -> None:
    """Print the plan on standard output, as a table or as JSON."""
    text = reporting.plan_json(plan) if request.json else plan_text(plan, place.out, place)
    place.out.write(text)
    place.out.flush()


def show_start(spec: RunSpec, environment: Environment, probe: Probe, place: Place) -> None:
    """Print the one table before anything runs: what, where, how long, which budget."""
    place.say(plan_text(spec.plan, place.err, place))
    made = "reused" if environment.reused else "made"
    place.say(f"environment  torch {environment.torch or 'unknown'}, {made}: {environment.folder}")
    names = sorted({device.name for device in probe.devices if device.name})
    owned = len(spec.slots[0].devices)
    place.say(
        f"slots        {len(spec.slots)} of {owned} device{'s' * (owned != 1)} each"
        + (f": {', '.join(names)}" if names else "")
    )
    for note in environment.notes:
        place.say(f"note         {note}")
    place.say(f"run folder   {spec.folder}\n")


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


def show_report(folder: Path, place: Place, *, as_json: bool) -> int:
    """Write the reports of a run, print the verdict, and return its exit status.

    Raises:
        RunFolderError: the folder cannot be read or written.
    """
    report = reporting.build(folder, secrets=redactor(place.env))
    shown = screen_of(place.err, place)
    place.say(reporting.render(report, shown.width, shown.color, unicode=shown.unicode))
    written = reporting.write_all(report, folder)
    if as_json:
        json_file = next(path for path in written if path.suffix == ".json")
        place.out.write(json_file.read_text(encoding="utf-8"))
        place.out.flush()
    return 0 if report.verdict.green else 1
