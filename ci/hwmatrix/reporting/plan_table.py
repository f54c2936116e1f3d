"""The one table before anything runs: what, where, how long, under which budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwmatrix import codec
from hwmatrix.reporting.screen import Screen, duration, plural, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hwmatrix.model import Plan, Unit


def plan_json(plan: Plan) -> str:
    """Return the plan as JSON text, sorted and indented, with the units of this shard named."""
    plain = codec.to_plain(plan)
    assert isinstance(plain, dict)
    return codec.dumps({**plain, "version": 1, "mine": [u.id for u in plan.mine]}, indent=2) + "\n"


def plan_table(
    plan: Plan,
    width: int = 100,
    color: bool = False,  # noqa: FBT001, FBT002 - the contract between the rooms has it so
    *,
    unicode: bool = False,
    whole: bool = True,
) -> str:
    """Return the plan as a table of at most `width` columns, suites in the plan's order.

    Files that were not selected are listed where `whole` is true, else only counted: a run of one
    file leaves out all the others.
    """
    screen = Screen(width=width, color=color, unicode=unicode)
    where = f"  shard {plan.shard}/{plan.shards}" if plan.shards > 1 else ""
    title = f"plan of {plan.session}  {plan.variant}{where}  {plan.hash[:12]}"
    lines = [screen.paint(screen.clip(screen.safe(title), screen.width), "bold")]
    for suite in dict.fromkeys([*plan.suites, *(unit.suite for unit in plan.units)]):
        lines += _suite(plan, suite, screen)
    lines += ["", *_totals(plan, screen)]
    lines += _left_out("disabled", plan.disabled, screen)
    if whole:
        lines += _left_out("not selected", plan.deselected, screen)
    elif plan.deselected:
        counted = f"not selected: {plural(len(plan.deselected), 'file')}; --plan lists them"
        lines += ["", *screen.wrap(counted, "")]
    return "\n".join(lines) + "\n"


def _suite(plan: Plan, suite: str, screen: Screen) -> list[str]:
    units = [unit for unit in plan.units if unit.suite == suite]
    if not units:
        return []
    devices = sorted({unit.devices for unit in units})
    each = " or ".join(plural(many, "device") for many in devices)
    est = duration(sum(unit.est_s for unit in units))
    alone = ", each alone on the host" if any(unit.exclusive for unit in units) else ""
    heading = f"{suite}: {plural(len(units), 'unit')} of {each}{alone}, {est} estimated"
    lines = ["", *(screen.paint(line, "bold") for line in screen.wrap(heading, ""))]
    sharded = plan.shards > 1
    head = ["file", "estimate", "budget", "test limit", *(["shard"] if sharded else [])]
    rows = [head, *(_row(unit, screen, sharded=sharded) for unit in units)]
    for number, row in enumerate(table(screen, rows, flex=0, left=2)):
        line = f"  {'  '.join(row)}".rstrip()
        foreign = number == 0 or units[number - 1].shard != plan.shard
        lines.append(screen.paint(line, "dim") if foreign else line)
    return lines


def _row(unit: Unit, screen: Screen, *, sharded: bool) -> list[str]:
    return [
        screen.safe(" ".join(unit.selectors or unit.files)),
        f"{unit.est_s:g} s",
        f"{unit.budget_s:g} s",
        f"{unit.test_limit_s:g} s",
        *([str(unit.shard)] if sharded else []),
    ]


def _totals(plan: Plan, screen: Screen) -> list[str]:
    mine = plan.mine
    here = f" of {len(plan.units)}" if plan.shards > 1 else ""
    words = [
        f"total: {plural(len(mine), 'unit')}{here}",
        f"{duration(sum(unit.est_s for unit in mine))} estimated",
        f"about {duration(plan.makespan_s)} on {plural(plan.slots, 'slot')}",
    ]
    if plan.setup_s:
        words.append(f"set-up {duration(plan.setup_s)}")
    if plan.deadline_s:
        words.append(f"deadline {duration(plan.deadline_s)}")
    if plan.fail_fast:
        words.append("stops at the first failure")
    return [screen.paint(line, "bold") for line in screen.wrap(", ".join(words), "")]


def _left_out(word: str, rows: Sequence[tuple[str, str]], screen: Screen) -> list[str]:
    if not rows:
        return []
    lines = ["", f"{word} ({len(rows)}):"]
    for path, reason in rows:
        lines += screen.wrap(f"{path}: {reason}", "  ")
    return lines
