"""The calls of markers among a module's statements, and every use of a marker that is none.

A call counts where it is a statement of its own at module level; `if`, `try` and `with` may
enclose it. Whatever would have to be run to be known (a loop, a function, an argument of another
call) is refused by the name of the construct, and so is a marker that gets another meaning.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from hwmatrix.registry.constructs import name_of, quote
from hwmatrix.registry.markers import REGISTRATIONS
from hwmatrix.registry.spots import Spot, children

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hwmatrix.registry.markers import Words

_NAME_RESERVED = "Markers are read by their name, so nothing else may bear it or stand for it."


class Call(NamedTuple):
    """A call to be read: the marker's own name, and the name as it is written."""

    marker: str
    written: str
    node: ast.Call


class Misuse(NamedTuple):
    """A use of a marker that cannot be read."""

    marker: str
    node: ast.AST
    found: str
    allowed: str
    todo: str
    rule: str = "construct"


class Found(NamedTuple):
    """What the statements hold. `aliases`: names that stand for markers, by import."""

    calls: list[Call]
    misuses: list[Misuse]
    aliases: dict[str, str]


def find(
    statements: Iterable[ast.stmt], aliases: Mapping[str, str], words: Words = REGISTRATIONS
) -> Found:
    """Return the calls, misuses and aliases in `statements`, in no particular order.

    `words` tell which names are markers. `aliases` are the names to follow besides the markers'
    own. Works with a list of its own, since a file may be nested deeper than Python's stack.
    """
    walk = _Walk(aliases, words)
    walk.rest = [Spot(statement) for statement in statements]
    while walk.rest:
        walk.step(walk.rest.pop())
    return walk.finish()


class _Walk:
    def __init__(self, aliases: Mapping[str, str], words: Words) -> None:
        self.found = Found([], [], {})
        self._words = words
        self._is_marker, self._known = words.is_marker, words.known
        self.rest: list[Spot] = []
        self._aliases = aliases
        self._local_names: set[str] = set()
        self._local_uses: list[tuple[str, Misuse]] = []

    def finish(self) -> Found:
        """Return what was found. A local name that hides an alias is nobody's business here."""
        self.found.misuses.extend(
            misuse for name, misuse in self._local_uses if name not in self._local_names
        )
        return self.found

    def step(self, spot: Spot) -> None:
        """Look at one node and queue its children, each with where it stands."""
        node = spot.node
        if isinstance(node, ast.Call):
            self._call(node, spot)
            return
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node, spot)
            return
        if isinstance(node, ast.Name):
            self._name(node, node.id, node.ctx, spot)
        elif isinstance(node, ast.Attribute):
            if node.attr in self._known:
                self._name(node, node.attr, node.ctx, spot)
        elif isinstance(node, ast.arg):
            self._local_names.add(node.arg)
        else:
            bound = getattr(node, "name", None)  # def, class, except ... as, case ... as
            if isinstance(bound, str):
                self._bound(node, bound, name_of(node), spot)
        self.rest.extend(children(spot))

    def _call(self, node: ast.Call, spot: Spot) -> None:
        function = node.func
        within = spot.within or "another call"
        inside = [*node.args, *node.keywords]
        marker = written = ""
        if isinstance(function, ast.Name):
            written = function.id
            marker = self._aliases.get(written) or (written if self._is_marker(written) else "")
        elif isinstance(function, ast.Attribute):
            inside.append(function.value)
            written = function.attr
            marker = written if self._is_marker(written) else ""
        else:
            inside.append(function)
        self.rest.extend(Spot(child, within, local=spot.local) for child in inside)
        if marker:
            self._marker_call(node, marker, written, spot)
        else:
            self._getattr(node, spot)

    def _marker_call(self, node: ast.Call, marker: str, written: str, spot: Spot) -> None:
        if spot.within:
            found = f"{written}() stands in {spot.within}."
            allowed, todo = self._words.allowed, self._words.todo
            self._misuse(Misuse(marker, node, found, allowed, todo), written, spot)
        elif isinstance(node.func, ast.Attribute) and not _is_dotted(node.func.value):
            what = f"{name_of(node.func.value)} ({quote(node.func.value)})"
            found = f"{written}() is taken from {what}."
            todo = "Import the module or the marker by name."
            allowed = "Before the dot stands a module's name."
            self._misuse(Misuse(marker, node, found, allowed, todo), written, spot)
        else:
            self.found.calls.append(Call(marker, written, node))

    def _getattr(self, node: ast.Call, spot: Spot) -> None:
        """Refuse `getattr(module, "register_amd_ci")`: what comes of it cannot be followed."""
        if not (isinstance(node.func, ast.Name) and node.func.id == "getattr"):
            return
        for argument in node.args[1:2]:
            if isinstance(argument, ast.Constant) and self._is_marker(str(argument.value)):
                name = str(argument.value)
                found = f"{name} is looked up by getattr()."
                todo = "Import the marker by name."
                self._misuse(Misuse(name, node, found, _NAME_RESERVED, todo), name, spot)

    def _import(self, node: ast.Import | ast.ImportFrom, spot: Spot) -> None:
        for item in node.names:
            bound = item.asname or item.name.partition(".")[0]
            if isinstance(node, ast.ImportFrom) and self._is_marker(item.name):
                if bound != item.name and not self._is_marker(bound):
                    self.found.aliases[bound] = item.name
                if bound == item.name or not self._is_marker(bound):
                    continue
            self._bound(node, bound, f"an import of {item.name}", spot)

    def _name(self, node: ast.expr, name: str, context: ast.expr_context, spot: Spot) -> None:
        """Refuse a marker's name, or an alias, that stands outside a call."""
        if isinstance(context, ast.Store):
            self._bound(node, name, "an assignment", spot)
        elif name not in self._aliases and name not in self._known:
            return
        elif isinstance(context, ast.Del):
            found = f"{name} is deleted."
            todo = "Leave the name in place."
            marker = self._aliases.get(name, name)
            self._misuse(Misuse(marker, node, found, _NAME_RESERVED, todo, "binding"), name, spot)
        else:
            found = f"{name} is named without being called."
            todo = "Call it here, or leave it out."
            marker = self._aliases.get(name, name)
            self._misuse(Misuse(marker, node, found, _NAME_RESERVED, todo), name, spot)

    def _bound(self, node: ast.AST, name: str, what: str, spot: Spot) -> None:
        """Refuse another meaning of a marker's name, save a stand-in for a failed import."""
        if spot.local:
            self._local_names.add(name)
        if name not in self._aliases and name not in self._known:
            return
        if spot.fallback or (spot.local and name in self._aliases):
            return
        found = f"{name} gets another meaning here: {what}."
        todo = "Choose another name; a stand-in for a failed import goes into its except clause."
        marker = self._aliases.get(name, name)
        self._misuse(Misuse(marker, node, found, _NAME_RESERVED, todo, "binding"), name, spot)

    def _misuse(self, misuse: Misuse, name: str, spot: Spot) -> None:
        if spot.local and name in self._aliases:
            self._local_uses.append((name, misuse))
        else:
            self.found.misuses.append(misuse)


def _is_dotted(node: ast.expr) -> bool:
    """Return whether the expression is a name, or names with dots between them."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)
