from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from hwmatrix.reporting import build, render, verdict_line
from hwmatrix.reporting.screen import Screen, columns

if TYPE_CHECKING:
    from collections.abc import Callable

    from test.unit.reporting.conftest import Maker

    Golden = Callable[[str, str], None]

# Lines that people copy are never broken, however narrow the terminal.
COPIED = re.compile(r"^( {4}again: | {2}nox | {4}log: )")


def test_verdict_table(make: Maker, golden: Golden) -> None:
    golden("verdict-100.txt", render(build(make.bad_day().folder), 100))


def test_verdict_table_narrow_in_colour_with_signs(make: Maker, golden: Golden) -> None:
    text = render(build(make.bad_day().folder), 60, True, unicode=True)
    golden("verdict-60-colour.txt", text.replace("\x1b", "<ESC>"))


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("unicode", [True, False])
def test_no_line_is_wider_than_the_terminal(make: Maker, *, width: int, unicode: bool) -> None:
    text = render(build(make.bad_day().folder), width, unicode=unicode)
    wide = [line for line in text.splitlines() if columns(line) > width and not COPIED.match(line)]
    assert wide == []
    assert "\x1b" not in text
    assert text.isascii() is not unicode


def test_failures_come_last_and_the_verdict_at_the_end(make: Maker) -> None:
    lines = render(build(make.bad_day().folder), 200).splitlines()
    assert lines[-1].startswith("RED cpu-stage-b: 12 units: ")
    first = lines.index("FAILED  test/registered/test_broken.py")
    assert lines.index("skipped  test/registered/test_idle.py") < first
    assert lines.index("red because the run was stopped: SIGINT") > first


def green(make: Maker, count: int) -> str:
    units = [make.unit(f"n{number:03d}") for number in range(count)]
    run = make.run(*units)
    run.start()
    for number, unit in enumerate(units):
        run.good(unit, "test_a", seconds=1 + number / 100)
    run.end()
    run.close()
    return render(build(run.folder), 100)


def test_green_run_is_short(make: Maker) -> None:
    text = green(make, 2)
    assert len(text.splitlines()) == 7
    assert text.splitlines()[-1] == "GREEN cpu-stage-b: 2 units passed; 2 tests passed; 2.0 s"


def test_many_that_passed_are_cut_to_the_slowest(make: Maker) -> None:
    text = green(make, 60)
    assert "test_n059.py" in text
    assert "test_n010.py" not in text
    assert "and 50 faster units that passed (report.json lists them)" in text


def test_many_that_never_started_stand_together(make: Maker) -> None:
    units = [make.unit(f"n{number:03d}") for number in range(60)]
    run = make.run(*units)
    run.start()
    run.good(units[0], "test_a")
    run.stop("deadline")
    run.end()
    text = render(build(run.folder))
    assert text.count("again") == 1
    assert "NOT RUN  59 units\n    not started: the run was stopped (deadline)\n" in text
    assert "    and 19 more units\n" in text


def crashed(make: Maker, tail: str) -> str:
    unit = make.unit("a")
    run = make.run(unit)
    part = run.part(unit)
    part.start()
    part.collected("test_a")
    part.test_start("test_a")
    part.end("crashed", None, signal="SIGSEGV", tail=tail)
    return render(build(run.folder))


HEADINGS = """
============================= test session starts ==============================
platform linux -- Python 3.11.7, pytest-9.2.0, pluggy-1.7.0
rootdir: /project
configfile: pyproject.toml
plugins: xdist-3.8.0
timeout: 7.5s
timeout method: signal
timeout func_only: False
collected 3 items

test/registered/test_segv.py ..s """


def test_excerpt_leaves_pytests_headings_out(make: Maker) -> None:
    assert "    | " not in crashed(make, HEADINGS)
    text = crashed(make, HEADINGS + "\nterminate called after throwing 'c10::Error'\n")
    assert text.count("    | ") == 1
    assert "    | terminate called after throwing 'c10::Error'\n" in text


def test_excerpt_of_a_fatal_error_has_the_innermost_frames(make: Maker) -> None:
    frames = "\n".join(f'  File "f{number}.py", line 1' for number in range(20))
    text = crashed(make, f"{HEADINGS}.Fatal Python error: Segmentation fault\n\n{frames}")
    assert text.count("    | ") == 8
    assert "    | Fatal Python error: Segmentation fault\n" in text
    assert 'File "f0.py"' in text
    assert 'File "f7.py"' not in text


def test_paths_below_the_root_are_relative(make: Maker) -> None:
    unit = make.unit("a")
    run = make.run(unit, folder="/project/.hwmatrix/runs/x")
    part = run.part(unit)
    part.start()
    part.collected("test_a")
    part.test("test_a", "failed", longrepr=make.failure("/project/test/f.py", "E: x"))
    part.end(exit_status=1)
    text = render(build(run.folder))
    assert "        E: x (test/f.py:7)\n" in text
    assert "    log:   .hwmatrix/runs/x/logs/test_a.py.1.1.log\n" in text


def test_many_reasons_are_cut(make: Maker) -> None:
    unit = make.unit("a")
    run = make.run(unit)
    part = run.part(unit)
    part.start()
    names = [f"test_{number}" for number in range(20)]
    part.collected(*names)
    for number, name in enumerate(names):
        part.test(name, "failed", longrepr=f"E: {number // 2}")
    part.end(exit_status=1)
    text = render(build(run.folder))
    assert "    - test_14, test_15\n        E: 7\n    and 4 more tests\n" in text


def test_suites_get_headings_when_there_are_several(make: Maker) -> None:
    a, b, c = make.unit("a"), make.unit("b", suite="other"), make.unit("c")
    run = make.run(a, b, c)
    run.start()
    for unit in (a, b, c):
        run.good(unit, "test_a")
    run.end()
    lines = render(build(run.folder)).splitlines()
    marks = [line.split("/")[-1].split(".py")[0] for line in lines[3:8]]
    assert marks == ["stage-b-test-cpu", "test_a", "test_c", "other", "test_b"]


def test_red_without_a_red_unit_gives_the_command_of_the_run(make: Maker) -> None:
    unit = make.unit("a", shard=2)
    run = make.run(unit, plan={"shard": 2, "shards": 3})
    run.start()
    run.good(unit, "test_a")
    lines = render(build(run.folder)).splitlines()
    assert "red because the run has no end: it was killed, or it still runs" in lines
    assert lines[-3] == "  nox -s cpu-stage-b -- --shard 2/3"
    assert "shard 2/3" in lines[0]


def test_empty_shard(make: Maker) -> None:
    run = make.run(make.unit("a", shard=2), plan={"shards": 2})
    text = render(build(run.folder))
    assert "no unit was planned for this shard" in text
    assert "RED cpu-stage-b: no units; no tests; 0.00 s" in text


def test_verdict_line_has_no_line_break(make: Maker) -> None:
    line = verdict_line(build(make.bad_day().folder), Screen(width=40, color=True))
    assert "\n" not in line
    assert line.startswith("\x1b[31mRED\x1b[0m cpu-stage-b")
