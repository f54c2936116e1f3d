from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hwmatrix import sharing
from hwmatrix.model import Backend, Device, Isolation, Plan, RunSpec, Slot, Unit
from hwmatrix.slotenv import server_env, slot_facts, unit_env

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

UNIT = Unit(
    id="a.py",
    suite="the-suite",
    files=("a.py",),
    selectors=("a.py",),
    est_s=1,
    test_limit_s=2,
    budget_s=9,
    devices=2,
    shard=1,
    env={"OF_UNIT": "1"},
)
PLAN = Plan(
    session="amd-stage-b",
    backend=Backend.AMD,
    variant="rocm-7.2",
    tier="stage-b",
    suites=("the-suite",),
    units=(UNIT,),
    shard=1,
    shards=1,
    hash="0",
)
DEVICES = (
    Device(key="0000:01:00.0", token="0", arch="gfx942", memory_gib=192.0),
    Device(key="0000:02:00.0", token="1", arch="gfx942", memory_gib=188.5),
)
SLOT = Slot(
    index=1,
    devices=DEVICES,
    env={"HIP_VISIBLE_DEVICES": "0,1", "SHARED": "slot"},
    unset=("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
)
SPEC = RunSpec(
    run_id="r",
    plan=PLAN,
    root="/project",
    folder="/run",
    python="python",
    slots=(SLOT,),
    env={"OF_SPEC": "1", "SHARED": "spec", "CUDA_VISIBLE_DEVICES": "3"},
)


def test_facts_of_a_slot() -> None:
    assert slot_facts(SLOT) == {
        "HWMATRIX_SLOT": "1",
        "HWMATRIX_DEVICES": "2",
        "HWMATRIX_MEMORY_GIB": "188.5",
        "HWMATRIX_ARCH": "gfx942",
    }
    unknown = replace(SLOT, devices=(*DEVICES, Device(key="x", token="2")))
    assert slot_facts(unknown)["HWMATRIX_MEMORY_GIB"] == ""
    assert slot_facts(replace(SLOT, devices=()))["HWMATRIX_ARCH"] == ""


def test_server_gets_the_slots_variables_and_never_the_rivals() -> None:
    outer = {
        "PATH": "/bin",
        "ROCR_VISIBLE_DEVICES": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "HWMATRIX_KEPT_PYTEST_ADDOPTS": "-v",
        "HWMATRIX_PARENT_PID": "1",
        "HWMATRIX_TEMPORARY": "/tmp/x",
    }
    env = server_env(SPEC, SLOT, outer)
    assert env["HIP_VISIBLE_DEVICES"] == "0,1"
    assert env["SHARED"] == "slot"
    assert env["OF_SPEC"] == "1"
    assert env["PYTEST_ADDOPTS"] == "-v"
    assert (env["HWMATRIX_BACKEND"], env["HWMATRIX_VARIANT"]) == ("amd", "rocm-7.2")
    assert env["HWMATRIX_RUN"] == "/run"
    gone = {*SLOT.unset, "PYTEST_DISABLE_PLUGIN_AUTOLOAD", "HWMATRIX_PARENT_PID"}
    assert not gone & env.keys()
    assert "HWMATRIX_TEMPORARY" not in env


def test_unit_gets_a_folder_of_its_own_and_keeps_the_kernels_cache() -> None:
    env = unit_env(UNIT, "/tmp/unit", {"TMPDIR": "/scratch"})
    assert env["TMPDIR"] == "/tmp/unit"
    assert env["HWMATRIX_SUITE"] == "the-suite"
    assert env["OF_UNIT"] == "1"
    assert env["TORCHINDUCTOR_CACHE_DIR"].startswith("/scratch/torchinductor_")
    given = unit_env(UNIT, "/tmp/unit", {"TORCHINDUCTOR_CACHE_DIR": "/cache"})
    assert "TORCHINDUCTOR_CACHE_DIR" not in given


def test_what_all_units_set_alike_is_there_before_they_start() -> None:
    other = replace(UNIT, id="b.py", env={"OF_UNIT": "2", "SHARED": "units", "ALL": "1"})
    one = replace(UNIT, env={"OF_UNIT": "1", "SHARED": "units", "ALL": "1"})
    spec = replace(SPEC, plan=replace(PLAN, units=(one, other)))
    env = server_env(spec, SLOT, {})
    assert (env["SHARED"], env["ALL"]) == ("units", "1")
    assert "OF_UNIT" not in env
    nothing = replace(SPEC, plan=replace(PLAN, units=()))
    assert server_env(nothing, SLOT, {})["SHARED"] == "slot"


# ------------------------------------------------------------ which slots may share an import
CPU_SLOT = Slot(index=0, devices=DEVICES[:1], env={"OMP_NUM_THREADS": "2"})
FORKS = replace(SPEC, isolation=Isolation.FORK)
ENV = {"PATH": "/bin", "HWMATRIX_SLOT": "7"}


def slots(**changed: str) -> list[Slot]:
    """Return two slots as a session makes them for CPUs, the second with `changed` variables."""
    first = replace(CPU_SLOT, index=0, env={**CPU_SLOT.env, "HWMATRIX_PORT": "20000"})
    second = replace(CPU_SLOT, index=1, env={**CPU_SLOT.env, "HWMATRIX_PORT": "20050", **changed})
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
    assert sharing.common_env(SPEC, slots(ONEAPI_DEVICE_SELECTOR="1"), ENV) is None
    assert sharing.common_env(SPEC, slots(OMP_NUM_THREADS="1"), ENV) is None


def test_a_variable_that_one_slot_takes_away() -> None:
    first, second = slots()
    assert sharing.common_env(SPEC, [first, replace(second, unset=("PATH",))], ENV) is None


def test_one_slot_or_none() -> None:
    assert sharing.common_env(SPEC, slots()[:1], ENV) is None
    assert sharing.common_env(SPEC, [], ENV) is None


def test_nothing_is_started_where_nothing_forks(tmp_path: Path) -> None:
    spawned = replace(UNIT, isolation=Isolation.SPAWN)
    spec = replace(FORKS, plan=replace(PLAN, units=(spawned,)))
    assert sharing.start(spec, slots(), ENV, path=tmp_path / "zygote", log=2) is None
    assert not list(tmp_path.iterdir())


def test_path_too_long_for_a_socket(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    assert sharing.start(FORKS, slots(), ENV, path=folder / "zygote", log=2) is None
    assert f"each slot imports its packages itself: {folder}/zygote: " in capfd.readouterr().err
