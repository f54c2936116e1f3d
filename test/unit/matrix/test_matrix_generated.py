"""What is made from the model stands in the repository as it would be made now."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema  # type: ignore[import-untyped]  # its stubs are a package of their own
import pytest

from hwmatrix.matrix import load, sessions
from hwmatrix.matrix.__main__ import main
from hwmatrix.matrix.canonical import canonical
from hwmatrix.matrix.reference import reference, update
from hwmatrix.matrix.schema import schema, schema_text
from hwmatrix.matrix.spec import Rows, Table
from hwmatrix.matrix.table import TABLE

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hwmatrix.matrix.spec import Spec

ROOT = Path(__file__).resolve().parents[3]
TOML = ROOT / "ci" / "matrix.toml"
AGAIN = "run `python -m hwmatrix.matrix {}` and commit what it prints"


def keys_of(spec: Spec) -> Iterator[str]:
    if isinstance(spec, Rows):
        yield from keys_of(spec.value)
    if isinstance(spec, Table):
        for key, field in spec.fields.items():
            yield key
            yield from keys_of(field.spec)


def test_the_schema_is_the_one_committed() -> None:
    committed = (ROOT / "ci" / "matrix.schema.json").read_text(encoding="utf-8")
    assert committed == schema_text(), AGAIN.format("schema")


def test_the_reference_is_the_one_committed() -> None:
    committed = (ROOT / "docs" / "table.md").read_text(encoding="utf-8")
    assert committed == update(committed), AGAIN.format("reference")


def test_the_reference_has_every_key() -> None:
    text = reference()
    missing = [key for key in keys_of(TABLE) if f"| `{key}` |" not in text]
    assert missing == []


def test_the_schema_is_a_schema_and_the_table_fits_it() -> None:
    jsonschema.Draft7Validator.check_schema(schema())
    jsonschema.validate(tomllib.loads(TOML.read_text(encoding="utf-8")), schema())


# Faults that the schema must see as the checks do, so that an editor marks them.
FAULTS = {
    "unknown key": ("[tier.stage-b]", "[tier.stage-b]\nx = 1", "'x' was unexpected"),
    "unknown backend": ("[backend.cpu]", "[backend.rocm]\n[backend.cpu]", "'rocm' is not one of"),
    "bad name": ("[tier.stage-b]", "[tier.stage-b]\n[tier.'a b']", "'a b' does not match"),
    "type": ("version = 1", "version = '1'", "is not of type 'integer'"),
    "range": ("factor = 2", "factor = 0.5", "less than the minimum"),
    "zero": ("max_job_minutes = 30", "max_job_minutes = 0", "less than or equal to the minimum"),
    "missing": ("devices = 1\nmax_job_minutes = 30", "max_job_minutes = 3", "'devices' is a req"),
    "twice": ('["gfx942"]', '["a", "a"]', "non-unique"),
    "shell": ('A = "backend"', 'A = "`id`"', "does not match"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_schema_sees_faults(name: str, spoil: Callable[[str, str], str]) -> None:
    old, new, message = FAULTS[name]
    with pytest.raises(jsonschema.ValidationError, match=message):
        jsonschema.validate(tomllib.loads(spoil(old, new)), schema())


def test_the_good_table_fits_the_schema(good: str) -> None:
    jsonschema.validate(tomllib.loads(good), schema())


def test_the_repositorys_table_is_in_order() -> None:
    text = TOML.read_text(encoding="utf-8")
    assert text.startswith("#:schema matrix.schema.json\n")
    assert [str(problem) for problem in canonical(text, load(TOML))] == []


def test_the_repositorys_sessions_are_there() -> None:
    names = {session.name for session in sessions(load(TOML))}
    wanted = [
        "cpu-stage-b",
        "cpu-stage-c",
        "cuda-stage-b",
        "cuda-stage-c",
        "cuda-extra-a",
        "amd-stage-b",
    ]
    wanted += ["amd-stage-c", "amd-extra-a", "amd-extra-a-rocm-7.1", "amd-extra-a-rocm-7.0"]
    assert set(wanted) - names == set()


def test_the_command_prints_what_is_committed(capsys: pytest.CaptureFixture[str]) -> None:
    out = io.StringIO()
    assert main(["schema"], out) == 0
    assert json.loads(out.getvalue()) == schema()
    out = io.StringIO()
    assert main(["reference", str(ROOT / "docs" / "table.md")], out) == 0
    assert "| `max_job_minutes` |" in out.getvalue()
    assert capsys.readouterr().out == ""


def test_the_command_checks_a_table(tmp_path: Path, good: str) -> None:
    path = tmp_path / "ci" / "matrix.toml"
    path.parent.mkdir()
    for text, status, message in (
        (good, 0, ""),
        (good.replace("version = 1", "version=1"), 1, "ci/matrix.toml:1: version is not written"),
        (good.replace("version = 1", "version=2"), 4, "ci/matrix.toml:1: version is 2."),
    ):
        path.write_text(text, encoding="utf-8")
        out = io.StringIO()
        assert main(["check", str(path)], out) == status
        assert out.getvalue().startswith(message)


@pytest.mark.parametrize("arguments", [[], ["schema", "x"], ["what"]])
def test_the_command_tells_how_to_use_it(arguments: list[str]) -> None:
    out = io.StringIO()
    assert main(arguments, out) == 2
    assert out.getvalue().startswith("usage: ")
