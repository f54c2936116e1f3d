from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from hwmatrix.registry.assets import AssetScan, declared

if TYPE_CHECKING:
    from pathlib import Path

REVISION = "0123456789abcdef0123456789abcdef01234567"
IMPORT = "from hwmatrix.kit import requires_asset\n"


def scan(root: Path, files: dict[str, str], *asked: str) -> AssetScan:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return declared(root, ["t"], asked or None)


def names(found: AssetScan) -> dict[str, list[str]]:
    return {path: [item.asset.name for item in items] for path, items in found.by_file.items()}


@pytest.mark.parametrize(
    "call",
    [
        f"{IMPORT}A = requires_asset('m', folder='/x')",
        f"{IMPORT}A: object = requires_asset('m', folder='/x')",
        f"{IMPORT}requires_asset(name='m', folder='/x')",
        f"{IMPORT}A, B = requires_asset('m', folder='/x'), 1",
        "from hwmatrix import kit\nA = kit.requires_asset('m', folder='/x')",
        "import hwmatrix.kit as k\nA = k.requires_asset('m', folder='/x')",
        "from hwmatrix.kit import requires_asset as need\nA = need('m', folder='/x')",
        f"try:\n    {IMPORT}    A = requires_asset('m', folder='/x')\nexcept OSError:\n    pass",
        f"{IMPORT}if True:\n    A = requires_asset('m', folder='/x')",
    ],
)
def test_forms_that_are_read(tmp_path: Path, call: str) -> None:
    found = scan(tmp_path, {"t/test_a.py": call})
    assert names(found) == {"t/test_a.py": ["m"]}
    assert not found.problems


def test_every_argument_is_read(tmp_path: Path) -> None:
    text = f"""
        from hwmatrix.kit import requires_asset
        A = requires_asset("m", hub="o/n", revision="{REVISION}", kind="datasets",
                           files=["a", "b"], sha256={{"a": "{"0" * 64}"}}, optional=True)
        B = requires_asset("p", package="x==1", sha256="{"1" * 64}")
    """
    found = scan(tmp_path, {"t/test_a.py": text})
    first, second = (item.asset for item in found.by_file["t/test_a.py"])
    assert (first.hub, first.revision, first.kind) == ("o/n", REVISION, "datasets")
    assert (first.files, first.optional) == (("a", "b"), True)
    assert first.sha256 == (("a", "0" * 64),)
    assert (second.package, second.sha256) == ("x==1", (("", "1" * 64),))
    assert [item.line for item in found.by_file["t/test_a.py"]] == [3, 5]


