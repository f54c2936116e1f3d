"""What a CI job adds to the session that it runs: by variables, past every shell."""

from __future__ import annotations

import dataclasses
import json
import secrets
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix import workflows
from hwmatrix.app.ci import append
from hwmatrix.errors import UsageError

if TYPE_CHECKING:
    from hwmatrix.app.place import Place

# Words for the session as a JSON list, switches for its environment as a JSON object.
ARGS, ENV = "HWMATRIX_ARGS", "HWMATRIX_ENV"


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPart:
    """What a CI job adds to its session: words, and switches in the place's environment.

    `output` is the file in which the job's later steps look for the run's folder.
    """

    words: tuple[str, ...]
    place: Place
    output: str = ""

    def announce(self, folder: Path) -> None:
        """Tell the job's later steps where the run's folder is."""
        if self.output:
            word = f"hwmatrix_{secrets.token_hex(16)}"
            append(Path(self.output), workflows.lines_for({"folder": str(folder)}, word))


def job_part(place: Place) -> JobPart:
    """Return what the variables of a job's step say; without them, nothing.

    Both variables are used up: a session inside a session has none of them.

    Raises:
        UsageError: they hold something else than a list of texts, and an object of texts.
    """
    words = _json_of(place, ARGS, [])
    switches = _json_of(place, ENV, {})
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise UsageError(f"{ARGS} must be a JSON list of texts.")
    if not isinstance(switches, dict) or not all(isinstance(v, str) for v in switches.values()):
        raise UsageError(f"{ENV} must be a JSON object of texts.")
    env = {name: value for name, value in place.env.items() if name not in (ARGS, ENV)}
    if words:
        place.say(f"{ARGS}: {shlex.join(words)}")
    return JobPart(
        words=tuple(words),
        place=dataclasses.replace(place, env={**env, **switches}),
        output=place.env.get("GITHUB_OUTPUT", "") if ARGS in place.env else "",
    )


def _json_of(place: Place, name: str, default: object) -> object:
    text = place.env.get(name, "")
    try:
        value = json.loads(text) if text else default
    except ValueError as error:
        raise UsageError(f"{name} is no JSON: {error}.") from error
    return default if value is None else value
