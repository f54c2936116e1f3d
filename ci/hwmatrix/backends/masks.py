"""Inherited visibility variables: which of a machine's devices they leave.

Rules, the same for every vendor unless said otherwise in its file:
- an unset variable leaves all devices, an empty one none;
- entries are indices into the devices, ids (unique prefixes count, as CUDA has it), or ranges
  `2-5`, which the runtimes do not know but schedulers write; ids and indices are not mixed;
- a negative index ends the list: what stands after it is not visible;
- duplicates and indices past the end are refused. The runtimes answer those with fewer or no
  devices and without a word.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hwmatrix.errors import VisibilityError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hwmatrix.model import Device

_RANGE = re.compile(r"(\d+)-(\d+)")
_INDEX = re.compile(r"-?\d+")
_LONGEST_RANGE = 4096


def select(
    variable: str, value: str, ids: Sequence[Sequence[str]], *, what: str = "devices"
) -> tuple[int, ...]:
    """Return the positions that `value` names, in its order.

    `ids` holds, per device, the ids by which it may be called. `what` names the devices in
    messages.

    Raises:
        VisibilityError: an entry is a duplicate, out of range, unknown, ambiguous or no entry.
    """
    positions: list[int] = []
    for entry in _entries(variable, value):
        if _INDEX.fullmatch(entry):
            if int(entry) < 0:
                break
            position = _by_index(variable, value, int(entry), len(ids), what)
        else:
            position = _by_id(variable, value, entry, ids, what)
        if position in positions:
            raise VisibilityError(
                f"{variable}={value}: {entry!r} names a device that is already in the list; "
                "each device may stand there once. Remove the duplicate."
            )
        positions.append(position)
    return tuple(positions)


def _entries(variable: str, value: str) -> tuple[str, ...]:
    if not value.strip():
        return ()
    entries: list[str] = []
    for raw in value.split(","):
        entry = raw.strip()
        match = _RANGE.fullmatch(entry)
        if not entry:
            raise VisibilityError(
                f"{variable}={value!r}: an entry is empty. Write indices or ids with one comma "
                "between them."
            )
        if match is None:
            entries.append(entry)
            continue
        first, last = int(match[1]), int(match[2])
        if not first <= last < first + _LONGEST_RANGE:
            raise VisibilityError(
                f"{variable}={value}: the range {entry!r} is not ascending or far too long. "
                "Write it as first-last."
            )
        entries += [str(index) for index in range(first, last + 1)]
    kinds = {bool(_INDEX.fullmatch(entry)) for entry in entries}
    if len(kinds) > 1:
        raise VisibilityError(
            f"{variable}={value}: indices and ids are mixed; runtimes read only the kind of the "
            "first entry. Use one kind."
        )
    return tuple(entries)


def _by_index(variable: str, value: str, index: int, count: int, what: str) -> int:
    if index >= count:
        span = f"0 to {count - 1}" if count else "none"
        raise VisibilityError(
            f"{variable}={value}: there is no index {index}; found {count} {what} (allowed: "
            f"{span}). Correct the variable, or unset it to use all."
        )
    return index


def _by_id(variable: str, value: str, entry: str, ids: Sequence[Sequence[str]], what: str) -> int:
    wanted = entry.lower()
    exact = [i for i, names in enumerate(ids) if any(n.lower() == wanted for n in names)]
    found = exact or [
        i for i, names in enumerate(ids) if any(n.lower().startswith(wanted) for n in names)
    ]
    if len(found) == 1:
        return found[0]
    known = ", ".join(names[0] for names in ids if names) or "none"
    reason = "fits several of" if found else "is none of"
    raise VisibilityError(
        f"{variable}={value}: {entry!r} {reason} the {what} found here ({known}). Correct the "
        "variable, or unset it to use all."
    )


def uses_ids(value: str) -> bool:
    """Whether the list names devices by id; empty and negative lists do not."""
    return bool(value.strip()) and not _INDEX.match(value.strip())


def same_list(left: str, right: str) -> bool:
    """Whether two values name the same entries, in whatever order or spacing."""
    return sorted(e.strip() for e in left.split(",")) == sorted(e.strip() for e in right.split(","))


def agreed(env: Mapping[str, str], variables: Sequence[str]) -> tuple[str, str] | None:
    """Return (variable, value) of the first that is set, when all that are set say the same.

    Raises:
        VisibilityError: two of them differ.
    """
    given = [(name, env[name]) for name in variables if name in env]
    for name, value in given[1:]:
        if not same_list(given[0][1], value):
            first, other = f"{given[0][0]}={given[0][1]}", f"{name}={value}"
            raise VisibilityError(
                f"{first} and {other} contradict each other: both choose devices on the same "
                "level. Unset one of them, or give both the same list."
            )
    return given[0] if given else None


def masked(variable: str, env: Mapping[str, str], devices: Sequence[Device]) -> tuple[Device, ...]:
    """Return the devices that `variable` leaves, called by `key` or by index; all if unset."""
    if variable not in env:
        return tuple(devices)
    chosen = select(variable, env[variable], [(device.key,) for device in devices])
    return tuple(devices[position] for position in chosen)
