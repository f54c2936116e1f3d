"""Why an installer failed: what its output says, in words that tell what to do."""

from __future__ import annotations

import re
from typing import NamedTuple


class _Fault(NamedTuple):
    """A pattern in the output of pip or uv, and what it means."""

    pattern: str
    todo: str


_FAULTS = (
    _Fault(
        r"ensurepip is not|No module named '?ensurepip|'ensurepip'.*non-zero exit status",
        "this Python has no ensurepip. On Debian and Ubuntu install the package python3-venv "
        "(python3.X-venv for another version), or put uv on PATH",
    ),
    _Fault(
        r"No space left on device|Disk quota exceeded",
        "the disk is full: make room, or move the installer's cache (PIP_CACHE_DIR, UV_CACHE_DIR) "
        "and the environments (HWMATRIX_STATE) to another disk",
    ),
    _Fault(
        r"DO NOT MATCH THE HASHES|[Hh]ash mismatch",
        "a file does not have the hash that was promised: the index serves another file, or a "
        "proxy changed it. Nothing of it was kept",
    ),
    _Fault(
        r"CERTIFICATE_VERIFY_FAILED|invalid peer certificate|SSLError",
        "the index's certificate is not trusted: set PIP_CERT (it is handed on to uv)",
    ),
    _Fault(
        r"Connection refused|NewConnectionError|Name or service|name resolution|Max retries|"
        r"[Tt]imed out|[Tt]imeoutError|error sending request|Could not connect|HTTP Error|"
        r"HTTP status|HTTP error|\b[45]\d\d (Client|Server) Error",
        "the index cannot be reached or does not answer. Check the network, or name a mirror: "
        "HWMATRIX_TORCH_INDEX for torch, PIP_INDEX_URL for the rest",
    ),
    _Fault(
        r"No matching distribution|no version of|No solution found|ResolutionImpossible|"
        r"has no wheels|not found in the (package registry|provided package locations)",
        "no build fits this Python, this machine and the pins: either a package wants another "
        "torch than the table pins, or there is no such wheel for this Python (HWMATRIX_PYTHON "
        "chooses another), or it was withdrawn, or the index is the wrong one",
    ),
    _Fault(
        r"Permission denied|EACCES",
        "no permission to write: check the owner of the environment's folder and of the "
        "installer's cache, or move them (HWMATRIX_STATE; PIP_CACHE_DIR, UV_CACHE_DIR)",
    ),
)
"""The first that fits counts."""


def likely(output: str) -> str:
    """Return what is likely wrong and what to do, empty if the output tells nothing known."""
    return next((fault.todo for fault in _FAULTS if re.search(fault.pattern, output)), "")


def redact(text: str) -> str:
    """Return `text` without the user and password of any address in it."""
    return re.sub(r"(\w+://)[^/\s@]+@", r"\1***@", text)


def withdrawn(output: str) -> str:
    """Return the line in which pip or uv says that it installs a yanked release, else nothing.

    Both install one that is pinned exactly, with no more than that warning (PEP 592).
    """
    lines = (line.strip() for line in output.splitlines())
    return next((line for line in lines if re.search(r"\bis (a )?yanked\b", line)), "")
