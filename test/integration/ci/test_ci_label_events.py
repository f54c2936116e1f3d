"""Label events, by the expressions of this repository's own workflow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Evaluate = Callable[[str, Mapping[str, Any]], Any]

ROOT = Path(__file__).resolve().parents[3]
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "hwmatrix.yml").read_text())
JOBS = WORKFLOW["jobs"]


def contexts(event: Mapping[str, Any], name: str = "pull_request") -> dict[str, Any]:
    github = {"event": event, "event_name": name, "workflow": "hwmatrix", "run_id": "99"}
    return {"github": github}


def labelled(label: str) -> dict[str, Any]:
    event = {"action": "labeled", "label": {"name": label}, "pull_request": {"number": 7}}
    return contexts(event)


# Names that are no label of a row, however they are quoted.
STRANGERS = ("documentation", "", "run-ci ", "'; true || '", "${{ always() }}", "x" * 1_000_000)


@pytest.mark.parametrize("label", STRANGERS)
def test_a_label_of_no_concern_starts_ends_and_hides_nothing(
    evaluate: Evaluate, label: str
) -> None:
    given = labelled(label)
    for job in ("plan", "checks", "finish"):
        assert evaluate(JOBS[job]["if"], given) is False
    assert evaluate(JOBS["finish"]["name"], given) == "hwmatrix (unrelated label)"
    assert evaluate(WORKFLOW["concurrency"]["group"], given) == "hwmatrix-99"


@pytest.mark.parametrize("label", ["run-ci", "run-ci-extra"])
def test_a_label_that_a_row_names_starts_a_run_in_place_of_the_last(
    evaluate: Evaluate, label: str
) -> None:
    given = labelled(label)
    for job in ("plan", "checks", "finish"):
        assert evaluate(JOBS[job]["if"], given)
    assert evaluate(JOBS["finish"]["name"], given) == "hwmatrix"
    assert evaluate(WORKFLOW["concurrency"]["group"], given) == "hwmatrix-7"
    assert evaluate(WORKFLOW["concurrency"]["cancel-in-progress"], given) is True


def test_a_push_to_a_branch_ends_no_other_run(evaluate: Evaluate) -> None:
    given = contexts({"ref": "refs/heads/main"}, "push")
    assert evaluate(WORKFLOW["concurrency"]["group"], given) == "hwmatrix-99"
    assert evaluate(WORKFLOW["concurrency"]["cancel-in-progress"], given) is False
    assert evaluate(JOBS["finish"]["name"], given) == "hwmatrix"
