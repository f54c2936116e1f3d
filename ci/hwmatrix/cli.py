"""The command line: `python -m hwmatrix COMMAND`. The only module that exits."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix.errors import HwMatrixError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from hwmatrix.app.place import Place


class Stopped(BaseException):
    """SIGTERM or SIGHUP came: unwinds like Ctrl-C, so that `finally` ends what was started."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def _stop(number: int, frame: FrameType | None) -> None:
    del frame
    raise Stopped(number)


def unwind_on_signals(env: dict[str, str]) -> None:
    """Make SIGTERM and SIGHUP unwind this process; so does the end of the nox that started it.

    A signal that was ignored (nohup) stays ignored. While a run goes on, its guard takes over.
    """
    from hwmatrix.process import die_with_parent

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    parent = env.get("HWMATRIX_PARENT", "")
    if parent.isdigit():
        die_with_parent(int(parent), signal.SIGTERM)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the commands."""
    made = argparse.ArgumentParser(
        prog="hwmatrix", description="Test one code base on every accelerator it ships for."
    )
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    session = commands.add_parser("session", help="run one session", add_help=False)
    session.add_argument("rest", nargs=argparse.REMAINDER)
    gate = commands.add_parser("gate", help="what an event of CI starts, and why", add_help=False)
    gate.add_argument("rest", nargs=argparse.REMAINDER)
    assets = commands.add_parser("assets", help="fetch a session's models and data", add_help=False)
    assets.add_argument("rest", nargs=argparse.REMAINDER)
    matrix = commands.add_parser("matrix", help="chosen sessions as the jobs of a CI engine")
    matrix.add_argument("session", nargs="*", help="sessions, where there is no decision")
    matrix.add_argument("--decision", metavar="FILE", help="what `hwmatrix gate --json` printed")
    matrix.add_argument("--engine", default="github", choices=("github", "plain"))
    matrix.add_argument("--json", action="store_true", help="JSON on standard output")
    workflow = commands.add_parser("workflow", help="write .github/workflows from the table")
    workflow.add_argument("--check", action="store_true", help="only tell what differs")
    finish = commands.add_parser("finish", help="one verdict from the reports of all machines")
    finish.add_argument("report", nargs="*", help="report.json, or folders that hold some")
    finish.add_argument("--decision", metavar="FILE", help="what was to run; see `matrix`")
    finish.add_argument("--json", action="store_true", help="JSON on standard output")
    for name, text in (
        ("lint", "everything wrong with table and registrations"),
        ("list", "sessions, suites, files, minutes, devices"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("--json", action="store_true", help="JSON on standard output")
    lock = commands.add_parser("lock", help="versions and hashes of a variant's packages")
    lock.add_argument("variant", nargs="*", help="variants of the table (default: cpu)")
    report = commands.add_parser("report", help="the verdict of a run, from its journal")
    report.add_argument("run", nargs="?", default="latest", help="a run's folder or id")
    report.add_argument("--json", action="store_true", help="JSON on standard output")
    return made


def dispatch(arguments: Sequence[str], place: Place) -> int:
    """Return the exit status of one command.

    Raises:
        HwMatrixError: what stopped it.
    """
    if arguments and arguments[0] == "session":
        return _session(arguments[1:], place)
    if arguments and arguments[0] == "gate":
        from hwmatrix.app import gate

        return gate.run(arguments[1:], place)
    if arguments and arguments[0] == "assets":
        from hwmatrix.app import assets

        unwind_on_signals(dict(place.env))
        return assets.run(arguments[1:], place)
    options = parser().parse_args(arguments)
    return _COMMANDS[options.command](options, place)


def _lint(options: argparse.Namespace, place: Place) -> int:
    from hwmatrix.app import lint

    return lint.run(place, as_json=options.json)


def _list(options: argparse.Namespace, place: Place) -> int:
    from hwmatrix.app import listing

    return listing.run(place, as_json=options.json)


def _lock(options: argparse.Namespace, place: Place) -> int:
    from hwmatrix.app import locks

    unwind_on_signals(dict(place.env))
    return locks.run(place, options.variant)


def _report(options: argparse.Namespace, place: Place) -> int:
    from hwmatrix.app import resume, screen

    return screen.show_report(resume.find_run(options.run, place), place, as_json=options.json)


def _session(arguments: Sequence[str], place: Place) -> int:
    from hwmatrix.app import jobpart, request, session

    unwind_on_signals(dict(place.env))
    job = jobpart.job_part(place)
    asked = request.parse(
        [*arguments, *job.words],
        exists=lambda name: any((b / name).exists() for b in (place.root, place.cwd)),
        env=job.place.env,
    )
    return session.run(asked, job.place, announce=job.announce)


def _ci(options: argparse.Namespace, place: Place) -> int:
    decision = Path(options.decision) if getattr(options, "decision", None) else None
    if options.command == "finish":
        from hwmatrix.app import finish

        reports = [Path(name) for name in options.report]
        return finish.run(place, reports=reports, decision=decision, as_json=options.json)
    if options.command == "workflow":
        from hwmatrix.app import workflow

        return workflow.run(place, check=options.check)
    from hwmatrix.app import ci

    return ci.run_matrix(
        place,
        names=options.session,
        decision=decision,
        engine=options.engine,
        as_json=options.json,
    )


_COMMANDS = {
    "finish": _ci,
    "lint": _lint,
    "list": _list,
    "lock": _lock,
    "matrix": _ci,
    "report": _report,
    "workflow": _ci,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command of this process and return its exit status."""
    from hwmatrix.app.place import find_place

    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if not words or words[0] in ("-h", "--help"):
            parser().parse_args(words or ["--help"])
        place = find_place(cwd=Path.cwd(), env=dict(os.environ), out=sys.stdout, err=sys.stderr)
        return dispatch(words, place)
    except HwMatrixError as error:
        sys.stderr.write(f"hwmatrix: {error}\n")
        return error.exit_code
    except (KeyboardInterrupt, Stopped) as stop:
        number = stop.number if isinstance(stop, Stopped) else int(signal.SIGINT)
        name = signal.Signals(number).name
        sys.stderr.write(f"hwmatrix: {name} before the run began; nothing is left running.\n")
        return 128 + number
    except BrokenPipeError:
        # The reader (head, less) left: nothing more to tell it, and no traceback at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
