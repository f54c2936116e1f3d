"""What holds of every decision, whatever the event, the labels and the changed paths."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hwmatrix import gate
from hwmatrix import matrix as matrix_stage
from hwmatrix.model import GateEvent

ROOT = Path(__file__).resolve().parents[3]
TABLE = matrix_stage.load(ROOT / "test" / "data" / "gate" / "matrix.toml", root=ROOT)
SESSIONS = matrix_stage.sessions(TABLE)

labels = st.frozensets(st.sampled_from(["bug", "run-ci", "run-ci-extra", "run-all"]))
paths = st.frozensets(
    st.sampled_from(
        ["docs/a.rst", "README.md", "src/a.py", "kernels/amd/a.hip", "kernels/cuda/a.cu"]
    ),
    min_size=1,
)
branches = st.sampled_from(["main", "release/1", "feature", "refs/tags/v1"])
changing = st.one_of(
    st.builds(
        gate.Event,
        name=st.just(GateEvent.PULL_REQUEST),
        action=st.sampled_from(["opened", "synchronize", "labeled", "unlabeled", "closed"]),
        label=st.sampled_from(["bug", "run-ci"]),
        number=st.just(7),
        branch=branches,
        draft=st.booleans(),
    ),
    st.builds(gate.Event, name=st.just(GateEvent.PUSH), branch=branches, deleted=st.booleans()),
    st.builds(
        gate.Event,
        name=st.just(GateEvent.MERGE_GROUP),
        action=st.sampled_from(["checks_requested", "destroyed"]),
        branch=branches,
    ),
)
schedules = st.builds(
    gate.Event,
    name=st.just(GateEvent.SCHEDULE),
    cron=st.sampled_from(["0 0 * * *", "0 */6 * * *", "30 2 * * 6"]),
)


def decide(
    event: gate.Event, has: frozenset[str] = frozenset(), changed: frozenset[str] | None = None
) -> gate.Decision:
    known = gate.Facts(unreadable="x") if changed is None else gate.Facts(names=tuple(changed))
    return gate.decide(
        event, TABLE, sessions=SESSIONS, labels=gate.Facts(names=tuple(has)), changes=known
    )


def started(
    event: gate.Event, has: frozenset[str] = frozenset(), changed: frozenset[str] | None = None
) -> set[str]:
    return {each.session for each in decide(event, has, changed).sessions}


@given(changing | schedules, labels, paths)
def test_every_session_is_answered_for_once_in_order_with_a_reason(
    event: gate.Event, has: frozenset[str], changed: frozenset[str]
) -> None:
    decision = decide(event, has, changed)
    run = [each.session for each in decision.sessions]
    skip = [each.session for each in decision.skipped]
    order = [session.name for session in SESSIONS]
    assert sorted(run + skip) == sorted(order)
    assert run == [name for name in order if name in run]
    assert skip == [name for name in order if name in skip]
    assert all(each.reasons for each in decision.sessions)
    assert all(each.reasons for each in decision.skipped)


@given(changing, labels, labels, paths)
def test_a_label_more_takes_nothing_away(
    event: gate.Event, has: frozenset[str], more: frozenset[str], changed: frozenset[str]
) -> None:
    assert started(event, has, changed) <= started(event, has | more, changed)


@given(changing, labels, paths, paths)
def test_a_changed_path_more_takes_nothing_away(
    event: gate.Event, has: frozenset[str], changed: frozenset[str], more: frozenset[str]
) -> None:
    assert started(event, has, changed) <= started(event, has, changed | more)


@given(changing, labels, paths)
def test_unknown_paths_start_all_that_any_path_would(
    event: gate.Event, has: frozenset[str], changed: frozenset[str]
) -> None:
    assert started(event, has, changed) <= started(event, has)


@given(schedules, labels, paths)
def test_a_schedule_heeds_neither_labels_nor_paths(
    event: gate.Event, has: frozenset[str], changed: frozenset[str]
) -> None:
    assert gate.needs(event, TABLE) == gate.Needs()
    assert decide(event, has, changed) == gate.decide(event, TABLE, sessions=SESSIONS)


@given(changing, labels, paths)
def test_what_is_not_needed_changes_nothing(
    event: gate.Event, has: frozenset[str], changed: frozenset[str]
) -> None:
    needed = gate.needs(event, TABLE)
    if not needed.labels:
        assert started(event, has, changed) == started(event, frozenset(), changed)
    if not needed.changes:
        assert started(event, has, changed) == started(event, has)


@given(changing, labels)
def test_only_schedules_go_on_after_an_error(event: gate.Event, has: frozenset[str]) -> None:
    assert not any(each.continue_on_error for each in decide(event, has).sessions)
