from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from hwmatrix import process

if TYPE_CHECKING:
    from collections.abc import Iterator

SLEEP = [sys.executable, "-c", "import time; print(1, flush=True); time.sleep(3600)"]


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEP, stdout=subprocess.PIPE) as popen:
        assert popen.stdout is not None
        popen.stdout.readline()
        yield popen
        popen.kill()


def test_look_at_oneself_and_at_nobody() -> None:
    seen = process.look(os.getpid())
    assert seen is not None
    assert seen.parent == os.getppid()
    assert not seen.dead
    assert process.look(2**22 + 1) is None


def test_descendants_are_found_whichever_way(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = {p.pid for p in process.descendants(os.getpid())}
    monkeypatch.setattr(process, "_kernel_lists_children", lambda: False)
    slow = {p.pid for p in process.descendants(os.getpid())}
    assert sleeper.pid in quick & slow


def test_ps_is_understood() -> None:
    rows = process.from_ps("  1  0 Ss\n 20  1 S+\n 21 20 Z\n 30  1 R\n")
    below = process.below(20, rows)
    assert [(p.pid, p.dead) for p in below] == [(21, True)]
    assert [p.pid for p in process.below(1, rows)] == [20, 30, 21]
    assert process.below(30, rows) == []


def test_signal_goes_to_the_process_that_was_seen(sleeper: subprocess.Popen[bytes]) -> None:
    seen = process.look(sleeper.pid)
    assert seen is not None
    other = process.Process(pid=seen.pid, parent=seen.parent, started=seen.started - 1)
    assert not process.send(other, signal.SIGKILL)
    assert sleeper.poll() is None
    assert process.send(seen, signal.SIGKILL)
    assert sleeper.wait() == -signal.SIGKILL
    assert not process.send(seen, signal.SIGKILL)


def test_signal_without_process_descriptors(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    seen = process.look(sleeper.pid)
    assert seen is not None
    assert process.send(seen, signal.SIGKILL)
    sleeper.wait()
    assert not process.send(seen, signal.SIGKILL)


def test_handlers_of_another_process_are_seen(sleeper: subprocess.Popen[bytes]) -> None:
    assert process.catches(sleeper.pid, signal.SIGINT)  # Python's own
    assert not process.catches(sleeper.pid, signal.SIGUSR2)
    assert not process.catches(2**22 + 1, signal.SIGINT)


def test_sweep_kills_all_but_what_is_to_stay(sleeper: subprocess.Popen[bytes]) -> None:
    code = f"import subprocess, time; subprocess.Popen({SLEEP!r}); time.sleep(3600)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        before = {p.pid for p in process.descendants(parent.pid)}
        assert len(before) == 1
        process.become_subreaper()
        others = {p.pid for p in process.descendants(os.getpid())} - before - {parent.pid}
        swept = process.sweep(keep=others, within_s=240)
        process.become_subreaper(on=False)
        assert swept.killed == before | {parent.pid}
        assert swept.left == ()
    assert sleeper.poll() is None


def test_sweep_gives_up_in_time(sleeper: subprocess.Popen[bytes]) -> None:
    others = {p.pid for p in process.descendants(os.getpid())} - {sleeper.pid}
    swept = process.sweep(keep=others, within_s=0)
    assert swept.left in {(), (sleeper.pid,)}
    sleeper.kill()


def test_child_ends_with_its_parent() -> None:
    child = (
        "import os, sys, time; from hwmatrix import process;"
        "print(process.die_with_parent(int(sys.argv[1])), flush=True); time.sleep(3600)"
    )
    parent = (
        "import os, subprocess, sys;"
        f"p = subprocess.Popen([sys.executable, '-c', {child!r}, str(os.getpid())], stdout=-1);"
        "p.stdout.readline(); print(p.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", parent], stdout=subprocess.PIPE, check=False)
    pid = int(done.stdout)
    end = time.monotonic() + 240
    while (seen := process.look(pid)) is not None and not seen.dead:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_child_whose_parent_is_gone_already_ends_at_once() -> None:
    code = "from hwmatrix import process; process.die_with_parent(1, 15); print('alive')"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False)
    assert (done.returncode, done.stdout) == (-15, b"")


def test_names_of_signals() -> None:
    assert process.name_of_signal(11) == "SIGSEGV"
    assert process.name_of_signal(99) == "signal 99"


def test_reap_of_a_stranger_is_nothing() -> None:
    process.reap(1)
