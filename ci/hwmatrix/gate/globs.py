"""Globs with negation: of those that match a path, the last one decides, as in GitHub's filters."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_PARTS = re.compile(r"\*\*/|\*\*|\*|\?|[^*?]+")
_MEANING = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@lru_cache(maxsize=1024)
def _pattern(glob: str) -> re.Pattern[str]:
    """`docs/` means all that is in the folder; `**/` also stands for no folder at all."""
    whole = f"{glob}**" if glob.endswith("/") else glob
    parts = _PARTS.findall(whole)
    return re.compile("".join(_MEANING.get(part, re.escape(part)) for part in parts), re.DOTALL)


def takes(globs: Sequence[str], path: str) -> bool:
    """Return whether the last of `globs` that matches `path` has no `!`; False where none does."""
    for glob in reversed(globs):
        if _pattern(glob.removeprefix("!")).fullmatch(path):
            return not glob.startswith("!")
    return False


def taken(globs: Sequence[str], paths: Iterable[str]) -> tuple[str, ...]:
    """Return those of `paths` that `globs` take."""
    return tuple(path for path in paths if takes(globs, path))
