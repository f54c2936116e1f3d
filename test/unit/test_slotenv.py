from __future__ import annotations

from dataclasses import replace

from hwmatrix.model import Backend, Device, Plan, RunSpec, Slot, Unit
from hwmatrix.slotenv import server_env, slot_facts, unit_env

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
