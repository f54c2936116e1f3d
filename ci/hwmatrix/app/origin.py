"""What a run was made from, commit and table: `finish` holds the machines against each other."""

from __future__ import annotations

import hashlib
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# Where engines say it, for checkouts without git.
_VARIABLES = ("GITHUB_SHA", "CI_COMMIT_SHA", "BUILDKITE_COMMIT", "CIRCLE_SHA1")
_DIGITS = 16
_GIT_S = 30.0


def commit(root: Path, env: Mapping[str, str]) -> str:
    """Return the commit of the checkout at `root`, `+changes` after it where files differ.

    Git is asked first: it knows what is there. Then the engine's variables; empty where neither
    tells.
    """
    head = _git(root, "rev-parse", "HEAD")
    if head is None:
        return next((env[name] for name in _VARIABLES if env.get(name)), "")
    changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    return f"{head}+changes" if changed else head


def table_hash(table: Path) -> str:
    """Return the hash of the table's file; empty where it cannot be read."""
    try:
        return hashlib.sha256(table.read_bytes()).hexdigest()[:_DIGITS]
    except OSError:
        return ""


def _git(root: Path, *words: str) -> str | None:
    """Return what git says, None where it is not there or this is no checkout.

    In a container the checkout belongs to another user, which git refuses by default.
    """
    command = ["git", "-c", "safe.directory=*", "-C", str(root), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode else done.stdout.strip()
