"""Makes the environment under test, or takes one that is there; the guard looks at either."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwmatrix.environments.building import build_or_reuse
from hwmatrix.environments.request import Request
from hwmatrix.environments.taking import take
from hwmatrix.errors import EnvironmentBuildError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from hwmatrix.model import Environment, Slot, TorchCheck, Variant


def make(
    variant: Variant,
    *,
    torch_check: TorchCheck,
    slot: Slot | None,
    root: Path,
    state: Path,
    env: Mapping[str, str],
    overlay: Path | None = None,
    no_venv: bool = False,
    say: Callable[[str], None],
) -> Environment:
    """Return the environment of `variant`, made now or reused, after the guard has passed it.

    `slot` is the first that tests will run in: the guard asks under its variables, and asserts
    that torch sees a device if the slot has any. `state` is the project's .hwmatrix folder.
    `no_venv` installs nothing and takes the interpreter as it is, with `overlay` for the packages
    that it lacks.

    Raises:
        EnvironmentBuildError: it cannot be made.
        GuardError: it holds another torch than the table names, or one that sees no device.
    """
    request = Request(
        variant=variant,
        check=torch_check,
        slot=slot,
        root=root,
        state=state,
        env=env,
        say=say,
    )
    if no_venv:
        return take(request, overlay)
    if overlay is not None:
        raise EnvironmentBuildError(
            "--overlay goes with --no-venv: an environment that is made here installs its "
            "packages itself. Leave one of the two out."
        )
    return build_or_reuse(request)
