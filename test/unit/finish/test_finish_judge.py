"""One verdict from all machines: what makes it red, green or neutral, and how it is told."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwmatrix import finish
from hwmatrix.finish.text import duration, fenced, inline, line
from hwmatrix.model import Backend, Job

UNITS = (("s:a", "s:b"), ("s:c",), ("s:d", "s:e"))
HASH = "f" * 16


def unit(name: str, outcome: str = "passed", **more: Any) -> dict[str, Any]:
    tests = [{"id": f"{name}.py::test", "outcome": outcome, "reason": "", "flaky": False}]
    return {
        "id": name,
        "suite": "s",
        "files": [f"{name[2:]}.py"],
        "outcome": outcome,
        "reason": "" if outcome == "passed" else "why",
        "flaky": False,
        "seconds": 10.0,
        "est_s": 10.0,
        "budget_s": 100.0,
        "command": f"nox -s cpu-b -- {name[2:]}.py",
        "tests": tests,
        **more,
    }


def plain(shard: int = 1, *, units: list[dict[str, Any]] | None = None, **more: Any) -> Any:
    """Return report.json of one shard of three, all of it well."""
    rows = [unit(name) for name in UNITS[shard - 1]] if units is None else units
    red = [row["id"] for row in rows if row["outcome"] not in {"passed", "skipped", "deselected"}]
    return {
        "version": 1,
        "kind": "verdict",
        "run": f"cpu-b-{shard}",
        "session": "cpu-b",
        "backend": "cpu",
        "suites": ["s"],
        "plan_hash": HASH,
        "shard": shard,
        "shards": 3,
        "planned": [list(ids) for ids in UNITS],
        "commit": "c1",
        "table_hash": "t1",
        "verdict": {"green": not red, "reasons": [f"{r}: failed" for r in red], "tests": {}},
        "command": f"nox -s cpu-b -- --shard {shard}/3",
        "command_red": f"nox -s cpu-b -- {' '.join(red)}" if red else "",
        "seconds": 30.0,
        "setup": {"planned_s": 60.0, "seconds": 50.0},
        "units": rows,
        **more,
    }


def shard(number: int = 1, **more: Any) -> finish.Shard:
    return finish.parse(plain(number, **more), f"reports/{number}/report.json")


def job(number: int = 1) -> Job:
    return Job(
        session="cpu-b",
        backend=Backend.CPU,
        runner_config="cpu",
        suites=("s",),
        shard=number,
        shards=3,
        plan_hash=HASH,
        units=UNITS[number - 1],
        labels=("here",),
        timeout_minutes=10,
        args=(),
    )


JOBS = (job(1), job(2), job(3))
WELL = {"plan": "success", "checks": "success", "test": "success"}


def case(*reports: finish.Shard, **more: Any) -> finish.Case:
    given_: dict[str, Any] = {
        "expected": JOBS,
        "results": WELL,
        "commit": "c1",
        "table_hash": "t1",
    }
    return finish.Case(reports=reports, **{**given_, **more})


def all_three() -> tuple[finish.Shard, ...]:
    return (shard(1), shard(2), shard(3))


def reasons(*reports: finish.Shard, **more: Any) -> str:
    verdict = finish.judge(case(*reports, **more))
    assert verdict.word == "red"
    assert verdict.exit_status == 1
    return "\n".join(verdict.reasons)


# ---------------------------------------------------------------- green and neutral
def test_all_shards_once_and_well_are_green() -> None:
    verdict = finish.judge(case(*all_three()))
    assert (verdict.word, verdict.reasons, verdict.exit_status) == ("green", (), 0)


def test_reports_alone_are_held_against_each_other() -> None:
    verdict = finish.judge(case(*all_three(), expected=None, results={}, commit="other"))
    assert verdict.word == "green"
    assert "no decision was given: the reports were held against each other alone" in verdict.notes


def test_nothing_chosen_is_neutral_and_says_so() -> None:
    results = {"plan": "success", "checks": "success", "test": "skipped"}
    verdict = finish.judge(case(expected=(), neutral=True, results=results))
    assert (verdict.word, verdict.exit_status) == ("neutral", 0)
    assert verdict.notes == ("the gate chose nothing for this event, so nothing was to run",)
    assert "NEUTRAL  0 reports, 0 units" in finish.as_text(verdict)


# ---------------------------------------------------------------- red
def test_a_missing_report_is_red() -> None:
    assert "cpu-b (cpu) 2: its report is missing (1 units)" in reasons(shard(1), shard(3))
    alone = reasons(shard(1), shard(3), expected=None)
    assert "cpu-b (s): missing: shard 2 of 3" in alone


def test_a_doubled_report_is_red() -> None:
    told = reasons(*all_three(), dataclasses.replace(shard(2), place="again"))
    assert "cpu-b (cpu) 2: 2 reports: reports/2/report.json, again" in told
    assert "cpu-b (s): ran more than once: s:c" in told
    alone = reasons(*all_three(), shard(2), expected=None)
    assert "cpu-b (s): more than one report of shard 2" in alone


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"session": "cpu-c"}, "no job of this run has that session"),
        ({"suites": ["t"]}, "no job of this run has that session and these suites"),
        ({"plan_hash": "0" * 16}, f"it is of plan {'0' * 16}, not of {HASH}"),
        ({"shards": 4}, r"the plan has 3 shard\(s\)"),
    ],
)
def test_a_foreign_report_is_red(change: dict[str, Any], message: str) -> None:
    told = reasons(*all_three(), shard(1, **change))
    assert re.search(f"foreign report reports/1/report.json: .*{message}", told)


def test_reports_of_different_plans_are_red() -> None:
    told = reasons(shard(1), shard(2), shard(3, plan_hash="0" * 16), expected=None)
    assert "cpu-b (s): reports of different plans" in told


@pytest.mark.parametrize(("what", "key"), [("commit", "commit"), ("table", "table_hash")])
def test_reports_of_another_commit_or_table_are_red(what: str, key: str) -> None:
    one = shard(1, **{key: "other"})
    told = reasons(one, shard(2), shard(3))
    assert f"reports of different {what}s:" in told
    same = [shard(n, **{key: "other"}) for n in (1, 2, 3)]
    assert f"the reports are of {what} other, this checkout is of" in reasons(*same)
    mute = reasons(shard(1, **{key: ""}), shard(2), shard(3))
    assert f"no {what} is told by reports/1/report.json" in mute


def test_changed_files_are_noted_where_all_agree() -> None:
    reports = [shard(n, commit="c1+changes") for n in (1, 2, 3)]
    verdict = finish.judge(case(*reports, commit="c1+changes"))
    assert verdict.word == "green"
    assert "run from files that differ from commit c1" in verdict.notes


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ({"plan": "failure"}, "the gate or the plan failed: see the job 'plan'"),
        ({"checks": "failure"}, "the checks failed: see the job 'checks'"),
        ({"checks": "cancelled"}, "the checks were cancelled"),
        ({"test": "cancelled"}, "the test jobs were cancelled"),
        ({"plan": "cancelled"}, "the gate or the plan was cancelled"),
        ({"test": "skipped"}, "the test jobs: skipped, though 3 were to run: nothing ran"),
        ({"checks": "skipped"}, "the checks: skipped: nothing ran"),
        ({"test": "$(x)"}, r"the test jobs: '\$\(x\)' is no result"),
        ({"test": "failure"}, "the engine says that a test job failed, though every report"),
    ],
)
def test_results_of_jobs_count(results: dict[str, str], message: str) -> None:
    assert re.search(message, reasons(*all_three(), results={**WELL, **results}))


def test_a_gate_that_failed_is_red_without_any_report() -> None:
    results = {"plan": "failure", "checks": "success", "test": "skipped"}
    told = reasons(expected=(), results=results)
    assert told.startswith("the gate or the plan failed")


def test_checks_that_failed_are_red_though_nothing_was_chosen() -> None:
    results = {"plan": "success", "checks": "failure", "test": "skipped"}
    assert "the checks failed" in reasons(expected=(), neutral=True, results=results)


def test_a_report_where_nothing_was_chosen_is_foreign() -> None:
    assert "foreign report" in reasons(shard(1), expected=(), neutral=True)


def test_no_report_at_all_proves_nothing() -> None:
    assert "there is no report" in reasons(expected=None, results={})


def test_faults_are_reasons() -> None:
    told = reasons(*all_three(), faults=("amd-b: could not be planned: x",))
    assert "amd-b: could not be planned: x" in told


def test_a_red_report_gives_its_reasons() -> None:
    bad = shard(2, units=[unit("s:c", "crashed")])
    assert "cpu-b (s) shard 2/3: s:c: failed" in reasons(shard(1), bad, shard(3))
    mute = shard(2, verdict={"green": False, "reasons": []})
    assert "it is red and gives no reason" in reasons(shard(1), mute, shard(3))


def test_a_report_that_only_says_green_is_not_believed() -> None:
    green = {"green": True, "reasons": []}
    lying = shard(2, units=[unit("s:c", "failed")], verdict=green)
    assert "says green, though not all is well: c.py" in reasons(shard(1), lying, shard(3))
    idle = shard(2, units=[unit("s:c", "skipped")], verdict=green)
    assert "says green, though nothing passed" in reasons(shard(1), idle, shard(3))


def test_units_are_held_against_the_plan() -> None:
    other = shard(2, units=[unit("s:x")])
    told = reasons(shard(1), other, shard(3))
    assert "cpu-b (s): not in the plan: s:x" in told
    assert "cpu-b (s): in no report, though its shard reported: s:c" in told
    assert "cpu-b (cpu) 2: its report has other units than the plan" in told
    lists = shard(2, planned=[["s:a"], ["s:c"], ["s:d", "s:e"]])
    assert "reports of one plan list different units" in reasons(shard(1), lists, shard(3))
    twice = [shard(n, planned=[["s:a", "s:b"], ["s:c", "s:a"], ["s:d", "s:e"]]) for n in (1, 2, 3)]
    assert "planned more than once: s:a" in reasons(*twice)
    short = [shard(n, planned=[["s:a", "s:b"], ["s:c"]]) for n in (1, 2, 3)]
    assert "not in the plan: s:d, s:e" in reasons(*short)


@given(st.lists(st.integers(0, 2), max_size=6))
def test_only_each_shard_once_is_green(numbers: list[int]) -> None:
    """Green exactly when the reports are those of all shards, each once; with or without jobs."""
    reports = tuple(
        dataclasses.replace(shard(n + 1), place=str(at)) for at, n in enumerate(numbers)
    )
    for expected in (JOBS, None):
        results = WELL if expected else {}
        verdict = finish.judge(case(*reports, expected=expected, results=results))
        assert (verdict.word == "green") is (sorted(numbers) == [0, 1, 2])


# ---------------------------------------------------------------- reading
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "usage"}, "its kind is 'usage', not 'verdict'"),
        ({"version": 2}, "its version is '2'; this reads version 1"),
        ({"shard": 4}, "there is no shard 4 of 3"),
        ({"shard": True}, "'shard' is no number"),
        ({"seconds": "1"}, "'seconds' is no number"),
        ({"session": None}, "'session' is no text"),
        ({"suites": [1]}, "'suites' is no list of texts"),
        ({"planned": 1}, "'planned' is no list"),
        ({"planned": [1]}, "'planned' is no list of texts"),
        ({"verdict": []}, "verdict is no object"),
        ({"units": [3]}, "a unit is no object"),
        ({"units": [unit("s:a", "fine")]}, "unit 's:a' came to 'fine', which is no outcome"),
    ],
)
def test_what_is_no_report_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        finish.parse({**plain(1), **change}, "x")


def test_a_list_is_no_report() -> None:
    with pytest.raises(ValueError, match="the report is no object"):
        finish.parse([], "x")


def test_green_is_only_a_true_truth_value() -> None:
    assert shard(1, verdict={"green": "yes", "reasons": []}).green is False


# ---------------------------------------------------------------- telling
MEASURED = [
    {"name": "latency", "value": 9.5, "limit": 10.0, "unit": "ms", "better": "lower"},
    {"name": "score", "value": 0.62, "limit": 0.60, "unit": "", "better": "higher"},
    {"name": "far", "value": 1.0, "limit": 10.0, "unit": "ms", "better": "lower"},
    {"name": "no limit", "value": 1.0, "limit": None, "unit": "", "better": "lower"},
    {"name": "zero", "value": 0.0, "limit": 0.0, "unit": "", "better": "lower"},
    "odd",
]


def test_the_page_has_all_that_a_person_needs() -> None:
    failing = unit("s:c", "failed", seconds=90.0)
    failing["tests"] = [
        {"id": f"c.py::t{n}", "outcome": "failed", "reason": "boom", "flaky": False}
        for n in range(12)
    ]
    flaky = unit("s:a", flaky=True, seconds=70.0, est_s=10.0)
    flaky["tests"][0] |= {"flaky": True, "measurements": MEASURED}
    reports = (
        shard(1, units=[flaky, unit("s:b")], setup={"planned_s": 60.0, "seconds": 200.0}),
        shard(2, units=[failing]),
        shard(3),
    )
    page = finish.as_markdown(finish.judge(case(*reports)))
    assert page.startswith("## ❌ hwmatrix: red\n")
    assert "**c.py** (cpu-b) failed: why" in page
    assert "```sh\nnox -s cpu-b -- c.py\n```" in page
    assert "- and 2 tests more" in page
    assert "### Flaky\n\n- a.py (cpu-b): passed when tried again, s:a.py::test" in page
    assert "### More than half of the budget used" in page
    assert "| c.py | cpu-b | 1 m 30 s | 10 s | 100 s | 90% |" in page
    assert "### Estimates off by more than a factor of 2" in page
    assert "| a.py | cpu-b | 10 s | 1 m 10 s | 7.0 |" in page
    assert "- cpu: 3 m 20 s at most, `setup_s` says 1 m 00 s" in page
    assert "### Measurements near their limit" in page
    assert "| latency | s:a.py::test | 9.5 ms | 10 | lower |" in page
    assert "| score | s:a.py::test | 0.62  | 0.6 | higher |" in page
    assert "| far |" not in page


def test_long_lists_are_cut_with_a_count() -> None:
    rows = [unit(f"s:u{n}", "failed") for n in range(60)]
    reports = (shard(1, units=rows), shard(2), shard(3))
    page = finish.as_markdown(finish.judge(case(*reports)))
    assert "And 10 files more: see the reports." in page
    assert re.search(r"- and \d+ reasons more", page)


def test_a_page_is_never_larger_than_a_page_may_be() -> None:
    rows = [unit(f"s:u{n}", "failed") for n in range(50)]
    for row in rows:
        tests = [{"outcome": "failed", "reason": "é" * 900, "flaky": False} for _ in range(10)]
        row["tests"] = [{**test, "id": "é" * 900} for test in tests]
    page = finish.as_markdown(finish.judge(case(shard(1, units=rows))))
    assert len(page.encode()) < 950_000
    assert page.endswith("(cut: see the reports)\n")


def test_a_program_gets_the_same_verdict() -> None:
    told = json.loads(finish.as_json(finish.judge(case(shard(3), shard(1)))))
    assert told["verdict"] == "red"
    assert told["kind"] == "finish"
    assert [report["shard"] for report in told["reports"]] == [1, 3]


EVIL = (
    "::set-output name=a::b",
    "x\n::error::y",
    "##[set-env name=PATH;]x",
    "\x1b[2Jx\x1b]0;title\x07",
    "`$(id)`",
    "<script>alert(1)</script>",
    "a | b",
    "[x](javascript:1)",
    "\u202ex\u2028y",
    "```\n# end",
    "@everyone",
)


@pytest.mark.parametrize("evil", EVIL)
def test_names_in_reports_do_nothing(evil: str) -> None:
    bad = unit("s:c", "failed", reason=evil, files=[evil], command=evil)
    bad["tests"] = [{"id": evil, "outcome": "failed", "reason": evil, "flaky": True}]
    reports = (
        shard(1),
        shard(2, units=[bad], session=evil, command_red=evil, commit=evil),
        shard(3),
    )
    verdict = finish.judge(case(*reports, results={"test": evil}, faults=(evil,)))
    log = finish.as_text(verdict)
    page = finish.as_markdown(verdict)
    for text in (log, page):
        assert "\x1b" not in text
        assert "##[" not in text
        assert "\u2028" not in text
        assert "\u202e" not in text
        assert not any(row.lstrip().startswith("::") for row in text.splitlines())
    assert "<script>" not in re.sub(r"```+sh\n.*?\n```+", "", page, flags=re.DOTALL)
    assert "\n# end" not in page


def test_text_is_one_line_and_not_endless() -> None:
    assert line("a\tb\r\nc\x00") == "a b c"
    assert line("x" * 2000).endswith("... (2000 characters)")
    assert inline("<a|b>") == "&lt;a\\|b&gt;"
    assert fenced("a ``` b")[0] == "````sh"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0.0 s"), (59.94, "59.9 s"), (60, "1 m 00 s"), (3720, "1 h 02 m")]
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text
