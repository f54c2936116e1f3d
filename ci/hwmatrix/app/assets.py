"""`nox -s assets -- SESSION`, and what a session does about its assets before it takes devices."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from hwmatrix import assets as stage
from hwmatrix import environments, reporting
from hwmatrix.assets.fetching import OFFLINE
from hwmatrix.assets.hub import shown
from hwmatrix.errors import AssetError, EnvironmentBuildError, RegistrationError, UsageError
from hwmatrix.journal import Journal
from hwmatrix.redact import redactor
from hwmatrix.registry.assets import declared

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from hwmatrix.app.place import Place
    from hwmatrix.app.session import Prepared
    from hwmatrix.assets.finding import Found
    from hwmatrix.model import Declared, Environment, Unit


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """The assets that units declare, by unit; `units` counts all, those without assets too."""

    by_unit: Mapping[str, tuple[Declared, ...]]
    units: int

    @property
    def all(self) -> tuple[Declared, ...]:
        """Every asset once, in the order of the plan."""
        found: dict[str, Declared] = {}
        for items in self.by_unit.values():
            for item in items:
                found.setdefault(item.asset.key + item.asset.folder, item)
        return tuple(found.values())

    def without(self, missing: Mapping[str, str]) -> dict[str, str]:
        """Return the units that need a missing asset (by name), each with the reason."""
        return {
            unit: "; ".join(f"infrastructure: {missing[name]}" for name in names)
            for unit, items in self.by_unit.items()
            if (names := [i.asset.name for i in items if i.asset.name in missing])
        }


def needs_of(prepared: Prepared, units: Sequence[Unit], place: Place) -> Needs:
    """Return what the files of `units` declare.

    Raises:
        RegistrationError: a declaration of theirs cannot be read.
    """
    files = [file for unit in units for file in unit.files]
    found = declared(place.root, prepared.matrix.roots, files)
    if found.problems:
        raise RegistrationError(
            found.problems, intro=f"{prepared.session.name}: nothing was fetched or run."
        )
    by_unit = {}
    for unit in units:
        items = dict.fromkeys(i for file in unit.files for i in found.by_file.get(file, ()))
        if items:
            by_unit[unit.id] = tuple(items)
    return Needs(by_unit=by_unit, units=len(units))


def provide(needs: Needs, environment: Environment, place: Place, *, fetch: bool) -> dict[str, str]:
    """Return the units that cannot run, each with its reason; all other assets are here now.

    What the environment under test has installed counts as here. `fetch` false, or
    HF_HUB_OFFLINE=1, fetches nothing.

    Raises:
        AssetError: no unit at all is left that could run.
    """
    if not needs.by_unit:
        return {}
    wanted = [item for item in needs.all if stage.wanted(item.asset, place.env)]
    by = _fetcher(place, _installed(wanted, environment, place), (environment.python,))
    missing: dict[str, str] = {}
    for item in wanted:
        reason = _provide_one(item, by, fetch=fetch)
        if reason:
            missing[item.asset.name] = reason
            place.say(f"infrastructure: {reason}")
    withheld = needs.without(missing)
    if withheld and len(withheld) == needs.units:
        raise AssetError(
            "infrastructure: every file needs an asset that is not here. Nothing was run.\n"
            + "\n".join(missing.values())
        )
    return withheld


def _provide_one(item: Declared, by: stage.Fetcher, *, fetch: bool) -> str:
    """Return why an asset is not on this machine, '' once it is."""
    try:
        if fetch:
            stage.fetch(item.asset, by)
        else:
            stage.find(item.asset, by.env, by.installed)
    except AssetError as error:
        return f"{error} (declared in {item.path}:{item.line})"
    return ""


def withhold(folder: Path, units: Mapping[str, str], place: Place) -> None:
    """Put into the run's journal that `units` are not run, and why.

    Raises:
        OSError: it cannot be written.
    """
    if not units:
        return
    journal = Journal(folder, "assets", redact=redactor(place.env))
    for unit, reason in units.items():
        journal.write("UnitNotRun", unit=unit, reason=reason)
    journal.close()


def status(folder: Path, status: int, withheld: Mapping[str, str], place: Place) -> int:
    """Return AssetError's code where nothing is red but the units that lack an asset."""
    if status != 1 or not withheld:
        return status
    report = reporting.build(folder, secrets=redactor(place.env))
    red = {unit.unit.id for unit in report.units if unit.is_red}
    only = red == set(withheld) and len(report.verdict.reasons) == len(red)
    return AssetError.exit_code if only else status


def offline_env(needs: Needs, environment: Environment, place: Place) -> dict[str, str]:
    """Return the environment's variables, and HF_HUB_OFFLINE=1 where assets were declared.

    What the caller's environment says of it stands.
    """
    more = {OFFLINE: "1"} if needs.by_unit and not place.env.get(OFFLINE) else {}
    return {**environment.env, **more}


