from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hwmatrix import errors, journal
from hwmatrix.model import Backend, BudgetPolicy
from hwmatrix.redact import redactor

if TYPE_CHECKING:
    from pathlib import Path


def every_error() -> list[type[errors.HwMatrixError]]:
    found, waiting = [], [errors.HwMatrixError]
    while waiting:
        cls = waiting.pop()
        found.append(cls)
        waiting += cls.__subclasses__()
    return [cls for cls in found if cls is not errors.ProblemsError]


def test_exit_codes_and_kinds_are_unique_and_leave_0_and_1_to_verdicts() -> None:
    # A subclass that adds nothing for the shell may share its parent's code.
    own = [cls for cls in every_error() if "exit_code" in vars(cls)]
    codes = [cls.exit_code for cls in own]
    assert len(set(codes)) == len(codes) == len({cls.kind for cls in own})
    assert not {0, 1} & set(codes)


def test_a_problem_reads_where_found_allowed_todo() -> None:
    problem = errors.Problem(
        path="test/a.py", line=3, found="is wrong.", allowed="Right is allowed.", todo="Mend it."
    )
    assert str(problem) == "test/a.py:3: is wrong. Right is allowed. Mend it."
    assert errors.Problem(path="ci/matrix.toml", found="is no file.").where == "ci/matrix.toml"


def test_problems_come_sorted_and_all_at_once() -> None:
    raised = errors.PlanError(
        [errors.Problem(path="b", found="2"), errors.Problem(path="a", found="1")], intro="plan:"
    )
    assert str(raised) == "plan:\na: 1\nb: 2"


def test_a_backend_is_found_or_the_close_match_offered() -> None:
    assert Backend.parse("amd") is Backend.AMD
    with pytest.raises(errors.UsageError, match=r"no backend is called 'cudaa'\. Did you mean"):
        Backend.parse("cudaa")


def test_budgets_leave_room_for_the_rest_of_the_file_after_a_hung_test() -> None:
    policy = BudgetPolicy(factor=3, floor_s=30, startup_s=60, grace_s=20)
    assert policy.test_limit_s(100) == 300
    assert policy.budget_s(100) == 60 + 300 + 100
    assert policy.test_limit_s(1) == 30
    assert policy.budget_s(1) == 60 + 30 + 20


def test_a_journal_keeps_whole_lines_and_names_torn_ones(tmp_path: Path) -> None:
    first, second = journal.Journal(tmp_path, "gw1"), journal.Journal(tmp_path, "gw0")
    first.write("UnitStart", unit="a", odd="\ud800")
    second.write("UnitEnd", unit="b", seconds=1.5)
    first.close()
    second.close()
    with first.path.open("ab") as file:
        file.write(b'[1]\n{"$report_type": "UnitE')
    lines = list(journal.read(tmp_path))
    assert [line["$report_type"] for line in lines] == ["UnitEnd", "UnitStart", "Torn", "Torn"]
    assert lines[3] == {"$report_type": "Torn", "path": "gw1.jsonl", "line": 3}
    assert isinstance(lines[0]["time"], float)


def test_a_full_disk_is_the_callers_to_know() -> None:
    import os
    from pathlib import Path

    writer = journal.Journal.__new__(journal.Journal)
    writer.path = Path("/dev/full")
    writer._redact = str
    writer._descriptor = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(OSError, match="No space left"):
        writer.write("UnitStart")
    writer.close()


def test_secrets_never_reach_the_journal(tmp_path: Path) -> None:
    secret = "s3cr3t-value"
    writer = journal.Journal(tmp_path, "gw0", redact=redactor({"HF_TOKEN": secret}))
    writer.write("TestReport", longrepr={"text": f"assert '{secret}' == 1"}, unit="a")
    writer.close()
    assert secret not in writer.path.read_text()
    (line,) = journal.read(tmp_path)
    assert line["longrepr"] == {"text": "assert '***' == 1"}
    assert line["unit"] == "a"
