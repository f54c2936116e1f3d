"""pytest's `longrepr`, in each of the shapes that reportlog writes it, as text.

A failure is a dict (`reprcrash`, `reprtraceback`, `chain`), a skip is `[path, line, reason]`, a
failed import or `--tb=line` is plain text.
"""

from __future__ import annotations

from hwmatrix.reporting.ledger import count, text
from hwmatrix.reporting.said import plain_exit

# Enough for the traceback that explains a failure.
DETAIL_LIMIT = 24_000
REASON_LIMIT = 300


def shorten(long: str, limit: int) -> str:
    """Return `long`, its middle left out where it has more than `limit` characters."""
    if len(long) <= limit:
        return long
    head = limit // 3
    tail = limit - head
    return f"{long[:head]}\n[... {len(long) - limit} characters left out ...]\n{long[-tail:]}"


def detail(longrepr: object) -> str:
    """Return the whole text of a failure, bounded."""
    if isinstance(longrepr, str):
        found = longrepr
    elif isinstance(longrepr, list):
        found = text(longrepr[-1]) if longrepr else ""
    elif isinstance(longrepr, dict):
        found = "\n\n".join(_chain(longrepr))
    else:
        found = ""
    return shorten(found, DETAIL_LIMIT)


def reason(longrepr: object) -> str:
    """Return one line: the message of the exception, or the reason of the skip."""
    if isinstance(longrepr, dict):
        crash = longrepr.get("reprcrash")
        message = text(crash.get("message")) if isinstance(crash, dict) else ""
        found = _first_line(message) or _error_line(detail(longrepr))
    elif isinstance(longrepr, list):
        found = _first_line(text(longrepr[-1]) if longrepr else "")
        found = found.removeprefix("Skipped: ")
    else:
        found = _error_line(text(longrepr))
    found = plain_exit(found)
    return found if len(found) <= REASON_LIMIT else found[: REASON_LIMIT - 3] + "..."


def place(longrepr: object) -> str:
    """Return `path:line` of a failure in a test, as pytest gives it, else ''."""
    crash = longrepr.get("reprcrash") if isinstance(longrepr, dict) else None
    if not isinstance(crash, dict) or not text(crash.get("path")):
        return ""
    return f"{text(crash.get('path'))}:{count(crash.get('lineno'))}"


def _first_line(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[0] if lines else ""


def _error_line(long: str) -> str:
    """Return the last line that pytest marks with `E`, else the last line that is not blank."""
    lines = [line.rstrip() for line in long.splitlines() if line.strip()]
    errors = [line[2:].strip() for line in lines if line.startswith("E ")]
    return (errors or lines or [""])[-1].strip()


def _chain(longrepr: dict[str, object]) -> list[str]:
    chain = longrepr.get("chain")
    links = chain if isinstance(chain, list) and chain else [[longrepr.get("reprtraceback")]]
    found = []
    for link in links:
        if not isinstance(link, list) or not link:
            continue
        found.append("\n".join(_traceback(link[0])))
        if text(link[-1]):
            found.append(text(link[-1]))
    return [part for part in found if part]


def _traceback(traceback: object) -> list[str]:
    if not isinstance(traceback, dict):
        return []
    entries = traceback.get("reprentries")
    lines: list[str] = []
    for entry in entries if isinstance(entries, list) else []:
        data = entry.get("data") if isinstance(entry, dict) else None
        if not isinstance(data, dict):
            continue
        body = data.get("lines")
        lines += [text(line) for line in body] if isinstance(body, list) else []
        place = data.get("reprfileloc")
        if isinstance(place, dict):
            where = f"{text(place.get('path'))}:{count(place.get('lineno'))}"
            lines += ["", f"{where}: {text(place.get('message'))}", ""]
    return lines
