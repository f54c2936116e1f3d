"""Environments: the right build of torch, held, guarded and stamped; uv or pip."""

from __future__ import annotations

from hwmatrix.environments.locking import lock
from hwmatrix.environments.making import make

__all__ = ["lock", "make"]
