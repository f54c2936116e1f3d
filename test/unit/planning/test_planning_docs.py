"""Figures in docs/budgets.md are those that the table's rules give."""

from __future__ import annotations

import re
from pathlib import Path

from hwmatrix.matrix import load

ROOT = Path(__file__).resolve().parents[3]


def test_the_worked_budgets_are_right() -> None:
    text = (ROOT / "docs" / "budgets.md").read_text(encoding="utf-8")
    policy = load(ROOT / "ci" / "matrix.toml").tiers["stage-b"].budget
    for name in ("factor", "floor_s", "startup_s", "grace_s"):
        assert f"`{name} = {getattr(policy, name):g}`" in text
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\d+) \|$", text, re.MULTILINE)
    assert len(rows) == 4
    for est_s, limit_s, budget_s in rows:
        assert policy.test_limit_s(float(est_s)) == float(limit_s)
        assert policy.budget_s(float(est_s)) == float(budget_s)
