"""`python -m hwmatrix gate` as a workflow runs it, against a server that plays the API."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix import cli

if TYPE_CHECKING:
    from collections.abc import Callable

    Gate = Callable[..., subprocess.CompletedProcess[str]]

ROOT = Path(__file__).resolve().parents[3]
EVENTS = ROOT / "test" / "data" / "gate" / "events"
TOKEN = "ghs_0123456789abcdefghijABCDEFGHIJ"
LABELS = "/repos/ada-example/kernels/issues/7/labels?per_page=100"
FILES = "/repos/ada-example/kernels/pulls/7/files?per_page=100"
CODE = {"body": [{"filename": "src/a.py"}, {"filename": "src/b.py"}]}


def github(api: Any, event: str, name: str) -> dict[str, str]:
    """The variables that GitHub sets for a job."""
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_API_URL": api.base,
        "GITHUB_TOKEN": TOKEN,
        "GITHUB_EVENT_PATH": str(EVENTS / f"{event}.json"),
        "GITHUB_EVENT_NAME": name,
        "GITHUB_REPOSITORY": "ada-example/kernels",
        "HWMATRIX_INPUTS": "null",
    }


def sessions(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    return [row["session"] for row in json.loads(line)["sessions"]]


def test_a_rerun_sees_the_label_that_was_added_since(api: Any, gate: Gate) -> None:
    event = github(api, "pr-rerun-label-added", "pull_request")
    api.on(FILES, CODE)
    api.on(LABELS, {"body": []})
    first = gate("--json", **event)
    assert sessions(first) == ["cpu-stage-a", "cpu-stage-b"]
    assert "needs label 'run-ci'; the pull request has none" in first.stderr
    api.on(LABELS, {"body": [{"name": "run-ci"}]})
    again = gate("--json", GITHUB_RUN_ATTEMPT="2", **event)
    assert sessions(again) == ["cpu-stage-a", "cpu-stage-b", "cuda-stage-b", "amd-stage-b"]
    assert {headers["authorization"] for _, headers in api.asked} == {f"Bearer {TOKEN}"}
    assert TOKEN not in first.stdout + first.stderr + again.stdout + again.stderr


def test_labels_that_cannot_be_read_start_nothing_and_are_red(api: Any, gate: Gate) -> None:
    api.on(FILES, CODE)
    api.on(LABELS, {"status": 403, "body": {"message": "Resource not accessible"}})
    done = gate("--json", **github(api, "pr-opened-labelled", "pull_request"))
    assert (done.returncode, done.stdout) == (15, "")
    command, message = done.stderr.splitlines()
    assert command.startswith("::error title=gate::the labels of #7 cannot be read: 'http://127.")
    assert message.startswith("hwmatrix: the labels of #7 cannot be read: 'http://127.0.0.1:")
    assert "answered 403: the token may not read this" in message
    assert TOKEN not in done.stderr


def test_paths_that_cannot_be_read_keep_nothing_back(api: Any, gate: Gate) -> None:
    api.on(LABELS, {"body": []})
    api.on(FILES, {"status": 403})
    done = gate("--json", **github(api, "pr-opened", "pull_request"))
    assert sessions(done) == ["cpu-stage-a", "cpu-stage-b"]
    (note,) = json.loads(done.stdout)["notes"]
    assert note.startswith("the changed paths are not known, and so keep nothing back: 'http://")


def test_an_unrelated_label_asks_nobody_and_is_neutral(api: Any, gate: Gate) -> None:
    done = gate("--json", **github(api, "pr-labeled-unrelated", "pull_request"))
    assert sessions(done) == []
    assert json.loads(done.stdout)["neutral"] is True
    assert "NEUTRAL" in done.stderr
    assert api.asked == []


def test_a_schedule_asks_nobody(api: Any, gate: Gate) -> None:
    done = gate("--json", **github(api, "schedule-accuracy", "schedule"))
    (row,) = json.loads(done.stdout)["sessions"]
    assert row["session"] == "cuda-accuracy"
    assert row["continue_on_error"] is True
    assert row["env"] == {"HWMATRIX_ACCURACY_ONLY": "1"}
    assert api.asked == []


def test_people_get_words(gate: Gate) -> None:
    done = gate("--event", str(EVENTS / "push-main.json"))
    assert done.returncode == 0
    assert done.stdout.startswith("event  push on 'main'\nnote   the changed paths are not known")
    assert (
        "\nrun    cuda-stage-b  suites stage-b-test-1-gpu\n         row 'main' (ci/" in done.stdout
    )
    assert "\nskip   cuda-stage-b-cuda-12.6\nskip   cuda-extra-a-cuda-12.6\n" in done.stdout
    assert done.stdout.endswith("\n3 of 20 sessions to run\n")


def test_without_an_api_labels_are_given_by_hand(gate: Gate) -> None:
    event = str(EVENTS / "pr-opened-labelled.json")
    done = gate("--event", event, "--json")
    assert done.returncode == 15
    assert "outside of GitHub, give --label NAME or --payload-labels" in done.stderr
    assert "::error" not in done.stderr
    by_hand = gate("--event", event, "--json", "--label", "run-ci", "--label", "run-ci-extra")
    assert "amd-extra-a" in sessions(by_hand)
    of_its_time = gate("--event", event, "--json", "--payload-labels")
    assert "amd-stage-b" in sessions(of_its_time)
    assert "amd-extra-a" not in sessions(of_its_time)


def test_changed_paths_from_a_file_and_from_git(gate: Gate, project: Path, tmp_path: Path) -> None:
    event = str(EVENTS / "pr-opened.json")
    listing = tmp_path / "changed"
    listing.write_bytes(b"docs/a.rst\0README.md\0")
    by_file = gate("--event", event, "--json", "--payload-labels", "--changes", str(listing))
    assert sessions(by_file) == []

    def git(*arguments: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
        command = ["git", *who, *arguments]
        subprocess.run(command, cwd=project, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-qm", "first")
    git("checkout", "-qb", "work")
    (project / "docs").mkdir()
    (project / "docs" / "a b.rst").write_text("x", encoding="utf-8")
    git("add", ".")
    git("commit", "-qm", "second")
    common = ("--event", event, "--json", "--payload-labels", "--diff")
    assert sessions(gate(*common, "main")) == []
    git("mv", "docs/a b.rst", "a.py")
    git("commit", "-qm", "third")
    assert sessions(gate(*common, "main")) == ["cpu-stage-a", "cpu-stage-b"]
    unknown = gate(*common[:-1], "--diff=--output=x")
    assert sessions(unknown) == ["cpu-stage-a", "cpu-stage-b"]
    assert "git diff ended with 128" in unknown.stderr
    assert not (project / "x...HEAD").exists()


def test_a_dispatch_of_one_file_reads_the_registrations(gate: Gate, tmp_path: Path) -> None:
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"inputs": {"file": "./test/registered/test_rope.py"}}))
    done = gate("--event", str(event), "--json")
    (row,) = json.loads(done.stdout)["sessions"]
    assert row["session"] == "cuda-stage-b"
    assert row["suites"] == ["stage-b-test-1-gpu"]
    assert row["paths"] == ["test/registered/test_rope.py"]


def test_nox_has_the_gate(project: Path) -> None:
    pytest.importorskip("nox")
    (project / "noxfile.py").write_text(
        "from pathlib import Path\n\nfrom hwmatrix import sessions\n\n"
        "sessions.register(Path(__file__).parent)\n",
        encoding="utf-8",
    )
    event = str(EVENTS / "schedule-weekend.json")
    done = subprocess.run(
        [sys.executable, "-m", "nox", "-s", "gate", "--", "--event", event, "--json"],
        cwd=project,
        env={"PYTHONPATH": str(ROOT / "ci"), "PATH": "/usr/bin:/bin", "HOME": str(project)},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=240,
    )
    assert sessions(done) == ["cuda-nightly", "amd-nightly"]


# ---------------------------------------------------------------- hostile text

HOSTILE = {
    "quotes": "run'ci\"`",
    "shell": "$(touch owned); `touch owned` && ${IFS}",
    "lines": "x\n::set-output name=sessions::all\r\n::stop-commands::y\u2028::error::z",
    "old command": "##[set-output name=sessions]all",
    "terminal": "\x1b[2J\x1b]0;owned\x07\x9b31m",
    "bidi": "\u202eci-nur\u2066",
    "surrogate": "\udc80\ud800",
    "json": '"}],"sessions":[{"session":"amd-extra-a"',
    "percent": "%0A::error::x",
    "huge": "a" * 2**20,
    "huge lines": "\n::error::" * 100_000,
}


def hostile_event(kind: str, text: str) -> tuple[str, dict[str, Any]]:
    """An event with `text` in one place, and GitHub's name of it."""
    pull = {"number": 7, "base": {"ref": "main"}, "labels": [{"name": text}]}
    opened = {"action": "opened", "pull_request": pull}
    events: dict[str, tuple[str, dict[str, Any]]] = {
        "branch": ("pull_request", {**opened, "pull_request": {**pull, "base": {"ref": text}}}),
        "label": ("pull_request", {**opened, "action": "labeled", "label": {"name": text}}),
        "paths": ("pull_request", opened),
        "action": ("pull_request", {**opened, "action": text}),
        "repository": ("pull_request", {**opened, "repository": {"full_name": text}}),
        "push": ("push", {"ref": f"refs/heads/{text}"}),
        "cron": ("schedule", {"schedule": text}),
    }
    name, event = events.get(kind, ("workflow_dispatch", {"inputs": {kind: text}}))
    return name, {"repository": {"full_name": "ada-example/kernels"}, **event}


