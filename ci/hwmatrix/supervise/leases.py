"""Devices and ports for one session at a time: locks on files, which end with their process.

One file per device (named by its PCI address or UUID) and one per range of ports, in a folder that
sessions on one host share; containers can mount the same one. The lock is `flock(2)`: the kernel
drops it when the process ends, however it ends. The file tells who holds it; what it says is read
for messages only and never decides.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix.errors import LeaseError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hwmatrix.model import Slot

FOLDER = "HWMATRIX_LEASES"  # names another folder for the locks
PORT = "HWMATRIX_PORT"  # the first port of a slot's range
PORTS = "HWMATRIX_PORTS"  # how many ports the range has

# Below Linux's ephemeral ports (32768 and up), above what services are usually given.
_FIRST_PORT = 20_000
_PORTS_EACH = 50
_RANGES = 200

_LOOK_AGAIN_S = 0.5
_SAY_AGAIN_S = 60.0


@dataclass(frozen=True)
class Terms:
    """How to lease.

    `folder` holds the locks; `session` is the name that others read; `wait_s` is how long to wait
    for a device; `say` takes messages. `devices` is false where they are no one's (ranks of cpu).
    `exclusive`: no other session is to run on the host meanwhile, on whatever devices.
    """

    folder: Path
    session: str
    wait_s: float
    say: Callable[[str], None]
    devices: bool = True
    exclusive: bool = False


def folder_of(env: Mapping[str, str]) -> Path:
    """Return the folder of the locks: `HWMATRIX_LEASES`, else one in /tmp that all users share.

    Not TMPDIR: a scheduler gives each job one of its own, and the jobs would never meet.
    """
    return Path(env.get(FOLDER) or "/tmp/hwmatrix-leases")  # noqa: S108 - shared on purpose


@contextlib.contextmanager
def leased(keys: Sequence[str], terms: Terms, *, wanted: int | None = None) -> Iterator[Lease]:
    """Hold the host and `wanted` of the devices called `keys`, all by default; yield the lease.

    Where fewer than all are wanted, those that are free come first, in the order of `keys`. Waits
    while another session holds what is needed, and says so. What is waited for is taken in the
    order of names and nothing out of order is held meanwhile, so two sessions never wait for each
    other.

    Raises:
        LeaseError: a device stayed held for longer than `terms.wait_s`, or no port range is left,
            or the folder cannot be written.
    """
    _make_folder(terms.folder)
    with contextlib.ExitStack() as locks:
        # The host first, shared unless it is wanted whole: who waits for it holds nothing else.
        how = fcntl.LOCK_EX if terms.exclusive else fcntl.LOCK_SH
        # Who waits for it keeps the turn, so that later sessions queue behind a waiting one.
        with _waited("turn", "a turn on the host", terms):
            locks.enter_context(_waited("host", "the host", terms, how))
        chosen = list(keys)
        if terms.devices:
            chosen = _free(locks, keys, len(keys) if wanted is None else wanted, terms)
        yield Lease(keys=frozenset(chosen), terms=terms, locks=locks)


def _free(locks: contextlib.ExitStack, keys: Sequence[str], wanted: int, terms: Terms) -> list[str]:
    """Return `wanted` keys that are locked now: free ones if there are enough, else the first."""
    with contextlib.ExitStack() as tried:
        found: list[str] = []
        for key in keys if wanted < len(keys) else ():
            descriptor = _try_lock(_path_of(key, terms), terms.session)
            if descriptor is not None:
                tried.callback(os.close, descriptor)
                found.append(key)
            if len(found) == wanted:
                locks.callback(tried.pop_all().close)
                return found
    for key in sorted(keys[:wanted]):
        locks.enter_context(_waited(f"device-{_file_name(key)}", f"device {key}", terms))
    return list(keys[:wanted])


@dataclass(frozen=True)
class Lease:
    """Devices that are held; `ports` adds a range of ports to each slot made of them."""

    keys: frozenset[str]
    terms: Terms
    locks: contextlib.ExitStack

    def ports(self, slots: Sequence[Slot]) -> tuple[Slot, ...]:
        """Return the slots with the first port of their own range, and how many it has."""
        made = []
        for slot in slots:
            first = self.locks.enter_context(_port_range(self.terms))
            made.append(replace(slot, env={PORT: str(first), PORTS: str(_PORTS_EACH), **slot.env}))
        return tuple(made)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if folder.stat().st_uid == os.getuid():
            folder.chmod(0o1777)  # as /tmp: other users' sessions lock here too
    except OSError as error:
        message = (
            f"{folder}: the folder of the device locks cannot be made ({error.strerror}). "
            f"Set {FOLDER} to a folder that all sessions on this host can write to."
        )
        raise LeaseError(message) from error


@contextlib.contextmanager
def _waited(name: str, what: str, terms: Terms, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Hold the lock of that name, waiting for it as the terms say."""
    path = terms.folder / f"{name}.lock"
    end = time.monotonic() + terms.wait_s
    say_at, said = time.monotonic(), ""
    while True:
        descriptor = _try_lock(path, terms.session, how)
        if descriptor is not None:
            break
        now = time.monotonic()
        if now >= end:
            message = (
                f"{what} is held by {_holder(path)}, for longer than the {terms.wait_s:g} s "
                f"that were allowed. Wait for it, or choose other devices or another host."
            )
            raise LeaseError(message)
        holder = _holder(path)
        if now >= say_at or holder != said:
            say_at, said = now + _SAY_AGAIN_S, holder
            terms.say(f"waiting for {what}, held by {holder}")
        time.sleep(min(_LOOK_AGAIN_S, max(0.01, end - now)))
    try:
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _port_range(terms: Terms) -> Iterator[int]:
    for number in range(_RANGES):
        first = _FIRST_PORT + number * _PORTS_EACH
        descriptor = _try_lock(terms.folder / f"ports-{first}.lock", terms.session)
        if descriptor is not None:
            try:
                yield first
            finally:
                os.close(descriptor)
            return
    last = _FIRST_PORT + _RANGES * _PORTS_EACH - 1
    message = f"all port ranges from {_FIRST_PORT} to {last} are held; see {terms.folder}."
    raise LeaseError(message)


def _try_lock(path: Path, session: str, how: int = fcntl.LOCK_EX) -> int | None:
    """Return a descriptor that holds the lock, None if another process holds it."""
    try:
        # Readable and writable for all: the next session may be another user's.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        message = (
            f"{path}: the lock cannot be opened ({error.strerror}). Give this user permission, or "
            f"set {FOLDER} to a folder that all sessions on this host can write to."
        )
        raise LeaseError(message) from error
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    with contextlib.suppress(OSError):
        os.fchmod(descriptor, 0o666)  # the mask of new files may have taken that away
    os.ftruncate(descriptor, 0)
    told = {"pid": os.getpid(), "session": session, "since": round(time.time())}
    os.pwrite(descriptor, json.dumps(told).encode(), 0)
    return descriptor


def _holder(path: Path) -> str:
    """Return who said to hold the lock, for messages."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        since = time.strftime("%H:%M:%S", time.localtime(told["since"]))
        return f"{told['session']} (pid {told['pid']}, since {since})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another session"


def _path_of(key: str, terms: Terms) -> Path:
    return terms.folder / f"device-{_file_name(key)}.lock"


def _file_name(key: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", key)
