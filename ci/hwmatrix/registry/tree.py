"""A whole tree of test files to one `Scan`: walk, reuse what is unchanged, read the rest."""

from __future__ import annotations

import os
import time
import warnings
from typing import TYPE_CHECKING

from hwmatrix.registry.cache import Cache
from hwmatrix.registry.files import walk
from hwmatrix.registry.results import Scan, refused

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hwmatrix.model import Registration
    from hwmatrix.registry.results import FileResult, RegistrationProblem
    from hwmatrix.registry.source import Stamp


def scan(
    root: Path,
    roots: Sequence[str],
    python_files: Sequence[str],
    *,
    cache: Path | None = None,
    thorough: bool = False,
    clock_ns: Callable[[], int] = time.time_ns,
) -> Scan:
    """Return every registration below `roots` and every problem, sorted by path and place.

    Nothing is raised for what stands in test files or on the disk: all of it comes back as
    problems, in one go.

    Args:
        root: the project's folder; paths come out relative to it, `/` between names.
        roots: folders below it, or single files, to look in.
        python_files: patterns of test files' names, as pytest's.
        cache: a file that keeps results of unchanged files; made and replaced as needed.
        thorough: parse files whole, for lint. Otherwise a file is parsed as far as its last
            mention of a marker, and an error of syntax below that is left to the run. The two
            are cached apart, so that a lint changes no plan.
        clock_ns: the time in ns since the epoch.
    """
    walked = walk(os.fspath(root), roots, python_files)
    if cache is not None and thorough:
        cache = cache.with_name(f"{cache.name}.thorough")
    store = None if cache is None else Cache(cache, now_ns=clock_ns())
    results = {path: refused(path, fault) for path, fault in walked.faults}
    missing: list[tuple[str, str, Stamp]] = []
    for relative, (path, stamp) in walked.files.items():
        known = None if store is None else store.get(relative, stamp)
        if known is None:
            missing.append((relative, path, stamp))
        else:
            results[relative] = known
    if missing:
        _read(missing, results, store, thorough=thorough)
    if store is not None:
        store.write()
    return _merge(results, reused=len(walked.files) - len(missing), files=len(walked.files))


def _read(
    missing: Sequence[tuple[str, str, Stamp]],
    results: dict[str, FileResult],
    store: Cache | None,
    *,
    thorough: bool,
) -> None:
    """Read files anew; what is read is kept, what cannot be opened is tried again next time."""
    from hwmatrix.registry import reader, source  # loads `ast`, which an unchanged tree can spare

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the parser's remarks on escapes are not ours to print
        for relative, path, stamp in missing:
            try:
                data = source.read(path)
            except source.UnreadableError as error:
                results[relative] = refused(relative, error.fault)
                continue
            result = reader.read(relative, data, thorough=thorough)
            results[relative] = result
            if store is not None:
                store.keep(relative, stamp, result)


def _merge(results: dict[str, FileResult], *, files: int, reused: int) -> Scan:
    registrations: list[Registration] = []
    problems: list[RegistrationProblem] = []
    remarks: list[RegistrationProblem] = []
    unregistered: list[str] = []
    for path in sorted(results):
        result = results[path]
        registrations += result.registrations
        problems += result.problems
        remarks += result.remarks
        if not result.registrations and not result.problems:
            unregistered.append(path)
    return Scan(
        registrations=tuple(registrations),
        problems=tuple(problems),
        remarks=tuple(remarks),
        unregistered=tuple(unregistered),
        files=files,
        reused=reused,
    )
