"""A runner played: a workflow's jobs, their steps and expressions, on real commands.

It knows the part of GitHub Actions that the generated workflow uses. Actions are played: checkout
and setup-python do nothing, artifacts are folders. Shell steps are run as GitHub runs them.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parents[2] / "ci"

TABLE_ROWS = """
[[gate]]
name = "every-change"
events = ["push", "workflow_dispatch"]

[ci]
checks = ["lint-registrations"]
overhead_s = 1
target_minutes = 0.05
"""
CONTAINER = """
[backend.cpu.container]
images = { cpu = "example/cpu:1" }
overlay = "overlay"
"""
LIMIT_S = 240.0  # for a machine that is very busy
NOX = """\
#!/bin/sh
exec python3 -m nox "$@"
"""


def _session_conftest() -> Any:
    path = HERE.parent / "session" / "conftest.py"
    spec = importlib.util.spec_from_file_location("session_project", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["session_project"] = module
    spec.loader.exec_module(module)
    return module


# ---------------------------------------------------------------- expressions
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>\d+)|(?P<op>&&|\|\||==|!=|[!(),])"
    r"|(?P<name>[A-Za-z_][\w.-]*))"
)


class Expression:
    """One expression of a workflow, evaluated over contexts."""

    def __init__(self, text: str, contexts: Mapping[str, Any]) -> None:
        self.tokens: list[tuple[str, str]] = []
        rest = text.strip()
        while rest:
            match = _TOKEN.match(rest)
            assert match, f"cannot read {rest!r} of {text!r}"
            kind = match.lastgroup
            assert kind is not None
            self.tokens.append((kind, match[kind]))
            rest = rest[match.end() :].strip()
        self.contexts = contexts
        self.at = 0

    def value(self) -> Any:
        found = self._or()
        assert self.at == len(self.tokens), self.tokens[self.at :]
        return found

    def _take(self, *words: str) -> str:
        if self.at < len(self.tokens) and self.tokens[self.at][1] in words:
            self.at += 1
            return self.tokens[self.at - 1][1]
        return ""

    def _or(self) -> Any:
        left = self._and()
        while self._take("||"):
            right = self._and()
            left = left or right
        return left

    def _and(self) -> Any:
        left = self._equal()
        while self._take("&&"):
            right = self._equal()
            left = left and right
        return left

    def _equal(self) -> Any:
        left = self._not()
        while op := self._take("==", "!="):
            right = self._not()
            left = (_loose(left) == _loose(right)) is (op == "==")
        return left

    def _not(self) -> Any:
        if self._take("!"):
            return not self._not()
        if self._take("("):
            inner = self._or()
            assert self._take(")")
            return inner
        kind, text = self.tokens[self.at]
        self.at += 1
        if kind == "text":
            return text[1:-1].replace("''", "'")
        if kind == "number":
            return int(text)
        if self._take("("):
            arguments = []
            while not self._take(")"):
                arguments.append(self._or())
                self._take(",")
            return self._call(text, arguments)
        return self._look_up(text)

    def _look_up(self, name: str) -> Any:
        found: Any = self.contexts
        for part in name.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        return found

    def _call(self, name: str, arguments: list[Any]) -> Any:
        functions: dict[str, Callable[..., Any]] = {
            "always": lambda: True,
            "toJSON": lambda value: json.dumps(value, indent=2),
            "fromJSON": json.loads,
            "contains": lambda items, item: item in (items or ()),
        }
        return functions[name](*arguments)


def _loose(value: Any) -> Any:
    return "" if value is None else value


def fill(text: str, contexts: Mapping[str, Any]) -> Any:
    """Return `text` with its expressions evaluated; the bare value where it is one expression."""
    whole = re.fullmatch(r"\$\{\{(.*)\}\}", text.strip(), re.DOTALL)
    if whole and "${{" not in whole[1]:
        return Expression(whole[1], contexts).value()

    def shown(match: re.Match[str]) -> str:
        value = Expression(match[1], contexts).value()
        return "" if value is None else str(value)

    return re.sub(r"\$\{\{(.*?)\}\}", shown, text, flags=re.DOTALL)


# ---------------------------------------------------------------- jobs
@dataclasses.dataclass
class JobRun:
    """How a job came out."""

    name: str
    result: str
    outputs: dict[str, str]
    log: str
    summary: str


class Runner:
    """Plays one run of a workflow in a project."""

    def __init__(self, project: Any, event: dict[str, Any], event_name: str) -> None:
        self.project = project
        self.root: Path = project.root
        self.work = self.root / "runner"
        self.work.mkdir()
        self.artifacts = self.work / "artifacts"
        self.artifacts.mkdir()
        (self.work / "event.json").write_text(json.dumps(event))
        self.event_name = event_name
        self.github = {
            "event": event,
            "event_name": event_name,
            "token": "none",
            "workflow": "hwmatrix",
            "run_id": "77",
        }
        self.inputs = event.get("inputs", {})
        self.kill: str | None = None
        text = (self.root / ".github" / "workflows" / "hwmatrix.yml").read_text()
        self.workflow = yaml.safe_load(text)
        python = self.work / "bin" / "python3"
        python.parent.mkdir()
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)

    def contexts(self, **more: Any) -> dict[str, Any]:
        return {"github": self.github, "inputs": self.inputs, **more}

    def run(self) -> dict[str, list[JobRun]]:
        """Run every job in order of its needs, as the file has them."""
        done: dict[str, list[JobRun]] = {}
        for key, job in self.workflow["jobs"].items():
            named = job.get("needs", [])
            needs = [named] if isinstance(named, str) else named
            done[key] = self._job(key, job, {name: done[name] for name in needs})
        return done

    def run_failed_again(self, done: dict[str, list[JobRun]]) -> dict[str, list[JobRun]]:
        """Do what "Re-run failed jobs" does: jobs that went well keep their results."""
        failed = {run.name for runs in done.values() for run in runs if run.result == "failure"}
        again: dict[str, list[JobRun]] = {}
        for key, job in self.workflow["jobs"].items():
            named = job.get("needs", [])
            before = {n: again[n] for n in ([named] if isinstance(named, str) else named)}
            if {run.name for run in done[key]} & failed:
                known = {run.name: run for run in done[key] if run.name not in failed}
                again[key] = self._job(key, job, before, known)
            else:
                again[key] = done[key]
        return again

    def _job(
        self,
        key: str,
        job: dict[str, Any],
        before: dict[str, list[JobRun]],
        known: Mapping[str, JobRun] | None = None,
    ) -> list[JobRun]:
        """Run a job, or each job of its matrix; those in `known` have run already."""
        needs = {
            name: {"result": _result(runs), "outputs": runs[0].outputs if runs else {}}
            for name, runs in before.items()
        }
        contexts = self.contexts(needs=needs)
        condition = str(job.get("if", "true"))
        well = all(need["result"] == "success" for need in needs.values())
        wanted = condition == "true" or fill(condition, contexts)
        if not wanted or not (well or "always()" in condition):
            return [JobRun(str(job["name"]), "skipped", {}, "", "")]
        if "strategy" not in job:
            return [self._steps(key, job, contexts)]
        entries = fill(job["strategy"]["matrix"], contexts)["include"]
        assert 1 <= fill(job["strategy"]["max-parallel"], contexts) <= 256
        return [
            (known or {}).get(entry["name"]) or self._steps(key, job, {**contexts, "matrix": entry})
            for entry in entries
        ]

    def _steps(self, key: str, job: dict[str, Any], contexts: dict[str, Any]) -> JobRun:
        name = str(fill(job["name"], contexts))
        assert fill(str(job["timeout-minutes"]), contexts)
        contexts = {**contexts, "steps": {}, "env": self.workflow["env"]}
        failed, log = False, ""
        summary = self.work / f"{key}-{len(list(self.work.iterdir()))}.md"
        summary.touch()
        for step in job["steps"]:
            condition = str(step.get("if", "true"))
            wanted = condition == "true" or fill(condition, contexts)
            if not wanted or (failed and "always()" not in condition):
                continue
            if "uses" in step:
                self._action(step, contexts)
                continue
            status, said, outputs = self._shell(name, step, job, contexts, summary)
            log += said
            failed = failed or status != 0
            contexts["steps"][step.get("id", "")] = {"outputs": outputs}
        outputs = {n: str(fill(text, contexts)) for n, text in job.get("outputs", {}).items()}
        result = "failure" if failed else "success"
        return JobRun(name, result, outputs, log, summary.read_text())

    def _action(self, step: dict[str, Any], contexts: dict[str, Any]) -> None:
        action = step["uses"].partition("@")[0]
        given = {name: fill(str(value), contexts) for name, value in step.get("with", {}).items()}
        if action == "actions/upload-artifact":
            source, target = self.root / given["path"], self.artifacts / given["name"]
            assert re.fullmatch(r'[^":<>|*?\r\n\\/]+', given["name"])
            if given.get("overwrite"):
                shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            if source.is_dir():
                shutil.copytree(source, target, dirs_exist_ok=True)
            else:
                shutil.copy(source, target)
        elif action == "actions/download-artifact":
            shutil.rmtree(self.root / given["path"], ignore_errors=True)  # a fresh machine
            shutil.copytree(self.artifacts, self.root / given["path"])
        else:
            assert action in {"actions/checkout", "actions/setup-python"}

    def _shell(
        self,
        name: str,
        step: dict[str, Any],
        job: dict[str, Any],
        contexts: dict[str, Any],
        summary: Path,
    ) -> tuple[int, str, dict[str, str]]:
        """Run one step as GitHub does: bash, or sh in a container; return its outputs too."""
        assert "${{" not in step["run"], "an expression in a shell line"
        output = self.work / f"output-{len(list(self.work.iterdir()))}"
        output.touch()
        own = {k: v for k, v in self.project.env().items() if not k.startswith("NOX")}
        env = {
            **own,
            **self.workflow["env"],
            "PATH": f"{self.work / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "GITHUB_ACTIONS": "true",
            "GITHUB_EVENT_PATH": str(self.work / "event.json"),
            "GITHUB_EVENT_NAME": self.event_name,
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(summary),
            **{n: str(_loose(fill(str(v), contexts))) for n, v in step.get("env", {}).items()},
        }
        inside = bool(fill(str(job.get("container", "")), contexts))
        shell = ["sh", "-e", "-c"] if inside else ["bash", "-e", "-c"]
        command = [*shell, step["run"]]
        with (self.work / "log").open("w+") as log:
            process = subprocess.Popen(command, cwd=self.root, env=env, stdout=log, stderr=log)
            if self.kill == name and step.get("id") == "session":
                self._kill_guard(process, output)
            status = process.wait(timeout=600)
            log.seek(0)
            said = log.read()
        return status, said, _outputs(output.read_text())

    def _kill_guard(self, process: subprocess.Popen[bytes], output: Path) -> None:
        """Kill the session's own process once a file of it runs; wait until all is swept."""
        folder = self._wait(lambda: _outputs(output.read_text()).get("folder", ""), process)
        journal = Path(folder) / "journal"
        started = "UnitStart"
        self._wait(lambda: any(started in f.read_text() for f in journal.glob("*")), process)
        process.kill()
        process.wait(timeout=LIMIT_S)
        swept = _until(lambda: any("RunEnd" in f.read_text() for f in journal.glob("*")))
        assert swept, "the run has no end"

    def _wait(self, found: Callable[[], Any], process: subprocess.Popen[bytes]) -> Any:
        def ready() -> Any:
            assert process.poll() is None, "the session ended before it could be killed"
            return found()

        return _until(ready)


