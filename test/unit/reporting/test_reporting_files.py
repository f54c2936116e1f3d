from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
import xmlschema

from hwmatrix.errors import RunFolderError
from hwmatrix.model import Outcome
from hwmatrix.reporting import build, write_all
from hwmatrix.reporting.json_report import report_json
from hwmatrix.reporting.junit import junit_xml
from hwmatrix.reporting.summary import misestimated, summary_md
from hwmatrix.reporting.timeline import timeline_html

if TYPE_CHECKING:
    from collections.abc import Callable

    from test.unit.reporting.conftest import Maker

    Golden = Callable[[str, str], None]

SCHEMA = Path(__file__).parents[2] / "data" / "reporting" / "junit.xsd"


class TestJUnit:
    def test_is_what_it_was(self, make: Maker, golden: Golden) -> None:
        golden("junit.xml", junit_xml(build(make.bad_day().folder)))

    def test_is_valid_whatever_stands_in_the_journal(self, make: Maker) -> None:
        schema = xmlschema.XMLSchema(str(SCHEMA))
        report = build(make.bad_day().folder)
        schema.validate(junit_xml(report))
        # The schema is no rubber stamp: what no reader takes, it refuses.
        assert not schema.is_valid(junit_xml(report).replace("skipped", "omitted"))
        assert not schema.is_valid(junit_xml(report).replace('classname="', 'klass="'))

    def test_empty_run_is_valid(self, make: Maker) -> None:
        run = make.run(make.unit("a", shard=2), plan={"shards": 2})
        xmlschema.XMLSchema(str(SCHEMA)).validate(junit_xml(build(run.folder)))

    def test_counts_agree_with_the_report_and_the_elements(self, make: Maker) -> None:
        report = build(make.bad_day().folder)
        root = ET.fromstring(junit_xml(report))
        plain = json.loads(report_json(report))
        counts = {key: int(root.get(key, "-1")) for key in plain["junit"]}
        assert counts == plain["junit"]
        assert counts["failures"] == len(root.findall(".//failure"))
        assert counts["failures"] == plain["verdict"]["tests"]["failed"]
        assert counts["errors"] == len(root.findall(".//error"))
        assert counts["skipped"] == plain["verdict"]["tests"]["skipped"]
        for key, value in counts.items():
            assert value == sum(int(suite.get(key, "-1")) for suite in root)
        tests = sum(len(unit["tests"]) for unit in plain["units"])
        alone = sum(not unit["tests"] for unit in plain["units"])
        assert counts["tests"] == tests + alone + 1  # the run was stopped: a case of its own

    def test_unit_without_tests_is_an_error(self, make: Maker) -> None:
        root = ET.fromstring(junit_xml(build(make.bad_day().folder)))
        (case,) = root.findall(
            "./testsuite[@name='stage-b-test-cpu:test/registered/test_empty.py']/testcase"
        )
        assert case.get("classname") == "test.registered.test_empty"
        error = case.find("error")
        assert error is not None
        assert error.get("message") == "ran nothing: no tests collected"

    def test_classes_and_parameters(self, make: Maker) -> None:
        unit = make.unit("a")
        run = make.run(unit)
        run.start()
        run.good(unit, "TestX::TestY::test_a[b::c.d]")
        case = ET.fromstring(junit_xml(build(run.folder))).find(".//testcase")
        assert case is not None
        assert case.get("classname") == "test.registered.test_a.TestX.TestY"
        assert case.get("name") == "test_a[b::c.d]"
        assert case.get("file") == "test/registered/test_a.py"
        assert case.get("line") == "7"

    def test_unit_that_is_red_beside_good_tests_has_a_case(self, make: Maker) -> None:
        unit = make.unit("a")
        run = make.run(unit)
        part = run.part(unit)
        part.start()
        part.collected("test_a")
        part.test("test_a")
        part.end(exit_status=3)
        names = [
            case.get("name")
            for case in ET.fromstring(junit_xml(build(run.folder))).iter("testcase")
        ]
        assert names[:2] == ["test_a", "the file as a whole"]

    def test_output_is_bounded_and_clean(self, make: Maker) -> None:
        unit = make.unit("a")
        run = make.run(unit)
        part = run.part(unit)
        part.start()
        part.collected("test_a")
        sections = [["Captured stdout call", "\x1b[31m\x00\ud800" + "x" * 10**6 + "end"]]
        part.test("test_a", "failed", why="E: \x00 \ufffe", sections=sections)
        part.end(exit_status=1)
        output = ET.fromstring(junit_xml(build(run.folder))).findtext(".//system-out")
        assert output is not None
        assert len(output) < 20_000
        assert output.endswith("end")

    def test_thousands_of_failures_stay_readable(self, make: Maker) -> None:
        unit = make.unit("a")
        run = make.run(unit)
        part = run.part(unit)
        part.start()
        names = [f"test_{number}" for number in range(2000)]
        part.collected(*names)
        for name in names:
            part.test(name, "failed", longrepr="x" * 20_000)
        part.end(exit_status=1)
        report = build(run.folder)
        assert len(junit_xml(report)) < 10_000_000
        assert len(report_json(report)) < 10_000_000


