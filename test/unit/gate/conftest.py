"""The table and the recorded events of test/data/gate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hwmatrix import matrix as matrix_stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from hwmatrix.model import Matrix

DATA = Path(__file__).resolve().parents[2] / "data" / "gate"
ROOT = DATA.parents[2]


@pytest.fixture(scope="session")
def table() -> Matrix:
    return matrix_stage.load(DATA / "matrix.toml", root=ROOT)


@pytest.fixture(scope="session")
def payload() -> Callable[[str], bytes]:
    return lambda name: (DATA / "events" / f"{name}.json").read_bytes()
