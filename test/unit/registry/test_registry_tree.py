"""Trees to scans: what is walked, what stands in the way, what comes out in which order."""

from __future__ import annotations

import os
import socket
import warnings
from datetime import date
from typing import TYPE_CHECKING

import pytest

from hwmatrix.model import Backend, Disabled, Registration
from hwmatrix.registry import Scan, expired, scan
from hwmatrix.registry.source import UnreadableError, read

if TYPE_CHECKING:
    from pathlib import Path

PATTERNS = ("test_*.py", "bench_*.py")
CALL = 'register_amd_ci(5, "s")\n'


def write(root: Path, *names: str, text: str = CALL) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def paths(found: Scan) -> list[str]:
    return [registration.path for registration in found.registrations]


def messages(found: Scan) -> list[str]:
    return [str(problem) for problem in found.problems]


def test_files_come_out_sorted_with_paths_from_the_root(tmp_path: Path) -> None:
    write(tmp_path, "t/b/test_z.py", "t/test_b.py", "t/a/bench_a.py", "t/a/helper.py")
    found = scan(tmp_path, ["t"], PATTERNS)
    assert paths(found) == ["t/a/bench_a.py", "t/b/test_z.py", "t/test_b.py"]
    assert (found.files, found.reused) == (3, 0)


def test_registrations_of_a_file_come_in_order_of_place(tmp_path: Path) -> None:
    text = 'register_cpu_ci(1, "b")\nregister_amd_ci(1, "a"); register_npu_ci(1, "c")\n'
    write(tmp_path, "t/test_a.py", text=text)
    found = scan(tmp_path, ["t"], PATTERNS)
    assert [r.suite for r in found.registrations] == ["b", "a", "c"]


def test_files_without_registrations_are_listed(tmp_path: Path) -> None:
    write(tmp_path, "t/test_a.py", text="x = 1\n")
    write(tmp_path, "t/test_b.py", text='"""register_amd_ci(1, "s")"""\n')
    write(tmp_path, "t/test_c.py", text='register_amd_ci(0, "s")\n')
    write(tmp_path, "t/test_d.py")
    found = scan(tmp_path, ["t"], PATTERNS)
    assert found.unregistered == ("t/test_a.py", "t/test_b.py")


def test_hidden_folders_and_caches_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "t/.x/test_a.py", "t/__pycache__/test_b.py", "t/build/test_c.py")
    assert paths(scan(tmp_path, ["t"], PATTERNS)) == ["t/build/test_c.py"]


def test_roots_may_overlap_be_files_or_the_project(tmp_path: Path) -> None:
    write(tmp_path, "t/a/test_a.py", "t/test_b.py")
    every = ["t/a/test_a.py", "t/test_b.py"]
    assert paths(scan(tmp_path, ["t", "t/a", "t/test_b.py"], PATTERNS)) == every
    assert paths(scan(tmp_path, ["."], PATTERNS)) == every
    assert paths(scan(tmp_path, ["./t/"], PATTERNS)) == every
    assert paths(scan(tmp_path, ["t/test_b.py"], PATTERNS)) == ["t/test_b.py"]


def test_no_pattern_finds_nothing(tmp_path: Path) -> None:
    write(tmp_path, "t/test_a.py")
    assert scan(tmp_path, ["t"], []).files == 0


def test_a_folder_with_a_test_files_name_is_a_folder(tmp_path: Path) -> None:
    write(tmp_path, "t/test_x.py/test_y.py")
    found = scan(tmp_path, ["t"], PATTERNS)
    assert paths(found) == ["t/test_x.py/test_y.py"]
    assert found.problems == ()


def test_a_missing_root_is_a_problem_of_all(tmp_path: Path) -> None:
    found = scan(tmp_path, ["nowhere"], PATTERNS)
    assert messages(found) == [
        (
            "nowhere: no such folder; it is declared as a test root. "
            "Create it, or correct roots in ci/matrix.toml."
        )
    ]
    assert found.problems[0].backends == frozenset()


def test_a_dangling_link_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t/test_x.py").symlink_to("gone.py")
    (tmp_path / "t/helper.py").symlink_to("gone.py")
    assert messages(scan(tmp_path, ["t"], PATTERNS)) == [
        (
            "t/test_x.py: the link to 'gone.py' leads nowhere (No such file or directory). "
            "Point it at a file, or remove it."
        )
    ]