BAD = [
    ("requires_asset(NAME, folder='/x')", "name=NAME, a name. name is a literal string."),
    ("requires_asset(f'm{1}', folder='/x')", "an f-string"),
    ("requires_asset('m', folder='/x' + 'y')", "an arithmetic expression"),
    ("requires_asset('m', package=None)", "nothing at all"),
    ("requires_asset('m', hub='a/b', revision='main', files=('x',))", "revision='main'; allowed"),
    (
        f"requires_asset('m', hub='a/b', revision='{REVISION}', files='x')",
        "files is a tuple of literal strings",
    ),
    (
        f"requires_asset('m', hub='a/b', revision='{REVISION}', files=('x', y))",
        "y is a name. files is a tuple",
    ),
    (
        f"requires_asset('m', hub='a/b', revision='{REVISION}', files=('../x',))",
        "leads out of its folder",
    ),
    ("requires_asset('m')", "needs one of package=, hub= and folder="),
    ("requires_asset('m', folder='/x', package='a==1')", "needs one of"),
    ("requires_asset(folder='/x')", "has no name"),
    ("requires_asset('m', '/x')", "two positional arguments. Only the name is positional."),
    ("requires_asset(*a)", "star arguments (*a)"),
    ("requires_asset('m', **a)", "star arguments (**a)"),
    ("requires_asset('m', floder='/x')", "unknown argument 'floder'. Arguments: name"),
    ("requires_asset('m', name='n', folder='/x')", "has name twice"),
    ("requires_asset('m', folder='')", "has an empty folder"),
    ("requires_asset('m', folder='/x', optional='no')", "optional is True or False"),
    ("requires_asset('m', package='a==1', sha256=1)", "sha256 is a literal string, or a dict"),
    ("requires_asset('m', package='a==1', sha256={'': h})", "sha256 is a literal string, or a"),
    ("def f():\n    requires_asset('m', folder='/x')", "stands in the function 'f'. An asset is"),
    ("for i in ():\n    requires_asset('m', folder='/x')", "stands in a for loop"),
    ("X = requires_asset('m', folder='/x').path()", "stands in another call"),
    ("X = {1: requires_asset('m', folder='/x')}", "stands in a dict"),
    ("need = requires_asset", "named without being called"),
    ("def requires_asset():\n    pass", "gets another meaning here: the function"),
    ("import x\ngetattr(x, 'requires_asset')('m')", "looked up by getattr()"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=range(len(BAD)))
def test_forms_that_are_refused(tmp_path: Path, call: str, message: str) -> None:
    found = scan(tmp_path, {"t/test_a.py": f"# one\n{IMPORT}{call}\n"})
    assert not found.by_file
    assert message.replace("()", "") in str(found.problems[0]).replace("()", "")
    line = 4 if call.startswith(("def f", "for", "import")) else 3
    assert found.problems[0].where == f"t/test_a.py:{line}"
    assert found.problems[0].rule == "asset"


HELPER = f"{IMPORT}M = requires_asset('helped', folder='/x')\n"


@pytest.mark.parametrize(
    ("importing", "helper"),
    [
        ("import helper", "t/helper.py"),
        ("import helper as h", "t/sub/helper.py"),
        ("from helper import M", "t/helper.py"),
        ("def test_a():\n    from helper import M", "t/helper.py"),
        ("from . import helper", "t/sub/helper.py"),
        ("from .helper import M", "t/sub/helper.py"),
        ("from ..helper import M", "t/helper.py"),
        ("import pack.helper", "t/pack/helper.py"),
        ("from pack import helper", "t/pack/helper.py"),
        ("from pack import M", "t/pack/__init__.py"),
        ("import pack.other", "t/pack/__init__.py"),
        ("from t import helper", "t/helper.py"),
        ("import t.sub.helper", "t/sub/helper.py"),
        ("pass", "t/conftest.py"),
        ("pass", "t/sub/conftest.py"),
        ("import middle", "t/helper.py"),
    ],
)
def test_helpers_are_followed(tmp_path: Path, importing: str, helper: str) -> None:
    files = {
        "t/sub/test_a.py": importing,
        "t/other/test_b.py": "def test_b(): pass",
        helper: HELPER,
        "t/middle.py": "import helper",
    }
    found = scan(tmp_path, files, "t/sub/test_a.py", "t/other/test_b.py")
    expected = {"t/sub/test_a.py": ["helped"]}
    if helper == "t/conftest.py":
        expected["t/other/test_b.py"] = ["helped"]
    assert names(found) == expected
    (item,) = found.by_file["t/sub/test_a.py"]
    assert (item.path, item.line) == (helper, 2)


def test_what_is_not_imported_is_not_followed(tmp_path: Path) -> None:
    files = {
        "t/test_a.py": "# helper is only named here\nfrom elsewhere.helper import x\nimport json\n",
        "t/helper.py": HELPER,
        "outside.py": HELPER,
        "t/test_b.py": "import outside",
    }
    assert not scan(tmp_path, files, "t/test_a.py", "t/test_b.py").by_file


def test_circles_and_shared_helpers_declare_once(tmp_path: Path) -> None:
    files = {
        "t/test_a.py": f"{IMPORT}import one, two\nM = requires_asset('helped', folder='/x')",
        "t/one.py": "import two\n" + HELPER,
        "t/two.py": "import one\n" + HELPER,
    }
    assert names(scan(tmp_path, files, "t/test_a.py")) == {"t/test_a.py": ["helped"]}


def test_problems_of_a_helper_are_those_of_its_users(tmp_path: Path) -> None:
    files = {
        "t/test_a.py": "import helper",
        "t/test_b.py": "pass",
        "t/helper.py": f"{IMPORT}\nM = requires_asset('m')",
    }
    assert scan(tmp_path, files, "t/test_a.py").problems[0].where == "t/helper.py:3"
    assert not scan(tmp_path, files, "t/test_b.py").problems
    assert len(scan(tmp_path, files).problems) == 1


def test_files_that_cannot_be_read_declare_nothing(tmp_path: Path) -> None:
    files = {
        "t/test_a.py": "import helper\nimport other\n",
        "t/helper.py": "requires_asset(",
        "t/test_b.py": "requires_asset('m', folder='/x')\n",
    }
    (tmp_path / "t").mkdir()
    (tmp_path / "t/other.py").write_bytes(b"requires_asset('m', folder='/x')\0")
    found = scan(tmp_path, files, "t/test_a.py", "t/test_b.py")
    assert names(found) == {"t/test_b.py": ["m"]}
    assert not found.problems
