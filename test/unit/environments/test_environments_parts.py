"""Stamps, locks, links, running steps, interpreters: the parts of a build."""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hwmatrix.environments import building, core, interpreter, locking, pinning, running
from hwmatrix.environments.request import Request
from hwmatrix.environments.stamp import NAME, Stamp, locked
from hwmatrix.environments.steps import Installer, Step
from hwmatrix.errors import EnvironmentBuildError
from hwmatrix.model import Backend, Environment, TorchCheck, Variant


def variant(backend: Backend, name: str) -> Variant:
    return Variant(backend=backend, name=name, torch="2", index="i", requirements="r")


# ---------------------------------------------------------------- stamp and lock
@pytest.mark.parametrize(
    ("backend", "name", "folder"),
    [
        (Backend.CPU, "cpu", "cpu-"),
        (Backend.CUDA, "cuda-13.0", "cuda-13.0-"),
        (Backend.AMD, "rocm-7.2", "amd-rocm-7.2-"),
    ],
)
def test_a_folder_is_named_after_its_inputs(backend: Backend, name: str, folder: str) -> None:
    stamp = Stamp({"torch": "2"})
    assert stamp.folder_name(variant(backend, name)) == folder + stamp.digest[:12]


def test_a_stamp_stands_for_its_inputs_alone(tmp_path: Path) -> None:
    stamp, other = Stamp({"a": "1", "b": "2"}), Stamp({"a": "1", "b": "3"})
    assert stamp.digest == Stamp({"b": "2", "a": "1"}).digest
    assert not stamp.matches(tmp_path)
    stamp.write(tmp_path)
    assert stamp.matches(tmp_path)
    assert not other.matches(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"digest": 7}', '"x"'])
def test_a_torn_stamp_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    assert not Stamp({"a": "1"}).matches(tmp_path)


def test_a_lock_is_waited_for(tmp_path: Path) -> None:
    path, order = tmp_path / "deep/x.lock", []
    waiting = threading.Event()

    def second() -> None:
        with locked(path, limit_s=240, say=lambda _text: waiting.set()):
            order.append("second")

    with locked(path, limit_s=1, say=order.append):
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(240)
        order.append("first")
    thread.join(240)
    assert order == ["first", "second"]


def test_a_lock_that_is_never_free(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    with (
        locked(path, limit_s=1, say=print),
        pytest.raises(EnvironmentBuildError, match=r"another session has been building"),
        locked(path, limit_s=0, say=print),
    ):
        pass


def test_a_lock_in_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(EnvironmentBuildError, match=r"/file must be writable, or HWMATRIX_STATE"),
        locked(tmp_path / "file/x.lock", limit_s=1, say=print),
    ):
        pass


def prepared(root: Path, env: dict[str, str], **more: str) -> building.Build:
    facts: dict[str, Any] = {"torch": "2", "requirements": "r.in", "constraints": "", **more}
    which = Variant(backend=Backend.CPU, name="cpu", index="https://i/cpu", **facts)
    request = Request(
        variant=which,
        check=TorchCheck(),
        slot=None,
        root=root,
        state=root / "state",
        env={"PATH": "", "HWMATRIX_INSTALLER": "pip", "HOME": str(root), **env},
        say=print,
    )
    return building.prepare(request)


@pytest.mark.parametrize(
    ("env", "more"),
    [
        ({"HWMATRIX_TORCH_INDEX": "https://m"}, {}),
        ({"PIP_INDEX_URL": "https://m"}, {}),
        ({"PIP_INDEX_URL": "https://me:secret@m"}, {}),
        ({}, {"torch": "3"}),
        ({}, {"constraints": "c.txt"}),
        ({}, {"requirements": "other.in"}),
    ],
)
def test_other_inputs_make_another_environment(
    tmp_path: Path, env: dict[str, str], more: dict[str, str]
) -> None:
    (tmp_path / "r.in").write_text("pytest\n")
    (tmp_path / "other.in").write_text("pytest\nnumpy\n")
    (tmp_path / "c.txt").write_text("numpy<3\n")
    first, same = prepared(tmp_path, {}), prepared(tmp_path, {"UNRELATED": "1"})
    other = prepared(tmp_path, env, **more)
    assert first.folder == same.folder != other.folder
    assert "secret" not in str(other.stamp.inputs)


