"""The names of Python's constructs, as messages use them."""

from __future__ import annotations

import ast

_NAMES: dict[str, str] = {
    "Assert": "an assert statement",
    "AsyncFor": "a for loop",
    "AsyncWith": "an async with statement",
    "Attribute": "an attribute",
    "AugAssign": "an augmented assignment",
    "Await": "an await expression",
    "BinOp": "an arithmetic expression",
    "BoolOp": "an and/or expression",
    "Call": "a call",
    "Compare": "a comparison",
    "Delete": "a del statement",
    "Dict": "a dict",
    "DictComp": "a dict comprehension",
    "For": "a for loop",
    "FormattedValue": "an f-string",
    "GeneratorExp": "a generator expression",
    "IfExp": "a conditional expression",
    "Interpolation": "a t-string",
    "JoinedStr": "an f-string",
    "Lambda": "a lambda",
    "List": "a list",
    "ListComp": "a list comprehension",
    "Match": "a match statement",
    "Name": "a name",
    "NamedExpr": "an assignment expression",
    "Set": "a set",
    "SetComp": "a set comprehension",
    "Starred": "a starred expression",
    "Subscript": "a subscript",
    "TemplateStr": "a t-string",
    "Tuple": "a tuple",
    "UnaryOp": "a unary expression",
    "While": "a while loop",
}
_LONGEST = 40  # characters of source that a message quotes


def name_of(node: ast.AST) -> str:
    """Return the construct's name, with its article: `a for loop`, `the function 'f'`."""
    kind = type(node).__name__
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return f"the function {node.name!r}"
    if isinstance(node, ast.ClassDef):
        return f"the class {node.name!r}"
    return _NAMES.get(kind) or f"the construct {kind}"


def quote(node: ast.expr) -> str:
    """Return the expression's source as Python would write it, shortened to one short line."""
    try:
        text = " ".join(ast.unparse(node).split())
    except (RecursionError, ValueError):
        return "..."
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
