"""Whether the supervisor of a run still runs on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix.reporting.ledger import count, moment

if TYPE_CHECKING:
    from hwmatrix.reporting.ledger import Ledger

_PROC = Path("/proc")
# The kernel keeps the moment of the boot in whole seconds.
_SLACK_S = 2.0


def supervisor(ledger: Ledger, run: str, *, proc: Path = _PROC) -> int:
    """Return the pid of the supervisor of run `run` while it runs here, else 0.

    It is in the journal's last start; a pid is another's by now if its process began later than
    that, or has not the run's folder among its arguments. Without /proc nothing can be said.
    """
    start = ledger.run_start or {}
    pid = count(start.get("pid"))
    if ledger.run_end is not None or pid <= 0:
        return 0
    began = _began(pid, proc)
    if began is None or began > moment(start.get("time")) + _SLACK_S:
        return 0
    return pid if run and run in _arguments(pid, proc) else 0


def _began(pid: int, proc: Path) -> float | None:
    """Return when a process began, in seconds since the epoch; None if there is none."""
    try:
        stat = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        table = (proc / "stat").read_text(encoding="utf-8", errors="replace")
        fields = stat.rpartition(")")[2].split()
        boot = next(line.split()[1] for line in table.splitlines() if line.startswith("btime "))
        return None if fields[0] in "ZX" else int(boot) + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, StopIteration):
        return None


def _arguments(pid: int, proc: Path) -> str:
    try:
        raw = (proc / str(pid) / "cmdline").read_bytes()
    except OSError:
        return ""
    return raw.decode("utf-8", "replace").replace("\0", "\n")
