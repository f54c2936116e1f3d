"""Secrets out of text: values of variables with a telling name, and well-known token shapes.

The writer of the journal, the report and everything that prints use the same function, so a value
that a test printed by mistake reaches no file and no screen. Standard library only.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MASK = "***"

# Whole words between underscores for the short ones: `KEY` must not hit `KEYBOARD` or `MONKEY`,
# `AUTH` not `AUTHOR`. `TOKENIZERS_PARALLELISM` is everywhere near torch and is no secret.
_NAME = re.compile(
    r"TOKEN(?!IZ)|SECRET|PASSW|PASSPHRASE|CREDENTIAL|APIKEY|(?:^|_)(?:KEYS?|PASS|PAT|AUTH)(?:_|$)",
    re.IGNORECASE,
)
# A mask over shorter values would black out ordinary words and numbers of the report.
_SHORTEST = 6
_REPEATED = 200
_HARMLESS = frozenset({"enabled", "disabled", "default", "unknown"})

# (text that must be there, what to mask): the plain `in` is far faster than any of the patterns.
_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("ghp_", re.compile(r"ghp_[A-Za-z0-9]{20,}")),
    ("ghs_", re.compile(r"ghs_[A-Za-z0-9]{20,}")),
    ("github_pat_", re.compile(r"github_pat_\w{20,}")),
    ("glpat-", re.compile(r"glpat-[\w-]{16,}")),
    ("hf_", re.compile(r"\bhf_[A-Za-z0-9]{24,}")),
    ("sk-", re.compile(r"\bsk-[\w-]{24,}")),
    ("AKIA", re.compile(r"\bAKIA[0-9A-Z]{16}\b")),
    ("xox", re.compile(r"\bxox[abprs]-[\w-]{10,}")),
    ("eyJ", re.compile(r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}")),
    (
        "PRIVATE KEY-----",
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*KEY-----|\Z)", re.DOTALL
        ),
    ),
    ("://", re.compile(r"(?<=://)[^\s/@:'\"]*:[^\s/@'\"]+(?=@)")),
)


def is_secret_name(name: str) -> bool:
    """Return whether a variable called `name` is likely to hold a secret."""
    return bool(_NAME.search(name))


def redactor(env: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that puts `***` in place of every secret of `env` and of known shapes.

    A value counts from six characters on; each line of a value with several lines counts too, and
    so do its forms inside JSON and URLs. Longer values go first, so that no rest of one stays.
    """
    found: set[str] = set()
    for name, value in env.items():
        if is_secret_name(name):
            found.update(_forms(value))
    ordered = sorted(found, key=lambda text: (-len(text), text))

    def search(text: str) -> str:
        for secret in ordered:
            if secret in text:
                text = text.replace(secret, MASK)
        for hint, shape in _SHAPES:
            if hint in text:
                text = shape.sub(MASK, text)
        return text

    # A journal says the same short things over and over: keys, outcomes, paths, test ids.
    known = lru_cache(maxsize=4096)(search)

    def redact(text: str) -> str:
        return known(text) if len(text) <= _REPEATED else search(text)

    return redact


def redact_plain(value: object, redact: Callable[[str], str]) -> object:
    """Return `value` (dicts, lists, scalars) with every text in it redacted, keys included."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {redact(str(key)): redact_plain(item, redact) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [redact_plain(item, redact) for item in value]
    return value


def _forms(value: str) -> set[str]:
    whole = {value, *value.splitlines()}
    kept = {text.strip() for text in whole}
    kept = {t for t in kept if len(t) >= _SHORTEST and t.lower() not in _HARMLESS}
    quoted = {quote(text, safe="") for text in kept}
    return kept | quoted | {json.dumps(text)[1:-1] for text in kept}
