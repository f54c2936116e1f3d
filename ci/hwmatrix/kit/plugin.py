"""Hooks and fixtures of the kit: `pytest_plugins = ["hwmatrix.kit.plugin"]` in the top conftest.

A conftest further down imports the names instead, since pytest takes `pytest_plugins` only at the
top: `from hwmatrix.kit.plugin import *`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hwmatrix.kit import measure, servers

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    StartServer = Callable[..., servers.Server]

__all__ = ["pytest_runtest_makereport", "pytest_runtest_protocol", "server"]

_running = pytest.StashKey["list[servers.Server]"]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let measurements made while `item` runs go into its report."""
    measure.begin(item.user_properties.append)
    try:
        return (yield)
    finally:
        measure.end()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put the logs of the servers that a failing test uses into its report."""
    report = yield
    if call.excinfo is not None and not report.skipped:
        nothing: list[servers.Server] = []
        used = item.stash.get(_running, nothing)
        for number, running in enumerate(used, start=1):
            title = f"Server {number}: {' '.join(running.command)}"
            report.sections.append((title, running.tail()))
    return report


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[StartServer, None, None]:
    """Start servers for this test: the arguments of `start_server`, less `log`.

    Each is stopped at the end, whatever happened; its log goes into a failing test's report.
    """
    running = request.node.stash.setdefault(_running, [])

    def start(*args: object, **settings: object) -> servers.Server:
        log = tmp_path / f"server-{len(running) + 1}.log"
        made = servers.start_server(*args, log=log, **settings)  # type: ignore[arg-type] # passed on
        running.append(made)
        return made

    yield start
    for started in reversed(running):
        started.stop()
