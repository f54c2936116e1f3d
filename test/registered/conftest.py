"""Shared by all reference suites: fixtures of the platform, and how warnings are treated.

pytest puts this folder on sys.path, so that test files (and the ranks that they spawn) may
`import platform_facts`.
"""

from __future__ import annotations

import pytest
from platform_facts import PLATFORM, Platform


def pytest_configure(config: pytest.Config) -> None:
    # These files test libraries at whatever versions a machine has: a deprecation there is shown
    # in the summary and is no failure of the backend. hwmatrix's own tests keep warnings fatal.
    config.addinivalue_line("filterwarnings", "default")


@pytest.fixture
def platform() -> Platform:
    """The row of the backend under test."""
    return PLATFORM
