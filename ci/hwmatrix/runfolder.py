"""The folder of one run: its names, the request to stop, and what its journal leaves open.

    plan.json              the RunSpec, written before anything starts
    stop                   one line: why the run is to stop; whoever comes first writes it
    retired/<worker>       one line: why the worker's slot cannot be used any more
    journal/               see journal.py
    logs/<unit>.<attempt>.<part>.log      the output of one process of one unit
    pytest.log             the outer pytest: controller and workers
    supervisor.log         the supervisor's own output; empty when all is well

Guard, supervisor, controller and workers meet here and nowhere else.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hwmatrix import journal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from hwmatrix.model import RunSpec, Unit

PLAN = "plan.json"
STOP = "stop"
RETIRED = "retired"
LOGS = "logs"
OUTER_LOG = "pytest.log"
SUPERVISOR_LOG = "supervisor.log"

# Variables of the run's own processes, beside HWMATRIX_RUN.
PARENT = "HWMATRIX_PARENT_PID"  # who starts the process: it does not outlive that one
TEMPORARY = "HWMATRIX_TEMPORARY"  # the folder in which each unit gets one of its own

ZYGOTE = "zygote"  # its socket, in the run's temporary folder

DEVICE_ROOT = "HWMATRIX_DEVICE_ROOT"  # another root of /sys and /dev, for hwmatrix's own tests

_NAME_LIMIT = 200  # file systems allow 255 bytes; the ending needs some


def log_name(unit_id: str, attempt: int, part: int) -> str:
    """Return the log's path in the run folder; different units never share one."""
    text = re.sub(r"[^A-Za-z0-9._/=@-]", _percent, unit_id)
    text = text.replace("/", "+").lstrip(".") or "unit"
    if len(text) > _NAME_LIMIT:
        text = text[-_NAME_LIMIT:] + "-" + hashlib.sha256(unit_id.encode()).hexdigest()[:12]
    return f"{LOGS}/{text}.{attempt}.{part}.log"


def _percent(match: re.Match[str]) -> str:
    """Return a character as URLs have it: each byte of its UTF-8 form (RFC 3986)."""
    return "".join(f"%{byte:02X}" for byte in match.group().encode("utf-8", "surrogatepass"))


def server_mark(zygote: Path, pid: int) -> Path:
    """Return the file that says: process `pid`, forked by the zygote at `zygote`, serves a slot."""
    return zygote.with_name(f"{zygote.name}.{pid}")


def request_stop(folder: Path, reason: str) -> bool:
    """Ask everyone in the run to stop; True if this was the first request, whose reason stands."""
    temporary = folder / f"{STOP}.{os.getpid()}"
    temporary.write_text(reason, encoding="utf-8")
    try:
        os.link(temporary, folder / STOP)  # atomic: readers never see half a reason
    except FileExistsError:
        return False
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    return True


def forget_stop(folder: Path) -> None:
    """Take back what an earlier part of the run said about stopping and about its slots."""
    (folder / STOP).unlink(missing_ok=True)
    for path in (folder / RETIRED).glob("*"):
        path.unlink()


def retire(folder: Path, worker: str, reason: str) -> None:
    """Say that a worker's slot cannot be used any more; the unit that it was given was not run."""
    (folder / RETIRED).mkdir(exist_ok=True)
    (folder / RETIRED / worker).write_text(reason, encoding="utf-8")


def retired(folder: Path, worker: str) -> str:
    """Return why the worker's slot cannot be used any more, "" while it can."""
    try:
        return (folder / RETIRED / worker).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def stop_reason(folder: Path) -> str | None:
    """Return why the run is to stop, or None while it goes on."""
    try:
        return (folder / STOP).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


@dataclass(frozen=True)
class OpenPart:
    """A process of a unit that was started and has not been reported as ended."""

    unit: str
    attempt: int
    part: int
    worker: str
    started: float
    running: str | None
    log: str


