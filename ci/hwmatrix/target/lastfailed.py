"""`--lf` inside the child: one file of many must choose as one pytest over all of them would.

pytest runs all of a file of which it knows no failure, where failures are known of other files
only: right for one pytest that was given this one file, wrong for a file of a run that was given
many. Who the others are comes with the request.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

    from hwmatrix.model import RunSpec

_PLANNED = "hw_planned"  # of `config.workerinput`: the files of the run, from the working folder
_OPTIONS = frozenset({"--lf", "--last-failed"})


def told(spec: RunSpec) -> dict[str, object]:
    """Return what a child must be told in its `workerinput`: the files of the run, for `--lf`."""
    if _OPTIONS.isdisjoint(spec.pytest_args):
        return {}
    return {_PLANNED: [name for unit in spec.plan.mine for name in unit.files]}


def cache_folder(config: pytest.Config) -> str:
    """Return the folder of pytest's cache in this configuration, "" if it is switched off."""
    if not config.pluginmanager.hasplugin("cacheprovider"):
        return ""
    given = os.path.expandvars(Path(config.getini("cache_dir")).expanduser())
    return str(config.rootpath / given)


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> bool:
    """Deselect all `items` if only other files of the run have failures; True if that was so.

    Otherwise pytest's own plugin chooses, which comes later.
    """
    planned = vars(config).get("workerinput", {}).get(_PLANNED, ())
    if (
        not items
        or not planned
        or not config.getoption("lf", default=False)
        or config.cache is None
    ):
        return False
    known = list(config.cache.get("cache/lastfailed", {}))
    if _any_in(planned, known, config) and not any(_is_known(item, known) for item in items):
        left_out, items[:] = list(items), []
        config.hook.pytest_deselected(items=left_out)
        return True
    return False


def _any_in(planned: Iterable[str], known: Iterable[str], config: pytest.Config) -> bool:
    """Return True if a failure is known of any file of the run."""
    files = {Path(config.invocation_params.dir, name).resolve() for name in planned}
    return any((config.rootpath / name.partition("::")[0]).resolve() in files for name in known)


def _is_known(item: pytest.Item, known: Iterable[str]) -> bool:
    """Return True for a failed test, and for one of a file or class that was not collected."""
    return any(item.nodeid == name or item.nodeid.startswith(f"{name}::") for name in known)
