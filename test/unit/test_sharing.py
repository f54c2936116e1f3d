"""Which slots may share what was imported once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hwmatrix import sharing
from hwmatrix.model import Backend, Device, Isolation, Plan, RunSpec, Slot, Unit

if TYPE_CHECKING:
    from pathlib import Path

UNIT = Unit(
    id="a.py",
    suite="the-suite",
    files=("a.py",),
    selectors=("a.py",),
    est_s=1,
    test_limit_s=2,
    budget_s=9,
    devices=1,
    shard=1,
    env={"OF_UNIT": "1"},
)
PLAN = Plan(
    session="cpu-stage-b",
    backend=Backend.CPU,
    variant="cpu",
    tier="stage-b",
    suites=("the-suite",),
    units=(UNIT,),
    shard=1,
    shards=1,
    hash="0",
)
SLOT = Slot(index=0, devices=(Device(key="rank0", token="0"),), env={"OMP_NUM_THREADS": "2"})
SPEC = RunSpec(
    run_id="r",
    plan=PLAN,
    root="/project",
    folder="/run",
    python="python",
    slots=(SLOT,),
    env={"OF_SPEC": "1"},
)
ENV = {"PATH": "/bin", "HWMATRIX_SLOT": "7"}


def slots(**changed: str) -> list[Slot]:
    """Return two slots as a session makes them for CPUs, the second with `changed` variables."""
    first = replace(SLOT, index=0, env={**SLOT.env, "HWMATRIX_PORT": "20000"})
    second = replace(SLOT, index=1, env={**SLOT.env, "HWMATRIX_PORT": "20050", **changed})
    return [first, second]


def test_slots_that_differ_only_in_what_they_are_told_of_themselves() -> None:
    common = sharing.common_env(SPEC, slots(), ENV)
    assert common is not None
    assert common["PATH"] == "/bin"
    assert common["OF_SPEC"] == "1"
    assert common["OF_UNIT"] == "1"
    assert common["OMP_NUM_THREADS"] == "2"
    assert common["HWMATRIX_RUN"] == "/run"
    assert {"HWMATRIX_SLOT", "HWMATRIX_PORT"}.isdisjoint(common)


def test_another_value_of_any_other_variable() -> None:
    assert sharing.common_env(SPEC, slots(HIP_VISIBLE_DEVICES="1"), ENV) is None
    assert sharing.common_env(SPEC, slots(OMP_NUM_THREADS="1"), ENV) is None


def test_a_variable_that_one_slot_takes_away() -> None:
    first, second = slots()
    assert sharing.common_env(SPEC, [first, replace(second, unset=("PATH",))], ENV) is None


def test_one_slot_or_none() -> None:
    assert sharing.common_env(SPEC, slots()[:1], ENV) is None
    assert sharing.common_env(SPEC, [], ENV) is None


def test_nothing_is_started_where_nothing_forks(tmp_path: Path) -> None:
    spawned = replace(UNIT, isolation=Isolation.SPAWN)
    spec = replace(SPEC, plan=replace(SPEC.plan, units=(spawned,)))
    assert sharing.start(spec, slots(), ENV, path=tmp_path / "zygote", log=2) is None
    assert not list(tmp_path.iterdir())


def test_path_too_long_for_a_socket(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    assert sharing.start(SPEC, slots(), ENV, path=folder / "zygote", log=2) is None