# ---------------------------------------------------------------- links
def test_the_core_shows_one_package(tmp_path: Path) -> None:
    shown = core.link_core(tmp_path)
    assert core.link_core(tmp_path) == shown
    assert [path.name for path in shown.iterdir()] == ["hwmatrix"]
    assert (shown / "hwmatrix/codec.py").is_file()


def test_a_link_moves_to_another_target(tmp_path: Path) -> None:
    name = tmp_path / "name"
    core.link(name, tmp_path / "old")
    core.link(name, tmp_path / "new")
    assert name.readlink() == tmp_path / "new"


def test_a_link_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentBuildError, match=r"cannot link .* must be writable"):
        core.link(tmp_path / "file/name", tmp_path)


def installed(folder: Path, name: str, version: str, *entries: str, record: bool = True) -> None:
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    rows = [f"{entry}/__init__.py,," for entry in entries if "." not in entry]
    rows += [f"{entry},," for entry in entries if "." in entry]
    rows += ["../../bin/tool,,", "__pycache__/x.pyc,,", f"{info.name}/RECORD,,", ""]
    if record:
        (info / "RECORD").write_text("\n".join(rows))
    for entry in entries:
        if "." in entry:
            (folder / entry).touch()
        else:
            (folder / entry).mkdir()


def test_an_overlay_gives_what_is_missing_or_too_old(tmp_path: Path) -> None:
    overlay, view = tmp_path / "overlay", tmp_path / "view"
    installed(overlay, "pytest", "9.0.0", "pytest", "_pytest", "py.py")
    installed(overlay, "pytest_xdist", "3.8.0", "xdist")
    installed(overlay, "numpy", "2.4.0", "numpy")
    installed(overlay, "odd", "1", "odd", record=False)
    have = {"pytest": "7.1", "numpy": "1.26"}
    assert core.link_overlay(overlay, view, have) == ("odd 1", "pytest 9.0.0", "pytest-xdist 3.8.0")
    assert sorted(path.name for path in view.iterdir()) == [
        "_pytest",
        "odd-1.dist-info",
        "py.py",
        "pytest",
        "pytest-9.0.0.dist-info",
        "pytest_xdist-3.8.0.dist-info",
        "xdist",
    ]


def test_views_of_other_contents_have_other_names(tmp_path: Path) -> None:
    installed(tmp_path, "pytest", "9.0.0", "pytest")
    first = core.overlay_name(tmp_path, {})
    assert first == core.overlay_name(tmp_path, {})
    assert first != core.overlay_name(tmp_path, {"pytest": "9"})
    installed(tmp_path, "xdist", "1", "xdist")
    assert first != core.overlay_name(tmp_path, {})


@pytest.mark.parametrize("name", ["none", "empty"])
def test_an_overlay_that_is_none(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        EnvironmentBuildError, match=r"no installed packages there.*pip install --t"
    ):
        core.link_overlay(tmp_path / name, tmp_path / "view", {})


# ---------------------------------------------------------------- running
def run(
    folder: Path, script: str, *, limit_s: float = 240.0, index: str = ""
) -> tuple[str, list[str]]:
    said: list[str] = []
    command = ("/bin/sh", "-c", script)
    output = running.run_step(
        Step(title="do it", command=command, env={"FROM": "step"}, index=index),
        {"PATH": "/usr/bin:/bin", "FROM": "outside"},
        cwd=folder,
        log=folder / "x.log",
        say=said.append,
        limit_s=limit_s,
    )
    return output, said


