"""What a run comes to: frozen values that every screen and file is made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from hwmatrix.model import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hwmatrix.model import Plan, RunSpec, Unit

# From best to worst; the worst of its parts is what a test or a unit comes to.
SEVERITY: tuple[Outcome, ...] = (
    Outcome.PASSED,
    Outcome.DESELECTED,
    Outcome.SKIPPED,
    Outcome.NOT_RUN,
    Outcome.FAILED,
    Outcome.TIMED_OUT,
    Outcome.CRASHED,
)
RED: frozenset[Outcome] = frozenset(SEVERITY[3:])


def worst(*outcomes: Outcome) -> Outcome:
    """Return the gravest of `outcomes`."""
    return max(outcomes, key=SEVERITY.index)


@dataclass(frozen=True, kw_only=True, slots=True)
class TestResult:
    """How one test ended. `seconds` covers setup, call and teardown of its last try.

    `tries` counts reruns inside one process and attempts of the whole file; `flaky` says that a
    pass came after a failure. `line` is where the test stands, `place` (`path:line`) where it
    failed. `detail` is pytest's long text and `output` what it captured. `measurements` are what
    it recorded: name, value, limit, unit and better (see `hwmatrix.kit.measure`).
    """

    __test__: ClassVar[bool] = False  # no test class, though its name begins like one

    id: str
    outcome: Outcome
    reason: str = ""
    seconds: float = 0.0
    flaky: bool = False
    tries: int = 1
    subtests: int = 0
    line: int = 0
    place: str = ""
    detail: str = ""
    output: str = ""
    measurements: tuple[Mapping[str, object], ...] = ()

    @property
    def name(self) -> str:
        """The id without its file."""
        return self.id.partition("::")[2] or self.id


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """One process of a unit: where it ran and when (seconds since the epoch; 0 is unknown)."""

    attempt: int
    part: int
    slot: int | None
    started: float
    ended: float
    outcome: Outcome
    reason: str = ""
    log: str = ""
    devices: tuple[str, ...] = ()
    tail: str = ""
    killed: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitResult:
    """How one planned unit ended: `tests` in order of collection, `spans` in order of start.

    `seconds` is the time of its last attempt; `deselected` counts tests that a selection left out.
    `notes` tell what is worth knowing though it changes no verdict.
    """

    unit: Unit
    outcome: Outcome
    reason: str = ""
    tests: tuple[TestResult, ...] = ()
    spans: tuple[Span, ...] = ()
    seconds: float = 0.0
    flaky: bool = False
    deselected: int = 0
    warnings: int = 0
    notes: tuple[str, ...] = ()

    @property
    def slot(self) -> int | None:
        """The slot it last ran on, or None when it never started."""
        return self.spans[-1].slot if self.spans else None

    @property
    def log(self) -> str:
        """The log of its gravest process in the run's folder, or '' when none was started."""
        gravest = self._gravest
        return gravest.log if gravest else ""

    @property
    def tail(self) -> str:
        """The last output of its gravest process, where that process did not end in order."""
        gravest = self._gravest
        return gravest.tail if gravest else ""

    @property
    def _gravest(self) -> Span | None:
        ordered = sorted(self.spans, key=lambda span: SEVERITY.index(span.outcome))
        return ordered[-1] if ordered else None

    @property
    def is_red(self) -> bool:
        """Whether this unit alone makes the verdict red."""
        return self.outcome in RED

    @property
    def red_tests(self) -> tuple[TestResult, ...]:
        """Those of its tests that did not end well."""
        return tuple(test for test in self.tests if test.outcome in RED)

    def count(self, outcome: Outcome) -> int:
        """Return how many of its tests ended as `outcome`."""
        if outcome is Outcome.DESELECTED:
            return self.deselected
        return sum(test.outcome is outcome for test in self.tests)


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """Green or red, and why. Counts have an entry for each outcome that occurs."""

    green: bool
    reasons: tuple[str, ...] = ()
    units: Mapping[Outcome, int] = field(default_factory=dict)
    tests: Mapping[Outcome, int] = field(default_factory=dict)
    flaky_units: int = 0
    flaky_tests: int = 0

    @property
    def word(self) -> str:
        """`green` or `red`."""
        return "green" if self.green else "red"


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """Plan and journal held against each other. Times are seconds since the epoch, 0 if unknown.

    `infrastructure` tells what the machine lost (slots that were retired). `running` is the pid of
    the supervisor while the run goes on, `resumed` counts the run's earlier parts.
    """

    spec: RunSpec
    units: tuple[UnitResult, ...]
    verdict: Verdict
    started: float = 0.0
    ended: float = 0.0
    complete: bool = False
    stops: tuple[str, ...] = ()
    torn: tuple[str, ...] = ()
    strangers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    infrastructure: tuple[str, ...] = ()
    running: int = 0
    resumed: int = 0

    @property
    def resumption(self) -> str:
        """`resumed: part 2; 3 files settled in earlier parts`, '' for a run that was not."""
        if not self.resumed:
            return ""
        done = set(self.spec.done)
        settled = sum(len(unit.files) for unit in self.plan.mine if unit.id in done)
        files = f"{settled} file{'' if settled == 1 else 's'}"
        return f"resumed: part {self.resumed + 1}; {files} settled in earlier parts"

    @property
    def plan(self) -> Plan:
        """The plan that was run."""
        return self.spec.plan

    @property
    def seconds(self) -> float:
        """The time from the first to the last record of the run."""
        return max(0.0, self.ended - self.started)
