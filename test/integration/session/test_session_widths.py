"""Suites of several widths, and one that wants the host, in one session of the real command."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from test.integration.session.conftest import Project

ROWS = """
[runner.cpu-2-rank]
devices = 2
slots = 1
max_job_minutes = 30

[suite.cpu.stage-b-test-cpu-2-rank]
tier = "stage-b"
runner_config = "cpu-2-rank"

[suite.cpu.stage-b-quiet]
tier = "stage-b"
runner_config = "cpu"
exclusive = true
"""
BODY = """
import json, os, time
from pathlib import Path

def test_span():
    began = time.monotonic()
    Path({folder!r}, {name!r} + ".begun").touch()
    while not all(Path({folder!r}, other + ".begun").exists() for other in {beside!r}):
        time.sleep(0.02)  # its worker may not be up yet
    time.sleep(0.4)
    row = dict(file={name!r}, devices=os.environ["HWMATRIX_DEVICES"], began=began,
        slot=os.environ["HWMATRIX_SLOT"], ended=time.monotonic())
    Path({folder!r}, {name!r} + ".json").write_text(json.dumps(row))
"""


def spans(
    project: Project, plan: dict[str, str], *words: str, meet: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Run one file per entry (name: suite); return what each saw of itself.

    The files in `meet` go on only once all of them have begun.
    """
    project.table.write_text(project.table.read_text() + ROWS)
    records = project.root / "records"
    records.mkdir()
    for name, suite in plan.items():
        beside = meet if name in meet else ()
        body = BODY.format(name=name, folder=str(records), beside=beside)
        path = project.root / project.file(f"test_{name}.py", body)
        path.write_text(path.read_text().replace("stage-b-test-cpu", suite, 1))
    ended = project.session("cpu-stage-b", *words)
    assert ended.status == 0, ended.err
    assert "slots" in ended.err
    return {name: json.loads((records / f"{name}.json").read_text()) for name in plan}


def beside(one: Any, other: Any) -> bool:
    """Return whether two files ran at the same time."""
    return bool(one["began"] < other["ended"] and other["began"] < one["ended"])


def test_wide_and_exclusive_files_are_placed_as_such(project: Project) -> None:
    rows = {
        "narrow_a": "stage-b-test-cpu",
        "narrow_b": "stage-b-test-cpu",
        "wide": "stage-b-test-cpu-2-rank",
        "quiet": "stage-b-quiet",
    }
    seen = spans(project, rows, "--slots", "2", meet=("narrow_a", "narrow_b"))
    assert {name: row["devices"] for name, row in seen.items()} == {
        "narrow_a": "1",
        "narrow_b": "1",
        "wide": "2",
        "quiet": "1",
    }
    for alone in ("quiet", "wide"):
        others = [row for name, row in seen.items() if name != alone]
        assert not any(beside(seen[alone], other) for other in others)
    assert seen["quiet"]["ended"] < seen["wide"]["began"]
    assert seen["wide"]["ended"] < min(seen["narrow_a"]["began"], seen["narrow_b"]["began"])
    assert seen["narrow_a"]["slot"] != seen["narrow_b"]["slot"]
    assert [unit["outcome"] for unit in project.report()["units"]] == ["passed"] * 4


def test_one_slot_runs_files_of_all_widths_one_after_another(project: Project) -> None:
    rows = {
        "narrow": "stage-b-test-cpu",
        "wide": "stage-b-test-cpu-2-rank",
        "quiet": "stage-b-quiet",
    }
    seen = spans(project, rows, "--slots", "1")
    order = sorted(seen, key=lambda name: seen[name]["began"])
    assert order == ["quiet", "wide", "narrow"]
    assert not any(
        beside(seen[one], seen[other]) for one, other in itertools.combinations(order, 2)
    )
