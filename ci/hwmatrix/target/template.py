"""The fork server: a process that has imported the heavy packages, and templates forked from it.

    preloaded   `python -m hwmatrix.target template CONTROL SERVER MODULES`; imports, and forks.
                Below a zygote (zygote.py) it is forked itself, with everything imported
      template    one pytest session for files configured alike, stopped where collection begins
        child       one unit: goes on with that collection, of its own file

A template is made per folder that has a file of pytest's configuration (an ini file, a conftest
file), and serves the files of all folders below that have none. Forking inside the session saves
the time of configuring it for each file (0.1 s, and 2 s where plugins import a lot).
Nothing here may touch a device or start a thread; `unsafe` looks, and the slot's server then starts
fresh interpreters instead.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import importlib.util
import os
import signal
import socket
import sys
import tempfile
import threading
import time
import warnings
import weakref
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from hwmatrix import process
from hwmatrix.target.child import lift, watch_stacks
from hwmatrix.target.faults import Faults
from hwmatrix.target.lessons import Lessons
from hwmatrix.target.reporter import Channel, Reporter
from hwmatrix.target.timeouts import Timeouts
from hwmatrix.target.wire import Control, Request

if TYPE_CHECKING:
    from collections.abc import Sequence

# Device nodes of every vendor: an open one means that a runtime is up, and it would not survive a
# fork. NVIDIA, AMD (kfd and render nodes), Intel (render nodes), Ascend, Moore Threads.
_DEVICE_NODES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/", "/dev/accel/", "/dev/davinci", "/dev/mt")


def main(argv: list[str]) -> int:
    """Import the modules, then fork a template whenever the server asks; return 0."""
    descriptor, server, *modules = argv
    process.die_with_parent(int(server))
    leave_start_folder()
    control = Control(socket.socket(fileno=int(descriptor)))
    os.set_inheritable(control.fileno(), False)
    serve(control, modules)
    return 0


def leave_start_folder() -> None:
    """Take the folder that `python -m` starts in off the path, as in the child."""
    if not getattr(sys.flags, "safe_path", False):
        del sys.path[0]


def serve(control: Control, modules: Sequence[str]) -> None:
    """Import the modules, then fork a template whenever the server asks, until end-of-file."""
    started = time.monotonic()
    reason = preload(modules) or unsafe()
    quiet = about_plugins()
    seconds = round(time.monotonic() - started, 3)
    control.send({"is": "preloaded", "reason": reason, "seconds": seconds})
    while (messages := control.receive()) is not None:
        for message in messages:
            _fork_template(control, Request.from_plain(message["request"]), quiet)


@cache
def about_plugins() -> tuple[str, ...]:
    """Return the options that keep pytest silent about plugins' packages imported already.

    It warns that it can rewrite their asserts no more, and where warnings are errors it ends there.
    By itself it would have imported them, and would not warn.
    """
    names: set[str] = set()
    for distribution in metadata.distributions():
        if any(entry.group == "pytest11" for entry in distribution.entry_points):
            names |= {file.parts[0].removesuffix(".py") for file in distribution.files or ()}
    message = "Module already imported so cannot be rewritten; {}"
    return tuple(
        f"-Wignore:{message.format(name)}:pytest.PytestAssertRewriteWarning"
        for name in sorted(names & sys.modules.keys())
    )


def preload(modules: Sequence[str]) -> str:
    """Import `modules`; return "" or why that failed.

    One of a package that is not installed here (a container without it) is passed over: files that
    need it say so themselves.
    """
    for name in filter(_installed, modules):
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001, PERF203 - whatever a package does at import
            return f"import {name} failed: {type(error).__name__}: {error}"
    return ""


def _installed(module: str) -> bool:
    """Return whether the package is there at all; importing it tells the rest."""
    return importlib.util.find_spec(module.partition(".")[0]) is not None


def unsafe() -> str:
    """Return "" if this process can be forked, or the reason why not.

    Native threads of BLAS pools are expected: OpenBLAS stops and restarts its pool around a fork.
    """
    others = [t.name for t in threading.enumerate() if t is not threading.current_thread()]
    if others:
        return f"Python threads run: {', '.join(sorted(others))}"
    devices = sorted({name for name in _open_files() if name.startswith(_DEVICE_NODES)})
    if devices:
        return f"a device is in use: {', '.join(devices)}"
    started = process.descendants(os.getpid())
    if started:
        return f"processes were started: {', '.join(str(p.pid) for p in started)}"
    return ""


def _open_files() -> list[str]:
    names = []
    for path in Path("/proc/self/fd").glob("*"):
        try:
            names.append(str(path.readlink()))
        except OSError:  # noqa: PERF203 - the descriptor of the listing itself is gone by now
            continue
    return names


def _fork_template(control: Control, request: Request, quiet: tuple[str, ...]) -> None:
    theirs, output = control.take_descriptor(), control.take_descriptor()
    me = os.getpid()
    pid = fork()
    if pid == 0:
        control.close()
        ours = Control(socket.socket(fileno=theirs))
        Template(ours, request, parent=me).run(output, quiet)
    os.close(theirs)
    os.close(output)
    control.send({"is": "forked", "pid": pid})


def fork() -> int:
    """Fork; without Python's warning about native threads, which `unsafe` explains."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


