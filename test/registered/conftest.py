"""Shared by all reference suites: the kit's hooks and fixtures, and how warnings are treated.

pytest puts this folder on sys.path, so that test files (and the ranks that they spawn) may
`import platform_facts`.
"""

from __future__ import annotations

import os

import pytest

from hwmatrix.kit.plugin import (  # noqa: F401 - pytest finds hooks and fixtures by name here
    pytest_runtest_makereport,
    pytest_runtest_protocol,
    server,
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--accuracy-only", action="store_true", help="leave out what measures speed alone"
    )


def pytest_configure(config: pytest.Config) -> None:
    # These files test libraries at whatever versions a machine has: a deprecation there is shown
    # in the summary and is no failure of the backend. hwmatrix's own tests keep warnings fatal.
    config.addinivalue_line("filterwarnings", "default")
    config.addinivalue_line("markers", "speed: measures speed alone; --accuracy-only leaves it out")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what measures speed alone, with the reason, where accuracy alone is asked for."""
    told = [
        name
        for name, asked in (
            ("--accuracy-only", config.getoption("--accuracy-only")),
            ("HWMATRIX_ACCURACY_ONLY", os.environ.get("HWMATRIX_ACCURACY_ONLY") == "1"),
        )
        if asked
    ]
    for item in items:
        if told and item.get_closest_marker("speed"):
            item.add_marker(pytest.mark.skip(reason=f"{told[0]}: this measures speed"))