class TestReportJson:
    def test_is_what_it_was(self, make: Maker, golden: Golden) -> None:
        golden("report.json", report_json(build(make.bad_day().folder)))

    def test_counts_are_those_of_the_rows(self, make: Maker) -> None:
        plain = json.loads(report_json(build(make.bad_day().folder)))
        units = [unit["outcome"] for unit in plain["units"]]
        tests = [test["outcome"] for unit in plain["units"] for test in unit["tests"]]
        for key, rows in (("units", units), ("tests", tests)):
            assert plain["verdict"][key] == {
                name: rows.count(name) for name in plain["verdict"][key]
            }
            assert sum(plain["verdict"][key].values()) == len(rows)


class TestSummary:
    def test_is_what_it_was(self, make: Maker, golden: Golden) -> None:
        golden("summary.md", summary_md(build(make.bad_day().folder)))

    def test_markup_in_names_and_reasons_does_nothing(self, make: Maker) -> None:
        unit = make.unit("a")
        run = make.run(unit)
        part = run.part(unit)
        part.start()
        part.collected("test_a[`x`|<b>]")
        part.test("test_a[`x`|<b>]", "failed", why="E: <script>|`*_[x](y)")
        part.end(exit_status=1)
        text = summary_md(build(run.folder))
        assert "<script>" not in text
        assert "&lt;script&gt;\\|\\`\\*\\_\\[x\\](y)" in text
        assert "- `test_a['x'|<b>]`: " in text

    def test_long_lists_are_cut(self, make: Maker) -> None:
        units = [make.unit(f"n{number}") for number in range(60)]
        run = make.run(*units)
        run.start()
        text = summary_md(build(run.folder))
        assert "**60 files** not run: not started: the run was killed before its turn" in text
        assert "- and 10 more files" in text
        for unit in units:
            part = run.part(unit)
            part.start()
            part.end(exit_status=5)
        assert "and 10 more files: see report.json" in summary_md(build(run.folder))

    def test_many_reasons_in_one_file_are_cut(self, make: Maker) -> None:
        unit = make.unit("a")
        run = make.run(unit)
        part = run.part(unit)
        part.start()
        names = [f"test_{number}" for number in range(15)]
        part.collected(*names)
        for name in names:
            part.test(name, "failed", why=f"E: {name}")
        part.end(exit_status=1)
        assert "- `test_9`: E: test\\_9\n- and 5 more tests\n" in summary_md(build(run.folder))

    def test_no_test_at_all(self, make: Maker) -> None:
        text = summary_md(build(make.run(make.unit("a")).folder))
        assert "1 unit (1 not run), no tests in 0.00 s." in text

    def test_disabled_and_left_out_files(self, make: Maker) -> None:
        unit = make.unit("a")
        rows = (("test/registered/test_b.py", "not among the given paths"),)
        run = make.run(unit, plan={"deselected": rows})
        run.start()
        run.good(unit, "test_a")
        run.end()
        text = summary_md(build(run.folder))
        assert text.startswith("## ✅ cpu-stage-b: green")
        assert "<summary>Not selected: 1 file</summary>" in text

    @pytest.mark.parametrize(
        ("est_s", "seconds", "off"),
        [
            (10, 21, True),
            (10, 19, False),
            (10, 4, True),
            (10, 6, False),
            (1, 4, False),
            (1, 6, True),
        ],
    )
    def test_estimates_off_by_more_than_two(
        self, make: Maker, *, est_s: float, seconds: float, off: bool
    ) -> None:
        unit = make.unit("a", est_s=float(est_s))
        run = make.run(unit)
        run.start()
        run.good(unit, "test_a", seconds=seconds)
        run.end()
        report = build(run.folder)
        assert [factor for _, factor in misestimated(report.units)] == (
            [seconds / est_s] if off else []
        )
        assert ("off by more than a factor of 2" in summary_md(report)) is off


