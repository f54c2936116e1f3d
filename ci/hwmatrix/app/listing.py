"""What there is to run: sessions, suites, files, minutes, devices."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hwmatrix import matrix as matrix_stage
from hwmatrix.app import truth

if TYPE_CHECKING:
    from hwmatrix.app.place import Place
    from hwmatrix.model import SessionName


def rows(facts: truth.Truth) -> list[dict[str, object]]:
    """Return one row per session with its suites; minutes are the sum of the estimates."""
    return [_session_row(session, facts) for session in matrix_stage.sessions(facts.matrix)]


def _session_row(session: SessionName, facts: truth.Truth) -> dict[str, object]:
    suites = []
    for suite in facts.matrix.suites_of(session.backend, session.tier):
        registered = facts.assignment.by_suite.get((suite.backend, suite.name), ())
        enabled = [r for r in registered if r.disabled is None]
        suites.append(
            {
                "name": suite.name,
                "aliases": list(suite.aliases),
                "runner_config": suite.runner_config,
                "devices": facts.matrix.runner_configs[suite.runner_config].devices,
                "files": len(enabled),
                "disabled": len(registered) - len(enabled),
                "est_minutes": round(sum(r.est_s for r in enabled) / 60, 2),
            }
        )
    return {
        "session": session.name,
        "backend": session.backend.value,
        "tier": session.tier,
        "variant": session.variant,
        "retired": session.retired,
        "suites": suites,
    }


def run(place: Place, *, as_json: bool) -> int:
    """Print the sessions and what they hold; return 0."""
    listed = rows(truth.read(place))
    if as_json:
        place.out.write(json.dumps(listed, indent=2) + "\n")
    else:
        place.out.write(_table(listed))
    place.out.flush()
    return 0


def _table(listed: list[dict[str, object]]) -> str:
    lines = [("session", "suite", "runner config", "devices", "files", "minutes")]
    for row in listed:
        name = str(row["session"])
        suites = row["suites"]
        assert isinstance(suites, list)
        if row["retired"]:
            lines.append((name, f"retired: {row['retired']}", "", "", "", ""))
            continue
        for suite in suites:
            off = f" (+{suite['disabled']} disabled)" if suite["disabled"] else ""
            lines.append(
                (
                    name,
                    suite["name"],
                    suite["runner_config"],
                    str(suite["devices"]),
                    f"{suite['files']}{off}",
                    f"{suite['est_minutes']:.1f}",
                )
            )
            name = ""
    widths = [
        max(len(line[i]) for line in lines if i != 1 or not line[1].startswith("retired"))
        for i in range(6)
    ]
    text = (
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) for line in lines
    )
    return "".join(f"{line.rstrip()}\n" for line in text)
