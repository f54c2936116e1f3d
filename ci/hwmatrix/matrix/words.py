"""What strings of `ci/matrix.toml` may look like: names, paths, versions, variables."""

from __future__ import annotations

from hwmatrix.matrix.spec import Rows, Text
from hwmatrix.model import Backend

# Suite, tier and runner config names end up in session names, job names, file names and URLs.
NAME = Text(
    word="name",
    what="a name of letters, digits, dots, dashes and underscores, 100 at most, that starts "
    "with a letter or digit",
    pattern=r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}",
)
LINE = Text(word="line", what="one line of text", pattern=r"[^\x00-\x1f\x7f]*")
SOME = Text(word="text", what="one line of text, not empty", pattern=r"(?=.*\S)[^\x00-\x1f\x7f]+")
RELATIVE = Text(
    word="path",
    what="a path from the project's root with forward slashes, not above it",
    pattern=r"(?!/)(?!(.*/)?\.\.(/|$))[^\x00-\x1f\x7f\\]+",
)
BACKEND = Text(word="backend", what="a backend", choices=tuple(member.value for member in Backend))
VARIABLE = Text(
    word="variable",
    what="a variable's name: letters, digits and underscores, no digit first",
    pattern=r"[A-Za-z_][A-Za-z0-9_]*",
)
# Rows are never shell: what looks like an expansion would reach the tests as it stands.
VALUE = Text(
    word="value",
    what="one line of text, taken as it stands: no `$(...)`, `${...}` or backtick",
    pattern=r"(?!.*(\$\(|\$\{|`))[^\x00-\x1f\x7f]*",
)
TOOLKIT = Text(word="version", what="a version such as 7.2", pattern=r"[0-9]+(\.[0-9]+)*")
REQUIREMENT = Text(
    word="requirement",
    what="one pinned requirement, name==version",
    pattern=r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+_-]+",
)
TORCH = Text(
    word="torch version",
    what="an exact version, with its local label where it has one (2.11.0+rocm7.2)",
    pattern=r"[0-9]+(\.[0-9]+)*([abc]|rc)?[0-9]*(\.post[0-9]+|\.dev[0-9]+)*(\+[A-Za-z0-9.]+)?",
)
INDEX = Text(
    word="address",
    what="the address of a package index: http, https or file",
    pattern=r"(https?://[^\s/]+|file:///)\S*",
)
MODULE = Text(
    word="module",
    what="an importable module",
    pattern=r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*",
)

ENV = Rows(noun="variable", key=VARIABLE, value=VALUE)