def test_a_loop_of_links_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t/test_x.py").symlink_to("test_y.py")
    (tmp_path / "t/test_y.py").symlink_to("test_x.py")
    found = messages(scan(tmp_path, ["t"], PATTERNS))
    assert found == [
        f"t/test_{a}.py: the link to 'test_{b}.py' leads nowhere "
        "(Too many levels of symbolic links). Point it at a file, or remove it."
        for a, b in ("xy", "yx")
    ]


@pytest.mark.parametrize("target", [".", "..", "../..", "../../t"])
def test_a_link_that_leads_back_is_a_problem(tmp_path: Path, target: str) -> None:
    write(tmp_path, "t/a/test_x.py")
    (tmp_path / "t/a/back").symlink_to(target)
    found = scan(tmp_path, ["t"], PATTERNS)
    assert paths(found) == ["t/a/test_x.py"]
    assert messages(found) == [
        (
            "t/a/back: the link leads back to a folder above it; what is below it would be found "
            "again and again. Remove the link."
        )
    ]


def test_two_folders_that_link_to_each_other_end(tmp_path: Path) -> None:
    write(tmp_path, "t/a/test_a.py", "t/b/test_b.py")
    (tmp_path / "t/a/to_b").symlink_to("../b")
    (tmp_path / "t/b/to_a").symlink_to("../a")
    found = scan(tmp_path, ["t"], PATTERNS)
    assert paths(found) == [
        "t/a/test_a.py",
        "t/a/to_b/test_b.py",
        "t/b/test_b.py",
        "t/b/to_a/test_a.py",
    ]
    assert [problem.path for problem in found.problems] == ["t/a/to_b/to_a", "t/b/to_a/to_b"]


def test_links_to_files_and_folders_elsewhere_are_followed(tmp_path: Path) -> None:
    write(tmp_path, "other/test_a.py", "t/test_b.py")
    (tmp_path / "t/linked").symlink_to("../other")
    (tmp_path / "t/test_c.py").symlink_to("../other/test_a.py")
    found = scan(tmp_path, ["t"], PATTERNS)
    assert paths(found) == ["t/linked/test_a.py", "t/test_b.py", "t/test_c.py"]


def test_a_pipe_or_socket_is_a_problem_and_blocks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t").mkdir()
    os.mkfifo(tmp_path / "t/test_pipe.py")
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("t/test_socket.py")
        found = messages(scan(tmp_path, ["t"], PATTERNS))
    assert found == [
        f"t/test_{kind}.py: the name is a test file's, but it is neither a file nor a folder "
        "(a pipe, socket or device). Remove it, or rename it."
        for kind in ("pipe", "socket")
    ]
    with pytest.raises(UnreadableError, match="neither a file nor a folder"):
        read("t/test_pipe.py")


def test_a_name_that_is_not_utf_8_is_a_problem(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    (folder / "test_é.py").write_text(CALL)
    os.close(os.open(os.fsencode(folder) + b"/test_\xff.py", os.O_CREAT))
    found = scan(tmp_path, ["t"], PATTERNS)
    assert paths(found) == ["t/test_é.py"]
    assert messages(found) == ["t/test_\\xff.py: the file's name is not UTF-8. Rename it."]


def test_a_file_that_vanishes_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=r"cannot be read \(No such file or directory\)"):
        read(str(tmp_path / "test_gone.py"))


