"""What a person asked of a session: hwmatrix's own options, paths, and what pytest takes."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from hwmatrix.app import expressions
from hwmatrix.app.shards import shard_of
from hwmatrix.errors import UsageError, close_match

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# Options of pytest and its usual plugins whose value is a word of its own. Any other unknown
# option is taken as a flag, or as `--option=value`.
# fmt: off - one option a line would be forty lines
PYTEST_VALUES = frozenset(
    (
        "-k",
        "-m",
        "-r",
        "-W",
        "-o",
        "-c",
        "-p",
        "--tb",
        "--maxfail",
        "--deselect",
        "--ignore",
        "--ignore-glob",
        "--durations",
        "--durations-min",
        "--verbosity",
        "--capture",
        "--color",
        "--show-capture",
        "--pythonwarnings",
        "--override-ini",
        "--log-level",
        "--log-cli-level",
        "--log-file",
        "--import-mode",
        "--cov",
        "--cov-report",
        "--cov-config",
        "--confcutdir",
        "--basetemp",
        "--pastebin",
        "--assert",
        "--junit-prefix",
    )
)
# fmt: on
# Options that would fight the engine: each with what to use in its place.
OWNED = {
    "-n": "Use --slots N: one worker per slot.",
    "--numprocesses": "Use --slots N: one worker per slot.",
    "--dist": "The plan orders the files; there is nothing to choose.",
    "--tx": "Use --slots N: one worker per slot.",
    "--timeout": "Budgets follow from est_time; change the estimate or the table's budget row.",
    "--timeout-method": "Only the signal method is safe under xdist.",
    "--junitxml": "The run folder holds junit.xml; its path is printed at the end.",
    "--junit-xml": "The run folder holds junit.xml; its path is printed at the end.",
    "--report-log": "The run folder holds journal/*.jsonl in pytest-reportlog's shape.",
    "--pdb": "There is no terminal behind a worker; run `pytest FILE --pdb` in the environment.",
    "--collect-only": "Use --plan to see what would run.",
    "--co": "Use --plan to see what would run.",
    "--rootdir": "The root is the folder that holds ci/matrix.toml.",
    "-f": "Watch mode has no place in a session.",
    "--looponfail": "Watch mode has no place in a session.",
}
# Short options that take no value and may be joined: -xvs.
PYTEST_FLAGS = frozenset("xvqslh")


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionRequest:
    """One session as asked for. `shard` counts from 1; `slots` is None for all that fit.

    `selects` tells that `pytest_args` may pick nothing from a file without that being a fault.
    """

    name: str
    suites: tuple[str, ...] = ()
    shard: int = 1
    shards: int = 1
    plan_only: bool = False
    json: bool = False
    continue_on_error: bool = False
    resume: str = ""
    allow_empty: bool = False
    no_venv: bool = False
    no_fetch: bool = False
    overlay: str = ""
    slots: int | None = None
    paths: tuple[str, ...] = ()
    pytest_args: tuple[str, ...] = ()
    selects: bool = False
    max_failures: int = 0


class _Parser(argparse.ArgumentParser):
    """Raises UsageError where argparse would exit."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"session: {message}. See `python -m hwmatrix session --help`.")


