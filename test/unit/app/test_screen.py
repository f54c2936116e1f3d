"""The lines that a person sees before anything runs."""

from __future__ import annotations

import pytest

from hwmatrix.app.screen import environment_line
from hwmatrix.model import Environment


@pytest.mark.parametrize(
    ("reused", "found", "how"),
    [(False, False, "made"), (True, False, "reused"), (False, True, "used as it is")],
)
def test_an_environment_that_was_there_is_not_said_to_be_made(
    reused: bool,  # noqa: FBT001 - parametrised
    found: bool,  # noqa: FBT001 - parametrised
    how: str,
) -> None:
    made = Environment(python="python", folder="/e", torch="2.0", reused=reused, found=found)
    assert environment_line(made) == f"environment  torch 2.0, {how}: /e"
