"""timeline.html: which slot did what, when. One file, no script, for light and dark."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING

from hwmatrix.model import Outcome
from hwmatrix.reporting.screen import clean, duration, plural
from hwmatrix.reporting.verdict import where

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hwmatrix.reporting.result import Report, Span, UnitResult

# Pixels: the picture scales with the window, these give its proportions.
_WIDTH, _LEFT, _RIGHT, _TOP, _ROW, _BAR = 1200, 70, 20, 34, 34, 24
# A letter of the labels takes about this many pixels.
_LETTER = 6.6
_CLASS = {
    Outcome.PASSED: "passed",
    Outcome.SKIPPED: "skipped",
    Outcome.DESELECTED: "skipped",
    Outcome.FAILED: "failed",
    Outcome.CRASHED: "crashed",
    Outcome.TIMED_OUT: "late",
    Outcome.NOT_RUN: "cut",
}
_WORD = {
    "passed": "passed",
    "skipped": "skipped or deselected",
    "failed": "failed",
    "crashed": "crashed",
    "late": "timed out",
    "cut": "cut short",
}
_STYLE = """
:root { color-scheme: light dark; --ink: #1c2128; --soft: #57606a; --line: #d0d7de;
  --paper: #ffffff; --band: #f6f8fa; --passed: #4a9d63; --skipped: #b9a24a; --failed: #cf3f45;
  --crashed: #8a2be2; --late: #d9730d; --cut: #8c959f; --on: #ffffff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9198a1; --line: #3d444d;
  --paper: #0d1117; --band: #161b22; --passed: #2f7d46; --skipped: #7d6a20; --failed: #c0353b;
  --crashed: #9a5be8; --late: #b35f0a; --cut: #656c76; } }
body { background: var(--paper); color: var(--ink); margin: 1.5rem; font: 14px/1.45 sans-serif; }
h1 { font-size: 1.15rem; margin: 0 0 .2rem; } p { margin: 0 0 .8rem; color: var(--soft); }
svg { width: 100%; height: auto; font: 12px sans-serif; } svg text { fill: var(--ink); }
svg .tick { fill: var(--soft); text-anchor: middle; } svg .grid { stroke: var(--line); }
svg .band { fill: var(--band); } svg .in { fill: var(--on); pointer-events: none; }
svg .bar { stroke: var(--paper); } svg .bar:hover { stroke: var(--ink); stroke-width: 2; }
.key span { display: inline-block; margin-right: 1.1rem; color: var(--ink); }
.key i { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .4em; }
""" + "".join(f".{name} {{ fill: var(--{name}); background: var(--{name}); }}\n" for name in _WORD)


def timeline_html(report: Report) -> str:
    """Return the page: one row per slot, one bar per process, the reason under the mouse."""
    plan, verdict = report.plan, report.verdict
    bars = [(unit, span) for unit in report.units for span in unit.spans if span.started > 0]
    title = f"{plan.session}: {verdict.word}"
    about = (
        f"Run {report.spec.run_id}, plan {plan.hash[:12]}, {duration(report.seconds)} from the"
        f" first to the last record; planned {duration(plan.makespan_s)}. {_idle(report, bars)}"
    )
    body = _svg(report, bars) if bars else "<p>No unit was started.</p>"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head>\n<body>"
        f"<h1>{_text(title)}</h1><p>{_text(about)}</p>\n{_legend(bars)}\n{body}\n</body></html>\n"
    )


def _svg(report: Report, bars: Sequence[tuple[UnitResult, Span]]) -> str:
    begin = min(report.started or math.inf, *(span.started for _, span in bars))
    end = max(report.ended, *(span.ended for _, span in bars))
    length = max(end - begin, 0.001)
    scale = (_WIDTH - _LEFT - _RIGHT) / length
    slots = _slots(report, bars)
    height = _TOP + _ROW * len(slots) + 8
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="slots over time">',
        *_grid(length, scale, height),
    ]
    for row, slot in enumerate(slots):
        y = _TOP + row * _ROW
        parts.append(f'<text x="8" y="{y + 17}">slot {slot}</text>')
        if row % 2 == 0:
            parts.insert(
                1, f'<rect class="band" x="0" y="{y - 4}" width="{_WIDTH}" height="{_ROW}"/>'
            )
        parts += [_bar(u, s, y, begin, scale) for u, s in bars if s.slot == slot]
    return "\n".join([*parts, "</svg>"])


def _slots(report: Report, bars: Sequence[tuple[UnitResult, Span]]) -> list[int]:
    used = {span.slot for _, span in bars if span.slot is not None}
    return sorted(used | {slot.index for slot in report.spec.slots})


def _grid(length: float, scale: float, height: int) -> list[str]:
    step = _step(length)
    found = []
    for number in range(int(length / step) + 1):
        x = _LEFT + number * step * scale
        found.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="22" y2="{height}"/>')
        found.append(f'<text class="tick" x="{x:.1f}" y="16">{_mark(number * step)}</text>')
    return found


def _step(length: float) -> float:
    """Return the distance of the ticks: the least round one that makes at most ten."""
    rounds = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400)
    return next((step for step in rounds if length / step <= 10), length / 10)  # noqa: PLR2004 - ten ticks


def _mark(seconds: float) -> str:
    if seconds < 60:  # noqa: PLR2004 - a minute
        return f"{seconds:g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"


def _bar(unit: UnitResult, span: Span, y: int, begin: float, scale: float) -> str:
    x = _LEFT + (span.started - begin) * scale
    width = max(1.5, (max(span.ended, span.started) - span.started) * scale)
    kind = _CLASS[_shown(unit, span)]
    name = where(unit).rpartition("/")[2]
    room = int((width - 8) / _LETTER)
    label = name if len(name) <= room else f"{name[: room - 1]}…" if room > 5 else ""  # noqa: PLR2004 - fewer letters tell nothing
    inside = f'<text class="in" x="{x + 4:.1f}" y="{y + 16}">{_text(label)}</text>' if label else ""
    rect = (
        f'<rect class="bar {kind}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_BAR}" rx="3">'
        f"<title>{_text(_hover(unit, span))}</title></rect>"
    )
    return rect + inside


def _shown(unit: UnitResult, span: Span) -> Outcome:
    """Return the outcome to colour a bar by: the unit's, or its own where it is one of several."""
    return unit.outcome if len(unit.spans) == 1 else span.outcome


def _hover(unit: UnitResult, span: Span) -> str:
    took = duration(max(0.0, span.ended - span.started))
    planned = f"(estimate {unit.unit.est_s:g} s, budget {unit.unit.budget_s:g} s)"
    lines = [
        where(unit),
        f"{_shown(unit, span)}, {took} {planned}",
        span.reason or unit.reason,
        plural(len(unit.tests), "test"),
    ]
    if span.attempt > 1 or span.part > 1:
        lines.append(f"attempt {span.attempt}, part {span.part}")
    return "\n".join(line for line in lines if line)


def _idle(report: Report, bars: Sequence[tuple[UnitResult, Span]]) -> str:
    """Return how much of the slots' time was used between the first start and the last end."""
    if not bars:
        return ""
    begin = min(span.started for _, span in bars)
    end = max(span.ended for _, span in bars)
    slots = len(_slots(report, bars))
    used = sum(max(0.0, span.ended - span.started) for _, span in bars)
    whole = (end - begin) * max(1, slots)
    return f"Slots were busy {min(1.0, used / whole):.0%} of the time." if whole > 0 else ""


def _legend(bars: Sequence[tuple[UnitResult, Span]]) -> str:
    seen = {_CLASS[_shown(unit, span)] for unit, span in bars}
    keys = [f'<span><i class="{n}"></i>{word}</span>' for n, word in _WORD.items() if n in seen]
    return f'<p class="key">{"".join(keys)}</p>'


def _text(words: str) -> str:
    return html.escape(clean(words))
