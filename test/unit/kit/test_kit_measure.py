from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix.errors import UsageError
from hwmatrix.kit import accuracy_gate, measure, record_measurement

if TYPE_CHECKING:
    from collections.abc import Iterator

Sink = list[tuple[str, Any]]
pytest_plugins = ["pytester"]


@pytest.fixture
def sink() -> Iterator[Sink]:
    found: Sink = []
    measure.begin(found.append)
    yield found
    measure.end()


def test_a_measurement_goes_to_the_running_test_with_its_limit(
    sink: Sink, capsys: pytest.CaptureFixture[str]
) -> None:
    assert record_measurement("KL", 4.8e-4, limit=5e-3, unit="nats") == 4.8e-4
    wanted = {"name": "KL", "value": 4.8e-4, "limit": 5e-3, "unit": "nats", "better": "lower"}
    assert sink == [(measure.PROPERTY, wanted)]
    assert capsys.readouterr().out == "measured: KL = 0.00048 nats (limit 0.005)\n"


@pytest.mark.parametrize(("value", "kept"), [(math.nan, "nan"), (math.inf, "inf")])
def test_what_json_has_no_number_for_is_kept_by_name(sink: Sink, value: float, kept: str) -> None:
    record_measurement("KL", value)
    assert sink[0][1]["value"] == kept


def test_the_inner_of_two_nested_tests_gets_its_own(sink: Sink) -> None:
    inner: Sink = []
    measure.begin(inner.append)
    record_measurement("inner", 1)
    measure.end()
    record_measurement("outer", 2)
    assert [entry[1]["name"] for entry in inner] == ["inner"]
    assert [entry[1]["name"] for entry in sink] == ["outer"]


def test_a_lost_measurement_is_an_error_that_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measure, "_sinks", [])
    with pytest.raises(UsageError, match=r"'KL'.*would be lost.*pytest_plugins"):
        record_measurement("KL", 1.0)


def test_outside_a_test_it_only_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measure, "_sinks", [])
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    assert record_measurement("speed", 10.0, unit="tokens/s", better="higher") == 10.0
    assert capsys.readouterr().out == "measured: speed = 10 tokens/s\n"


def test_names_and_directions_are_checked() -> None:
    with pytest.raises(UsageError, match="has no name"):
        record_measurement(" ", 1.0)
    with pytest.raises(UsageError, match=r"better='more'; allowed: lower, higher"):
        record_measurement("a", 1.0, better="more")


def test_a_score_above_the_gate_passes_and_is_recorded(sink: Sink) -> None:
    assert accuracy_gate("gsm8k", 0.92, above=0.91, label="small model") == 0.92
    entry = sink[0][1]
    assert (entry["name"], entry["limit"], entry["better"]) == (
        "gsm8k [small model]",
        0.91,
        "higher",
    )


@pytest.mark.parametrize("score", [0.91, 0.5, math.nan])
def test_a_score_at_or_below_the_gate_or_no_number_fails_and_is_recorded(
    sink: Sink, score: float
) -> None:
    with pytest.raises(AssertionError, match=r"gsm8k: score .* not above the gate of 0\.91"):
        accuracy_gate("gsm8k", score, above=0.91)
    assert len(sink) == 1


def test_the_plugin_carries_values_into_reports_and_junit(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("from hwmatrix.kit.plugin import *")
    pytester.makepyfile(
        """
        import unittest
        from hwmatrix.kit import record_measurement

        def test_function():
            record_measurement("one", 1.5, limit=2)

        class TestCase(unittest.TestCase):
            def test_method(self):
                record_measurement("two", 2.5)
        """
    )
    result = pytester.inline_run("--junitxml=out.xml")
    result.assertoutcome(passed=2)
    values = [
        value["value"]
        for report in result.getreports("pytest_runtest_logreport")
        if report.when == "call"
        for key, value in report.user_properties
        if key == measure.PROPERTY and isinstance(value, dict)
    ]
    assert values == [1.5, 2.5]
    assert measure.PROPERTY in (pytester.path / "out.xml").read_text(encoding="utf-8")