def test_a_step_logs_its_output(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text("before\n")
    output, said = run(tmp_path, "echo $FROM; pwd")
    assert output == f"step\n{tmp_path}"
    assert said == ["do it ..."]
    assert (tmp_path / "x.log").read_text().startswith("before\n\n$ /bin/sh -c")


def test_a_step_that_fails_says_its_last_lines_and_what_to_do(tmp_path: Path) -> None:
    script = "echo at https://me:pw@host/simple; echo No space left on device; exit 7"
    reason = (
        r"cannot do it \(from https://\*\*\*@i/\): exit status 7. Likely: the disk is full.*"
        r"The installer said: at https://\*\*\*@host/simple / No space.* The whole output: .*x.log"
    )
    with pytest.raises(EnvironmentBuildError, match=reason):
        run(tmp_path, script, index="https://me:pw@i/")


def test_a_step_that_fails_without_a_word(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentBuildError, match=r"cannot do it: exit status 1. The whole out"):
        run(tmp_path, "exit 1")


def test_a_step_that_takes_too_long_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = tmp_path / "child"
    wait = running._wait

    def once_it_hangs(*words: Any, **more: Any) -> bool:
        while not (child.exists() and child.read_text()):
            time.sleep(0.02)
        return wait(*words, **more)

    monkeypatch.setattr(running, "_wait", once_it_hangs)
    script = "echo started; sleep 3600 & echo $! >child; wait"
    with pytest.raises(EnvironmentBuildError, match=r"took longer than 0.5 s. The inst.*started"):
        run(tmp_path, script, limit_s=0.5)
    assert is_gone(int(child.read_text()))


def is_gone(pid: int) -> bool:
    """Whether the process ends within minutes; a zombie that nobody reaps has ended."""
    for _ in range(4800):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_a_step_that_does_not_start(tmp_path: Path) -> None:
    step = Step(title="do it", command=(str(tmp_path / "none"),))
    with pytest.raises(EnvironmentBuildError, match=r"cannot do it: .*none does not start"):
        running.run_step(step, {}, cwd=tmp_path, log=tmp_path / "x.log", say=print, limit_s=1)


def test_a_step_ends_when_we_are_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_SAY_EVERY_S", 0.0)
    child = tmp_path / "child"

    def interrupt(_text: str) -> None:
        if child.exists() and child.read_text():
            raise KeyboardInterrupt

    script = f"sleep 3600 & echo $! >{child}; wait"
    step = Step(title="do it", command=("/bin/sh", "-c", script))
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        running.run_step(step, {}, cwd=tmp_path, log=tmp_path / "x.log", say=interrupt, limit_s=240)
    assert is_gone(int(child.read_text()))


@pytest.mark.parametrize(("text", "limit_s"), [("", 1800.0), ("12.5", 12.5)])
def test_the_limit_comes_from_the_environment(text: str, limit_s: float) -> None:
    assert running.limit_s({"HWMATRIX_INSTALL_LIMIT_S": text}) == limit_s


@pytest.mark.parametrize("text", ["0", "-1", "inf", "nan", "soon"])
def test_a_limit_that_is_none(text: str) -> None:
    with pytest.raises(EnvironmentBuildError, match=r"allowed is a number of seconds above 0"):
        running.limit_s({"HWMATRIX_INSTALL_LIMIT_S": text})


# ---------------------------------------------------------------- interpreter and installer
def program(folder: Path, name: str, body: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_the_interpreter_is_our_own_base_or_the_one_named(tmp_path: Path) -> None:
    chosen = program(tmp_path, "python3.12", "echo 3 12")
    assert interpreter.python_version(interpreter.base_python({}), {}) == sys.version_info[:2]
    for name in (str(chosen), "python3.12"):
        env = {"HWMATRIX_PYTHON": name, "PATH": str(tmp_path)}
        assert interpreter.base_python(env) == str(chosen)
    assert interpreter.python_version(str(chosen), {}) == (3, 12)


def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentBuildError, match=r"HWMATRIX_PYTHON=none: no such program"):
        interpreter.base_python({"HWMATRIX_PYTHON": "none", "PATH": str(tmp_path)})


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("echo 3 9", r"is Python 3.9; 3.10 or later is needed"),
        ("exit 1", r"does not say which Python it is"),
        ("echo what", r"does not say which Python it is"),
    ],
)
def test_an_interpreter_that_does_not_do(tmp_path: Path, body: str, reason: str) -> None:
    python = program(tmp_path, "python", body)
    with pytest.raises(EnvironmentBuildError, match=reason):
        interpreter.python_version(str(python), {})


def test_the_installer_is_uv_where_there_is_one(tmp_path: Path) -> None:
    uv = program(tmp_path / "bin", "uv", "true")
    found = interpreter.find_installer({"PATH": str(uv.parent)}, "py")
    assert found == Installer(kind="uv", program=str(uv))
    forced = {"PATH": str(uv.parent), "HWMATRIX_INSTALLER": "pip"}
    assert interpreter.find_installer(forced, "py") == Installer(kind="pip", program="py")


