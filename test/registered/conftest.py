"""Shared by all reference suites: the kit's hooks and fixtures, and how warnings are treated.

pytest puts this folder on sys.path, so that test files (and the ranks that they spawn) may
`import platform_facts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwmatrix.kit.plugin import (  # noqa: F401 - pytest finds hooks and fixtures by name here
    pytest_runtest_makereport,
    pytest_runtest_protocol,
    server,
)

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--accuracy-only", action="store_true", help="leave out what measures speed alone"
    )


def pytest_configure(config: pytest.Config) -> None:
    # These files test libraries at whatever versions a machine has: a deprecation there is shown
    # in the summary and is no failure of the backend. hwmatrix's own tests keep warnings fatal.
    config.addinivalue_line("filterwarnings", "default")
