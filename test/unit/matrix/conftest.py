"""A small table that is right, and how to read one that a test has spoilt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hwmatrix.errors import MatrixError
from hwmatrix.matrix.read import parse

if TYPE_CHECKING:
    from collections.abc import Callable

GOOD = """\
version = 1

[backend.cpu]
default_variant = "cpu"

[backend.cpu.variant.cpu]
torch = "2.13.0+cpu"
index = "https://index.example/cpu"
requirements = "requirements/cpu.in"

[backend.amd]
default_variant = "rocm-7.2"
env = { A = "backend", B = "backend" }

[backend.amd.variant."rocm-7.2"]
torch = "2.11.0+rocm7.2"
index = "https://index.example/rocm7.2"
requirements = "requirements/rocm-7.2.in"

[backend.amd.variant."rocm-7.0"]
retired = "too old"

[tier.stage-b]

[tier.extra-a]
budget = { factor = 2 }

[runner.cpu]
devices = 1
max_job_minutes = 30

[runner.1-gpu]
devices = 1
max_job_minutes = 60.5
arch = { amd = ["gfx942"] }

[suite.cpu.stage-b-test-cpu]
tier = "stage-b"
runner_config = "cpu"

[suite.amd.stage-b-test-1-gpu-amd]
tier = "stage-b"
runner_config = "1-gpu"
aliases = ["old-name"]

[suite.amd.extra-a-test-1-gpu-amd]
tier = "extra-a"
runner_config = "1-gpu"
"""


@pytest.fixture
def good() -> str:
    return GOOD


@pytest.fixture
def spoil() -> Callable[[str, str], str]:
    """Return a function that replaces one piece of the good table."""

    def replaced(old: str, new: str) -> str:
        assert GOOD.count(old) == 1, f"{old!r} is not unique in the table"
        return GOOD.replace(old, new)

    return replaced


@pytest.fixture
def problems() -> Callable[[str], list[str]]:
    """Return a function that reads a table and returns its problems, one line each."""

    def read(text: str) -> list[str]:
        with pytest.raises(MatrixError, match=r"^ci/matrix\.toml") as caught:
            parse(text, "ci/matrix.toml")
        return [str(problem) for problem in caught.value.problems]

    return read