class Template:
    """A pytest session that stops before its collection and forks there.

    It is a pytest plugin itself: `pytest_collection` is where it waits.
    """

    def __init__(self, control: Control, request: Request, *, parent: int) -> None:
        self._control = control
        self._request = request
        self._parent = parent
        self._reporter = Reporter(request.worker_input)
        self._timeouts = Timeouts(request.test_limit_s)
        self._in_child = False
        self._ignores_children = False
        self._lessons = Lessons(Path(request.lessons))

    def run(self, output: int, quiet: tuple[str, ...]) -> NoReturn:
        """Configure pytest as for the request, and serve; in the children, run and leave."""
        process.die_with_parent(self._parent)
        os.setsid()
        for number in (1, 2):
            os.dup2(output, number)
        os.close(output)
        env = {name: value for name, value in self._request.env.items() if name != "TMPDIR"}
        os.environ.update(env)
        sys.argv[:] = ["pytest", *self._request.args]
        plugins = [self._reporter, self._timeouts, Faults(), self]
        status = int(pytest.main([*self._request.args, *quiet], plugins=plugins))
        if self._in_child:
            self._reporter.put("end", status=status)
            self._lessons.tell()
            leave(status)
        reason = f"pytest ended before it collected anything, exit status {status}"
        self._refuse(reason)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> None:
        """Wait here; return in the child, which then goes on with the ordinary collection."""
        self._lessons.recall(session.config)
        reason = unsafe()
        if reason:
            self._refuse(reason)
        # Whoever ignores it cannot wait for a child; the children ignore it again.
        self._ignores_children = signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
        if self._ignores_children:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        settle()
        sys.stdout.flush()
        self._control.send({"is": "ready"})
        while (messages := self._control.receive()) is not None:
            for message in messages:
                if self._fork(Request.from_plain(message["request"]), session.config):
                    return
        os._exit(0)

    def _refuse(self, reason: str) -> NoReturn:
        sys.stdout.flush()
        self._control.send({"is": "refused", "reason": reason})
        os._exit(0)

    def _fork(self, request: Request, config: pytest.Config) -> bool:
        """Fork a child and wait for it; True in the child, at once."""
        events = self._control.take_descriptor()
        me = os.getpid()
        self._lessons.begin()
        pid = fork()
        if pid == 0:
            self._in_child = True
            self._control.close()
            self._begin(request, events, config, parent=me)
            return True
        os.close(events)
        self._control.send({"is": "forked", "pid": pid})
        _, status = os.waitpid(pid, 0)
        learnt = self._lessons.learn(config)  # before the last child is told of: all ends then
        self._control.send({"is": "exited", "status": os.waitstatus_to_exitcode(status)})
        if learnt:
            self._lessons.practise(learnt)
            settle()
        return False

    def _begin(self, request: Request, events: int, config: pytest.Config, *, parent: int) -> None:
        """Turn this copy of the template into the child of one unit."""
        process.die_with_parent(parent)
        os.setsid()
        if self._ignores_children:
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        os.environ.update(request.env)
        tempfile.tempdir = None  # it was cached for the template's environment
        watch_stacks(request.stacks)
        self._timeouts.limit_s = request.test_limit_s
        numpy_random = sys.modules.get("numpy.random")
        if numpy_random is not None:
            numpy_random.seed()  # Python's own generator does so by itself after a fork
        capture = config.pluginmanager.getplugin("capturemanager")
        if capture is not None:
            capture.read_global_capture()  # what a child that died left in the shared files
        config.args[:] = request.selectors
        config.option.file_or_dir = list(request.selectors)
        given = config.invocation_params
        config.invocation_params = type(given)(
            args=request.args, plugins=given.plugins, dir=given.dir
        )
        sys.argv[:] = ["pytest", *request.args]
        self._reporter.attach(Channel(lift(events)), done=request.done)


def settle() -> None:
    """Make a fork cheap: no garbage to collect, nothing old to finalize in each child.

    Finalizers that exist before the fork (torch.library makes thousands) cost 50 ms at each exit
    and clean up what the template still uses.
    """
    for finalizer in list(getattr(weakref.finalize, "_registry", ())):
        finalizer.atexit = False
    gc.collect()
    gc.freeze()


def leave(status: int) -> NoReturn:
    """End the child as an interpreter would, but for tearing down modules that it only copied."""
    # What the interpreter calls first: it tells the workers of thread pools to end, then joins all
    # threads but daemons. A join alone would wait for ever for an idle pool.
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - no public name
    atexit._run_exitfuncs()  # noqa: SLF001 - public names only register
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
