"""The pytest plugin inside the child that tells a test that ran out of time from one that failed.

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


class Settings(Protocol):
    """What is used of pytest-timeout's settings, a named tuple."""

    method: str

    def _replace(self, *, method: str) -> Settings: ...


class Timeouts:
    """Marks reports of timed-out tests with `hw_outcome`."""

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