@dataclass(frozen=True)
class Accounts:
    """What the journal says of the units: those that ended or were given up, and those open.

    `attempts` is the latest attempt of each unit that was begun.
    """

    closed: frozenset[str]
    open: tuple[OpenPart, ...]
    attempts: Mapping[str, int]


def accounts(lines: Iterable[Mapping[str, object]]) -> Accounts:
    """Hold starts against ends. `lines` come file by file, each file in its order."""
    parts: dict[tuple[str, int, int], OpenPart] = {}
    ended: set[tuple[str, int, int]] = set()
    given_up: set[str] = set()
    for line in lines:
        kind = line["$report_type"]
        if kind == "UnitNotRun":
            given_up.add(str(line["unit"]))
        if not {"unit", "attempt", "part"} <= line.keys():
            continue
        key = (str(line["unit"]), int(str(line["attempt"])), int(str(line["part"])))
        if kind == "UnitEnd":
            ended.add(key)
        elif kind == "UnitStart":
            parts[key] = _opened(key, line)
        elif kind == "TestStart" and key in parts:
            parts[key] = _running(parts[key], str(line["test"]))
        elif kind == "TestReport" and key in parts and line.get("when") == "teardown":
            parts[key] = _running(parts[key], None)
    still = tuple(part for key, part in parts.items() if key not in ended)
    open_units = {part.unit for part in still}
    attempts: dict[str, int] = {}
    for unit, attempt, _ in [*parts, *ended]:
        attempts[unit] = max(attempt, attempts.get(unit, 0))
    closed = frozenset({key[0] for key in ended} - open_units | given_up)
    return Accounts(closed=closed, open=still, attempts=attempts)


def _opened(key: tuple[str, int, int], line: Mapping[str, object]) -> OpenPart:
    return OpenPart(
        unit=key[0],
        attempt=key[1],
        part=key[2],
        worker=str(line.get("worker", "")),
        started=float(str(line.get("time", 0.0))),
        running=None,
        log=str(line.get("log", "")),
    )


def _running(part: OpenPart, test: str | None) -> OpenPart:
    return OpenPart(**{**part.__dict__, "running": test})


def units_to_run(spec: RunSpec) -> tuple[Unit, ...]:
    """Return the units of this machine that no earlier part of the run settled, in order."""
    return tuple(unit for unit in spec.plan.mine if unit.id not in spec.done)


def end_keys(part: OpenPart, *, cause: str, tail: str, now: float) -> dict[str, object]:
    """Return the keys of a `UnitEnd` written by another than the part's own worker."""
    return {
        "unit": part.unit,
        "attempt": part.attempt,
        "part": part.part,
        "cause": cause,
        "exit_status": None,
        "signal": None,
        "test": part.running,
        "seconds": round(max(0.0, now - part.started), 3),
        "killed": 0,
        "tail": tail,
    }


def read_accounts(folder: Path) -> Accounts:
    """Return the accounts of the run in `folder` as its journal has them now."""
    return accounts(journal.read(folder))


# ---------------------------------------------------------------- the outer pytest's environment
# Variables that change any pytest. They are meant for the tests' own pytest, not for the outer one,
# which needs xdist and this package only.
_PYTEST_VARIABLES = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD")
_KEPT = "HWMATRIX_KEPT_"
_OURS = frozenset({*_PYTEST_VARIABLES, PARENT, TEMPORARY})


def outer_env(env: Mapping[str, str]) -> dict[str, str]:
    """Return `env` for controller and workers: pytest's own variables set aside."""
    kept = {f"{_KEPT}{name}": env[name] for name in _PYTEST_VARIABLES if name in env}
    rest = {name: value for name, value in env.items() if name not in _PYTEST_VARIABLES}
    return {**rest, **kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def inner_env(env: Mapping[str, str]) -> dict[str, str]:
    """Return what `outer_env` was given: the environment of the code under test."""
    rest = {
        name: value
        for name, value in env.items()
        if name not in _OURS and not name.startswith(_KEPT)
    }
    back = {n.removeprefix(_KEPT): v for n, v in env.items() if n.startswith(_KEPT)}
    return {**rest, **back}
