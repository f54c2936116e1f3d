"""The arguments of one registration call, held against the signature: a fact, or what is wrong."""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING, NamedTuple

from hwmatrix.errors import close_match
from hwmatrix.model import Registration
from hwmatrix.registry import expiry
from hwmatrix.registry.constructs import name_of, quote

if TYPE_CHECKING:
    from hwmatrix.model import Backend, Disabled

POSITIONAL = ("est_time", "suite", "nightly", "disabled")
PARAMETERS = (*POSITIONAL, "stage", "runner_config", "in_process_group")
_EST_ALLOWED = "est_time is a literal number of seconds, finite and above 0."
_EST_TODO = "Write the estimate as one number."
_PLACE_ALLOWED = "Give suite, or both stage and runner_config."
_LITERAL_TODO = "Write the value out: arguments are read without running the file."


class Place(NamedTuple):
    """Where a call stands: line and column count from 1."""

    path: str
    line: int
    column: int


class Complaint(NamedTuple):
    """What is wrong with one call: what it has, what was allowed, what to do."""

    found: str
    allowed: str = ""
    todo: str = ""


def registration(
    call: ast.Call, backend: Backend, place: Place
) -> tuple[Registration | None, tuple[Complaint, ...]]:
    """Return the registration that a call states, or None and everything that is wrong with it."""
    arguments = _Arguments(call)
    made = Registration(
        path=place.path,
        line=place.line,
        column=place.column,
        backend=backend,
        est_s=arguments.est_s(),
        suite=arguments.word("suite"),
        stage=arguments.word("stage"),
        runner_config=arguments.word("runner_config"),
        nightly=arguments.nightly(),
        disabled=arguments.disabled(),
        in_process_group=arguments.word("in_process_group"),
    )
    arguments.check_place()
    complaints = tuple(arguments.complaints)
    return (None, complaints) if complaints else (made, ())


class _Arguments:
    """The arguments of a call by parameter; each getter complains at most once."""

    def __init__(self, call: ast.Call) -> None:
        self.complaints: list[Complaint] = []
        self._given: dict[str, ast.expr] = {}
        self._unknown = False  # arguments that cannot be told: then nothing counts as missing
        self._bind_positional(call)
        self._bind_keywords(call)

    def _complain(self, found: str, allowed: str = "", todo: str = "") -> None:
        self.complaints.append(Complaint(found, allowed, todo))

    def _bind_positional(self, call: ast.Call) -> None:
        for index, node in enumerate(call.args):
            if isinstance(node, ast.Starred):
                self._unknown = True
                self._complain(f"has star arguments ({quote(node)}).", todo=_LITERAL_TODO)
                return
            if index >= len(POSITIONAL):
                self._complain(
                    f"has {len(call.args)} positional arguments.",
                    f"At most {len(POSITIONAL)} are positional: {', '.join(POSITIONAL)}.",
                    f"Name the others: {', '.join(PARAMETERS[len(POSITIONAL) :])}.",
                )
                return
            self._given[POSITIONAL[index]] = node

    def _bind_keywords(self, call: ast.Call) -> None:
        for keyword in call.keywords:
            name = keyword.arg
            if name is None:
                self._unknown = True
                self._complain(f"has star arguments (**{quote(keyword.value)}).", "", _LITERAL_TODO)
            elif name not in PARAMETERS:
                hint = close_match(name, PARAMETERS)
                self._unknown = self._unknown or bool(hint)
                allowed = f"Arguments: {', '.join(PARAMETERS)}."
                self._complain(f"has an unknown argument {name!r}.", allowed, hint)
            elif name in self._given:
                self._complain(f"has {name} twice.", "", "Keep one of them.")
            else:
                self._given[name] = keyword.value

    def est_s(self) -> float:
        """Return the estimate in seconds."""
        node = self._given.get("est_time")
        if node is None:
            if not self._unknown:
                self._complain("has no est_time.", _EST_ALLOWED, "Add it as the first argument.")
            return 0.0
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            what = "negative" if _is_negative(node) else kind_of(node)
        else:
            try:
                est_s = float(value)
            except OverflowError:
                est_s = math.inf
            if 0 < est_s < math.inf:
                return est_s
            what = "infinite" if est_s else "zero"
        self._complain(f"has est_time={quote(node)}, {what}.", _EST_ALLOWED, _EST_TODO)
        return 0.0

    def word(self, name: str) -> str:
        """Return a string argument; empty where it is absent, None or wrong."""
        node = self._given.get(name)
        if node is None or _is_none(node):
            self._given.pop(name, None)
            return ""
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            found = f"has {name}={quote(node)}, {kind_of(node)}."
            self._complain(found, f"{name} is a literal string.", _LITERAL_TODO)
            return ""
        if not node.value.strip():
            self._complain(f"has an empty {name}.", "", "Name it, or leave it out.")
        return node.value

    def nightly(self) -> bool:
        """Return the flag; False where it is absent or wrong."""
        node = self._given.get("nightly")
        if node is None:
            return False
        if isinstance(node, ast.Constant) and isinstance(node.value, bool):
            return node.value
        found = f"has nightly={quote(node)}, {kind_of(node)}."
        self._complain(found, "nightly is True or False.", _LITERAL_TODO)
        return False

    def disabled(self) -> Disabled | None:
        """Return why the registration is off; None where it is on."""
        node = self._given.get("disabled")
        if node is None or _is_none(node):
            return None
        allowed = 'disabled is "reason" or "reason [owner=@x until=YYYY-MM-DD]".'
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            found = f"has disabled={quote(node)}, {kind_of(node)}."
            self._complain(found, allowed, _LITERAL_TODO)
            return None
        try:
            return expiry.parse(node.value)
        except ValueError as error:
            stop = "" if str(error).endswith("?") else "."
            self._complain(f"has disabled={quote(node)}: {error}{stop}", allowed)
            return None

    def check_place(self) -> None:
        """Complain unless exactly one of suite and stage + runner_config is given."""
        if self._unknown:
            return
        given = [name for name in ("suite", "stage", "runner_config") if name in self._given]
        if given in (["suite"], ["stage", "runner_config"]):
            return
        if not given:
            self._complain("names neither suite nor stage and runner_config.", _PLACE_ALLOWED)
        elif given[0] == "suite":
            others = " and ".join(given[1:])
            self._complain(f"names both suite and {others}.", _PLACE_ALLOWED, "Keep one way.")
        else:
            missing = "runner_config" if given == ["stage"] else "stage"
            self._complain(
                f"names {given[0]} without {missing}.", _PLACE_ALLOWED, f"Add {missing}."
            )


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_negative(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.UnaryOp)
        and isinstance(node.op, ast.USub)
        and isinstance(node.operand, ast.Constant)
        and isinstance(node.operand.value, (int, float))
    )


_KINDS = {
    bool: "a boolean",
    bytes: "a bytes string",
    complex: "a complex number",
    float: "a number",
    int: "a number",
    str: "a string",
    type(None): "nothing at all",
    type(...): "an ellipsis",
}


def kind_of(node: ast.expr) -> str:
    """Return what a literal is, or the name of the construct, with its article."""
    return _KINDS[type(node.value)] if isinstance(node, ast.Constant) else name_of(node)
