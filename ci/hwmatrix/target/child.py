"""The child: one process, one pytest run of one file.

`python -m hwmatrix.target child REQUEST EVENTS SERVER`: the request's file, the descriptor of the
events' pipe, and the pid of the slot's server. It behaves as a plain `pytest file` in the project's
root would: same configuration, conftest files, plugins and `sys.path`.
"""

from __future__ import annotations

import faulthandler
import fcntl
import json
import os
import resource
import signal
import sys
from pathlib import Path

import pytest

from hwmatrix import process
from hwmatrix.target.faults import Faults
from hwmatrix.target.reporter import Channel, Reporter
from hwmatrix.target.timeouts import Timeouts
from hwmatrix.target.wire import Request

STACKS_SIGNAL = signal.SIGUSR1
_HIGH = 200  # tests that close low descriptors, or expect the next free one to be low, miss these


def main(argv: list[str]) -> int:
    """Run the request; return pytest's exit status."""
    request_path, events, server = argv
    process.die_with_parent(int(server))
    request = Request.from_plain(json.loads(Path(request_path).read_text(encoding="utf-8")))
    if not getattr(sys.flags, "safe_path", False):
        del sys.path[0]  # `python -m` put the current folder there; the `pytest` script does not
    watch_stacks(request.stacks)
    reporter = Reporter(request.worker_input)
    reporter.attach(Channel(lift(int(events))), done=request.done)
    sys.argv[:] = ["pytest", *request.args]
    status = int(
        pytest.main(request.args, plugins=[reporter, Timeouts(request.test_limit_s), Faults()])
    )
    reporter.put("end", status=status)
    return status


def lift(descriptor: int) -> int:
    """Return a copy of `descriptor` beyond the reach of tests, closed on exec; close the first."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    floor = min(_HIGH, soft // 2) if soft != resource.RLIM_INFINITY else _HIGH
    copy = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, floor)
    os.close(descriptor)
    return copy


def watch_stacks(path: str) -> None:
    """Write the stacks of all threads to `path` whenever `STACKS_SIGNAL` arrives.

    The handler is C code, so it works while Python hangs; forked descendants inherit it.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    stream = lift(os.open(path, flags, 0o644))
    faulthandler.register(STACKS_SIGNAL, file=stream, all_threads=True)
