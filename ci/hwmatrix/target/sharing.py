"""Whether the slots of a run share one preloaded process, and the two sides that use it.

They do where their environments differ by nothing that a package could read while it is imported:
on CPUs. Some runtimes read a device's visibility variable as soon as they are loaded, so slots
of devices import their packages themselves.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import TYPE_CHECKING

from hwmatrix import runfolder
from hwmatrix.model import Isolation
from hwmatrix.target import slotenv
from hwmatrix.target.wire import Control, GoneError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hwmatrix.model import RunSpec, Slot

_OWN = "HWMATRIX_"  # what a slot is told about itself: read when a test asks, not by packages


def common_env(
    spec: RunSpec, slots: Sequence[Slot], env: Mapping[str, str]
) -> dict[str, str] | None:
    """Return the environment in which packages can be imported for all `slots`; None if none can.

    One slot alone has nobody to share with. `env` is that of the outer pytest.
    """
    if len(slots) < 2:  # noqa: PLR2004 - said above
        return None
    envs = [slotenv.server_env(spec, slot, env) for slot in slots]
    names = {name for known in envs for name in known}
    common = {n for n in names if all(known.get(n) == envs[0].get(n) for known in envs)}
    if any(not name.startswith(_OWN) for name in names - common):
        return None
    return {name: value for name, value in envs[0].items() if name in common}


def start(
    spec: RunSpec, slots: Sequence[Slot], env: Mapping[str, str], *, path: Path, parent: int
) -> subprocess.Popen[bytes] | None:
    """Start the zygote that listens at `path`; None where slots do not share, or it cannot listen.

    `parent` is the pid of this process, with which it ends. `env` as for `common_env`.
    """
    units = runfolder.units_to_run(spec)
    forks = Isolation.FORK in {unit.isolation or spec.isolation for unit in units}
    common = common_env(spec, slots, env) if forks else None
    if common is None:
        return None
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(str(path))
            listener.listen(len(slots))
        except OSError:  # a path of more than 107 bytes: each slot imports its packages itself
            return None
        return subprocess.Popen(
            [
                *[sys.executable, "-m", "hwmatrix.target", "zygote"],
                *[str(listener.fileno()), str(parent), *spec.preload],
            ],
            env=common,
            cwd=spec.root,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),
            pass_fds=(listener.fileno(),),
            start_new_session=True,
        )


def ask(path: Path, env: Mapping[str, str], cwd: str, channel: socket.socket) -> bool:
    """Ask the zygote at `path` for a slot server on `channel`; False where nobody listens.

    It comes once the packages are imported, and says so on the channel; end-of-file there means
    that it will not come.
    """
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            message = {"env": dict(env), "cwd": cwd}
            Control(connection).send(message, [channel.fileno()])
    except (OSError, GoneError):
        return False
    return True