KINDS = ("branch", "label", "paths", "action", "push", "cron", "repository", "suite", "file", "own")


def harmless(text: str) -> None:
    """No line begins with a command, no old command is in it, nothing moves a cursor."""
    for line in text.splitlines():
        if line.startswith("::error title=gate::"):
            assert "\n" not in line
            continue
        assert not line.lstrip().startswith("::")
        assert "##[" not in line
    assert all(char.isprintable() or char == "\n" for char in text)
    assert len(text) < 20_000


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("kind", KINDS)
def test_hostile_text_has_no_effect(  # noqa: PLR0917 - fixtures
    kind: str,
    text: str,
    api: Any,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name, event = hostile_event(kind, HOSTILE[text])
    path = project / "event.json"
    path.write_text(json.dumps(event), encoding="utf-8")
    api.on(LABELS, {"body": [{"name": HOSTILE[text]}]})
    api.on(FILES, {"body": [{"filename": HOSTILE[text]}]})
    monkeypatch.chdir(project)
    for key, value in {**github(api, "", name), "GITHUB_EVENT_PATH": str(path)}.items():
        monkeypatch.setenv(key, value)
    status = cli.main(["gate", "--json"])
    out, err = capsys.readouterr()
    assert status in {0, 15}
    assert (status == 0) is bool(re.fullmatch(r"[\x20-\x7e]*\n", out))
    harmless(out)
    harmless(err)
    rows = json.loads(out)["sessions"] if out else []
    started = {row["session"].split("-")[0] for row in rows}
    assert started <= ({"cpu"} if name != "workflow_dispatch" else {"cpu", "cuda", "amd"})
    assert not list(project.rglob("owned"))


def test_hostile_labels_of_the_table_reach_no_command(
    gate: Gate, project: Path, tmp_path: Path
) -> None:
    table = project / "ci" / "matrix.toml"
    text = table.read_text("utf-8").replace('"run-ci"', '"$(touch owned)`x`::set-output"')
    table.write_text(text, encoding="utf-8")
    event = str(EVENTS / "pr-opened.json")
    done = gate("--event", event, "--json", "--label", "$(touch owned)`x`::set-output")
    assert "cuda-stage-b" in sessions(done)
    harmless(done.stdout)
    harmless(done.stderr)
    assert not list(tmp_path.rglob("owned"))
