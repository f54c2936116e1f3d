from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hwmatrix.target.cappedlog import CappedLog, tail_of

if TYPE_CHECKING:
    from pathlib import Path


def test_short_output_is_kept_whole(tmp_path: Path) -> None:
    log = CappedLog(tmp_path / "a.log", head=10, tail=10)
    log.write(b"0123456789")
    log.write(b"abcdefghij")
    log.close()
    assert (tmp_path / "a.log").read_bytes() == b"0123456789abcdefghij"


@pytest.mark.parametrize("step", [1, 7, 64, 1000])
def test_long_output_keeps_head_and_tail(tmp_path: Path, step: int) -> None:
    data = bytes(range(48, 122)) * 40
    log = CappedLog(tmp_path / "a.log", head=10, tail=20)
    for start in range(0, len(data), step):
        log.write(data[start : start + step])
    log.close()
    found = (tmp_path / "a.log").read_bytes()
    head, note, last = found.split(b"\n", 2)
    assert head == data[:10]
    assert data.endswith(last)
    assert 20 <= len(last) < 60
    cut = int(note.split()[1])
    assert cut == len(data) - len(head) - len(last)


def test_file_never_grows_beyond_its_cap(tmp_path: Path) -> None:
    log = CappedLog(tmp_path / "a.log", head=100, tail=100)
    for _ in range(50):
        log.write(b"x" * 977)
        assert (tmp_path / "a.log").stat().st_size <= 100 + 2 * 100 + 40
    log.close()


def test_tail_of(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes("ab\xfccd".encode())
    assert tail_of(path, 100) == "ab\xfccd"
    assert tail_of(path, 2) == "...cd"
    assert tail_of(path, 3).endswith("cd")
    assert tail_of(tmp_path / "missing", 10) == ""