def _until(found: Callable[[], Any]) -> Any:
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        if value := found():
            return value
        time.sleep(0.05)
    return None


def _result(runs: list[JobRun]) -> str:
    results = {run.result for run in runs}
    return next((r for r in ("failure", "cancelled", "success") if r in results), "skipped")


def _outputs(text: str) -> dict[str, str]:
    """Read what a step wrote to $GITHUB_OUTPUT, by GitHub's rules."""
    found: dict[str, str] = {}
    lines = iter(text.split("\n"))
    for line in lines:
        if "<<" in line:
            name, _, word = line.partition("<<")
            value = []
            for inner in lines:
                if inner == word:
                    break
                value.append(inner)
            found[name] = "\n".join(value)
        elif line:
            name, _, rest = line.partition("=")
            found[name] = rest
    return found


def make_project(root: Path) -> Any:
    """A project of three files on cpu, whose table makes three shards of them, in a container."""
    made = _session_conftest().Project(root)
    table = made.table.read_text().replace("slots = 2", "slots = 1")
    table = table.replace(
        "max_job_minutes = 30\n\n[runner.1-gpu",
        'max_job_minutes = 30\nlabels = { cpu = ["here"] }\n\n[runner.1-gpu',
    )
    table = table.replace('default_variant = "cpu"\n', 'default_variant = "cpu"\nsetup_s = 1\n')
    made.table.write_text(table + CONTAINER + TABLE_ROWS)
    for letter in "abc":
        made.file(f"test_{letter}.py", "def test_it():\n    pass\n")
    (made.root / "ci" / "hwmatrix").symlink_to(PACKAGE / "hwmatrix")
    nox = made.root / "ci" / "nox"
    nox.write_text(NOX)
    nox.chmod(0o755)
    done = made.hwmatrix("workflow")
    assert done.status == 0, done.err
    return made