def _shard(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is no shard; write I/N, as in 2/5")
    index, count = int(match[1]), int(match[2])
    if not 1 <= index <= count:
        raise argparse.ArgumentTypeError(f"{text!r}: I runs from 1 to N")
    return index, count


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def parser() -> argparse.ArgumentParser:
    """Return the parser of a session's own options."""
    made = _Parser(
        prog="hwmatrix session",
        description="Plan, set up, check the hardware, run, and tell what happened.",
        epilog="FILE, FILE::TEST and pytest's options (-k, -m, -x, --maxfail, --tb ...) narrow "
        "the session.",
        allow_abbrev=False,
    )
    made.add_argument("name", metavar="NAME", help="a session: see `python -m hwmatrix list`")
    made.add_argument("--suite", action="append", default=[], help="only this suite (repeatable)")
    made.add_argument(
        "--shard",
        type=_shard,
        metavar="I/N",
        help="the I-th of N (else as Slurm ... says)",
    )
    made.add_argument("--plan", action="store_true", help="print the plan and stop")
    made.add_argument("--json", action="store_true", help="JSON on standard output")
    made.add_argument(
        "--continue-on-error",
        action="store_true",
        help="go on after a failure where the tier stops; the verdict stays the same",
    )
    made.add_argument("--allow-empty", action="store_true", help="nothing to do is no failure")
    made.add_argument(
        "--no-venv", action="store_true", help="install nothing: use the torch that is there"
    )
    made.add_argument("--no-fetch", action="store_true", help="take assets as they are here")
    made.add_argument("--overlay", default="", metavar="DIR", help="packages to add (--no-venv)")
    made.add_argument(
        "--resume", default="", metavar="RUN", help="go on with a run that was cut short"
    )
    made.add_argument("--slots", type=_positive, metavar="N", help="fewer slots than would fit")
    return made


def parse(
    arguments: Sequence[str],
    *,
    exists: Callable[[str], bool],
    env: Mapping[str, str] | None = None,
) -> SessionRequest:
    """Return the request that `arguments` spell; `exists` tells whether a path is there.

    `env` may say which shard this is: see `shards.py`.

    Raises:
        UsageError: an option is unknown, contradicts another, or belongs to the engine.
    """
    known, rest = parser().parse_known_args([word for word in arguments if word != "--"])
    paths, pytest_args = _sort_rest(rest, exists)
    expressions.check(pytest_args)
    max_failures = _max_failures(pytest_args)
    if max_failures and known.continue_on_error:
        raise UsageError("--continue-on-error contradicts -x/--maxfail; give one of them.")
    if known.resume and (known.suite or known.plan or rest or known.continue_on_error):
        raise UsageError(
            "--resume takes its plan, selection and options from the earlier run; give it alone "
            "(--slots, --no-venv, --overlay, --no-fetch and --json may stand beside it)."
        )
    if known.overlay and not known.no_venv:
        raise UsageError("--overlay belongs to --no-venv: an environment of its own needs none.")
    shard, shards = shard_of(known.shard, env or {})
    return SessionRequest(
        name=known.name,
        suites=tuple(known.suite),
        shard=shard,
        shards=shards,
        plan_only=known.plan,
        json=known.json,
        continue_on_error=known.continue_on_error,
        resume=known.resume,
        allow_empty=known.allow_empty,
        no_venv=known.no_venv,
        no_fetch=known.no_fetch,
        overlay=known.overlay,
        slots=known.slots,
        paths=tuple(paths),
        pytest_args=tuple(pytest_args),
        selects=any(_selects(arg) for arg in pytest_args) or any("::" in p for p in paths),
        max_failures=max_failures,
    )


def _sort_rest(rest: Sequence[str], exists: Callable[[str], bool]) -> tuple[list[str], list[str]]:
    paths: list[str] = []
    pytest_args: list[str] = []
    words = iter(rest)
    for word in words:
        if not word.startswith("-"):
            paths.append(word)
            continue
        _refuse_owned(word)
        pytest_args.append(word)
        if word in PYTEST_VALUES:
            value = next(words, None)
            if value is None:
                raise UsageError(f"{word} needs a value.")
            pytest_args.append(value)
    missing = [path for path in paths if not exists(path.partition("::")[0])]
    if missing:
        raise UsageError(
            f"no such file or folder: {', '.join(missing)}. Paths count from the project's root "
            "or from here; give an option's value as --option=value."
        )
    return paths, pytest_args


def _refuse_owned(word: str) -> None:
    name = word.partition("=")[0]
    short = word[:2] if not word.startswith("--") else name
    for option in (name, short):
        if option in OWNED and not (option == short and set(word[1:]) <= PYTEST_FLAGS):
            raise UsageError(f"{option} cannot be given to a session. {OWNED[option]}")
    own = [s for action in parser()._actions for s in action.option_strings]  # noqa: SLF001 - argparse offers no public list
    if (
        name.startswith("--")
        and name not in PYTEST_VALUES
        and (hint := close_match(name, own, cutoff=0.8))
    ):
        raise UsageError(f"unknown option {name}. {hint} Options: {', '.join(sorted(own))}.")


def _max_failures(pytest_args: Sequence[str]) -> int:
    limit = 0
    for index, word in enumerate(pytest_args):
        if word == "--exitfirst" or (_joined(word) and "x" in word):
            limit = 1
        elif word == "--maxfail" or word.startswith("--maxfail="):
            value = word.partition("=")[2] if "=" in word else pytest_args[index + 1]
            limit = _failures(value)
    return limit


def _failures(text: str) -> int:
    try:
        count = int(text)
    except ValueError:
        raise UsageError(f"--maxfail {text!r} is not a whole number.") from None
    if count < 1:
        raise UsageError(
            f"--maxfail {count} is not allowed; 1 or more. --continue-on-error runs all."
        )
    return count


def _joined(word: str) -> bool:
    return word[:1] == "-" and word[1:2] not in {"", "-"} and set(word[1:]) <= PYTEST_FLAGS


def _selects(word: str) -> bool:
    return word.startswith(("-k", "-m", "--deselect", "--sw")) and not (
        word.startswith("--maxfail")
    )
