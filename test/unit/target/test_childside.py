"""Pure parts of what runs inside the child and its template."""

from __future__ import annotations

import os
import sys
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from hwmatrix.target import template, timeouts
from hwmatrix.target.child import lift
from hwmatrix.target.forked import key_of
from hwmatrix.target.lessons import Lessons, _allowed
from hwmatrix.target.reporter import Channel, Reporter, _cut
from hwmatrix.target.wire import Frames, Request

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def request(*selectors: str, **changes: Any) -> Request:
    values: dict[str, Any] = {
        "unit": "u",
        "selectors": selectors,
        "options": ("--tb=short",),
        "cwd": "/nowhere",
        "log": "l",
        "stacks": "s",
        "temporary": "t",
        "test_limit_s": 0.5,
        "budget_s": 1.0,
        "worker_input": {},
    }
    return Request(**{**values, **changes})


def test_a_template_serves_what_is_configured_alike(tmp_path: Path) -> None:
    here = {"cwd": str(tmp_path)}
    for folder in ("a/deep", "b", "c"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "c" / "conftest.py").touch()
    one = key_of(request("a/test_x.py", env={"TMPDIR": "/tmp/1", "SUITE": "s"}, **here))
    alike = {"env": {"TMPDIR": "/tmp/2", "SUITE": "s"}, "test_limit_s": 9.0, **here}
    for name in ("a/test_y.py::test", "b/test_y.py", "a/deep/test_z.py", "test_top.py"):
        assert key_of(request(name, **alike)) == one
    assert key_of(request("c/test_y.py", **alike)) != one
    assert key_of(request("../test_y.py", **alike)) != one
    assert key_of(request("a/test_x.py", env={"SUITE": "other"}, **here)) != one
    assert key_of(request("a/test_x.py", options=("-x",), env={"SUITE": "s"}, **here)) != one
    (tmp_path / "a" / "pytest.ini").touch()
    assert key_of(request("a/deep/test_z.py", **alike)) != one


def test_cut_keeps_both_ends() -> None:
    assert _cut("short", 100) == "short"
    cut = _cut("a" * 50 + "b" * 950, 100)
    assert cut.startswith("a" * 25 + "\n... 900 characters cut")
    assert cut.endswith("b" * 75)


def test_events_are_kept_until_there_is_a_channel() -> None:
    read, write = os.pipe()
    reporter = Reporter({"workerid": "gw0"})
    reporter.put("warning", message="early")
    reporter.attach(Channel(write))
    reporter.put("end", status=0)
    frames = Frames(read)
    assert [event["kind"] for event in frames.rest()] == ["warning", "end"]
    os.close(write)
    os.close(read)


def test_a_lifted_descriptor_is_high_and_closed_on_exec() -> None:
    read, write = os.pipe()
    lifted = lift(write)
    assert lifted >= 100
    assert not os.get_inheritable(lifted)
    os.write(lifted, b"x")
    assert os.read(read, 1) == b"x"
    os.close(lifted)
    os.close(read)


def test_exception_is_followed_through_causes_contexts_and_groups() -> None:
    raised = RuntimeError("the timeout")
    assert timeouts._led_to(raised, raised)
    cause, context, group = (RuntimeError(name) for name in ("cause", "context", "group"))
    cause.__cause__ = raised
    context.__context__ = cause
    vars(group)["exceptions"] = (ValueError(), context)
    for seen in (cause, context, group):
        assert timeouts._led_to(raised, seen)
    assert not timeouts._led_to(raised, RuntimeError("the timeout"))
    raised.__cause__ = cause
    assert not timeouts._led_to(ValueError(), raised)


def test_preload_says_what_failed() -> None:
    assert template.preload(["json", "no_such_package.at_all", "wave"]) == ""
    assert template.preload(["json", "json.no_such_module"]).startswith(
        "import json.no_such_module failed: ModuleNotFoundError"
    )


def test_an_open_device_makes_forking_unsafe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template, "_open_files", lambda: ["/dev/null", "/dev/kfd", "/dev/nvidia0"])
    monkeypatch.setattr(threading, "enumerate", list)
    assert template.unsafe() == "a device is in use: /dev/kfd, /dev/nvidia0"


def test_open_files_are_listed(tmp_path: Path) -> None:
    with (tmp_path / "open").open("w"):
        assert str(tmp_path / "open") in template._open_files()


class Manager:
    def list_plugin_distinfo(self) -> list[tuple[object, object]]:
        plugin = SimpleNamespace(__name__="_some_pytestplugin")
        return [(plugin, SimpleNamespace(project_name="Some-Tool"))]


def test_only_the_standard_library_and_plugins_are_learnt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config: Any = SimpleNamespace(pluginmanager=Manager())
    allowed = _allowed(config)
    assert {"json", "_pytest", "some_tool", "_some_pytestplugin"} <= allowed
    assert not {"test", "torch", "this", ""} & allowed
    path = tmp_path / ".lessons"
    lessons = Lessons(path)
    lessons.recall(config)
    monkeypatch.delitem(sys.modules, "wave", raising=False)
    lessons.begin()
    os.write(lessons._write, b"torch\nno_such\nwave\nwave.missing")
    assert lessons.learn(config) == ["wave", "wave.missing"]
    assert path.read_text().split() == ["wave", "wave.missing"]
    assert "wave" not in sys.modules
    lessons.practise(["wave", "wave.missing"])
    assert "wave" in sys.modules


def test_what_was_learnt_serves_the_next_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config: Any = SimpleNamespace(pluginmanager=Manager())
    path = tmp_path / ".lessons"
    path.write_text("wave\ngone_since\ntorch")
    monkeypatch.delitem(sys.modules, "wave", raising=False)
    lessons = Lessons(path)
    lessons.recall(config)
    assert "wave" in sys.modules
    lessons.begin()
    lessons.tell()
    assert not lessons.learn(config)


def test_a_pipe_that_a_test_closed_teaches_nothing(tmp_path: Path) -> None:
    config: Any = SimpleNamespace(pluginmanager=Manager())
    lessons = Lessons(tmp_path / "no such folder" / ".lessons")
    lessons.begin()
    os.write(lessons._write, b"wave.missing")
    assert lessons.learn(config)  # it could not be kept, and that is all
