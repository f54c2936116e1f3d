"""What pytest itself said at its end, from the last output of its process."""

from __future__ import annotations

import re

_LONGEST = 300
_EXIT = "_pytest.outcomes.Exit:"
_INTERRUPT = "KeyboardInterrupt"
# pytest's closing line ("=== 1 passed in 2.80s ===", bare under -q) and argparse's usage tell no
# cause.
_BANNER = re.compile(r"=+ .* =+$|(no tests ran|\d+ [a-z]+\b.*) in [\d.]+s\b")
_BANGS = re.compile(r"!{3,}\s*(.*?)\s*!{3,}$")
_REFUSED = re.compile(r"(?:ERROR: (?!usage:)|.*?: error: )(.+)$")
_LEAD = re.compile(r"(ERROR: )?usage: |(inifile|rootdir): |\(to show a full traceback ")


def plain_exit(words: str) -> str:
    """Return `words` with the name of pytest's own exception as people call it."""
    found = words.strip()
    return f"pytest.exit: {found[len(_EXIT) :].strip()}" if found.startswith(_EXIT) else words


def ended_by(tail: str, test: str = "") -> str:
    """Return who ended pytest in the middle: a KeyboardInterrupt, or `pytest.exit`; '' if neither.

    `test` is the name of the test that ran, '' between tests.
    """
    where = f" in {test}" if test else ""
    for words in reversed(_banged(tail)):
        if words.startswith(_EXIT):
            why = words[len(_EXIT) :].strip()
            return f"pytest.exit was called{where}{f': {why}' if why else ''}"
        if words.startswith(_INTERRUPT):
            return f"{_INTERRUPT}{where}"
    return ""


def cause(tail: str, *, refused: bool = False) -> str:
    """Return the line of `tail` that says most of why pytest ended; '' if there is none.

    Where it `refused` its arguments, what it calls an error comes first (elsewhere such a line may
    be a test's own), then what it sets between exclamation marks, then the last line that is no
    banner.
    """
    lines = _lines(tail)
    errors = [match[1] for line in lines if refused and (match := _REFUSED.match(line))]
    other = [line for line in lines if not _BANNER.match(line) and not _LEAD.match(line)]
    found = (errors[-1:] or _banged(tail)[-1:] or other[-1:] or [""])[0]
    return found[:_LONGEST]


def last_line(tail: str) -> str:
    """Return the last line that is not blank, of at most 200 characters."""
    return (_lines(tail) or [""])[-1][:200]


def _lines(tail: str) -> list[str]:
    return [line.strip() for line in tail.splitlines() if line.strip()]


def _banged(tail: str) -> list[str]:
    return [match[1] for line in _lines(tail) if (match := _BANGS.match(line))]
