"""`skip_on` and `requires`: platform skips that say what was needed and what was found.

Facts come from the variables that a session sets (HWMATRIX_BACKEND, HWMATRIX_DEVICES,
HWMATRIX_MEMORY_GIB, HWMATRIX_ARCH); outside a session from one probe, made once per process.
Neither torch nor pytest is imported: a skipped target carries the attributes that unittest looks
at (pytest honours them on TestCase classes too) and, where pytest is loaded already, pytest's own
mark, which acts before any fixture, `setUpClass` or event loop is made.

What is unknown is not held against a test: where the memory or architecture of the device cannot
be told, the test runs, and says itself what is missing. A silent skip could hide it for months.
"""

from __future__ import annotations

import os
import sys

from hwmatrix.marks import BACKENDS

TYPE_CHECKING = False  # `typing` itself is too dear to import here; type checkers know the name
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import NoReturn, TypeVar

    from hwmatrix.model import Device

    Target = TypeVar("Target")


class Facts:
    """What this process runs on; `devices` is None and the rest empty or 0 where unknown."""

    __slots__ = ("arch", "backend", "devices", "memory_gib")

    def __init__(
        self, backend: str, devices: int | None, memory_gib: float = 0.0, arch: str = ""
    ) -> None:
        self.backend = backend
        self.devices = devices
        self.memory_gib = memory_gib
        self.arch = arch

    def __str__(self) -> str:
        """Return `amd (1 device, 64 GiB each, gfx942)`, leaving out what is unknown."""
        parts = [] if self.devices is None else [_count(self.devices)]
        if self.memory_gib:
            parts.append(f"{self.memory_gib:g} GiB each")
        if self.arch:
            parts.append(self.arch)
        return f"{self.backend} ({', '.join(parts)})" if parts else self.backend


def skip_on(*backends: str, reason: str) -> Callable[[Target], Target]:
    """Return a decorator that skips a test function, method or class on `backends`.

    Raises:
        UsageError: no backend, an unknown one, or no reason; raised where the decorator stands.
    """
    if not backends:
        _refuse("skip_on() names no backend", f"backends: {', '.join(BACKENDS)}")
    for backend in backends:
        _check_backend(backend, "skip_on()")
    if not _is_words(reason):
        _refuse(f"skip_on() has reason={reason!r}", "say in words why the test cannot run there")
    facts = current()
    if facts.backend not in backends:
        return _unchanged
    return _skipper(f"not on {' or '.join(backends)}, found {facts}: {reason}")


def requires(
    *,
    devices: int | None = None,
    memory_gib: float | None = None,
    arch: str | Sequence[str] | None = None,
    reason: str = "",
) -> Callable[[Target], Target]:
    """Return a decorator that skips a test where the machine is known to lack what it needs.

    Args:
        devices: how many devices the process owns at least.
        memory_gib: GiB per device at least.
        arch: one architecture or several, of which one must match; `gfx94*` matches by prefix.
        reason: why, in words; goes after what was needed and found.

    Raises:
        UsageError: nothing required, or a value that no machine could meet or lack.
    """
    wanted = _wanted_archs(arch)
    if devices is None and memory_gib is None and not wanted:
        _refuse("requires() asks for nothing", "give devices=, memory_gib= or arch=")
    if devices is not None and (type(devices) is not int or devices < 1):
        _refuse(f"requires() has devices={devices!r}", "a whole number, 1 or more")
    if memory_gib is not None and not _is_amount(memory_gib):
        _refuse(f"requires() has memory_gib={memory_gib!r}", "a finite number above 0")
    if reason and not _is_words(reason):
        _refuse(f"requires() has reason={reason!r}", "words, or leave it out")
    facts = current()
    lacking = []
    if devices is not None and facts.devices is not None and facts.devices < devices:
        lacking.append(_count(devices))
    if memory_gib is not None and facts.memory_gib and facts.memory_gib < memory_gib:
        lacking.append(f"{memory_gib:g} GiB per device")
    if wanted and facts.arch and not any(_matches(facts.arch, name) for name in wanted):
        lacking.append(" or ".join(wanted))
    if not lacking:
        return _unchanged
    tail = f": {reason}" if reason else ""
    return _skipper(f"needs {' and '.join(lacking)}, found {facts}{tail}")