def test_the_installer_is_pip_where_there_is_no_uv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert interpreter.find_installer({"PATH": str(tmp_path)}, "py").kind == "pip"
    wish = {"PATH": str(tmp_path), "HWMATRIX_INSTALLER": "uv"}
    with pytest.raises(EnvironmentBuildError, match=r"uv is not on PATH"):
        interpreter.find_installer(wish, "py")
    program(tmp_path, "uv", "true")
    assert interpreter.find_installer({"PATH": ""}, "py").program == str(tmp_path / "uv")


def test_an_installer_that_nobody_knows() -> None:
    with pytest.raises(EnvironmentBuildError, match=r"HWMATRIX_INSTALLER=conda: allowed are uv"):
        interpreter.find_installer({"HWMATRIX_INSTALLER": "conda"}, "py")


def test_the_stamp_file_tells_its_inputs(tmp_path: Path) -> None:
    Stamp({"torch": "torch==2"}).write(tmp_path)
    assert json.loads((tmp_path / NAME).read_text())["inputs"] == {"torch": "torch==2"}


# ---------------------------------------------------------------- locks
def digest_of(root: Path) -> str:
    """Return the digest that the message about a stale lock does not give."""
    contents = {"r.in": (root / "r.in").read_text()}
    return locking._digest(variant(Backend.CPU, "cpu"), contents)


@pytest.fixture
def locked_project(tmp_path: Path) -> Path:
    (tmp_path / "r.in").write_text("pytest\n")
    (tmp_path / "r.lock").write_text(f"# inputs sha256:{digest_of(tmp_path)}\npytest==9\n")
    return tmp_path


def usable(root: Path, which: Variant, **env: str) -> Path | None:
    return locking.usable_lock(root, which, {"r.in": (root / "r.in").read_text()}, env)


def locked_variant(torch: str = "2") -> Variant:
    return Variant(backend=Backend.CPU, name="cpu", torch=torch, index="i", requirements="r.in")


def test_a_lock_is_used_where_it_fits(locked_project: Path) -> None:
    assert usable(locked_project, locked_variant()) == locked_project / "r.lock"
    assert usable(locked_project, locked_variant(), HWMATRIX_LOCK="off") is None
    (locked_project / "r.lock").unlink()
    assert usable(locked_project, locked_variant()) is None


@pytest.mark.parametrize("change", ["requirements", "torch", "header"])
def test_a_stale_lock_is_refused(locked_project: Path, change: str) -> None:
    which = locked_variant("3" if change == "torch" else "2")
    if change == "requirements":
        (locked_project / "r.in").write_text("pytest\nnumpy\n")
    elif change == "header":
        (locked_project / "r.lock").write_text("pytest==9\n")
    with pytest.raises(
        EnvironmentBuildError, match=r"was not made from r.in as it is now.*nox -s l"
    ):
        usable(locked_project, which)
    assert usable(locked_project, which, HWMATRIX_LOCK="off") is None


def test_a_lock_switch_that_says_nothing(locked_project: Path) -> None:
    with pytest.raises(EnvironmentBuildError, match=r"HWMATRIX_LOCK=no: allowed are on and off"):
        usable(locked_project, locked_variant(), HWMATRIX_LOCK="no")


def test_locks_need_uv(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentBuildError, match=r"locks are made by uv"):
        locking.lock(
            locked_variant(),
            Environment(python="python", folder="f"),
            root=tmp_path,
            state=tmp_path,
            env={"HWMATRIX_INSTALLER": "pip"},
            say=print,
        )


def test_the_committed_locks_fit_their_requirements() -> None:
    """A changed requirements file without `nox -s lock` would stop every session."""
    root = Path(__file__).parents[3]
    for path in sorted((root / "requirements").glob("*.lock")):
        torch = re.search(r"with torch (\S+),", path.read_text())
        assert torch is not None
        name = f"requirements/{path.stem}.in"
        which = replace(locked_variant(torch[1]), requirements=name)
        _, contents = pinning.read_requirements(root, which)
        assert locking.usable_lock(root, which, contents, {}) == path