def _installed(
    wanted: Sequence[Declared], environment: Environment, place: Place
) -> Callable[[str], tuple[str, Path] | None]:
    names = [item.asset.package.partition("==")[0] for item in wanted if item.asset.package]
    env = {**place.env, **environment.env}
    return environments.installed(environment.python, names, env).get


def _fetcher(
    place: Place,
    installed: Callable[[str], tuple[str, Path] | None],
    pythons: Sequence[str] = (),
) -> stage.Fetcher:
    def wheel(requirement: str, folder: Path) -> Path:
        try:
            return environments.download(
                requirement, folder, env=place.env, say=place.say, pythons=pythons
            )
        except EnvironmentBuildError as error:
            raise AssetError(f"asset {requirement.partition('==')[0]}: {error}") from error

    return stage.Fetcher(env=place.env, wheel=wheel, say=place.say, installed=installed)


# ------------------------------------------------------------------ the command


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(
            f"assets: {message}. Usage: assets SESSION [PATH ...]; sessions are listed by "
            "`python -m hwmatrix list`, options by `python -m hwmatrix assets --help`."
        )


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's options."""
    made = _Parser(
        prog="hwmatrix assets",
        description="Fetch what the files of a session declare with requires_asset().",
        allow_abbrev=False,
    )
    made.add_argument("name", metavar="SESSION", help="a session: see `python -m hwmatrix list`")
    made.add_argument("paths", nargs="*", metavar="PATH", help="only these files or folders")
    made.add_argument("--suite", action="append", default=[], help="only this suite (repeatable)")
    made.add_argument("--optional", action="store_true", help="fetch the optional ones too")
    made.add_argument("--list", action="store_true", help="tell what is declared; fetch nothing")
    made.add_argument("--json", action="store_true", help="JSON on standard output")
    return made


def run(arguments: Sequence[str], place: Place) -> int:
    """Return 0 where every asset asked for is on this machine at the end, else AssetError's code.

    `--list` fetches nothing and returns 0. Every asset is tried, whatever became of the others.

    Raises:
        HwMatrixError: the session, its plan or a declaration is wrong.
    """
    from hwmatrix.app import request, session

    options = parser().parse_args([word for word in arguments if word != "--"])
    words = [options.name, *options.paths]
    for suite in options.suite:
        words += ["--suite", suite]
    asked = request.parse(
        [*words, "--allow-empty"],
        exists=lambda name: any((base / name).exists() for base in (place.root, place.cwd)),
    )
    prepared = session.prepare(asked, place)
    needs = needs_of(prepared, prepared.plan.units, place)
    by = _fetcher(place, lambda _: None)
    failed = [] if options.list else _fetch_all(needs, by, optional=options.optional)
    rows = [_row(item, needs, stage.look(item.asset, place.env)) for item in needs.all]
    if options.json:
        place.out.write(json.dumps(rows, indent=2) + "\n")
    else:
        place.out.write(_table(rows) or f"{options.name}: its files declare no asset.\n")
    place.out.flush()
    for message in failed:
        place.say(f"infrastructure: {message}")
    return AssetError.exit_code if failed else 0


def _fetch_all(needs: Needs, by: stage.Fetcher, *, optional: bool) -> list[str]:
    asked = [
        item
        for item in needs.all
        if stage.wanted(item.asset, by.env)
        or (optional and not stage.look(item.asset, by.env).open)
    ]
    reasons = [_provide_one(item, by, fetch=True) for item in asked]
    return [reason for reason in reasons if reason]


def _row(item: Declared, needs: Needs, seen: Found) -> dict[str, object]:
    size = stage.size_of(seen.folder) if seen.folder else None
    state = "present" if seen.folder else "not named here" if seen.open else "missing"
    return {
        "name": item.asset.name,
        "source": seen.asset.source,
        "state": state,
        "optional": item.asset.optional,
        "bytes": size,
        "folder": str(seen.folder) if seen.folder else "",
        "reason": seen.reason,
        "declared": f"{item.path}:{item.line}",
        "files": sum(item in items for items in needs.by_unit.values()),
    }


def _table(rows: Sequence[Mapping[str, object]]) -> str:
    cells = [
        (
            str(row["name"]),
            f"{row['state']}{', optional' if row['optional'] else ''}",
            shown(size) if isinstance(size := row["bytes"], int) else "-",
            f"{row['files']} file{'' if row['files'] == 1 else 's'}",
            str(row["declared"]),
            str(row["source"]),
        )
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)] if cells else []
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in cells)
    return "".join(f"{line.rstrip()}\n" for line in lines)
