"""One preloaded process for all slots of a run whose environments are alike.

    zygote        `python -m hwmatrix.target zygote LISTENER PARENT MODULES`; imports once for all
      slot server   one for each worker that asks: a fork that begins as a new interpreter (exec)
        preloaded     forked before that, with everything imported; forks templates as any other

The packages of N slots cost one import instead of N at once, and one copy of their pages. The
supervisor starts it beside the controller, so it imports while the workers start. It never answers:
a server that is up says so itself, on the channel that the worker sent along. What a package does
to the interpreter that imports it (patches, signals, variables) reaches the preloaded process, as
without a zygote, and no server.

Nothing depends on the zygote: when it cannot be forked (`template.unsafe`) or was killed, workers
start servers of their own (client.py).
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import select
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

from hwmatrix import process, runfolder
from hwmatrix.target import template
from hwmatrix.target.wire import Control, GoneError

_ROUND_S = 1.0  # how often servers that ended are reaped
_ASK_S = 10.0  # a worker sends at once what it asks for
_PASSING = frozenset({errno.EAGAIN, errno.EINTR, errno.ECONNABORTED})  # accept(2)
_LIMITS = (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_STACK, resource.RLIMIT_AS)


def main(argv: list[str]) -> NoReturn:
    """Import the modules, then fork a slot server whenever asked, until the parent has ended."""
    descriptor, parent, *modules = argv
    process.die_with_parent(int(parent))
    template.leave_start_folder()
    listener = socket.socket(fileno=int(descriptor))
    listener.set_inheritable(False)
    zygote = Zygote(listener)
    try:
        reason = template.preload(modules) or template.unsafe()
        if reason:
            sys.stderr.write(f"each slot imports its packages itself: {reason}\n")
            zygote.end()
        template.about_plugins()  # remembered for every template to come
        template.settle()
        zygote.serve(int(parent))
    except BaseException:  # noqa: BLE001 - whatever a package does; workers must not wait for it
        traceback.print_exc()
    zygote.end()


class Zygote:
    """Forks servers; remembers how this process was before anything was imported."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._path = Path(listener.getsockname())
        self._env = dict(os.environ)
        self._python = sys.executable
        self._umask = os.umask(0)
        os.umask(self._umask)
        self._limits = {which: resource.getrlimit(which) for which in _LIMITS}

    def serve(self, parent: int) -> None:
        """Answer until the `parent` is gone (where no signal tells), or nobody can ask any more."""
        while os.getppid() == parent:
            ready, _, _ = select.select([self._listener], [], [], _ROUND_S)
            self._reap()
            if not ready:
                continue
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                if error.errno not in _PASSING:
                    raise
                continue
            # It died while it asked; or no descriptor or process is left: then it sees the end of
            # its channel, and starts a server itself.
            with contextlib.suppress(OSError, GoneError, IndexError):
                self._answer(connection)

    def end(self) -> NoReturn:
        """Leave at once, and let nobody wait: whoever asked reads end-of-file."""
        with contextlib.suppress(OSError):
            self._listener.setblocking(False)
            while True:
                self._listener.accept()[0].close()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # a process of a package may hold a copy
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(1)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                runfolder.server_mark(self._path, pid).unlink(missing_ok=True)

    def _answer(self, connection: socket.socket) -> None:
        """Fork the server that one worker asks for."""
        asked = Control(connection)
        connection.settimeout(_ASK_S)
        try:
            messages: list[dict[str, Any]] | None = []
            while messages == []:
                messages = asked.receive()
            if messages is None:
                return
            channel = asked.take_descriptor()
            try:
                with os.fdopen(asked.take_descriptor(), "rb") as file:
                    file.seek(0)
                    wanted = json.load(file)
                if template.fork() == 0:
                    self._become_server(channel, wanted["env"], wanted["cwd"])
            finally:
                os.close(channel)
        finally:
            asked.close()

    def _become_server(self, channel: int, env: dict[str, str], cwd: str) -> NoReturn:
        """Turn this copy into the server of one slot, a new interpreter with a preloaded child."""
        try:
            os.setsid()
            # It may outlive the zygote: the supervisor does not take it for an orphan.
            runfolder.server_mark(self._path, os.getpid()).touch()
            ours, theirs = socket.socketpair()
            me = os.getpid()
            preloaded = template.fork()
            if preloaded == 0:
                os.close(channel)
                ours.close()
                self._become_preloaded(theirs, env, parent=me)
            command = [self._python, "-m", "hwmatrix.target", "server"]
            words = [str(channel), str(ours.fileno()), str(preloaded)]
            self._forget_packages({channel, ours.fileno()})
            os.chdir(cwd)
            os.execve(self._python, [*command, *words], env)  # noqa: S606 - our own interpreter
        except BaseException:  # noqa: BLE001 - printed: above here is the zygote's own loop
            traceback.print_exc()
        finally:
            os._exit(1)

    def _become_preloaded(
        self, theirs: socket.socket, env: dict[str, str], *, parent: int
    ) -> NoReturn:
        """Serve templates: with the slot's variables over what packages made of the common ones."""
        try:
            process.die_with_parent(parent)
            os.setsid()
            self._listener.close()
            os.environ.update({n: v for n, v in env.items() if self._env.get(n) != v})
            template.serve(Control(theirs), ())
        except BaseException:  # noqa: BLE001 - printed: above here is the zygote's own loop
            traceback.print_exc()
        finally:
            os._exit(0)

    def _forget_packages(self, kept: set[int]) -> None:
        """Undo what an import may have done to this process and a new interpreter would inherit."""
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.umask(self._umask)
        for which, limits in self._limits.items():
            with contextlib.suppress(OSError, ValueError):  # a hard limit that was lowered stays
                resource.setrlimit(which, limits)
        for path in list(Path("/proc/self/fd").glob("*")):  # closed by exec, most of them
            with contextlib.suppress(OSError, ValueError):
                if int(path.name) > 2 and int(path.name) not in kept:  # noqa: PLR2004 - stderr
                    os.close(int(path.name))
        for descriptor in kept:
            os.set_inheritable(descriptor, True)
