"""`nox -s lock`: the hashed lock of each variant, made from an environment of that variant."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hwmatrix import backends, environments
from hwmatrix import matrix as matrix_stage
from hwmatrix.errors import UsageError, close_match

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hwmatrix.app.place import Place
    from hwmatrix.model import Matrix, Variant


def run(place: Place, names: Sequence[str]) -> int:
    """Write `requirements/<variant>.lock` for the variants named (none: `cpu`); return 0.

    The environment is made without its old lock, from the registries as they are today. pip's
    configuration files are left out: a mirror that holds a part of a registry's files would
    narrow the hashes.

    Raises:
        UsageError: no variant has that name, or it is retired.
        EnvironmentBuildError: an environment cannot be made, or nothing fits together.
    """
    table = matrix_stage.load(place.table)
    for variant in [_variant(table, name) for name in names or ("cpu",)]:
        env = {**place.env, "HWMATRIX_LOCK": "off"}
        environment = environments.make(
            variant,
            torch_check=backends.BACKENDS[variant.backend].torch_check,
            slot=None,
            root=place.root,
            state=place.state,
            env=env,
            say=place.say,
        )
        path = environments.lock(
            variant,
            environment,
            root=place.root,
            state=place.state,
            env={**env, "PIP_CONFIG_FILE": os.devnull},
            say=place.say,
        )
        place.out.write(f"{path.relative_to(place.root)}\n")
    return 0


def _variant(table: Matrix, name: str) -> Variant:
    rows = {v.name: v for row in table.backends.values() for v in row.variants.values()}
    if name not in rows:
        hint = close_match(name, tuple(rows))
        raise UsageError(f"no variant is called {name!r}. {hint} Variants: {', '.join(rows)}.")
    if rows[name].retired:
        raise UsageError(
            f"variant {name} is retired: {rows[name].retired} There is nothing to lock."
        )
    return rows[name]