# ------------------------------------------------------------------ facts

_probed: Facts | None = None


def current() -> Facts:
    """Return the session's facts, else those of one probe that this process keeps.

    This is the one place besides `app` that reads the process's environment: test files call it
    while they are imported, and have nothing to hand over.
    """
    global _probed  # noqa: PLW0603 - the cache of one probe per process
    if os.environ.get("HWMATRIX_BACKEND"):
        return from_session(os.environ)
    if _probed is None:
        _probed = from_probe(os.environ)
    return _probed


def from_session(env: Mapping[str, str]) -> Facts:
    """Return the facts that a session's variables give.

    Raises:
        UsageError: a variable holds what no session writes.
    """
    backend = env["HWMATRIX_BACKEND"]
    _check_backend(backend, "HWMATRIX_BACKEND")
    devices = _number(env, "HWMATRIX_DEVICES")
    return Facts(
        backend,
        None if devices is None else int(devices),
        _number(env, "HWMATRIX_MEMORY_GIB") or 0.0,
        env.get("HWMATRIX_ARCH", "").strip(),
    )


def from_probe(env: Mapping[str, str]) -> Facts:
    """Return the facts of the first accelerator that has devices, else those of the CPU."""
    from hwmatrix import backends
    from hwmatrix.model import Backend

    kinds = backends.BACKENDS
    for backend in (*(kind for kind in kinds if kind is not Backend.CPU), Backend.CPU):
        devices = kinds[backend].probe(env).devices
        if devices:
            return _of_devices(backend.value, devices)
    return Facts("cpu", None)


def _of_devices(backend: str, devices: Sequence[Device]) -> Facts:
    """Return facts that hold for every one of `devices`: the least memory, the shared arch."""
    archs = {device.arch for device in devices}
    return Facts(
        backend,
        len(devices),
        min(device.memory_gib for device in devices),
        archs.pop() if len(archs) == 1 else "",
    )


def _number(env: Mapping[str, str], name: str) -> float | None:
    """Return the variable as a number, or None where it is absent or empty."""
    text = env.get(name, "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        _refuse(f"{name} is {text!r}", "a number, or empty where it is unknown")
    return value


# ------------------------------------------------------------------ decorating


def _unchanged(target: Target) -> Target:
    """Return the target as it came: the machine has what it needs."""
    return target


def _skipper(why: str) -> Callable[[Target], Target]:
    def skip(target: Target) -> Target:
        """Mark the target as skipped, for unittest and for a pytest that is loaded."""
        inner: object = getattr(target, "__func__", target)  # static and class methods wrap one
        if not (isinstance(inner, type) or hasattr(inner, "__code__")):
            _refuse(f"{target!r} is decorated", "a test function, method or class")
        for name, value in (("__unittest_skip__", True), ("__unittest_skip_why__", why)):
            setattr(inner, name, value)
        pytest = sys.modules.get("pytest")
        if pytest is not None:
            pytest.mark.skip(reason=why)(inner)
        return target

    return skip


# ------------------------------------------------------------------ arguments


def _refuse(found: str, allowed: str) -> NoReturn:
    from hwmatrix.errors import UsageError

    message = f"{found}; allowed: {allowed}."
    raise UsageError(message)


def _check_backend(name: object, where: str) -> None:
    if isinstance(name, str) and name in BACKENDS:
        return
    from hwmatrix.errors import close_match

    hint = close_match(str(name), BACKENDS)
    _refuse(
        f"{where} names no backend: {name!r}{'. ' + hint[:-1] + '?' if hint else ''}",
        f"backends: {', '.join(BACKENDS)}",
    )


def _wanted_archs(arch: str | Sequence[str] | None) -> tuple[str, ...]:
    if arch is None:
        return ()
    names = (arch,) if isinstance(arch, str) else tuple(arch)
    if not names or not all(_is_words(name) and name != "*" for name in names):
        _refuse(f"requires() has arch={arch!r}", "names such as 'gfx942', 'sm_90' or 'gfx94*'")
    return names


def _matches(found: str, wanted: str) -> bool:
    return found.startswith(wanted[:-1]) if wanted.endswith("*") else found == wanted


def _is_words(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_amount(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return 0 < value < float("inf")


def _count(devices: int) -> str:
    return f"{devices} device" if devices == 1 else f"{devices} devices"
