"""Recorded events against the table: what starts, and the reason for it (cases.toml)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix import gate
from hwmatrix import matrix as matrix_stage
from hwmatrix.errors import GateError
from hwmatrix.model import Backend

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Callable

    from hwmatrix.gate import Decision
    from hwmatrix.model import Matrix

DATA = Path(__file__).resolve().parents[2] / "data" / "gate"
CASES: dict[str, dict[str, Any]] = tomllib.loads((DATA / "cases.toml").read_text("utf-8"))
NEVER = "must not be asked for"
REGISTERED = {
    (Backend.CPU, "stage-a-test-cpu"): ("test/registered/test_smoke.py",),
    (Backend.CPU, "stage-b-test-cpu"): ("test/registered/test_rope.py",),
    (Backend.CUDA, "stage-b-test-1-gpu"): ("test/registered/test_rope.py",),
    (Backend.CUDA, "stage-b-test-4-gpu"): ("test/registered/moe/test_experts.py",),
    (Backend.AMD, "stage-b-test-1-gpu-amd"): ("test/registered/test_rope.py",),
}


def facts(value: list[str] | str | None) -> gate.Facts | None:
    if value is None or value == NEVER:
        return None
    if isinstance(value, str):
        return gate.Facts(unreadable=value)
    return gate.Facts(names=tuple(value))


def decide(name: str, table: Matrix, data: bytes) -> Decision:
    case = CASES[name]
    event = gate.read_event(
        data, name=case["event"], inputs=gate.read_inputs(case.get("inputs", ""))
    )
    needed = gate.needs(event, table)
    # What nobody needs is never fetched, and what is needed the case must give.
    assert not needed.labels or case.get("labels", NEVER) != NEVER
    assert not needed.changes or case.get("changes", NEVER) != NEVER
    return gate.decide(
        event,
        table,
        sessions=matrix_stage.sessions(table),
        labels=facts(case.get("labels")) if needed.labels else None,
        changes=facts(case.get("changes")) if needed.changes else None,
        registered=REGISTERED,
    )


def test_every_event_has_a_case_and_there_are_at_least_forty() -> None:
    recorded = sorted(path.stem for path in (DATA / "events").glob("*.json"))
    assert sorted(CASES) == recorded
    assert len(recorded) >= 40


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "error" not in case])
def test_an_event_starts_what_the_table_says(
    name: str, table: Matrix, payload: Callable[[str], bytes]
) -> None:
    case = CASES[name]
    decision = decide(name, table, payload(name))
    assert [chosen.session for chosen in decision.sessions] == case["run"]
    assert decision.neutral is (not case["run"])
    going_on = [each.session for each in decision.sessions if each.continue_on_error]
    assert going_on == case.get("continue_on_error", [])
    envs = {each.session: dict(each.env) for each in decision.sessions if each.env}
    assert envs == case.get("env", {})
    narrowed = {each.session: [*each.suites, *each.paths] for each in decision.sessions}
    assert {k: v for k, v in narrowed.items() if v} == case.get("narrowed", {})


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "error" not in case])
def test_each_session_says_why(name: str, table: Matrix, payload: Callable[[str], bytes]) -> None:
    decision = decide(name, table, payload(name))
    reasons = {each.session: " | ".join(each.reasons) for each in decision.sessions}
    reasons |= {each.session: " | ".join(each.reasons) for each in decision.skipped}
    assert list(reasons) != []
    assert set(reasons) == {session.name for session in matrix_stage.sessions(table)}
    assert all(reasons.values())
    for session, part in CASES[name]["why"].items():
        # A dot in a bare TOML key would begin a table.
        assert part in reasons[session.replace("_", ".")]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "error" in case])
def test_what_nobody_can_tell_starts_nothing(
    name: str, table: Matrix, payload: Callable[[str], bytes]
) -> None:
    with pytest.raises(GateError, match=r".") as caught:
        decide(name, table, payload(name))
    for part in CASES[name]["error"]:
        assert part in str(caught.value)
