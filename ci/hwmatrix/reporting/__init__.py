"""From plan and journal to the verdict, and every screen and file that a person sees."""

from __future__ import annotations

from hwmatrix.reporting.build import build
from hwmatrix.reporting.commands import (
    reproduce,
    reproduce_red,
    session_options,
    session_words,
)
from hwmatrix.reporting.json_report import report_json
from hwmatrix.reporting.live import Live
from hwmatrix.reporting.plan_table import plan_json, plan_table
from hwmatrix.reporting.result import Report, Span, TestResult, UnitResult, Verdict
from hwmatrix.reporting.screen import Screen, detect
from hwmatrix.reporting.terminal import render, verdict_line
from hwmatrix.reporting.write import write_all

__all__ = [
    "Live",
    "Report",
    "Screen",
    "Span",
    "TestResult",
    "UnitResult",
    "Verdict",
    "build",
    "detect",
    "plan_json",
    "plan_table",
    "render",
    "report_json",
    "reproduce",
    "reproduce_red",
    "session_options",
    "session_words",
    "verdict_line",
    "write_all",
]
