"""What the engine asks of the operating system: orphans, parent death, the processes below one.

Linux gives all of it. Elsewhere `become_subreaper` and `die_with_parent` return False, the tree
comes from `ps`, and a daemon that detached itself twice cannot be found again.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

# linux/prctl.h
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_DEAD = frozenset("ZX")  # proc(5): zombie, dead
_ROUND_S = 0.005  # one round of a sweep: signals are delivered and parents change meanwhile


@dataclass(frozen=True)
class Process:
    """One process as it was seen; `started` (clock ticks since boot) tells re-used pids apart."""

    pid: int
    parent: int
    started: int = 0
    state: str = "R"

    @property
    def dead(self) -> bool:
        """True for a zombie: nothing runs any more, its parent has only to reap it."""
        return self.state in _DEAD


@dataclass(frozen=True)
class Sweep:
    """What a sweep came to: pids that it killed, and pids that would not die."""

    killed: frozenset[int] = frozenset()
    left: tuple[int, ...] = ()


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    return int(_libc().prctl(option, value, 0, 0, 0)) == 0


def become_subreaper(*, on: bool = True) -> bool:
    """Return True if orphans below this process re-parent to it from now on."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, int(on))


def die_with_parent(parent: int, number: int = signal.SIGKILL) -> bool:
    """Return True if this process gets signal `number` when its parent ends.

    `parent` is the pid that the parent announced: when it ended before this call, no signal would
    ever come, so this process ends here. The kernel watches the *thread* that started this process:
    it must be one that lives as long as its process.
    """
    known = _prctl(_PR_SET_PDEATHSIG, int(number))
    if os.getppid() != parent:
        os.kill(os.getpid(), number)
    return known


def look(pid: int) -> Process | None:
    """Return the process `pid` as /proc shows it, or None if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command stands in parentheses and may hold blanks and parentheses itself (proc(5)).
    fields = text.rpartition(")")[2].split()
    return Process(pid=pid, state=fields[0], parent=int(fields[1]), started=int(fields[19]))


@cache
def _kernel_lists_children() -> bool:
    """Return True where the kernel has CONFIG_PROC_CHILDREN: a tree costs its own size then."""
    me = os.getpid()
    return Path(f"/proc/{me}/task/{me}/children").exists()


def _children_of(pid: int) -> list[int]:
    """Return the children that the kernel lists for `pid`, whichever thread started them."""
    found: list[int] = []
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            text = (thread / "children").read_text(encoding="ascii")
            found += [int(word) for word in text.split()]
    except OSError:
        return found  # it ended meanwhile
    return found


def _all_processes() -> list[Process]:
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    found = [seen for pid in pids if (seen := look(pid)) is not None]
    return found or from_ps(
        subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid=,stat="],  # noqa: S607 - where PATH has it
            capture_output=True,
            text=True,
            check=False,
        ).stdout
    )


def from_ps(text: str) -> list[Process]:
    """Return the processes that `ps -A -o pid=,ppid=,stat=` listed."""
    rows = [line.split() for line in text.splitlines()]
    return [Process(pid=int(pid), parent=int(ppid), state=stat[0]) for pid, ppid, stat in rows]


def below(pid: int, processes: Iterable[Process]) -> list[Process]:
    """Return those of `processes` that descend from `pid`, parents before their children."""
    by_parent: dict[int, list[Process]] = {}
    for process in processes:
        by_parent.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    todo = [pid]
    while todo:
        children = by_parent.pop(todo.pop(0), [])
        found += children
        todo += [child.pid for child in children]
    return found


def descendants(pid: int) -> list[Process]:
    """Return all processes below `pid`, zombies included, parents before their children."""
    if not _kernel_lists_children():
        return below(pid, _all_processes())
    found: list[Process] = []
    todo = [pid]
    while todo:
        children = _children_of(todo.pop(0))
        found += [seen for child in children if (seen := look(child)) is not None]
        todo += children
    return found


def send(target: Process, number: int) -> bool:
    """Send signal `number` to `target`; False if it is gone (its pid may be another's by now)."""
    try:
        descriptor = os.pidfd_open(target.pid)
    except ProcessLookupError:
        return False
    except (AttributeError, OSError):
        return _send_by_pid(target.pid, number)  # not Linux, or a sandbox without the call
    try:
        seen = look(target.pid)
        if seen is None or seen.started != target.started:
            return False
        signal.pidfd_send_signal(descriptor, number)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def end_of(pid: int) -> int | None:
    """Return a descriptor that can be read once process `pid` has ended, or None."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None  # not Linux, or a sandbox without the call: look now and then


def _send_by_pid(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


def catches(pid: int, number: int) -> bool:
    """Return True if process `pid` has a handler of its own for signal `number`."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    masks = [line.split()[1] for line in text.splitlines() if line.startswith("SigCgt:")]
    return bool(masks) and bool(int(masks[0], 16) >> (number - 1) & 1)


def reap(pid: int) -> None:
    """Collect the child `pid` if it has ended; nothing if it runs or is no child."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def sweep(*, keep: Collection[int] = (), within_s: float = 10.0) -> Sweep:
    """Kill every process below this one but `keep`, until none is left or `within_s` is over.

    Only descendants are touched. Killing one hands its children to the nearest subreaper, so the
    tree is read again until it is empty. Children that ended are reaped.
    """
    me = os.getpid()
    end = time.monotonic() + within_s
    killed: set[int] = set()
    while True:
        found = [p for p in descendants(me) if p.pid not in keep]
        running = [p for p in found if not p.dead]
        mine = [p for p in found if p.parent == me]
        if not running and not mine:
            return Sweep(killed=frozenset(killed))
        for process in running:
            if send(process, signal.SIGKILL):
                killed.add(process.pid)
        for process in mine:
            reap(process.pid)
        if time.monotonic() >= end:
            return Sweep(killed=frozenset(killed), left=tuple(p.pid for p in running))
        time.sleep(_ROUND_S)


def name_of_signal(number: int) -> str:
    """Return `SIGSEGV` for 11, or the number where it has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
