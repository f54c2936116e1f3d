"""One test file to its registrations and problems, parsing no more of it than is needed.

Python's tokenizer goes from left to right, and a statement at the left margin ends where the next
one begins (only `else`, `elif`, `except` and `finally` go on with one). So where the part of a
file up to such a margin parses, its statements are those that the whole file has there, whatever
follows. Every marker's name stands in the text (compatibility characters and aliases are looked
for, and then the whole file is parsed), hence the part up to the last of them decides everything.

What is below it is not looked at, unless `thorough`: an error of syntax there makes the import
fail when the file runs, which is reported then, and lint parses files whole.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from typing import TYPE_CHECKING

from hwmatrix.model import Backend
from hwmatrix.registry import facts, source
from hwmatrix.registry.calls import Call, Found, Misuse, find
from hwmatrix.registry.markers import BACKEND_OF, backends_of, meant
from hwmatrix.registry.results import FileResult, RegistrationProblem, refused

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hwmatrix.model import Registration

# A line end before a statement at the margin. Quotes are no such place: they may close a string.
_MARGIN = re.compile(rb"\n(?![\s#)\]}'\"]|(?:else|elif|except|finally)\b)")
PARSER_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError)


def read(path: str, data: bytes, *, thorough: bool = False) -> FileResult:
    """Return what the file of these bytes holds; `path` is as problems are to show it.

    `thorough` compiles the whole file besides, which finds all that would stop its import.
    """
    try:
        text = source.prepare(data)
    except source.UnreadableError as error:
        return refused(path, error.fault, data)
    try:
        if thorough:
            compile(text, path, "exec", dont_inherit=True)
        found = _find(text)
    except PARSER_ERRORS as error:
        return refused(path, _syntax_fault(error), data)
    return _result(path, text, found)


def _syntax_fault(error: BaseException) -> source.Fault:
    """Return the sentence for what the parser raised."""
    if isinstance(error, SyntaxError):
        found = f"the file does not parse ({error.msg})."
        todo = "Fix the syntax; it is read by the Python that runs this command."
        return source.Fault(found, todo, "syntax", error.lineno or 0)
    if isinstance(error, (RecursionError, MemoryError)):
        found = "the file is nested too deeply for Python's parser."
        return source.Fault(found, "Break the expression or the blocks up.", "syntax")
    return source.Fault(f"the file does not parse ({error}).", "Fix the syntax.", "syntax")


def _find(text: bytes) -> Found:
    """Return the uses of markers in the text, from as much of it as decides."""
    if source.has_hidden_mention(text):
        return _find_in_whole(text)
    offsets = [match.start() for match in source.MENTION.finditer(text)]
    if not offsets:
        return Found([], [], {})
    found = find(_with_lines(_parse_up_to(text, offsets[-1]), _lines(text, offsets)), {})
    # An alias may be called anywhere, and its call shows no marker's name.
    return _find_in_whole(text) if found.aliases else found


def _find_in_whole(text: bytes) -> Found:
    body = _parse(text)
    found = find(body, {})
    return find(body, found.aliases) if found.aliases else found


def _parse(text: bytes) -> list[ast.stmt]:
    return ast.parse(text).body


def _parse_up_to(text: bytes, offset: int) -> list[ast.stmt]:
    """Return the statements up to the one that holds `offset`, or those of the whole text."""
    margin = _MARGIN.search(text, offset)
    if margin is not None and margin.end() < len(text):
        try:
            return _parse(text[: margin.end()])
        except PARSER_ERRORS:
            pass  # the margin lies in a string or bracket, or an error does: the whole text tells
    return _parse(text)


def _lines(text: bytes, offsets: Sequence[int]) -> list[int]:
    """Return the line, from 1, of each of the ascending offsets."""
    lines = []
    line, start = 1, 0
    for offset in offsets:
        line += text.count(b"\n", start, offset)
        start = offset
        lines.append(line)
    return lines


def _with_lines(body: Sequence[ast.stmt], lines: Sequence[int]) -> Iterator[ast.stmt]:
    """Yield the statements that hold at least one of the ascending lines."""
    for statement in body:
        decorators = getattr(statement, "decorator_list", ())
        first = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
        at = bisect_left(lines, first)
        if at < len(lines) and lines[at] <= (statement.end_lineno or first):
            yield statement


# ------------------------------------------------------------------ to registrations


def _result(path: str, text: bytes, found: Found) -> FileResult:
    registrations: list[Registration] = []
    problems = [_misuse(path, text, misuse) for misuse in found.misuses]
    for call in sorted(found.calls, key=lambda call: (call.node.lineno, call.node.col_offset)):
        made, wrong = _registration(path, text, call)
        problems += wrong
        if made is not None:
            registrations.append(made)
    problems += _duplicates(registrations)
    problems.sort(key=lambda problem: (problem.line, problem.column, problem.found))
    return FileResult(tuple(registrations), tuple(problems))


def _registration(
    path: str, text: bytes, call: Call
) -> tuple[Registration | None, list[RegistrationProblem]]:
    place = place_of(path, text, call.node)
    backend = BACKEND_OF.get(call.marker)
    if backend is None:
        found = f"{call.written}() names a backend that does not exist."
        allowed = f"Backends: {', '.join(Backend)}."
        complaint = facts.Complaint(found, allowed, meant(call.marker))
        return None, [_problem(place, call.marker, complaint, "backend")]
    made, complaints = facts.registration(call.node, backend, place)
    label = f"{call.written}()"
    if call.written != call.marker:
        label += f" ({call.marker})"
    return made, [
        _problem(place, call.marker, item._replace(found=f"{label} {item.found}"), "argument")
        for item in complaints
    ]


def _misuse(path: str, text: bytes, misuse: Misuse) -> RegistrationProblem:
    complaint = facts.Complaint(misuse.found, misuse.allowed, misuse.todo)
    return _problem(place_of(path, text, misuse.node), misuse.marker, complaint, misuse.rule)


def _problem(
    place: facts.Place, marker: str, complaint: facts.Complaint, rule: str
) -> RegistrationProblem:
    return RegistrationProblem(
        path=place.path,
        line=place.line,
        column=place.column,
        found=complaint.found,
        allowed=complaint.allowed,
        todo=complaint.todo,
        rule=rule,
        backends=backends_of(marker),
    )


def place_of(path: str, text: bytes, node: ast.AST) -> facts.Place:
    """Return where the node begins; columns count characters, as editors do."""
    line: int = getattr(node, "lineno", 0)
    offset: int = getattr(node, "col_offset", 0)
    if text.isascii():
        return facts.Place(path, line, offset + 1)
    source_line = text.split(b"\n", line)[line - 1]
    return facts.Place(path, line, len(source_line[:offset].decode("utf-8", "replace")) + 1)


def _duplicates(registrations: Sequence[Registration]) -> Iterator[RegistrationProblem]:
    """Yield a problem for each registration whose backend and suite stand before it in the file."""
    first: dict[tuple[str, ...], Registration] = {}
    for item in registrations:
        key = (item.backend, item.suite, item.stage, item.runner_config)
        before = first.setdefault(key, item)
        if before is not item:
            name = item.suite or f"{item.stage} on {item.runner_config}"
            yield RegistrationProblem(
                path=item.path,
                line=item.line,
                column=item.column,
                found=f"register_{item.backend}_ci() registers {name!r} again; "
                f"line {before.line} does it first.",
                allowed="A file is registered once per backend and suite.",
                todo="Remove one of the two.",
                rule="duplicate",
                backends=frozenset({item.backend}),
            )
