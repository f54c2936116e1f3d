"""A project of a few files in a temporary folder, and a guard that runs it as its own process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hwmatrix
from hwmatrix import codec, journal, process
from hwmatrix.model import Backend, Device, Isolation, Plan, RunSpec, Slot, Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

CORE = str(Path(hwmatrix.__file__).parents[1])
BURST_S = 0.005
MARKER = "ENGINE_TEST_RUN"

GUARD = """
import json, os, resource, sys
from dataclasses import asdict
from pathlib import Path
from hwmatrix import codec, model, supervise
if int(sys.argv[2]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
spec = codec.from_plain(model.RunSpec, json.loads(Path(sys.argv[1]).read_text()))
print(json.dumps(asdict(supervise.run(spec, env=dict(os.environ)))), flush=True)
"""


class Meter:
    """How much longer than on an idle machine things took meanwhile, by short bursts of work."""

    def __init__(self) -> None:
        self._took_s: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._measure, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _measure(self) -> None:
        while not self._over.wait(0.2):
            began, worked = time.monotonic(), time.thread_time()
            while time.thread_time() - worked < BURST_S:
                pass
            self._took_s.append(time.monotonic() - began)

    def allowed_s(self, idle_s: float) -> float:
        """What may take `idle_s` on an idle machine may take so long on this one."""
        took = self._took_s or [BURST_S]
        return idle_s * max(1.0, sum(took) / len(took) / BURST_S) + max(took)


@dataclass(frozen=True)
class Result:
    """What a run left: its ending and its journal; and how busy the machine was until its end."""

    ending: Mapping[str, Any]
    lines: list[Mapping[str, Any]]
    meter: Meter

    def of(self, kind: str, unit: str = "") -> list[Mapping[str, Any]]:
        return [
            line
            for line in self.lines
            if line["$report_type"] == kind and (not unit or line["unit"] == unit)
        ]

    def end(self, unit: str) -> Mapping[str, Any]:
        """The one and only end of a unit that ran in one part."""
        (line,) = self.of("UnitEnd", unit)
        return line

    def tests(self, unit: str) -> dict[str, str]:
        """Test name to outcome; the call decides, or else the phase that was reported."""
        found: dict[str, str] = {}
        for line in self.of("TestReport", unit):
            name = line["nodeid"].partition("::")[2]
            if line["when"] == "call" or line["outcome"] != "passed":
                found[name] = line.get("hw_outcome") or line["outcome"]
        return found

    def accounted(self) -> list[str]:
        """Units that ended or were given up, sorted."""
        return sorted(
            {line["unit"] for kind in ("UnitEnd", "UnitNotRun") for line in self.of(kind)}
        )


class Engine:
    """Makes files, specs and guards; waits and reads the journal."""

    # How long to wait for what must come: a machine may be very busy, and only a red test waits so.
    PATIENCE_S = 240.0

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        self.folder = folder / "run"
        # Not below `folder`: the path of a socket may have 107 bytes.
        self.scratch = Path(tempfile.mkdtemp(prefix="eng-"))
        self.root.mkdir()
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")},
            MARKER: str(self.folder),
            "TMPDIR": str(self.scratch),
            "PYTHONPATH": os.pathsep.join(filter(None, [CORE, os.environ.get("PYTHONPATH")])),
            # A second and more at each exit of a child.
            "PYTEST_ADDOPTS": "-p no:hypothesispytest",
        }
        self.guards: list[subprocess.Popen[str]] = []
        self.isolation = Isolation.FORK
        self.file_limit = 0  # bytes; 0 for none

    def write(self, **files: str) -> tuple[str, ...]:
        """Write `test_<name>.py` files; return their names in the order given."""
        names = []
        for name, text in files.items():
            path = self.root / f"test_{name}.py"
            path.write_text(textwrap.dedent(text))
            names.append(path.name)
        return tuple(names)

    def unit(self, name: str, **changes: Any) -> Unit:
        values = {
            "id": name,
            "suite": "stage-b-test-cpu",
            "files": (name,),
            "selectors": (name,),
            "est_s": 1.0,
            # Beyond every wait here: tests of limits give their own.
            "test_limit_s": 2 * self.PATIENCE_S,
            "budget_s": 3 * self.PATIENCE_S,
            "devices": 1,
            "shard": 1,
        }
        return Unit(**{**values, **changes})

    def spec(
        self,
        *units: Unit | str,
        slots: int = 1,
        backend: Backend = Backend.CPU,
        keys: Sequence[str] = (),
        **changes: Any,
    ) -> RunSpec:
        made = tuple(self.unit(u) if isinstance(u, str) else u for u in units)
        plan = Plan(
            session="cpu-stage-b",
            backend=backend,
            variant="cpu",
            tier="stage-b",
            suites=("stage-b-test-cpu",),
            units=made,
            shard=1,
            shards=1,
            hash="0" * 64,
        )
        names = keys or [f"rank{i}" for i in range(slots)]
        devices = [Device(key=name, token=str(i)) for i, name in enumerate(names)]
        values = {
            "run_id": "run",
            "plan": plan,
            "root": str(self.root),
            "folder": str(self.folder),
            "python": sys.executable,
            "slots": tuple(Slot(index=i, devices=(d,)) for i, d in enumerate(devices)),
            "isolation": self.isolation,
        }
        return RunSpec(**{**values, **changes})

    def unlike(self, spec: RunSpec) -> RunSpec:
        """Return `spec` with slots that share no preloaded process, as those of devices."""
        slots = [replace(slot, env={**slot.env, "ITS": str(slot.index)}) for slot in spec.slots]
        return replace(spec, slots=tuple(slots))

    def start(self, spec: RunSpec) -> subprocess.Popen[str]:
        """Start a guard."""
        path = self.root.parent / "spec.json"
        path.write_text(codec.dumps(spec))
        guard = subprocess.Popen(
            [sys.executable, "-c", GUARD, str(path), str(self.file_limit)],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.guards.append(guard)
        return guard

    def finish(self, guard: subprocess.Popen[str], *, timeout_s: float = PATIENCE_S) -> Result:
        """Wait for the guard, and for the last process of the run; return what is left."""
        meter = Meter()
        meter.start()
        try:
            output, _ = guard.communicate(timeout=timeout_s)
        finally:
            meter.stop()
        ending = json.loads(output.splitlines()[-1]) if guard.returncode == 0 else {}
        assert guard.returncode <= 0, output
        for path in (self.folder / "pytest.log", self.folder / "supervisor.log"):
            # Neither is there when the guard was killed at once.
            print(f"--- {path.name}", path.read_text() if path.exists() else "(none)", sep="\n")
        self.wait_until(lambda: not self.processes(), "a process outlived the run")
        return Result(ending=ending, lines=self.lines(), meter=meter)

    def run(self, *units: Unit | str, **changes: Any) -> Result:
        return self.finish(self.start(self.spec(*units, **changes)))

    def run_spec(self, spec: RunSpec) -> Result:
        return self.finish(self.start(spec))

    def lines(self) -> list[Mapping[str, Any]]:
        return list(journal.read(self.folder))

    def wait_until(self, done: Callable[[], Any], what: str) -> None:
        end = time.monotonic() + self.PATIENCE_S
        while not done():
            assert time.monotonic() < end, (what, self.processes())
            time.sleep(0.05)

    def wait_for(self, kind: str, count: int = 1) -> list[Mapping[str, Any]]:
        """Wait until the journal has `count` lines of a kind."""

        def found() -> list[Mapping[str, Any]]:
            return [line for line in self.lines() if line["$report_type"] == kind]

        self.wait_until(lambda: len(found()) >= count, f"no {kind}")
        return found()

    def processes(self) -> dict[int, str]:
        """Living processes of this run: pid to command line."""
        wanted = f"{MARKER}={self.folder}".encode()
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found[int(folder.name)] = command
            except OSError:  # noqa: PERF203 - processes end while they are looked at
                continue
        return found

    def pids_of(self, *words: str) -> list[int]:
        """The processes whose command line holds all `words`."""
        return [p for p, c in self.processes().items() if all(word in c for word in words)]

    def pid_of(self, *words: str) -> int:
        """The one process whose command line holds all `words`."""
        found = self.pids_of(*words)
        assert len(found) == 1, self.processes()
        return found[0]

    def another_folder(self) -> None:
        """Let the next run of this engine have a folder of its own."""
        self.folder = self.folder.with_name(f"{self.folder.name}2")
        self.env[MARKER] = str(self.folder)

    def children_of(self, parent: int, *words: str) -> list[int]:
        """The children of a process whose command line holds all `words`."""
        known = [(pid, process.look(pid)) for pid in self.pids_of(*words)]
        return [pid for pid, seen in known if seen is not None and seen.parent == parent]

    def kill(self, *words: str) -> None:
        """SIGKILL the one process whose command line holds all `words`; return once it is dead."""
        pid = self.pid_of(*words)
        os.kill(pid, signal.SIGKILL)
        self.wait_until(lambda: (seen := process.look(pid)) is None or seen.dead, "not dead")

    def not_measured(self) -> None:
        """When these tests are measured themselves, what they run must not print or write it."""
        self.env = {k: v for k, v in self.env.items() if not k.startswith("COVERAGE_")}

    def temporaries(self) -> list[Path]:
        """What is left in the folder for temporary files."""
        return list(self.scratch.iterdir())

    def worker(self, name: str) -> int:
        """The pid of a worker, which names its journal."""
        (path,) = self.folder.glob(f"journal/{name}-*.jsonl")
        return int(path.stem.partition("-")[2])


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = Engine(tmp_path)
    yield made
    for guard in made.guards:
        if guard.poll() is None:
            guard.kill()
        guard.communicate()
    shutil.rmtree(made.scratch, ignore_errors=True)
