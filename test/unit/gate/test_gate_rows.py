"""`[[gate]]` rows as they are read: positions, references, rows that could never hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hwmatrix import gate
from hwmatrix import matrix as matrix_stage
from hwmatrix.errors import MatrixError
from hwmatrix.matrix.canonical import canonical
from hwmatrix.matrix.read import parse
from hwmatrix.matrix.schema import schema
from hwmatrix.model import Backend, GateEvent, GateRule

ROOT = Path(__file__).resolve().parents[3]
BASE = (ROOT / "test" / "data" / "gate" / "matrix.toml").read_text("utf-8").partition("[[gate]]")[0]
LINE = BASE.count("\n") + 1


def problems(rows: str) -> list[str]:
    with pytest.raises(MatrixError, match=r"\d") as caught:
        parse(BASE + rows, "t.toml")
    return [str(problem).removeprefix("t.toml:") for problem in caught.value.problems]


def test_a_row_with_everything() -> None:
    rows = """[[gate]]
name = "all"
about = "why"
events = ["pull_request", "schedule"]
cron = ["0 0 * * MON-FRI"]
backends = ["amd"]
tiers = ["extra-a"]
suites = ["extra-a-test-1-gpu-amd"]
variants = ["rocm-7.1"]
labels = ["run me, please"]
bypass_labels = ["schedule"]
drafts = true
branches = ["main"]
paths = ["src/**", "!src/*.md"]
continue_on_error = []
env = { A = "1" }
"""
    table = parse(BASE + rows, "t.toml")
    assert table.gates == (
        GateRule(
            name="all",
            about="why",
            events=(GateEvent.PULL_REQUEST, GateEvent.SCHEDULE),
            cron=("0 0 * * MON-FRI",),
            backends=(Backend.AMD,),
            tiers=("extra-a",),
            suites=("extra-a-test-1-gpu-amd",),
            variants=("rocm-7.1",),
            labels=("run me, please",),
            bypass_labels=(GateEvent.SCHEDULE,),
            drafts=True,
            branches=("main",),
            paths=("src/**", "!src/*.md"),
            continue_on_error=(),
            env={"A": "1"},
            line=LINE,
        ),
    )
    assert canonical(BASE + rows, table) == ()


def test_no_row_is_no_problem_and_defaults_hold() -> None:
    assert parse(BASE, "t.toml").gates == ()
    rows = '[[gate]]\nname = "x"\nevents = ["push"]\n'
    (rule,) = parse(BASE + rows, "t.toml").gates
    assert rule == GateRule(name="x", events=(GateEvent.PUSH,), line=LINE)


ROW = '[[gate]]\nname = "x"\nevents = ["pull_request"]\n'
SCHEDULE = '[[gate]]\nname = "x"\nevents = ["schedule"]\n'
WRONG = {
    "no array": (
        "[gate]\nname = 'x'\n",
        [f"{LINE}: gate is a table (a table). Allowed: an array of tables. Write [[gate]]."],
    ),
    "no name": (
        "[[gate]]\nevents = ['push']\n",
        [f"{LINE}: gate[0] lacks the key 'name'. It is required: What reasons call this row."],
    ),
    "unknown key": (
        ROW + "label = ['a']\n",
        [f"{LINE + 3}: gate[0].label is no key of the table. Keys here: name, about, ev"],
    ),
    "unknown event": (
        "[[gate]]\nname = 'x'\nevents = ['pull_requests']\n",
        [f'{LINE + 2}: gate[0].events[0] is "pull_requests". Allowed: pull_request, push, merge_'],
    ),
    "same name": (
        ROW + ROW,
        [
            (
                f'{LINE + 4}: gate[1].name is "x", as is that of the row on line {LINE}. '
                "Rename one: reasons name rows."
            )
        ],
    ),
    "unknown names": (
        ROW + "backends = ['xpu']\ntiers = ['extra-aa']\nsuites = ['stage-b-test-1-gp']\n"
        "variants = ['rocm-7.9']\n",
        [
            f'{LINE + 3}: gate[0].backends[0] is "xpu", which is no backend with a row. Declared: ',
            f'{LINE + 4}: gate[0].tiers[0] is "extra-aa", which is no tier. Declared: stage-a, ',
            f'{LINE + 5}: gate[0].suites[0] is "stage-b-test-1-gp", which is no suite of these ba',
            f'{LINE + 6}: gate[0].variants[0] is "rocm-7.9", which is no variant of these backend',
        ],
    ),
    "retired variant": (
        ROW + "variants = ['rocm-7.0']\n",
        [
            (
                f'{LINE + 3}: gate[0].variants[0] is "rocm-7.0", which is retired: Take ROCm 7.1 '
                "or 7.2. Remove it."
            )
        ],
    ),
    "schedule without cron": (
        SCHEDULE,
        [f"{LINE}: gate[0] answers to schedules, and lacks the key 'cron'. Say which schedules."],
    ),
    "cron without schedule": (
        ROW + "cron = ['0 0 * * *']\n",
        [f"{LINE + 3}: gate[0].cron is never looked at: the row does not answer to schedules. Add"],
    ),
    "cron with four fields": (
        SCHEDULE + "cron = ['0 0 * *']\n",
        [f'{LINE + 3}: gate[0].cron[0] is "0 0 * *". Allowed: five fields with one blank between '],
    ),
    "labels on a schedule": (
        SCHEDULE + "cron = ['0 0 * * *']\nlabels = ['a']\n",
        [
            (
                f"{LINE + 4}: gate[0].labels can never hold on schedule, which has no labels. Say "
                'bypass_labels = ["schedule"], or give the event a row of its own.'
            )
        ],
    ),
    "a pull request bypasses": (
        ROW + "labels = ['a']\nbypass_labels = ['pull_request']\n",
        [f'{LINE + 4}: gate[0].bypass_labels[0] is "pull_request". Allowed: push, merge_group, sc'],
    ),
    "a bypass of nothing": (
        '[[gate]]\nname = "x"\nevents = ["push"]\nbypass_labels = ["push"]\n',
        [f"{LINE + 3}: gate[0].bypass_labels has no labels to bypass. Remove it, or add labels."],
    ),
    "switches of other events": (
        ROW + "labels = ['a']\nbypass_labels = ['push']\ncontinue_on_error = ['schedule']\n",
        [
            (
                f'{LINE + 4}: gate[0].bypass_labels[0] is "push", which this row does not answer '
                "to. Its events: pull_request."
            ),
            f'{LINE + 5}: gate[0].continue_on_error[0] is "schedule", which this row does not ans',
        ],
    ),
    "globs that take nothing in": (
        ROW + "branches = ['!main']\npaths = ['!docs/**']\n",
        [
            f"{LINE + 3}: gate[0].branches takes nothing in: every glob takes out. Put ",
            f"{LINE + 4}: gate[0].paths takes nothing in: every glob takes out. Put ",
        ],
    ),
    "globs of another dialect": (
        ROW + "paths = ['src/[ab].py', '{a,b}', '/src', '!!a', 'a\\b']\n",
        [f"{LINE + 3}: gate[0].paths[{index}] is " for index in range(5)],
    ),
    "conditions that nobody looks at": (
        SCHEDULE + "cron = ['0 0 * * *']\ndrafts = true\nbranches = ['main']\npaths = ['**']\n",
        [
            f"{LINE + 4}: gate[0].drafts is of pull requests alone. Remove it.",
            f"{LINE + 5}: gate[0].branches is never looked at on schedule. It counts on merge_gr",
            f"{LINE + 6}: gate[0].paths is never looked at on schedule. It counts on merge_group",
        ],
    ),
    "a variable that has an owner": (
        ROW + "env = { CUDA_VISIBLE_DEVICES = '0' }\n",
        [f"{LINE + 3}: gate[0].env.CUDA_VISIBLE_DEVICES is set by the session itself, for each "],
    ),
    "two values of one switch": (
        ROW + "env = { A = '1' }\n" + ROW.replace('"x"', '"y"') + "env = { A = '2' }\n",
        [
            (
                f'{LINE + 7}: gate[1].env.A is "2", and "1" in row \'x\', which may start the same '
                "session on the same event. Give both the same value, or keep the rows apart."
            )
        ],
    ),
}


@pytest.mark.parametrize("name", [name for name, (_, found) in WRONG.items() if found])
def test_a_fault_is_told_with_its_line(name: str) -> None:
    rows, expected = WRONG[name]
    assert expected is not None
    found = problems(rows)
    assert len(found) == len(expected), found
    for message, part in zip(found, expected, strict=True):
        assert message.startswith(part)


def test_an_element_that_is_no_table() -> None:
    text = "gate = [1]\n" + BASE
    with pytest.raises(MatrixError, match=r"t.toml:1: gate\[0\] is an integer \(1\). Allowed: a"):
        parse(text, "t.toml")


APART = {
    "events": ('["push"]', ""),
    "backends": ('["pull_request"]', "backends = ['cpu']\n"),
}


@pytest.mark.parametrize("name", APART)
def test_rows_that_never_meet_may_differ(name: str) -> None:
    events, more = APART[name]
    one = ROW + "backends = ['amd']\nenv = { A = '1' }\n"
    other = f"[[gate]]\nname = 'y'\nevents = {events}\n{more}env = {{ A = '2' }}\n"
    assert len(parse(BASE + one + other, "t.toml").gates) == 2


def test_rows_that_meet_may_agree() -> None:
    rows = ROW + "env = { A = '1' }\n" + ROW.replace('"x"', '"y"') + "env = { A = '1', B = '2' }\n"
    assert [rule.env for rule in parse(BASE + rows, "t.toml").gates] == [
        {"A": "1"},
        {"A": "1", "B": "2"},
    ]


def test_schedules_of_different_hours_may_differ() -> None:
    rows = [
        f"[[gate]]\nname = '{n}'\nevents = ['schedule']\ncron = ['0 {n} * * *']\n"
        f"env = {{ A = '{n}' }}\n"
        for n in (1, 2)
    ]
    assert len(parse(BASE + "".join(rows), "t.toml").gates) == 2


def test_keys_have_an_order() -> None:
    rows = '[[gate]]\nevents = ["push"]\nname = "x"\n'
    (found,) = canonical(BASE + rows, parse(BASE + rows, "t.toml"))
    assert str(found) == (
        f"t.toml:{LINE + 2}: gate[0].name stands after 'events'. Move it above 'events'."
    )


def test_editors_know_the_rows() -> None:
    made = json.loads(json.dumps(schema()))["properties"]["gate"]
    assert made["type"] == "array"
    assert made["items"]["required"] == ["name", "events"]
    assert made["items"]["properties"]["events"]["items"]["enum"] == [e.value for e in GateEvent]


# ---------------------------------------------------------------- rows and suites, both ways


def unreached(rows: str) -> list[str]:
    return [str(problem) for problem in gate.unreached(parse(BASE + rows, "t.toml"))]


def test_without_rows_nothing_is_unreached() -> None:
    assert unreached("") == []


def test_a_suite_that_no_row_reaches_is_told() -> None:
    rows = "[[gate]]\nname = 'x'\nevents = ['push']\nbackends = ['cpu', 'cuda', 'musa']\n"
    rows += "[[gate]]\nname = 'y'\nevents = ['push']\nsuites = ['stage-b-test-1-gpu-amd', "
    rows += "'extra-a-test-1-gpu-amd']\n"
    (found,) = unreached(rows)
    line = BASE[: BASE.index("[suite.amd.nightly")].count("\n") + 1
    assert found == (
        f"t.toml:{line}: amd suite 'nightly-test-1-gpu-amd' is started by no [[gate]] row, so CI "
        "never runs it. A row for dispatches alone counts only for the suites that it names. "
        "Add 'nightly' or 'amd' to a row, or a row for it."
    )


def test_a_row_that_waits_for_a_person_counts_for_what_it_names() -> None:
    rows = "[[gate]]\nname = 'x'\nevents = ['push']\nbackends = ['cpu', 'cuda', 'musa']\n"
    rows += "[[gate]]\nname = 'y'\nevents = ['workflow_dispatch', 'workflow_call']\n"
    assert len(unreached(rows)) == 3
    assert len(unreached(rows + "suites = ['nightly-test-1-gpu-amd', 'stage-a-test-cpu']\n")) == 2


def test_a_row_that_reaches_no_suite_is_told() -> None:
    rows = "[[gate]]\nname = 'x'\nevents = ['push']\n"
    rows += "[[gate]]\nname = 'y'\nevents = ['push']\nbackends = ['cpu']\ntiers = ['extra-a']\n"
    (found,) = unreached(rows)
    assert found == (
        f"t.toml:{LINE + 3}: gate row 'y' reaches no suite, so it never starts anything. Its "
        "backends, tiers and suites must have a suite in common. Mend or remove it."
    )


# ---------------------------------------------------------------- this repository's own rows


def started(payload: object, name: str, labels: tuple[str, ...]) -> set[str]:
    table = matrix_stage.load(ROOT / "ci" / "matrix.toml")
    decision = gate.decide(
        gate.read_event(json.dumps(payload).encode(), name=name),
        table,
        sessions=matrix_stage.sessions(table),
        labels=gate.Facts(names=labels),
        changes=gate.Facts(names=("ci/hwmatrix/cli.py",)),
    )
    return {f"{chosen.backend}-{chosen.tier}" for chosen in decision.sessions}


def test_every_suite_of_this_repository_is_reached() -> None:
    assert gate.unreached(matrix_stage.load(ROOT / "ci" / "matrix.toml")) == ()


def test_this_repository_runs_cpu_on_pull_requests_and_accelerators_by_label() -> None:
    event = {
        "action": "opened",
        "number": 1,
        "pull_request": {"number": 1, "base": {"ref": "main"}},
    }
    plain = started(event, "pull_request", ())
    assert {"cpu-stage-b", "cpu-stage-c"} <= plain
    assert {name.partition("-")[0] for name in plain} == {"cpu"}
    labelled = started(event, "pull_request", ("run-ci",))
    assert {"cuda-stage-b", "amd-stage-b", "xpu-stage-b", "npu-stage-b"} <= labelled
    assert not {name for name in labelled if "-extra-" in name}
    assert {"amd-extra-a"} <= started(event, "pull_request", ("run-ci", "run-ci-extra"))
