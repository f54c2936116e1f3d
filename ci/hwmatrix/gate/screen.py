"""The decision for people: what runs and why, what does not and why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hwmatrix.gate.decision import Chosen, Decision, Skipped


def render(decision: Decision) -> str:
    """Return the decision as lines; none of them begins with text from outside."""
    return "\n".join(_lines(decision)) + "\n"


def _lines(decision: Decision) -> Iterator[str]:
    yield f"event  {decision.event}"
    for note in decision.notes:
        yield f"note   {note}"
    yield ""
    for chosen in decision.sessions:
        yield f"run    {_title(chosen)}"
        for reason in chosen.reasons:
            yield f"         {reason}"
    for reasons, names in _grouped(decision.skipped).items():
        for name in names:
            yield f"skip   {name}"
        for reason in reasons:
            yield f"         {reason}"
    yield ""
    runs, all_of_them = len(decision.sessions), len(decision.sessions) + len(decision.skipped)
    if decision.neutral:
        yield f"NEUTRAL  nothing to run: the event starts none of {all_of_them} sessions"
    else:
        yield f"{runs} of {all_of_them} sessions to run"


def _grouped(skipped: Iterable[Skipped]) -> dict[tuple[str, ...], list[str]]:
    """Sessions by what keeps them from running, which most of them share."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for each in skipped:
        groups.setdefault(each.reasons, []).append(each.session)
    return groups


def _title(chosen: Chosen) -> str:
    parts = [chosen.session]
    if chosen.suites:
        parts.append(f"suites {' '.join(chosen.suites)}")
    if chosen.paths:
        parts.append(f"paths {' '.join(chosen.paths)}")
    if chosen.env:
        parts.append(" ".join(f"{name}={value}" for name, value in chosen.env.items()))
    if chosen.continue_on_error:
        parts.append("--continue-on-error")
    return "  ".join(parts)
