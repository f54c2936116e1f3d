"""Whether the slots of a run share one preloaded process (target/zygote.py), and its start.

They do where their environments differ by nothing that a package could read while it is imported:
on CPUs. Some runtimes read a device's visibility variable as soon as they are loaded, so slots
of devices import their packages themselves.
"""

from __future__ import annotations

import os
import socket
import subprocess
from typing import TYPE_CHECKING

from hwmatrix import runfolder, slotenv
from hwmatrix.model import Isolation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hwmatrix.model import RunSpec, Slot

_WAITING = 128  # workers that can ask while packages are imported; replaced ones ask again
_OWN = "HWMATRIX_"  # what a slot is told about itself: read when a test asks, not by packages


def common_env(
    spec: RunSpec, slots: Sequence[Slot], env: Mapping[str, str]
) -> dict[str, str] | None:
    """Return the environment in which packages can be imported for all `slots`; None if none can.

    One slot alone has nobody to share with. `env` is that of controller and workers.
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
    spec: RunSpec, slots: Sequence[Slot], env: Mapping[str, str], *, path: Path, log: int
) -> subprocess.Popen[bytes] | None:
    """Start the zygote that listens at `path`; None where slots do not share, or it cannot listen.

    It ends with this process, and prints to the descriptor `log`. `env` as for `common_env`.
    """
    units = runfolder.units_to_run(spec)
    forks = Isolation.FORK in {unit.isolation or spec.isolation for unit in units}
    common = common_env(spec, slots, env) if forks else None
    if common is None:
        return None
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(str(path))
            listener.listen(_WAITING)
            return subprocess.Popen(
                [
                    *[spec.python, "-m", "hwmatrix.target", "zygote"],
                    *[str(listener.fileno()), str(os.getpid()), *spec.preload],
                ],
                env=common,
                cwd=spec.root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(listener.fileno(),),
                start_new_session=True,
            )
        except OSError as error:  # a path of more than 107 bytes, say, or no process left
            text = f"each slot imports its packages itself: {path}: {error.strerror or error}\n"
            os.write(log, text.encode())
            return None
