"""Values survive the way through JSON between the two interpreters."""

from __future__ import annotations

import json

import pytest

from hwmatrix import codec, model

UNIT = model.Unit(
    id="test/a.py",
    suite="s",
    files=("test/a.py",),
    selectors=("test/a.py::t",),
    est_s=10,
    test_limit_s=30,
    budget_s=100.5,
    devices=2,
    shard=1,
    env={"A": "1"},
    isolation=model.Isolation.FORK,
)
PLAN = model.Plan(
    session="amd-stage-b",
    backend=model.Backend.AMD,
    variant="rocm-7.2",
    tier="stage-b",
    suites=("s",),
    units=(UNIT,),
    shard=1,
    shards=2,
    hash="abc",
    disabled=(("test/b.py", "broken"),),
)
SPEC = model.RunSpec(
    run_id="r",
    plan=PLAN,
    root="/r",
    folder="/f",
    python="/p",
    slots=(model.Slot(index=0, devices=(model.Device(key="k", token="0"),), env={"X": "0"}),),
)


def test_a_run_spec_comes_back_equal() -> None:
    assert codec.from_plain(model.RunSpec, json.loads(codec.dumps(SPEC))) == SPEC


def test_equal_values_give_equal_text() -> None:
    assert codec.dumps({"b": 1, "a": {2, 1}}) == codec.dumps({"a": {1, 2}, "b": 1})


def test_unknown_keys_are_ignored_and_optional_ones_may_be_null() -> None:
    plain = json.loads(codec.dumps(UNIT))
    plain |= {"from_the_future": 1, "isolation": None}
    assert codec.from_plain(model.Unit, plain).isolation is None


def test_keys_of_an_enum_come_back_as_the_enum() -> None:
    row = model.RunnerConfig(
        name="r", devices=1, max_job_minutes=5, arch={model.Backend.AMD: ("gfx942",)}
    )
    back = codec.from_plain(model.RunnerConfig, json.loads(codec.dumps(row)))
    assert back.arch == {model.Backend.AMD: ("gfx942",)}
    assert isinstance(back.max_job_minutes, float)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("est_s", "ten", "expected float, found 'ten'"),
        ("devices", True, None),
        ("files", "a.py", "expected a list, found 'a.py'"),
        ("env", [], r"expected an object, found \[\]"),
        ("isolation", "thread", "'thread' is not a valid Isolation"),
    ],
)
def test_a_value_of_another_shape_is_named(key: str, value: object, message: str | None) -> None:
    plain = {**json.loads(codec.dumps(UNIT)), key: value}
    if message is None:
        assert codec.from_plain(model.Unit, plain).devices == 1
        return
    with pytest.raises((TypeError, ValueError), match=message):
        codec.from_plain(model.Unit, plain)


def test_no_object_at_all() -> None:
    with pytest.raises(TypeError, match=r"Unit: expected an object, found \[\]"):
        codec.from_plain(model.Unit, [])
