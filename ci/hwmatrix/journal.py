"""The journal: an append-only record of a run, one file per writer, one JSON object per line.

`<run folder>/journal/<writer>.jsonl`. Each process writes a file of its own, so no line is ever
interleaved with another (O_APPEND alone does not promise that on network file systems). Every line
goes out with a single `os.write`, so it survives the death of its writer; a line torn by a full
disk or a power cut is the last of its file and is reported as torn, never guessed at.

`$report_type` names the kind of the line. `TestReport`, `CollectReport` and `WarningMessage` have
pytest-reportlog's shape; the rest are hwmatrix's own. All lines carry `time` (seconds since the
epoch); all lines about a unit carry `unit`, `attempt` (from 1; above 1 only for retries) and
`part` (from 1; a file goes on in a new process, as the next part, after one of its tests crashed).

| `$report_type` | writer | further keys |
|---|---|---|
| RunStart | supervisor | run_id, plan_hash, pid, slots, resumed (count of earlier parts) |
| UnitStart | worker | slot, worker, pid, isolation, note, devices (keys), log (path) |
| UnitCollected | worker | tests (node ids), deselected (count), cache ("" if off), left_out |
| TestStart | worker | test |
| TestReport, WarningMessage | worker | as in pytest-reportlog |
| CollectReport | worker | as in pytest-reportlog; only when not passed |
| UnitExpired | worker | limit_s, test (running, or null) |
| UnitEnd | worker | cause, exit_status, signal, test (or null), seconds, killed, fault, tail |
| InternalError | worker | text: pytest or a plugin failed inside the child |
| SlotRetired | worker | slot, worker, reason, given (the unit that goes to another slot) |
| UnitNotRun | supervisor, guard (an asset is not here) | reason |
| RunStop | supervisor, controller, worker | reason: `deadline`, a signal's name, `first failure` |
| RunEnd | supervisor, guard | exit_status, reason, killed |

`UnitEnd.cause`: `finished` (pytest ended and said so), `crashed` (the process ended before pytest
did), `budget` (killed at its budget), `stopped` (the run was told to stop). `exit_status` is
pytest's own where the cause is `finished`, otherwise the process's (null when a signal ended it).
`UnitEnd.fault` says what the machine did (target/faults.py), "" if nothing. When a worker dies, the
controller writes its unit's end; what is left open at the end of a run, the supervisor closes.
A TestReport may carry `hw_outcome` (`timed out`, at the test's limit) and `hw_fault`.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

from hwmatrix.redact import redact_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

FOLDER = "journal"


class Journal:
    """Appends lines to one writer's file; `OSError` (a full disk) goes to the caller."""

    def __init__(
        self, run_folder: Path, writer: str, *, redact: Callable[[str], str] = str
    ) -> None:
        """Open `<run_folder>/journal/<writer>.jsonl` for appending, making the folder.

        `redact` takes secrets out of each line before it is written (see redact.py).
        """
        self._redact = redact
        folder = run_folder / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{writer}.jsonl"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(self.path, flags, 0o644)

    def write(self, kind: str, /, **keys: object) -> None:
        """Append one line; it is with the operating system when this returns."""
        line = {"$report_type": kind, "time": round(time.time(), 6), **keys}
        # Plain values first, so that masks reach every string and no key.
        plain = redact_plain(json.loads(json.dumps(line, default=repr)), self._redact)
        data = (json.dumps(plain) + "\n").encode("utf-8", "backslashreplace")
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def read(run_folder: Path) -> Iterator[Mapping[str, object]]:
    """Yield the lines of all writers, file by file, each file in its order.

    A torn or foreign line comes out as `{"$report_type": "Torn", "path": ..., "line": ...}`.
    """
    for path in sorted((run_folder / FOLDER).glob("*.jsonl")):
        for number, raw in enumerate(path.read_bytes().split(b"\n"), start=1):
            if not raw:
                continue
            try:
                value = json.loads(raw)
            except ValueError:
                value = None
            if not isinstance(value, dict) or "$report_type" not in value:
                value = {"$report_type": "Torn", "path": path.name, "line": number}
            yield value
