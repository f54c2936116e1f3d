"""What a person picked: suites by name or alias, files by path, folder or node id."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hwmatrix.errors import UsageError, close_match

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hwmatrix.model import Matrix, Registration, SessionName, Suite
    from hwmatrix.planning.assign import Assignment


def pick_suites(matrix: Matrix, session: SessionName, names: Sequence[str]) -> tuple[Suite, ...]:
    """Return the session's suites that `names` name, in the order of the table; all for none.

    Raises:
        UsageError: a name is no suite of the session; it tells where it is one.
    """
    own = matrix.suites_of(session.backend, session.tier)
    if not names:
        return own
    known = {name: suite for suite in own for name in (suite.name, *suite.aliases)}
    wrong = [_wrong_suite(matrix, session, name, known) for name in names if name not in known]
    if wrong:
        raise UsageError("\n".join(wrong))
    picked = {known[name].name for name in names}
    return tuple(suite for suite in own if suite.name in picked)


def _wrong_suite(
    matrix: Matrix, session: SessionName, name: str, known: Mapping[str, Suite]
) -> str:
    elsewhere = [
        f"{suite.backend}-{suite.tier}"
        for suite in matrix.suites
        if name in (suite.name, *suite.aliases)
    ]
    hint = f"It belongs to {' and '.join(elsewhere)}." if elsewhere else ""
    parts = [f"{session.name}: has no suite {name!r}.", hint or close_match(name, tuple(known))]
    parts.append(f"Suites here: {', '.join(dict.fromkeys(s.name for s in known.values()))}.")
    return " ".join(part for part in parts if part)


@dataclass(frozen=True, kw_only=True, slots=True)
class Picked:
    """Which files were picked: all of them, or those with their selectors.

    `selectors` holds for each picked file what pytest is to be given: the file or node ids in it.
    """

    everything: bool
    selectors: Mapping[str, tuple[str, ...]]

    def of(self, path: str) -> tuple[str, ...]:
        """Return the pytest arguments for the file at `path`, empty where it was not picked."""
        return (path,) if self.everything else self.selectors.get(path, ())


def pick_paths(
    matrix: Matrix,
    session: SessionName,
    assignment: Assignment,
    suites: Sequence[Suite],
    paths: Sequence[str],
) -> Picked:
    """Return what `paths` pick from the files that `suites` have, disabled ones included.

    A path counts from the project's root: a file, a folder, or `file::class::test`.

    Raises:
        UsageError: a path picks nothing; it tells where the file is registered, or a close match.
    """
    if not paths:
        return Picked(everything=True, selectors={})
    own = _files(assignment, suites)
    selectors: dict[str, set[str]] = defaultdict(set)
    wrong = []
    for given in paths:
        path, mark, rest = given.partition("::")
        path = posixpath.normpath(path.replace("\\", "/"))
        hits = [path] if path in own else []
        if not hits and not mark:
            hits = [name for name in own if path == "." or name.startswith(f"{path}/")]
        for hit in hits:
            selectors[hit].add(hit + mark + rest)
        if not hits:
            wrong.append(_wrong_path(matrix, session, assignment, path, own))
    if wrong:
        raise UsageError("\n".join(wrong))
    # A whole file takes in its node ids.
    return Picked(
        everything=False,
        selectors={
            path: (path,) if path in found else tuple(sorted(found))
            for path, found in selectors.items()
        },
    )


def _files(assignment: Assignment, suites: Iterable[Suite]) -> dict[str, list[Registration]]:
    found: dict[str, list[Registration]] = defaultdict(list)
    for suite in suites:
        for registration in assignment.by_suite.get((suite.backend, suite.name), ()):
            found[registration.path].append(registration)
    return found


def _wrong_path(
    matrix: Matrix,
    session: SessionName,
    assignment: Assignment,
    path: str,
    own: Mapping[str, Sequence[Registration]],
) -> str:
    homes = dict.fromkeys(
        f"{suite.backend}-{suite.tier} (suite {suite.name})"
        for suite in matrix.suites
        if any(_under(r.path, path) for r in assignment.by_suite[suite.backend, suite.name])
    )
    if homes:
        return (
            f"{session.name}: {path} is not registered in what was selected here. "
            f"It is registered in {', '.join(homes)}."
        )
    hint = close_match(path, sorted(own)) or _same_name(path, own)
    message = f"{session.name}: {path} is no file or folder with registrations. {hint}".rstrip()
    return f"{message} `--plan` lists the files of a session."


def _under(file: str, path: str) -> bool:
    return path in (file, ".") or file.startswith(f"{path}/")


def _same_name(path: str, own: Iterable[str]) -> str:
    """Return a hint where a registered file has the same name in another folder."""
    name = posixpath.basename(path)
    found = next((p for p in sorted(own) if posixpath.basename(p) == name), None)
    return f"Did you mean {found!r}?" if found else ""
