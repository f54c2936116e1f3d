r"""One file's bytes, checked and made ready for the parser.

Test files are UTF-8. A byte order mark is dropped and line ends become `\n`, as Python's own
tokenizer does it, so that line numbers are those that editors show under CRLF too. A form feed
is no line end.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from pathlib import Path
from typing import NamedTuple

from hwmatrix.model import Backend

BOM = b"\xef\xbb\xbf"
# Python turns identifiers into Unicode's NFKC form, so a name may hold bytes beyond ASCII.
MENTION = re.compile(rb"register_[\w\x80-\xff]+_ci")
_DECLARED = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")  # PEP 263
_BLANK = re.compile(rb"[ \t\f]*(?:#.*)?")
_UTF8 = {"utf-8", "utf8", "utf-8-sig", "u8", "ascii", "us-ascii"}  # ASCII is part of UTF-8


class Stamp(NamedTuple):
    """What tells that a file is unchanged; times in ns."""

    mtime_ns: int
    ctime_ns: int
    size: int
    inode: int


class Fault(NamedTuple):
    """Why a file cannot be read: `line` 0 is the whole file."""

    found: str
    todo: str
    rule: str
    line: int = 0


class UnreadableError(Exception):
    """The file cannot be taken as source; `fault` says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.found)
        self.fault = fault


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the stamp of a file's status."""
    return Stamp(status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


def read(path: str) -> bytes:
    """Return the file's bytes as they stand.

    Raises:
        UnreadableError: a dangling link, a loop of links, no permission, not a regular file.
    """
    try:
        # Non-blocking, or opening a FIFO would wait for a writer; no effect on regular files.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UnreadableError(os_fault(path, error)) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnreadableError(NOT_A_FILE)
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            return file.readall()
    except OSError as error:
        raise UnreadableError(os_fault(path, error)) from None
    finally:
        os.close(descriptor)


NOT_A_FILE = Fault(
    "the name is a test file's, but it is neither a file nor a folder (a pipe, socket or device).",
    "Remove it, or rename it.",
    "unreadable",
)


def os_fault(path: str, error: OSError) -> Fault:
    """Return the sentence for a file that the operating system does not hand out."""
    if Path(path).is_symlink():
        target = os.fsencode(Path(path).readlink()).decode("utf-8", "backslashreplace")
        found = f"the link to {target!r} leads nowhere ({error.strerror})."
        return Fault(found, "Point it at a file, or remove it.", "unreadable")
    found = f"it cannot be read ({error.strerror})."
    return Fault(found, "Make it readable, or remove it.", "unreadable")


def prepare(data: bytes) -> bytes:
    r"""Return the source without byte order mark and with `\n` as the only line end.

    Raises:
        UnreadableError: NUL bytes, another declared encoding, or bytes that are not UTF-8.
    """
    text = data.removeprefix(BOM)
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    at = text.find(b"\0")
    if at >= 0:
        found = "the file holds a NUL byte; it is no Python source."
        todo = "Remove the byte: an editor that shows control characters finds it."
        raise UnreadableError(Fault(found, todo, "encoding", line_at(text, at)))
    declared, line = _declared(text)
    if declared and declared not in _UTF8:
        found = f"the file declares the encoding {declared!r}; test files are UTF-8."
        todo = "Save it as UTF-8 and drop the declaration."
        raise UnreadableError(Fault(found, todo, "encoding", line))
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError as error:
            found = f"byte 0x{text[error.start]:02x} is not UTF-8; test files are UTF-8."
            fault = Fault(found, "Save it as UTF-8.", "encoding", line_at(text, error.start))
            raise UnreadableError(fault) from None
    return text


def _declared(text: bytes) -> tuple[str, int]:
    """Return the encoding that one of the first two lines declares, and that line."""
    start = 0
    for number in (1, 2):
        end = text.find(b"\n", start)
        line = text[start:] if end < 0 else text[start:end]
        match = _DECLARED.match(line)
        if match:
            return match[1].decode("ascii", "replace").lower().replace("_", "-"), number
        if end < 0 or not _BLANK.fullmatch(line):
            break
        start = end + 1
    return "", 0


def line_at(text: bytes, offset: int) -> int:
    """Return the number, from 1, of the line that holds `offset`."""
    return text.count(b"\n", 0, offset) + 1


def has_hidden_mention(text: bytes) -> bool:
    """Return whether an identifier spells a marker's name in compatibility characters.

    Python reads `register_amd_ci` with a full-width r as if it were plain; the bytes differ.
    """
    if text.isascii():
        return False
    decoded = text.decode()
    if unicodedata.is_normalized("NFKC", decoded):
        return False
    normal = unicodedata.normalize("NFKC", decoded).encode("utf-8", "replace")
    return len(MENTION.findall(normal)) != len(MENTION.findall(text))


def mentioned(data: bytes) -> frozenset[Backend]:
    """Return the backends whose marker's name stands anywhere in the bytes, code or not."""
    return frozenset(b for b in Backend if f"register_{b}_ci".encode() in data)
