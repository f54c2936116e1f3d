"""What a dispatch or a call asked for: sessions by name, tier, suite, variant, machine or file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hwmatrix.errors import GateError, close_match
from hwmatrix.gate.text import SHOWN, quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from hwmatrix.model import Backend, Matrix, SessionName, Suite

CONTINUE = "continue_on_error"
# The inputs, in the order in which a workflow should offer them.
INPUTS = ("session", "backend", "tier", "suite", "variant", "runner", "file")
# Close matches are looked for up to this length: their cost grows with the square of it.
_LONGEST = 400
_ALL = frozenset({"", "all", "*"})
# A file, and the part of a node id after it. Command lines are made of them: nothing that a shell
# or an option parser would read.
_FILE = re.compile(r"(?!-)[A-Za-z0-9._/+@=-]+")
_NODE = re.compile(r"(::[A-Za-z_][A-Za-z0-9_]*)+(\[[A-Za-z0-9_.,:=+ /-]*\])?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pick:
    """What of one session was picked: empty `suites` and `paths` for all, `refused` for none."""

    suites: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    refused: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """The inputs with every name known to the table; an empty set means no choice."""

    matrix: Matrix
    sessions: frozenset[str] = frozenset()
    backends: frozenset[str] = frozenset()
    tiers: frozenset[str] = frozenset()
    suites: frozenset[str] = frozenset()
    variants: frozenset[str] = frozenset()
    runners: frozenset[str] = frozenset()
    files: tuple[str, ...] = ()
    continue_on_error: bool | None = None
    notes: tuple[str, ...] = ()
    registered: Mapping[tuple[Backend, str], Sequence[str]] = field(default_factory=dict)

    @property
    def chosen(self) -> bool:
        """Whether anything was chosen at all."""
        return any((self.sessions, self.backends, self.tiers, self.suites, self.variants)) or bool(
            self.runners or self.files
        )

    @property
    def words(self) -> str:
        """The choice as the inputs spell it, safe to print."""
        values = (self.sessions, self.backends, self.tiers, self.suites, self.variants)
        named = zip(INPUTS, (*map(sorted, values), sorted(self.runners), self.files), strict=True)
        return ", ".join(f"{name}={quoted(' '.join(chosen))}" for name, chosen in named if chosen)

    def wants_variant(self, session: SessionName) -> bool:
        """Whether the variant of `session` was asked for by name."""
        return session.variant in self.variants or session.name in self.sessions

    def pick(self, session: SessionName) -> Pick:
        """Return what was asked for of `session`."""
        for noun, value, chosen in (
            ("session", session.name, self.sessions),
            ("backend", session.backend.value, self.backends),
            ("tier", session.tier, self.tiers),
            ("variant", session.variant, self.variants),
        ):
            if chosen and value not in chosen:
                return Pick(refused=f"another {noun} was asked for")
        own = self.matrix.suites_of(session.backend, session.tier)
        left = [suite for suite in own if self._takes(suite)]
        if not left:
            return Pick(refused="none of its suites was asked for")
        narrowed = len(left) < len(own)
        return Pick(
            suites=tuple(suite.name for suite in left) if narrowed else (),
            paths=tuple(path for path in self.files if any(self._has(s, path) for s in left)),
        )

    def _takes(self, suite: Suite) -> bool:
        return (
            (not self.suites or not self.suites.isdisjoint((suite.name, *suite.aliases)))
            and (not self.runners or suite.runner_config in self.runners)
            and (not self.files or any(self._has(suite, path) for path in self.files))
        )

    def _has(self, suite: Suite, path: str) -> bool:
        files = self.registered.get((suite.backend, suite.name), ())
        return _within(path.partition("::")[0], files)


def _within(path: str, files: Iterable[str]) -> bool:
    """Whether `path` is one of `files`, or a folder that holds one."""
    return any(file == path or file.startswith(f"{path}/") for file in files)


def select(
    inputs: Mapping[str, str],
    matrix: Matrix,
    sessions: Sequence[SessionName],
    registered: Mapping[tuple[Backend, str], Sequence[str]],
) -> Selection:
    """Return what `inputs` ask for.

    A name may be left empty or `all`; several are split by commas or blanks, files by blanks.

    Raises:
        GateError: names that the table lacks or has retired, all of them at once.
    """
    asked = {key: _split(key, inputs.get(key, "")) for key in INPUTS}
    known = _known(matrix, sessions)
    wrong = [
        _unknown(key, name, known[key], matrix)
        for key in INPUTS[:-1]
        for name in asked[key]
        if name not in known[key]
    ]
    files, wrong_files = _files(asked["file"], registered)
    switch, wrong_switch = _switch(inputs.get(CONTINUE, ""))
    notes, wrong_keys = _other_keys(inputs)
    wrong += [*wrong_files, *wrong_switch, *wrong_keys, *_retired(asked, sessions)]
    if wrong:
        raise GateError("\n".join(wrong))
    return Selection(
        sessions=frozenset(asked["session"]),
        backends=frozenset(asked["backend"]),
        tiers=frozenset(asked["tier"]),
        suites=frozenset(asked["suite"]),
        variants=frozenset(asked["variant"]),
        runners=frozenset(asked["runner"]),
        files=files,
        continue_on_error=switch,
        notes=notes,
        matrix=matrix,
        registered=registered,
    )


def _known(matrix: Matrix, sessions: Sequence[SessionName]) -> dict[str, Collection[str]]:
    """The names that each input may give."""
    return {
        "session": [session.name for session in sessions],
        "backend": [backend.value for backend in matrix.backends],
        "tier": list(matrix.tiers),
        "suite": [name for suite in matrix.suites for name in (suite.name, *suite.aliases)],
        "variant": list(dict.fromkeys(session.variant for session in sessions if session.variant)),
        "runner": list(matrix.runner_configs),
    }


def _split(key: str, value: str) -> tuple[str, ...]:
    words = re.split(r"\s+" if key == "file" else r"[\s,]+", value.strip())
    return tuple(dict.fromkeys(word for word in words if word.lower() not in _ALL))


def _unknown(key: str, name: str, known: Collection[str], matrix: Matrix) -> str:
    parts = [
        f"input {key!r}: {matrix.path} has no {key} {quoted(name)}.",
        close_match(name[:SHOWN], tuple(known)),
        f"There are: {', '.join(dict.fromkeys(known))}." if known else "",
    ]
    return " ".join(part for part in parts if part)


def _retired(asked: Mapping[str, Sequence[str]], sessions: Iterable[SessionName]) -> Iterable[str]:
    """Tell of sessions and variants that were asked for by name, and are no longer tested."""
    told = set()
    for session in sessions:
        if not session.retired:
            continue
        for key, name in (("session", session.name), ("variant", session.variant)):
            if name in asked[key] and name not in told:
                told.add(name)
                yield f"input {key!r}: {name} is retired: {session.retired}"


def _files(
    asked: Sequence[str], registered: Mapping[tuple[Backend, str], Sequence[str]]
) -> tuple[tuple[str, ...], list[str]]:
    files = sorted({file for paths in registered.values() for file in paths})
    speakable = [file for file in files if _FILE.fullmatch(file)]
    kept, wrong = [], []
    for given in asked:
        path, mark, node = given.partition("::")
        path = path.removeprefix("./").rstrip("/")
        if not _within(path, files):
            hint = close_match(path[:_LONGEST], speakable)
            what = "is no file or folder with registrations."
            wrong.append(f"input 'file': {quoted(path)} {what} {hint}".rstrip())
        elif not _FILE.fullmatch(path):
            wrong.append(f"input 'file': {quoted(path)} cannot be named here: rename the file.")
        elif mark and not (path in files and _NODE.fullmatch(mark + node)):
            wrong.append(
                f"input 'file': {quoted(given)} names no test. Allowed: FILE::test, "
                "FILE::Class::test, FILE::test[parameters], with letters, digits and `_.,:=+/-`."
            )
        else:
            kept.append(path + mark + node)
    return tuple(dict.fromkeys(kept)), wrong


def _switch(value: str) -> tuple[bool | None, list[str]]:
    word = value.strip().lower()
    if word in {"true", "false"}:
        return word == "true", []
    if not word:
        return None, []
    return None, [f"input {CONTINUE!r} is {quoted(value)}; it must be true or false."]


def _other_keys(inputs: Mapping[str, str]) -> tuple[tuple[str, ...], list[str]]:
    """A workflow may have inputs of its own; one that nearly names one of these is a slip."""
    notes, wrong = [], []
    allowed = (*INPUTS, CONTINUE)
    for key, value in inputs.items():
        if key in allowed or not value:
            continue
        hint = close_match(key[:SHOWN], allowed, cutoff=0.75)
        if hint:
            wrong.append(f"there is no input {quoted(key)}. {hint}")
        else:
            notes.append(f"input {quoted(key)} says nothing to the gate")
    return tuple(notes), wrong
