"""Where a node stands: at module level, or inside a construct that would have to be run."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from hwmatrix.registry.constructs import name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCAL = (  # they have names of their own
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
# Statements and displays that leave what they hold at module level.
_TRANSPARENT = (
    ast.Module,
    ast.Expr,
    ast.Assign,
    ast.AnnAssign,
    ast.Tuple,
    ast.List,
    ast.Try,
    *((ast.TryStar,) if hasattr(ast, "TryStar") else ()),  # Python 3.11
)
_HEADERS = {
    ast.If: "an if statement",
    ast.With: "a with statement",
    ast.ExceptHandler: "an except clause",
}


class Spot(NamedTuple):
    """A node and where it stands: `within` is the construct around it, empty at module level.

    `fallback`: in an except clause at module level, where a failed import may get a stand-in.
    `local`: in a function, class, lambda or comprehension, which have names of their own.
    """

    node: ast.AST
    within: str = ""
    fallback: bool = False
    local: bool = False


def children(spot: Spot) -> Iterator[Spot]:
    """Yield the children of a node, each with the construct that it then stands in."""
    for field, value in ast.iter_fields(spot.node):
        if isinstance(value, ast.AST):
            yield _below(spot, field, value)
        elif isinstance(value, list):
            yield from (_below(spot, field, item) for item in value if isinstance(item, ast.AST))


def _below(spot: Spot, field: str, child: ast.AST) -> Spot:
    """Return where a child in `field` of the spot's node stands; the innermost scope is named."""
    node = spot.node
    if field == "decorator_list":
        return Spot(child, "a decorator", local=spot.local)
    if isinstance(node, _LOCAL):
        return Spot(child, name_of(node), local=True)
    if isinstance(node, _LOOPS):
        within = name_of(node) if field in {"body", "orelse"} else f"the header of {name_of(node)}"
        return Spot(child, within, local=spot.local)
    if spot.within:
        return Spot(child, spot.within, spot.fallback, spot.local)
    return _below_module_level(spot, field, child)


def _below_module_level(spot: Spot, field: str, child: ast.AST) -> Spot:
    """Return where a child stands whose parent stands at module level."""
    node = spot.node
    within = ""
    if type(node) in _HEADERS:
        if field not in {"body", "orelse"}:
            within = f"the header of {_HEADERS[type(node)]}"
    elif field == "annotation":
        within = "an annotation"
    elif not isinstance(node, _TRANSPARENT):
        within = name_of(node)
    return Spot(child, within, spot.fallback or isinstance(node, ast.ExceptHandler))
