"""Environments: the right build of torch, held, guarded and stamped; uv or pip."""

from __future__ import annotations

from hwmatrix.environments.locking import lock
from hwmatrix.environments.making import make
from hwmatrix.environments.packages import download, installed

__all__ = ["download", "installed", "lock", "make"]
