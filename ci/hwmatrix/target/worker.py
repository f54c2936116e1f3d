"""The worker's side, and the only place where xdist carries what a child reports.

The items of a worker are the units of the plan. xdist's worker asserts that a report bears the node
id of the item that runs, so a unit shows the inner test's id while one of its reports passes.
"""

from __future__ import annotations

import builtins
import contextlib
import copy
import os
import socket
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix import runfolder
from hwmatrix.journal import Journal
from hwmatrix.redact import redactor
from hwmatrix.target.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hwmatrix.model import RunSpec, Unit
    from hwmatrix.target.part import Location

_SENTINEL = "-"
_DATA = "hw_data"


class UnitItem(pytest.Item):
    """One unit of the plan as an item of the outer run."""

    shown: str | None = None

    @property
    def nodeid(self) -> str:
        """The unit's id, or the id of the inner test whose report passes."""
        return self.shown or super().nodeid

    def runtest(self) -> None:
        """Refuse: `pytest_runtest_protocol` runs units."""
        raise NotImplementedError


class Worker:
    """Hook implementations of a worker."""

    def __init__(self, config: pytest.Config, spec: RunSpec) -> None:
        self._units = {unit.id: unit for unit in runfolder.units_to_run(spec)}
        worker_input = dict(vars(config)["workerinput"])
        name = worker_input["workerid"]
        index = int(os.environ["HWMATRIX_SLOT"])
        self._carrier = Carrier(config)
        self._relay = Relay(
            spec,
            next(slot for slot in spec.slots if slot.index == index),
            worker=name,
            worker_input={**_for_coverage(spec.root), **worker_input, "mainargv": ["pytest"]},
            env=os.environ,
            temporary=Path(os.environ[runfolder.TEMPORARY]),
            journal=Journal(
                Path(spec.folder), f"{name}-{os.getpid()}", redact=redactor(os.environ)
            ),
            sink=self._carrier,
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> bool:
        """Collect the plan: no folder is walked, no conftest or test module imported."""
        names = [*self._units, _SENTINEL]
        session.items = [UnitItem.from_parent(session, name=n, nodeid=n) for n in names]
        session.testscollected = len(names)
        session.config.hook.pytest_collection_finish(session=session)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool:
        """Run one unit; nothing for the sentinel."""
        assert isinstance(item, UnitItem)
        unit = self._units.get(item.name)
        if unit is not None and not self._relay.stopping():
            self._carrier.item = item
            self._relay.run_unit(unit)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        """Stop the run: a worker that has nothing to run yet says so too."""
        self._relay.interrupted()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """End the slot's server."""
        self._relay.close()

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_to_serializable(
        self, report: pytest.CollectReport | pytest.TestReport
    ) -> dict[str, Any] | None:
        """Return the child's own form: to serialise a subtest's report twice spoils it."""
        data: dict[str, Any] | None = getattr(report, _DATA, None)
        return None if data is None else dict(data)


def _for_coverage(root: str) -> dict[str, object]:
    """Return what pytest-cov expects of its controller's side, which is not there.

    Each child then leaves a data file of its own in the project's root, for `coverage combine`.
    """
    return {
        "cov_master_host": socket.gethostname(),
        "cov_master_topdir": root,
        "cov_master_rsync_roots": [],
    }


class Carrier:
    """A sink that calls pytest's hooks, which xdist forwards to the controller.

    What it carries stands in the journal already, so trouble here (a plugin of the outer run, a
    report of a kind that the outer run does not know) is printed and costs the unit nothing.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._hook = config.hook
        self.item: UnitItem | None = None

    def start(self, test: str, location: Location) -> None:
        """Take that a test begins."""
        with _harmless():
            self._hook.pytest_runtest_logstart(nodeid=test, location=tuple(location))

    def finish(self, test: str, location: Location) -> None:
        """Take that a test is over."""
        with _harmless():
            self._hook.pytest_runtest_logfinish(nodeid=test, location=tuple(location))

    def report(self, data: Mapping[str, Any]) -> None:
        """Take one phase of a test."""
        with _harmless():
            report = self._from_data(data)
            assert isinstance(report, pytest.TestReport)
            self._pass_on(report)

    def collect_report(self, data: Mapping[str, Any]) -> None:
        """Take what could not be collected."""
        with _harmless():
            self._hook.pytest_collectreport(report=self._from_data(data))

    def _from_data(self, data: Mapping[str, Any]) -> pytest.CollectReport | pytest.TestReport:
        # pytest takes the dictionary apart, nested ones too, so it gets a copy.
        copied = copy.deepcopy(data)
        convert = self._hook.pytest_report_from_serializable
        report: pytest.CollectReport | pytest.TestReport = convert(config=self._config, data=copied)
        setattr(report, _DATA, data)
        return report

    def _pass_on(self, report: pytest.TestReport) -> None:
        assert self.item is not None
        self.item.shown = report.nodeid
        try:
            self._hook.pytest_runtest_logreport(report=report)
        finally:
            self.item.shown = None

    def broken(self, unit: Unit, test: str | None, text: str, seconds: float) -> None:
        """Take that the process of the unit ended badly, while `test` ran if not None."""
        name = test or unit.id
        report = pytest.TestReport(
            nodeid=name,
            location=(unit.files[0], None, name),
            keywords={},
            outcome="failed",
            longrepr=text,
            when="call",
            duration=seconds,
        )
        with _harmless():
            self._pass_on(report)

    def warning(self, event: Mapping[str, Any]) -> None:
        """Take a warning."""
        category = _category(event["module"], event["category"])
        message = warnings.WarningMessage(
            event["message"], category, event["filename"], event["lineno"]
        )
        location = event["location"]
        kwargs = {
            "warning_message": message,
            "when": event["when"],
            "nodeid": event["nodeid"],
            "location": tuple(location) if location else None,
        }
        with _harmless():
            self._hook.pytest_warning_recorded.call_historic(kwargs=kwargs)


@contextlib.contextmanager
def _harmless() -> Iterator[None]:
    try:
        yield
    except Exception:  # noqa: BLE001 - a hook of any plugin
        traceback.print_exc()


def _category(module: str, name: str) -> type[Warning]:
    """Return the category if it is Python's own: a worker imports nothing of the tests."""
    found = getattr(builtins, name, None) if module == "builtins" else None
    return found if isinstance(found, type) and issubclass(found, Warning) else UserWarning