class TestTimeline:
    def test_is_what_it_was(self, make: Maker, golden: Golden) -> None:
        golden("timeline.html", timeline_html(build(make.bad_day().folder)))

    def test_needs_nothing_from_elsewhere(self, make: Maker) -> None:
        page = timeline_html(build(make.bad_day().folder))
        assert not re.search(r"<script|https?:|src=|@import|url\(", page)
        assert "prefers-color-scheme: dark" in page

    def test_one_bar_per_process_with_its_reason(self, make: Maker) -> None:
        report = build(make.bad_day().folder)
        page = timeline_html(report)
        assert page.count('<rect class="bar') == sum(len(unit.spans) for unit in report.units)
        assert "killed by SIGSEGV while test_null ran" in page
        assert "attempt 2, part 1" in page

    def test_names_cannot_break_the_page(self, make: Maker) -> None:
        unit = make.unit("<b>&x")
        run = make.run(unit)
        run.start()
        run.good(unit, "test_a", seconds=100)
        assert "<b>" not in timeline_html(build(run.folder))

    def test_run_without_a_start(self, make: Maker) -> None:
        assert "No unit was started." in timeline_html(build(make.run(make.unit("a")).folder))

    @pytest.mark.parametrize("seconds", [0.0, 0.2, 30, 400, 4000, 500_000])
    def test_any_length(self, make: Maker, seconds: float) -> None:
        unit = make.unit("a")
        run = make.run(unit)
        run.start()
        run.good(unit, "test_a", seconds=seconds)
        run.end()
        ticks = timeline_html(build(run.folder)).count('class="tick"')
        assert 1 <= ticks <= 11


class TestWriting:
    def test_all_files_and_nothing_else(self, make: Maker, tmp_path: Path) -> None:
        folder = tmp_path / "new" / "folder"
        paths = write_all(build(make.bad_day().folder), folder)
        names = ["report.json", "junit.xml", "summary.md", "timeline.html"]
        assert [path.name for path in paths] == names
        assert sorted(path.name for path in folder.iterdir()) == sorted(names)
        assert {oct(path.stat().st_mode & 0o777) for path in paths} == {"0o644"}

    def test_second_report_takes_the_place_of_the_first(self, make: Maker) -> None:
        run = make.bad_day()
        write_all(build(run.folder), run.folder)
        (run.folder / "report.json").write_text("old")
        write_all(build(run.folder), run.folder)
        assert json.loads((run.folder / "report.json").read_text())["kind"] == "verdict"

    def test_folder_that_is_a_file(self, make: Maker, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        report = build(make.bad_day().folder)
        with pytest.raises(
            RunFolderError, match=r"report\.json: cannot be written: .*journal took"
        ):
            write_all(report, tmp_path / "file")

    def test_failed_write_leaves_no_half_file(self, make: Maker, tmp_path: Path) -> None:
        (tmp_path / "report.json").mkdir()
        (tmp_path / "report.json" / "x").touch()
        report = build(make.bad_day().folder)
        with pytest.raises(RunFolderError, match="cannot be written"):
            write_all(report, tmp_path)
        assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_every_outcome_is_in_the_bad_day(make: Maker) -> None:
    tests = build(make.bad_day().folder).verdict.tests
    assert set(tests) == set(Outcome) - {Outcome.DESELECTED}
