"""What a person, or a program asking for JSON, gets to see of a session."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from hwmatrix import reporting
from hwmatrix.redact import Redactor

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TextIO

    from hwmatrix.app.place import Place
    from hwmatrix.app.request import SessionRequest
    from hwmatrix.model import Environment, Plan, Probe, RunSpec

NARROWEST = 60


def width(place: Place) -> int:
    """Return the columns to fill: the terminal's, or 100 where there is none."""
    columns = place.env.get("COLUMNS", "")
    if columns.isdigit() and int(columns):
        return max(NARROWEST, int(columns))
    return max(NARROWEST, shutil.get_terminal_size((100, 24)).columns)


def colored(stream: TextIO, place: Place) -> bool:
    """Tell whether `stream` takes colour: a terminal, and neither NO_COLOR nor TERM=dumb."""
    if place.env.get("NO_COLOR") or place.env.get("TERM") == "dumb":
        return False
    return stream.isatty()


def show_plan(plan: Plan, request: SessionRequest, place: Place) -> None:
    """Print the plan on standard output, as a table or as JSON."""
    if request.json:
        place.out.write(json.dumps(reporting.plan_json(plan), indent=2) + "\n")
    else:
        color = colored(place.out, place)
        place.out.write(reporting.plan_table(plan, width=width(place), color=color) + "\n")
    place.out.flush()


def show_start(spec: RunSpec, environment: Environment, probe: Probe, place: Place) -> None:
    """Print the one table before anything runs: what, where, how long, which budget."""
    color = colored(place.err, place)
    place.say(reporting.plan_table(spec.plan, width=width(place), color=color))
    torch = f"torch {environment.torch}" if environment.torch else "torch unknown"
    made = "reused" if environment.reused else "made"
    place.say(f"environment  {torch}, {made}: {environment.folder}")
    names = sorted({device.name for device in probe.devices if device.name})
    owned = len(spec.slots[0].devices)
    place.say(
        f"slots        {len(spec.slots)} of {owned} device(s) each"
        + (f": {', '.join(names)}" if names else "")
    )
    for note in environment.notes:
        place.say(f"note         {note}")
    place.say(f"run folder   {spec.folder}")


def show_report(folder: Path, place: Place, *, as_json: bool) -> int:
    """Write the reports of a run, print the verdict, and return its exit status.

    Raises:
        RunFolderError: the folder cannot be read or written.
    """
    report = reporting.build(folder, redactor=Redactor(place.env))
    reporting.write_all(report, folder)
    color = colored(place.err, place)
    place.say(reporting.render(report, width=width(place), color=color))
    if as_json:
        place.out.write((folder / "report.json").read_text(encoding="utf-8"))
        place.out.flush()
    return 0 if report.verdict.green else 1
