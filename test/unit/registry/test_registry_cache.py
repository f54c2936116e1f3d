"""The cache: right answers only, whatever stands in it."""

from __future__ import annotations

import json
import os
import sys
import time
import zlib
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix.registry import Scan, scan
from hwmatrix.registry import cache as cache_module

if TYPE_CHECKING:
    from collections.abc import Callable

Look = Any  # a function that scans the tree with a cache
PATTERNS = ("test_*.py",)
HOUR_NS = 3_600_000_000_000


def later() -> int:
    """Return a time at which the files of this test are old enough to be kept."""
    return time.time_ns() + HOUR_NS


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "t"
    folder.mkdir()
    (folder / "test_a.py").write_text('register_amd_ci(5, "s", disabled="x [owner=@y]")\n')
    (folder / "test_b.py").write_text('register_cpu_ci(0, "é")\nregister_hip_ci(1, "s")\n')
    (folder / "test_c.py").write_text("def broken(:\n")
    (folder / "test_d.py").write_text('register_npu_ci(1.25, stage="b", runner_config="r")\n')
    return tmp_path


@pytest.fixture
def look(tree: Path) -> Look:
    """Scan the tree with a cache."""

    def look(
        *,
        clock_ns: Callable[[], int] = later,
        thorough: bool = False,
        cache: Path | None = None,
    ) -> Scan:
        path = cache or tree / "state/scan.json"
        return scan(tree, ["t"], PATTERNS, cache=path, clock_ns=clock_ns, thorough=thorough)

    return look


def same(a: Scan, b: Scan) -> bool:
    names = ("registrations", "problems", "remarks", "unregistered", "files")
    return all(getattr(a, name) == getattr(b, name) for name in names)


