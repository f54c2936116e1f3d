"""For all unit tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# An example that takes long, or is long in the making, tells of a machine that is busy.
settings.register_profile(
    "patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")
