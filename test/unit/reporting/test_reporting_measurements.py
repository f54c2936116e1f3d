"""What tests measured stands in report.json, beside the test."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from hwmatrix.kit import measure
from hwmatrix.reporting import build, report_json, tests

if TYPE_CHECKING:
    from test.unit.reporting.conftest import Maker

VALUE = {"name": "latency", "value": 9.5, "limit": 10.0, "unit": "ms", "better": "lower"}
EARLIER = {**VALUE, "value": 1.0}


def written(make: Maker, properties: object) -> object:
    unit = make.unit("one")
    run = make.run(unit)
    run.start()
    part = run.part(unit)
    part.start()
    part.collected("test_x")
    part.test("test_x", user_properties=properties)
    part.end()
    run.end()
    plain = json.loads(report_json(build(run.folder)))
    return plain["units"][0]["tests"][0].get("measurements")


def test_measured_values_stand_beside_their_test(make: Maker) -> None:
    properties = [["other", 1], [tests.MEASURED, EARLIER], [tests.MEASURED, VALUE]]
    assert written(make, properties) == [EARLIER, VALUE]


@pytest.mark.parametrize("properties", [[], None, [["other", 1]], [[tests.MEASURED, 3]], [3], "x"])
def test_a_test_that_measured_nothing_has_no_such_key(make: Maker, properties: object) -> None:
    assert written(make, properties) is None


def test_the_kit_writes_under_the_same_name() -> None:
    assert tests.MEASURED == measure.PROPERTY
