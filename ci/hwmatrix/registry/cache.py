"""What files held when they were last read, so that an unchanged file costs one stat.

The file is a checksum line and JSON. It is keyed by path and stamp (mtime, ctime, size, inode),
and as a whole by the reader's own source and the Python that parsed. A cache that is damaged,
foreign or older is ignored and made anew; one that cannot be written is done without.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwmatrix.errors import Problem
from hwmatrix.model import Backend, Disabled, Registration
from hwmatrix.registry.results import FileResult, RegistrationProblem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hwmatrix.registry.source import Stamp

# A file changed within the clock's grain of a scan may change again without a new stamp (some
# file systems count in 2 s), so what is younger is read anew next time. Git calls it racily clean.
RACY_NS = 2_000_000_000
_MADE_OF = (Problem, Backend, Disabled, Registration)  # what rows turn into


class Cache:
    """The results of an earlier scan; `keep` what this one found, then `write`."""

    def __init__(self, path: Path, *, now_ns: int) -> None:
        """Load the cache at `path`; `now_ns` is the time (epoch) at which the scan begins."""
        self._path = path
        self._now_ns = now_ns
        self._reader = _fingerprint()
        self._old: dict[str, Any] = _load(path, self._reader)
        self._new: dict[str, Any] = {}

    def get(self, path: str, stamp: Stamp) -> FileResult | None:
        """Return what the unchanged file held, or None if it must be read; keeps the entry."""
        row = self._old.get(path)
        try:
            if row is None or tuple(row[0]) != stamp:
                return None
            result = _from_row(path, row)
        except (IndexError, KeyError, TypeError, ValueError):
            return None
        self._new[path] = row
        return result

    def keep(self, path: str, stamp: Stamp, result: FileResult) -> None:
        """Remember what a file held, unless it is so young that its stamp proves nothing."""
        if max(stamp.mtime_ns, stamp.ctime_ns) + RACY_NS <= self._now_ns:
            self._new[path] = _to_row(stamp, result)

    def write(self) -> None:
        """Replace the file atomically if anything changed; a folder that is read-only is fine."""
        if self._new == self._old:
            return
        body = json.dumps({"reader": self._reader, "files": self._new}, separators=(",", ":"))
        data = body.encode()
        beside = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                beside.write_bytes(b"%08x\n" % zlib.crc32(data) + data)
                beside.replace(self._path)
            finally:
                beside.unlink(missing_ok=True)
        except OSError:
            return


def _load(path: Path, reader: str) -> dict[str, Any]:
    try:
        checksum, _, data = path.read_bytes().partition(b"\n")
        if int(checksum, 16) != zlib.crc32(data):
            return {}
        value = json.loads(data)
        files = value["files"] if value["reader"] == reader else {}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    return files if isinstance(files, dict) else {}


def _fingerprint() -> str:
    """Return what a result depends on besides the file: the reader's source and its Python."""
    parts = sorted(Path(__file__).parent.glob("*.py"))
    parts += sorted({Path(sys.modules[cls.__module__].__file__ or "") for cls in _MADE_OF})
    checksum = 0
    try:
        for part in parts:
            checksum = zlib.crc32(part.read_bytes(), checksum)
    except OSError:  # installed without its source (a zip file): then nothing proves a match
        return os.urandom(8).hex()
    return f"{checksum:08x} {sys.version}"


# ------------------------------------------------------------------ rows


def _to_row(stamp: Stamp, result: FileResult) -> list[object]:
    return [
        list(stamp),
        [_registration_row(item) for item in result.registrations],
        [_problem_row(item) for item in result.problems],
        [_problem_row(item) for item in result.remarks],
    ]


def _from_row(path: str, row: Any) -> FileResult:  # noqa: ANN401 - parsed JSON
    _, registrations, problems, remarks = row
    return FileResult(
        tuple(_registration(path, item) for item in registrations),
        _problems(path, problems),
        _problems(path, remarks),
    )


def _registration_row(item: Registration) -> list[object]:
    off = item.disabled
    return [
        item.line,
        item.column,
        item.backend.value,
        item.est_s,
        item.suite,
        item.stage,
        item.runner_config,
        item.nightly,
        None if off is None else [off.reason, off.owner, off.until],
        item.in_process_group,
    ]


def _registration(path: str, row: Any) -> Registration:  # noqa: ANN401 - parsed JSON
    line, column, backend, est_s, suite, stage, runner_config, nightly, off, group = row
    return Registration(
        path=path,
        line=line,
        column=column,
        backend=Backend(backend),
        est_s=est_s,
        suite=suite,
        stage=stage,
        runner_config=runner_config,
        nightly=nightly,
        disabled=None if off is None else Disabled(reason=off[0], owner=off[1], until=off[2]),
        in_process_group=group,
    )


def _problem_row(item: RegistrationProblem) -> list[object]:
    backends = sorted(backend.value for backend in item.backends)
    return [item.found, item.line, item.column, item.allowed, item.todo, item.rule, backends]


def _problems(path: str, rows: Iterable[Any]) -> tuple[RegistrationProblem, ...]:
    return tuple(
        RegistrationProblem(
            path=path,
            found=found,
            line=line,
            column=column,
            allowed=allowed,
            todo=todo,
            rule=rule,
            backends=frozenset(map(Backend, backends)),
        )
        for found, line, column, allowed, todo, rule, backends in rows
    )