def test_an_unchanged_tree_gives_the_same_and_reads_nothing(
    look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = look()
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", None)  # reading any test file would now fail
        second = look()
    assert (first.reused, second.reused) == (0, 4)
    assert same(first, second)


@pytest.mark.parametrize("thorough", [False, True])
def test_quick_and_thorough_results_are_kept_apart(look: Look, *, thorough: bool) -> None:
    look(thorough=not thorough)
    first = look(thorough=thorough)
    assert first.reused == 0
    assert len(first.remarks) == int(thorough)
    again = look(thorough=thorough)
    assert again.reused == 4
    assert same(first, again)


def test_a_changed_file_is_read_anew_alone(look: Look, tree: Path) -> None:
    look()
    (tree / "t/test_a.py").write_text('register_amd_ci(7, "s")\n')
    found = look()
    assert found.reused == 3
    assert found.registrations[0].est_s == 7


def test_a_change_that_keeps_size_and_mtime_is_seen(look: Look, tree: Path) -> None:
    path = tree / "t/test_a.py"
    look()
    status = path.stat()
    path.write_text(path.read_text().replace("5", "7"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_mtime_ns == status.st_mtime_ns
    assert look().registrations[0].est_s == 7


def test_a_file_put_in_place_of_another_is_seen(look: Look, tree: Path) -> None:
    look()
    (tree / "t/test_d.py").replace(tree / "t/test_a.py")
    found = look()
    assert [r.path for r in found.registrations] == ["t/test_a.py"]
    assert found.files == 3


def test_new_and_removed_files_are_seen(look: Look, tree: Path) -> None:
    look()
    (tree / "t/test_a.py").unlink()
    (tree / "t/test_e.py").write_text('register_xpu_ci(5, "s")\n')
    found = look()
    assert [r.path for r in found.registrations] == ["t/test_d.py", "t/test_e.py"]
    kept = json.loads((tree / "state/scan.json").read_bytes().partition(b"\n")[2])["files"]
    assert sorted(kept) == [f"t/test_{name}.py" for name in "bcde"]


def test_young_files_are_read_again(look: Look, tree: Path) -> None:
    stamps = [path.stat() for path in (tree / "t").iterdir()]
    newest = max(max(stamp.st_mtime_ns, stamp.st_ctime_ns) for stamp in stamps)
    assert look(clock_ns=lambda: newest).reused == 0
    assert look(clock_ns=later).reused == 0
    assert look(clock_ns=lambda: newest).reused == 4


def test_files_from_the_future_are_read_again(look: Look, tree: Path) -> None:
    in_a_day = time.time() + 86_400
    os.utime(tree / "t/test_a.py", (in_a_day, in_a_day))
    look()
    assert look().reused == 3


def test_what_cannot_be_read_is_not_kept(look: Look, tree: Path) -> None:
    (tree / "t/test_e.py").symlink_to("gone.py")
    look()
    assert len(look().problems) == 3
    (tree / "t/gone.py").write_text('register_xpu_ci(5, "s")\n')
    assert len(look().problems) == 2


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut short": lambda data: data[:-20],
    "one bit": lambda data: data.replace(b'"s"', b'"r"'),
    "no checksum": lambda data: data.partition(b"\n")[2],
    "binary": lambda _: bytes(range(256)),
    "not JSON": lambda _: signed(b"{"),
    "deep": lambda _: signed(b"[" * 200_000),
    "of another shape": lambda _: signed(b"[1]"),
    "without files": lambda data: changed(data, lambda value: value.pop("files")),
    "files of another shape": lambda data: changed(data, lambda value: value.update(files=[1])),
    "by another reader": lambda data: changed(data, lambda value: value.update(reader="old")),
    "rows of another shape": lambda data: changed(data, spoil([1])),
    "rows that are numbers": lambda data: changed(data, spoil(3)),
    "rows with strange insides": lambda data: changed(data, spoil_insides),
}


class Nowhere:
    """A class whose module lies in a zip file."""

    __module__ = "hwmatrix_in_a_zip_file"


def signed(body: bytes) -> bytes:
    return b"%08x\n" % zlib.crc32(body) + body


def changed(data: bytes, change: Callable[[Any], object]) -> bytes:
    value = json.loads(data.partition(b"\n")[2])
    change(value)
    return signed(json.dumps(value).encode())


def spoil(row: object) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        value["files"] = dict.fromkeys(value["files"], row)

    return change


def spoil_insides(value: Any) -> None:
    for row in value["files"].values():
        row[1:] = [[[1, 2, "no such backend", 0, 0, 0, 0, 0, 0, 0]], [[1]], 7]


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_cache_is_ignored_and_made_anew(
    look: Look, tree: Path, damage: Callable[[bytes], bytes]
) -> None:
    path = tree / "state/scan.json"
    first = look()
    path.write_bytes(damage(path.read_bytes()))
    second = look()
    assert second.reused == 0
    assert same(first, second)
    assert look().reused == 4


def test_another_reader_reads_anew(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    look()
    monkeypatch.setattr(cache_module, "_fingerprint", lambda: "another")
    assert look().reused == 0
    assert look().reused == 4


def test_a_reader_whose_source_is_not_to_be_had_reuses_nothing(
    look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType(Nowhere.__module__)
    module.__file__ = "hwmatrix.zip/hwmatrix/model.py"
    monkeypatch.setitem(sys.modules, Nowhere.__module__, module)
    monkeypatch.setattr(cache_module, "_MADE_OF", (Nowhere,))
    assert [look().reused for _ in range(2)] == [0, 0]


def test_a_cache_that_cannot_be_written_is_done_without(look: Look, tree: Path) -> None:
    (tree / "file").write_text("")
    for path in (tree / "file/scan.json", tree / "t"):
        assert look(cache=path).reused == 0
        assert look(cache=path).reused == 0
    assert sorted(path.name for path in tree.iterdir()) == ["file", "t"]


def test_an_unchanged_cache_is_not_written_again(look: Look, tree: Path) -> None:
    path = tree / "state/scan.json"
    look()
    before = path.stat().st_ino
    look()
    assert path.stat().st_ino == before
    assert [entry.name for entry in path.parent.iterdir()] == ["scan.json"]


def test_a_scan_without_a_cache_writes_nothing(tree: Path) -> None:
    scan(tree, ["t"], PATTERNS)
    assert [path.name for path in tree.iterdir()] == ["t"]
    assert Path(tree / "t").is_dir()
