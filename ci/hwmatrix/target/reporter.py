"""The pytest plugin inside the child: tells the worker what happens, as it happens.

It presents the child as a worker (`config.workerinput`, the convention of pytest-xdist that
junitxml, reportlog and the cache know), so that no child writes a report file of its own.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix.target import wire
from hwmatrix.target.lastfailed import cache_folder, leave_out

if TYPE_CHECKING:
    import warnings
    from collections.abc import Generator, Mapping, Sequence

# Captured output travels inside reports; the log on disk has its own cap.
_SECTION_LIMIT = 64 * 1024
# A failure that prints a tensor of a million numbers is cut rather than kept whole.
_FRAME_LIMIT = 4 << 20


class Channel:
    """Writes events to the pipe; a forked copy of the process stays silent."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._pid = os.getpid()

    def put(self, kind: str, **keys: object) -> None:
        """Send one event.

        A test that forks and lets the copy return into pytest would report twice, so only the
        process that was started for the unit speaks.
        """
        if os.getpid() != self._pid:
            return
        view = memoryview(wire.frame({"kind": kind, **keys}))
        while view:
            view = view[os.write(self._descriptor, view) :]


class Reporter:
    """Hook implementations. Until `attach` says where to, events are kept."""

    def __init__(self, worker_input: Mapping[str, Any]) -> None:
        self._worker_input = dict(worker_input)
        self._channel: Channel | None = None
        self._kept: list[tuple[str, dict[str, object]]] = []
        self._done: frozenset[str] = frozenset()
        self._deselected = 0
        self._left_out = False
        self._config: pytest.Config | None = None

    def attach(self, channel: Channel, *, done: Sequence[str] = ()) -> None:
        """Report to `channel` from now on, beginning with what was kept.

        `done` are node ids that an earlier part of the unit finished with.
        """
        self._channel = channel
        self._done = frozenset(done)
        for kind, keys in self._kept:
            channel.put(kind, **keys)

    def put(self, kind: str, **keys: object) -> None:
        """Send one event, or keep it."""
        if self._channel is None:
            self._kept.append((kind, keys))
        else:
            self._channel.put(kind, **keys)

    @pytest.hookimpl(wrapper=True)
    def pytest_load_initial_conftests(
        self, early_config: pytest.Config
    ) -> Generator[None, object, object]:
        """Be a worker before any plugin asks; the attributes are xdist's convention.

        pytest-cov erases the data of earlier runs at its start: those are other files' children.
        """
        vars(early_config).update(workerinput=dict(self._worker_input), workeroutput={})
        if hasattr(early_config.known_args_namespace, "cov_append"):
            early_config.known_args_namespace.cov_append = True
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> None:
        """Distribute nothing here, whatever the project's addopts say: xdist runs outside.

        xdist reads its options first (it registers later, and is called first) and acts on them in
        `pytest_configure`, after this.
        """
        self._config = config
        off: dict[str, object] = {"dist": "no", "tx": [], "numprocesses": None}
        for name, value in off.items():
            if hasattr(config.option, name):
                setattr(config.option, name, value)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave out what an earlier part finished; it was counted there. See also `leave_out`."""
        self._left_out = leave_out(config, items)
        items[:] = [item for item in items if item.nodeid not in self._done]

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Count what `-k`, `-m` and the like leave out."""
        self._deselected += len(items)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Say what is going to run, before it runs."""
        tests = [item.nodeid for item in session.items]
        cache = cache_folder(session.config)
        self.put(
            "collected",
            tests=tests,
            deselected=self._deselected,
            cache=cache,
            left_out=self._left_out,
        )

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Pass on what could not be collected."""
        if not report.passed:
            self.put("collectreport", type=type(report).__name__, data=self._serialize(report))

    def pytest_runtest_logstart(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        """Say which test runs now: it is the culprit if the process dies."""
        self.put("start", test=nodeid, location=location)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Pass on one phase of one test."""
        report.sections = [(name, _cut(text, _SECTION_LIMIT)) for name, text in report.sections]
        self.put("report", type=type(report).__name__, data=self._serialize(report))

    def pytest_runtest_logfinish(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        """Say that the test is over."""
        self.put("finish", test=nodeid, location=location)

    def pytest_warning_recorded(
        self,
        warning_message: warnings.WarningMessage,
        when: str,
        nodeid: str,
        location: tuple[str, int, str] | None,
    ) -> None:
        """Pass on a warning in the shape of pytest-reportlog, and where pytest places it."""
        category = warning_message.category
        self.put(
            "warning",
            when=when,
            nodeid=nodeid,
            location=location,
            message=str(warning_message.message),
            category=category.__name__ if category else "Warning",
            module=category.__module__ if category else "builtins",
            filename=warning_message.filename,
            lineno=warning_message.lineno,
        )

    def pytest_internalerror(self, excrepr: object) -> None:
        """Pass on that pytest itself, or a plugin, failed."""
        self.put("internal error", text=_cut(str(excrepr), _SECTION_LIMIT))

    def _serialize(self, report: pytest.CollectReport | pytest.TestReport) -> dict[str, Any]:
        assert self._config is not None
        data: dict[str, Any] = self._config.hook.pytest_report_to_serializable(
            config=self._config, report=report
        )
        if len(str(data.get("longrepr"))) > _FRAME_LIMIT:
            data["longrepr"] = _cut(report.longreprtext, _SECTION_LIMIT)
        return data


def _cut(text: str, limit: int) -> str:
    """Return `text`, or its first quarter and last three quarters of `limit` characters."""
    if len(text) <= limit:
        return text
    head = limit // 4
    return f"{text[:head]}\n... {len(text) - limit} characters cut ...\n{text[head - limit :]}"
