from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from hwmatrix.reporting import plan_json, plan_table
from hwmatrix.reporting.screen import columns

if TYPE_CHECKING:
    from collections.abc import Callable

    from test.unit.reporting.conftest import Maker

    from hwmatrix.model import Plan


def sharded(make: Maker) -> Plan:
    units = (
        make.unit("attention_with_a_rather_long_name_for_a_file", est_s=300.0, budget_s=1200.0),
        make.unit("copies"),
        make.unit("gloo", suite="stage-b-test-4-gpu", devices=4, shard=2),
        make.unit("rings", suite="stage-b-test-4-gpu", devices=8),
    )
    plan = {
        "shards": 2,
        "setup_s": 60.0,
        "fail_fast": True,
        "suites": ("stage-b-test-cpu", "stage-b-test-4-gpu", "stage-b-empty"),
        "disabled": (("test/registered/test_old.py", "broken since the driver update"),),
        "deselected": (("test/registered/test_other.py", "not among the given paths"),),
    }
    return make.run(*units, plan=plan).spec.plan


def test_a_suite_that_has_the_host_for_itself_says_so(make: Maker) -> None:
    plan = make.run(make.unit("speed", exclusive=True), plan={}).spec.plan
    assert ": 1 unit of 1 device, each alone on the host, " in plan_table(plan, 100)


@pytest.mark.parametrize("width", [60, 100])
def test_plan_table(make: Maker, golden: Callable[[str, str], None], width: int) -> None:
    golden(f"plan-{width}.txt", plan_table(sharded(make), width))


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_wider_than_the_terminal(make: Maker, width: int) -> None:
    lines = plan_table(sharded(make), width, unicode=True).splitlines()
    assert max(columns(line) for line in lines) <= width


def test_plan_without_limits_says_only_what_it_knows(make: Maker) -> None:
    plan = make.run(make.unit("a"), plan={"deadline_s": 0.0}).spec.plan
    assert plan_table(plan).splitlines()[-1] == (
        "total: 1 unit, 10.0 s estimated, about 20.0 s on 2 slots"
    )


def test_colour_dims_other_shards(make: Maker) -> None:
    lines = plan_table(sharded(make), 120, True).splitlines()
    (gloo,) = [line for line in lines if "test_gloo.py" in line]
    (rings,) = [line for line in lines if "test_rings.py" in line]
    assert gloo.startswith("\x1b[2m")
    assert "\x1b" not in rings


def test_plan_json_names_the_units_of_this_shard(make: Maker) -> None:
    plan = sharded(make)
    plain = json.loads(plan_json(plan))
    assert (plain["version"], plain["hash"]) == (1, plan.hash)
    assert len(plain["units"]) == 4
    assert plain["mine"] == [unit.id for unit in plan.mine]
    assert plan_json(plan) == plan_json(sharded(make))


def test_before_a_run_what_was_not_selected_is_counted(make: Maker) -> None:
    lines = plan_table(sharded(make), whole=False).splitlines()
    assert lines[-1] == "not selected: 1 file; --plan lists them"
    assert "disabled (1):" in lines
    assert not any("test_other.py" in line for line in lines)
    plan = make.run(make.unit("a")).spec.plan
    assert plan_table(plan, whole=False) == plan_table(plan)


def test_names_beyond_ascii_are_readable_where_the_stream_has_them(make: Maker) -> None:
    plan = make.run(make.unit("é字")).spec.plan
    assert "test/registered/test_é字.py" in plan_table(plan, unicode=True)
    assert "test/registered/test_\\xe9\\u5b57.py" in plan_table(plan)
