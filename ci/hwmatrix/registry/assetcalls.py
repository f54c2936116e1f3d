"""The arguments of one `requires_asset` call: the asset that it declares, or what is wrong."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from hwmatrix.errors import close_match
from hwmatrix.model import Asset
from hwmatrix.model.asset import faults
from hwmatrix.registry.constructs import quote
from hwmatrix.registry.facts import Complaint, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_WORDS = ("name", "package", "hub", "revision", "kind", "folder")
PARAMETERS = (*_WORDS, "files", "sha256", "optional")
_TODO = "Write the value out: arguments are read without running the file."


def asset(call: ast.Call) -> tuple[Asset | None, tuple[Complaint, ...]]:
    """Return the asset that a call declares, or None and everything that is wrong with it."""
    given, complaints = _bound(call)
    words = {name: _word(name, node, complaints) for name, node in given.items() if name in _WORDS}
    files = _names(given, complaints)
    hashes = _hashes(given, complaints)
    optional = _flag(given, complaints)
    if complaints:
        return None, tuple(complaints)
    made = Asset(
        name=words.get("name", ""),
        package=words.get("package", ""),
        hub=words.get("hub", ""),
        revision=words.get("revision", ""),
        kind=words.get("kind", "models"),
        folder=words.get("folder", ""),
        files=files,
        sha256=hashes,
        optional=optional,
    )
    wrong = tuple(Complaint(text) for text in faults(made))
    return (None, wrong) if wrong else (made, ())


def _bound(call: ast.Call) -> tuple[dict[str, ast.expr], list[Complaint]]:
    given: dict[str, ast.expr] = {}
    complaints = []
    for node in call.args:
        if isinstance(node, ast.Starred):
            complaints.append(Complaint(f"has star arguments ({quote(node)}).", todo=_TODO))
        elif "name" in given:
            allowed = "Only the name is positional."
            todo = f"Name the others: {', '.join(PARAMETERS[1:])}."
            complaints.append(Complaint("has two positional arguments.", allowed, todo))
            break
        else:
            given["name"] = node
    for keyword in call.keywords:
        name = keyword.arg
        if name is None:
            what = f"has star arguments (**{quote(keyword.value)})."
            complaints.append(Complaint(what, todo=_TODO))
        elif name not in PARAMETERS:
            allowed = f"Arguments: {', '.join(PARAMETERS)}."
            what = f"has an unknown argument {name!r}."
            complaints.append(Complaint(what, allowed, close_match(name, PARAMETERS)))
        elif name in given:
            complaints.append(Complaint(f"has {name} twice.", "", "Keep one of them."))
        else:
            given[name] = keyword.value
    if "name" not in given and not complaints:
        complaints.append(Complaint("has no name.", "", "Give it as the first argument."))
    return given, complaints


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _word(name: str, node: ast.expr, complaints: list[Complaint]) -> str:
    text = _text(node)
    if text is None:
        found = f"has {name}={quote(node)}, {kind_of(node)}."
        complaints.append(Complaint(found, f"{name} is a literal string.", _TODO))
        return ""
    if not text:
        complaints.append(Complaint(f"has an empty {name}.", "", "Fill it in, or leave it out."))
    return text


def _names(given: Mapping[str, ast.expr], complaints: list[Complaint]) -> tuple[str, ...]:
    node = given.get("files")
    if node is None:
        return ()
    inner = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
    names = [_text(item) for item in inner]
    wrong = next((item for item in inner if _text(item) is None), None)
    if wrong is None and isinstance(node, (ast.Tuple, ast.List)):
        return tuple(name for name in names if name is not None)
    shown = node if wrong is None else wrong
    found = f"has files={quote(node)}: {quote(shown)} is {kind_of(shown)}."
    complaints.append(Complaint(found, 'files is a tuple of literal strings: ("a.json",).', _TODO))
    return ()


def _hashes(
    given: Mapping[str, ast.expr], complaints: list[Complaint]
) -> tuple[tuple[str, str], ...]:
    node = given.get("sha256")
    if node is None:
        return ()
    text = _text(node)
    if text is not None:
        return (("", text),)
    if isinstance(node, ast.Dict):
        pairs = [(_text(k), _text(v)) for k, v in zip(node.keys, node.values, strict=True)]
        whole = tuple((k, v) for k, v in pairs if k is not None and v is not None)
        if len(whole) == len(pairs):
            return whole
    found = f"has sha256={quote(node)}, {kind_of(node)}."
    allowed = "sha256 is a literal string, or a dict of such: from each file to its hash."
    complaints.append(Complaint(found, allowed, _TODO))
    return ()


def _flag(given: Mapping[str, ast.expr], complaints: list[Complaint]) -> bool:
    node = given.get("optional")
    if node is None:
        return False
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return node.value
    found = f"has optional={quote(node)}, {kind_of(node)}."
    complaints.append(Complaint(found, "optional is True or False.", _TODO))
    return False