def test_a_folder_that_is_opened_as_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="neither a file nor a folder"):
        read(str(tmp_path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_a_problem(tmp_path: Path) -> None:
    write(tmp_path, "t/test_a.py", "t/closed/test_b.py")
    (tmp_path / "t/test_a.py").chmod(0)
    (tmp_path / "t/closed").chmod(0)
    found = scan(tmp_path, ["t"], PATTERNS)
    (tmp_path / "t/closed").chmod(0o755)
    assert messages(found) == [
        "t/closed: it cannot be read (Permission denied). Make it readable, or remove it.",
        "t/test_a.py: it cannot be read (Permission denied). Make it readable, or remove it.",
    ]
    assert all(problem.backends == frozenset() for problem in found.problems)


def test_a_folder_that_cannot_be_listed_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "t/closed/test_b.py", "t/test_a.py")
    listed = os.scandir

    def refuse(folder: str) -> object:
        if str(folder).endswith("closed"):
            raise PermissionError(13, "Permission denied")
        return listed(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    found = scan(tmp_path, ["t"], PATTERNS)
    assert paths(found) == ["t/test_a.py"]
    assert messages(found) == [
        "t/closed: it cannot be read (Permission denied). Make it readable, or remove it."
    ]


def test_a_file_that_cannot_be_opened_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "t/test_a.py")

    def refuse(*_args: object, **_kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    found = scan(tmp_path, ["t"], PATTERNS)
    assert messages(found) == [
        "t/test_a.py: it cannot be read (Permission denied). Make it readable, or remove it."
    ]
    assert found.problems[0].backends == frozenset()


def test_a_fault_of_the_disk_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "t/test_a.py")

    def fail(_descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", fail)
        found = scan(tmp_path, ["t"], PATTERNS)
    assert messages(found) == [
        "t/test_a.py: it cannot be read (Input/output error). Make it readable, or remove it."
    ]


def test_all_problems_of_a_tree_come_in_one_go(tmp_path: Path) -> None:
    write(tmp_path, "t/test_a.py", text='register_amd_ci(0, "s")\n')
    write(tmp_path, "t/test_b.py", text="register_cpu_ci(\n")
    write(tmp_path, "t/test_c.py", text='register_hip_ci(5, "s")\n')
    write(tmp_path, "t/test_d.py")
    (tmp_path / "t/test_e.py").symlink_to("gone")
    found = scan(tmp_path, ["t", "u"], PATTERNS)
    assert [(p.path, p.rule) for p in found.problems] == [
        ("t/test_a.py", "argument"),
        ("t/test_b.py", "syntax"),
        ("t/test_c.py", "backend"),
        ("t/test_e.py", "unreadable"),
        ("u", "unreadable"),
    ]
    assert [p.concerns(Backend.CUDA) for p in found.problems] == [False, False, True, True, True]
    assert paths(found) == ["t/test_d.py"]


def test_remarks_are_for_lint(tmp_path: Path) -> None:
    write(tmp_path, "t/test_a.py", text="def broken(:\n")
    write(tmp_path, "t/test_b.py", text=f"{CALL}def broken(:\n")
    quick, whole = (scan(tmp_path, ["t"], PATTERNS, thorough=t) for t in (False, True))
    assert (quick.remarks, quick.problems) == ((), ())
    assert [remark.path for remark in whole.remarks] == ["t/test_a.py"]
    assert [problem.path for problem in whole.problems] == ["t/test_b.py"]
    assert whole.unregistered == ("t/test_a.py",)


def test_warnings_of_the_parser_stay_inside(tmp_path: Path) -> None:
    write(tmp_path, "t/test_a.py", text=f"x = '\\d'\n{CALL}y = 1 is 1\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = scan(tmp_path, ["t"], PATTERNS, thorough=True)
    assert paths(found) == ["t/test_a.py"]


def registration(until: str, owner: str = "") -> Registration:
    return Registration(
        path="t/test_a.py",
        line=3,
        backend=Backend.AMD,
        est_s=5.0,
        suite="s",
        disabled=Disabled(reason="broken", owner=owner, until=until),
    )


def test_a_date_that_is_over_is_a_problem_for_lint() -> None:
    (problem,) = expired([registration("2026-11-29", "@x")], date(2026, 11, 30))
    assert str(problem) == (
        "t/test_a.py:3: register_amd_ci() is disabled until 2026-11-29, which is over "
        "(today is 2026-11-30): broken. Ask @x: enable it, or set a later date."
    )
    assert problem.backends == {Backend.AMD}


def test_what_has_no_owner_or_is_not_over() -> None:
    (problem,) = expired([registration("2025-01-01")], date(2026, 11, 30))
    assert "Ask the owner" in str(problem)
    on = Registration(path="t", line=1, backend=Backend.AMD, est_s=1.0, suite="s")
    fine = [registration("2026-11-30"), registration("2027-01-01"), registration(""), on]
    assert expired(fine, date(2026, 11, 30)) == ()
