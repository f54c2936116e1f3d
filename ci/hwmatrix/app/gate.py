"""`python -m hwmatrix gate`: what an event of CI starts, told to people and to the next job."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit

from hwmatrix import gate
from hwmatrix import matrix as matrix_stage
from hwmatrix.app import truth
from hwmatrix.errors import GateError, UsageError
from hwmatrix.gate import github, local
from hwmatrix.gate.http import Api
from hwmatrix.gate.text import error_command, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hwmatrix.app.place import Place
    from hwmatrix.gate import Decision, Event, Facts
    from hwmatrix.model import Backend


@dataclass(frozen=True, kw_only=True, slots=True)
class GateRequest:
    """One question to the gate. What is left empty comes from GitHub's variables.

    `labels` of None are fetched; `payload_labels` takes those of the event's own moment.
    """

    event: str = ""
    event_name: str = ""
    inputs: str = ""
    labels: tuple[str, ...] | None = None
    payload_labels: bool = False
    changes: str = ""
    diff: str = ""
    json: bool = False


class _Parser(argparse.ArgumentParser):
    """Raises UsageError where argparse would exit."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"gate: {message}. See `python -m hwmatrix gate --help`.")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the gate's options."""
    made = _Parser(
        prog="hwmatrix gate",
        description="Which sessions an event of CI starts, and why.",
        epilog="$GITHUB_API_URL and $GITHUB_TOKEN are what labels and changed paths are fetched "
        "with. docs/gate.md has the rules.",
        allow_abbrev=False,
    )
    made.add_argument("--event", default="", metavar="FILE", help="else $GITHUB_EVENT_PATH")
    made.add_argument("--event-name", default="", metavar="NAME", help="else $GITHUB_EVENT_NAME")
    made.add_argument("--inputs", default="", metavar="JSON", help="else $HWMATRIX_INPUTS")
    labels = made.add_mutually_exclusive_group()
    labels.add_argument("--label", action="append", metavar="NAME", help="in place of fetching")
    labels.add_argument(
        "--payload-labels", action="store_true", help="the labels that the event itself lists"
    )
    changes = made.add_mutually_exclusive_group()
    changes.add_argument("--changes", default="", metavar="FILE", help="a list of changed paths")
    changes.add_argument("--diff", default="", metavar="BASE", help="what HEAD changes since BASE")
    made.add_argument("--json", action="store_true", help="JSON on standard output")
    return made


def parse(arguments: Sequence[str]) -> GateRequest:
    """Return the question that `arguments` spell.

    Raises:
        UsageError: an option is unknown, or contradicts another.
    """
    known = parser().parse_args([word for word in arguments if word != "--"])
    return GateRequest(
        event=known.event,
        event_name=known.event_name,
        inputs=known.inputs,
        labels=None if known.label is None else tuple(known.label),
        payload_labels=known.payload_labels,
        changes=known.changes,
        diff=known.diff,
        json=known.json,
    )


def decide(request: GateRequest, place: Place) -> Decision:
    """Return what the event starts; asks the API only for what the answer hangs on.

    Raises:
        GateError: the event cannot be read, or nobody can tell what it starts.
        MatrixError: the table is not valid.
    """
    table = matrix_stage.load(place.table)
    event = _event(request, place)
    needed = gate.needs(event, table)
    return gate.decide(
        event,
        table,
        sessions=matrix_stage.sessions(table),
        labels=_labels(request, event, place) if needed.labels else None,
        changes=_changes(request, event, place) if needed.changes else None,
        registered=_registered(event, place),
    )


def _event(request: GateRequest, place: Place) -> Event:
    named = request.event or place.env.get("GITHUB_EVENT_PATH", "")
    if not named:
        raise GateError("no event: give --event FILE, or set GITHUB_EVENT_PATH as GitHub does.")
    try:
        data = (place.cwd / named).read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise GateError(f"the event {quoted(named)} cannot be read: {why}.") from error
    # A file of one's own is not the event that GitHub's variable names.
    name = request.event_name or ("" if request.event else place.env.get("GITHUB_EVENT_NAME", ""))
    inputs = gate.read_inputs(request.inputs or place.env.get("HWMATRIX_INPUTS", ""))
    return gate.read_event(
        data, name=name, inputs=inputs, repository=place.env.get("GITHUB_REPOSITORY", "")
    )


def _api(place: Place) -> Api | None:
    """The API that GitHub names; None outside of it."""
    base = place.env.get("GITHUB_API_URL", "")
    token = place.env.get("GITHUB_TOKEN") or place.env.get("GH_TOKEN") or ""
    if not base:
        return None
    return Api(base=base, token=token.strip(), proxies=proxies(base, place.env))


def proxies(base: str, env: Mapping[str, str]) -> dict[str, str]:
    """Return the proxy for `base` that the usual variables name, by scheme.

    None for a host in `no_proxy` (itself or under it), and none for this machine's own.
    """
    parts = urlsplit(base)
    host = parts.hostname or ""
    hidden = (env.get("no_proxy") or env.get("NO_PROXY") or "").replace(",", " ").split()
    names = [name.lstrip(".").lower() for name in [*hidden, "localhost", "127.0.0.1", "::1"]]
    if "*" in names or any(host == name or host.endswith(f".{name}") for name in names):
        return {}
    variable = f"{parts.scheme}_proxy"
    # HTTP_PROXY in capitals is what a web server makes of a client's header `Proxy`.
    found = env.get(variable) or (env.get(variable.upper()) if parts.scheme == "https" else "")
    return {parts.scheme: found} if found else {}


def _labels(request: GateRequest, event: Event, place: Place) -> Facts:
    if request.labels is not None:
        return gate.Facts(names=request.labels)
    if request.payload_labels:
        return gate.Facts(names=event.labels)
    api = _api(place)
    if api is None:
        return gate.Facts(
            unreadable="GITHUB_API_URL is not set (outside of GitHub, give --label NAME or "
            "--payload-labels)"
        )
    return github.fetch_labels(event, api)


def _changes(request: GateRequest, event: Event, place: Place) -> Facts:
    if request.changes:
        return local.from_file(place.cwd / request.changes)
    if request.diff:
        return local.from_git(place.root, request.diff, place.env)
    api = _api(place)
    if api is None:
        return gate.Facts(unreadable="GITHUB_API_URL is not set")
    return github.fetch_changes(event, api)


def _registered(event: Event, place: Place) -> Mapping[tuple[Backend, str], tuple[str, ...]]:
    """The files of each suite, read only where an input names one."""
    if not event.inputs.get("file", "").strip():
        return {}
    by_suite = truth.read(place).assignment.by_suite
    return {suite: tuple(each.path for each in found) for suite, found in by_suite.items()}


def run(arguments: Sequence[str], place: Place) -> int:
    """Print the decision and return 0, also where nothing is to run.

    Raises:
        GateError: nothing was decided; in GitHub's log the reason is marked as an error.
    """
    request = parse(arguments)
    try:
        decision = decide(request, place)
    except GateError as error:
        if place.env.get("GITHUB_ACTIONS") == "true":
            place.say(error_command(str(error)))
        raise
    text = gate.render(decision)
    if request.json:
        place.err.write(text)
        place.err.flush()
        text = decision.to_json() + "\n"
    encoding = place.out.encoding or "utf-8"
    place.out.write(text.encode(encoding, "backslashreplace").decode(encoding))
    place.out.flush()
    return 0
