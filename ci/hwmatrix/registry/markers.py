"""The names of the markers: which backend a name stands for, and what was meant by a wrong one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from hwmatrix.errors import close_match
from hwmatrix.model import Backend

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

BACKEND_OF = {f"register_{backend}_ci": backend for backend in Backend}
_SHAPE = re.compile(r"register_(\w+)_ci")
# What people call a backend where the field has another word for it.
_SYNONYMS = {
    "ascend": Backend.NPU,
    "cann": Backend.NPU,
    "gpu": Backend.CUDA,
    "hip": Backend.AMD,
    "intel": Backend.XPU,
    "metal": Backend.MLX,
    "mps": Backend.MLX,
    "nvidia": Backend.CUDA,
    "rocm": Backend.AMD,
    "sycl": Backend.XPU,
    "x86": Backend.CPU,
}


def is_marker(name: str) -> bool:
    """Return whether the name has a marker's shape, of a known backend or not."""
    return _SHAPE.fullmatch(name) is not None


def backends_of(name: str) -> frozenset[Backend]:
    """Return the backend that a marker's name concerns; empty (any) for an unknown one."""
    backend = BACKEND_OF.get(name)
    return frozenset() if backend is None else frozenset({backend})


def meant(name: str) -> str:
    """Return `Did you mean 'register_amd_ci'?` for a marker of no known backend."""
    match = _SHAPE.fullmatch(name)
    word = match[1].lower() if match else name
    if word in _SYNONYMS:
        return f"Did you mean 'register_{_SYNONYMS[word]}_ci'?"
    hint = close_match(word, [backend.value for backend in Backend])
    return re.sub(r"'(\w+)'", r"'register_\1_ci'", hint)


class Words(NamedTuple):
    """Names that are read from the syntax tree, and what people are told about their calls.

    `is_marker` tells a marker by its name, `known` are those that nothing else may be called.
    `allowed` and `todo` answer a call that stands where it would have to be run to be known.
    """

    is_marker: Callable[[str], bool]
    known: Collection[str]
    allowed: str
    todo: str


REGISTRATIONS = Words(
    is_marker,
    BACKEND_OF,
    "A registration is read without running the file: it is a statement of its own at module "
    "level, which only if, try and with may enclose.",
    "Write the call out at module level, once per suite.",
)
ASSETS = Words(
    "requires_asset".__eq__,
    ("requires_asset",),
    "An asset is read without running the file: its call is a statement of its own at module "
    "level, or what is assigned there, which only if, try and with may enclose.",
    "Declare it at module level: NAME = requires_asset(...).",
)
