"""The pytest plugin inside the child that limits each test, and tells a late one from a failed one.

The limit is a marker on each test, not `--timeout`: files with different limits can then be forked
from one configured session.

pytest-timeout raises from its signal handler what `pytest.fail` raises. The handler is wrapped, so
the very exception is known and recognised again when the report is made: no text is compared.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import FrameType

OUTCOME = "hw_outcome"
TIMED_OUT = "timed out"

_RAISED = pytest.StashKey[BaseException]()
_OURS = pytest.StashKey[bool]()  # whether the test has the keyword of the marker from here alone


class Settings(Protocol):
    """What is used of pytest-timeout's settings, a named tuple."""

    method: str

    def _replace(self, *, method: str) -> Settings: ...


class Timeouts:
    """Gives tests their limit, and marks reports of timed-out ones with `hw_outcome`."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Mark tests that name no time of their own; last, so that `-m timeout` means theirs."""
        for item in items:
            given = item.get_closest_marker("timeout")
            words = {} if given is None else dict(given.kwargs)
            if given is None or not (given.args or "timeout" in words):
                item.stash[_OURS] = "timeout" not in item.keywords
                marker = pytest.mark.timeout(self.limit_s, **words)
                item.add_marker(marker, append=False)

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Settings) -> object:
        """Use the signal method where a test asks for the thread method.

        That one ends the whole process with `os._exit(1)` and takes the rest of the file with it.
        """
        if settings.method != "thread":
            return None
        return item.config.hook.pytest_timeout_set_timer(
            item=item, settings=settings._replace(method="signal")
        )

    # pytest looks only at functions whose names begin with `pytest_`.
    @pytest.hookimpl(wrapper=True, optionalhook=True, specname="pytest_timeout_set_timer")
    def pytest_note_exception(self, item: pytest.Item) -> Generator[None, object, object]:
        """Keep what pytest-timeout's handler raises."""
        result = yield
        handler = signal.getsignal(signal.SIGALRM)
        if callable(handler) and not isinstance(handler, _Noting):
            signal.signal(signal.SIGALRM, _Noting(item, handler))
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Mark the report of the phase in which the exception came out."""
        report = yield
        if item.stash.get(_OURS, False):
            # As plain pytest would report it.
            report.keywords = {n: v for n, v in report.keywords.items() if n != "timeout"}
        raised = item.stash.get(_RAISED, None)
        if raised is not None and call.excinfo is not None and _led_to(raised, call.excinfo.value):
            setattr(report, OUTCOME, TIMED_OUT)
        return report


class _Noting:
    """A signal handler that remembers what the one inside raised."""

    __tracebackhide__ = True

    def __init__(self, item: pytest.Item, inner: Callable[[int, FrameType | None], object]) -> None:
        self._item = item
        self._inner = inner

    def __call__(self, number: int, frame: FrameType | None) -> None:
        __tracebackhide__ = True
        try:
            self._inner(number, frame)
        except BaseException as error:
            self._item.stash[_RAISED] = error
            raise


def _led_to(raised: BaseException, seen: BaseException) -> bool:
    """Return True if `seen` is `raised`, or was raised while or because it was handled."""
    todo, known = [seen], set()
    while todo:
        error = todo.pop()
        if error is raised:
            return True
        if id(error) in known:
            continue
        known.add(id(error))
        todo += [e for e in (error.__cause__, error.__context__) if e is not None]
        todo += getattr(error, "exceptions", ())  # an ExceptionGroup, from teardowns
    return False
