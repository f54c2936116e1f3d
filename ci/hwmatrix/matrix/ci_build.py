"""`[ci]` and the containers of backends to the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwmatrix.model import CiRow, ContainerRow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hwmatrix.matrix.check import Checker, Row
    from hwmatrix.model import Variant


def ci_row(row: Row) -> CiRow:
    """Return what holds for all jobs."""
    return CiRow(
        labels=row.texts("labels"),
        python=row.text("python"),
        checks=row.texts("checks"),
        target_minutes=row.number("target_minutes"),
        overhead_s=row.number("overhead_s"),
        max_parallel=int(row.number("max_parallel")),
        retention_days=int(row.number("retention_days")),
    )


def container_row(row: Row, variants: Mapping[str, Variant], checker: Checker) -> ContainerRow:
    """Return a backend's container; images are of variants that it has."""
    made = ContainerRow(
        images=row.text_map("images"),
        volumes=row.texts("volumes"),
        options=row.text("options"),
        overlay=row.text("overlay"),
        requirements=row.text("requirements"),
    )
    for name in made.images:
        if name not in variants:
            checker.refer((*row.at, "images", name), name, "variant of this backend", variants)
    if made.requirements and not made.overlay:
        checker.problem(
            (*row.at, "requirements"),
            "has nowhere to go: `overlay` is not given.",
            todo="Say which folder is the overlay.",
        )
    return made