def make_runner(root: Path) -> Runner:
    """A run of the workflow in a new project, started by hand for the session cpu-stage-b."""
    event = {"inputs": {"session": "cpu-stage-b"}, "repository": {"full_name": "o/r"}}
    return Runner(make_project(root), event, "workflow_dispatch")


@dataclasses.dataclass
class Played:
    """Two attempts at one run: the second shard was killed in the first and ran in the second."""

    runner: Runner
    first: dict[str, list[JobRun]]
    first_uploads: dict[str, list[str]]
    second: dict[str, list[JobRun]]

    def reports(self, to: Path) -> Path:
        """Copy what `finish` read last to a folder that a test may spoil."""
        shutil.copytree(self.runner.root / "reports", to)
        return to


# The second file has no end while this file lies beside the tests: it is killed meanwhile.
SLOW = """\
import time
from pathlib import Path

def test_it():
    time.sleep(3600 if Path(__file__).with_name("slow").exists() else 0)
"""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    runner = make_runner(tmp_path_factory.mktemp("played"))
    runner.project.file("test_b.py", SLOW)
    slow = runner.root / "test" / "slow"
    slow.touch()
    runner.kill = "cpu-stage-b (cpu) 2"
    first = runner.run()
    uploads = {
        path.name: sorted(file.name for file in path.iterdir())
        for path in runner.artifacts.iterdir()
    }
    slow.unlink()
    runner.kill = None
    return Played(runner, first, uploads, runner.run_failed_again(first))


@pytest.fixture
def evaluate() -> Callable[[str, Mapping[str, Any]], Any]:
    """Return what evaluates a text with expressions over contexts."""
    return fill
