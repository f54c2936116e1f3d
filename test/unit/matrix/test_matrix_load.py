"""Loading: what a right table comes to, and each thing that can be wrong with one, by its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hwmatrix.errors import MatrixError
from hwmatrix.matrix import load
from hwmatrix.matrix.read import parse
from hwmatrix.model import Backend, BudgetPolicy, Isolation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_defaults_are_laid_under_what_is_given(good: str) -> None:
    matrix = parse(good, "ci/matrix.toml")
    assert matrix.roots == ("test/registered",)
    assert matrix.tiers["stage-b"].budget == BudgetPolicy(
        factor=3, floor_s=30, startup_s=60, grace_s=30
    )
    assert matrix.tiers["extra-a"].budget == BudgetPolicy(
        factor=2, floor_s=30, startup_s=60, grace_s=30
    )
    runner = matrix.runner_configs["1-gpu"]
    assert (runner.slots, runner.memory_gib, runner.max_job_minutes) == (1, 0, 60.5)
    assert runner.arch == {Backend.AMD: ("gfx942",)}
    assert matrix.backends[Backend.AMD].setup_s == 300
    assert matrix.backends[Backend.AMD].variants["rocm-7.0"].retired == "too old"


def test_general_budget_rules_hold_where_a_tier_says_nothing(good: str) -> None:
    budget = "[budget]\nfactor = 5\ngrace_s = 7\n\n[tier.stage-b]"
    matrix = parse(good.replace("[tier.stage-b]", budget), "t.toml")
    assert matrix.tiers["stage-b"].budget.factor == 5
    assert matrix.tiers["extra-a"].budget.factor == 2
    assert matrix.tiers["extra-a"].budget.grace_s == 7


def test_suites_keep_order_and_line(good: str) -> None:
    suites = parse(good, "t.toml").suites
    assert [suite.name for suite in suites] == [
        "stage-b-test-cpu",
        "stage-b-test-1-gpu-amd",
        "extra-a-test-1-gpu-amd",
    ]
    line = good.split("\n").index("[suite.amd.extra-a-test-1-gpu-amd]") + 1
    assert suites[2].line == line
    assert suites[1].aliases == ("old-name",)


def test_a_suite_may_say_isolation_and_environment(spoil: Callable[[str, str], str]) -> None:
    more = 'aliases = ["old-name"]\nisolation = "spawn"\nenv = { K = "a b=c" }'
    suite = parse(spoil('aliases = ["old-name"]', more), "t.toml").suites[1]
    assert suite.isolation is Isolation.SPAWN
    assert suite.env == {"K": "a b=c"}


# What is replaced in the good table, by what, and the whole message.
SPOILT = {
    "unknown key": (
        "[tier.stage-b]",
        "[tier.stage-b]\nnigthly = true",
        (
            "ci/matrix.toml:24: tier.stage-b.nigthly is no key of the table. Keys here: about, "
            "nightly, fail_fast, target_minutes, env, budget, retries. Did you mean 'nightly'?"
        ),
    ),
    "unknown top-level table": (
        "[tier.stage-b]",
        "[teir.stage-b]",
        (
            "ci/matrix.toml:23: teir is no key of the table. Keys here: version, project, budget, "
            "backend, tier, runner, suite, gate, ci. Did you mean 'tier'?"
        ),
    ),
    "missing version": (
        "version = 1",
        "",
        (
            "ci/matrix.toml:1: the file lacks the key 'version'. It is required: The version of "
            "this format."
        ),
    ),
    "later version": (
        "version = 1",
        "version = 2",
        "ci/matrix.toml:1: version is 2. Allowed: a whole number, at least 1, at most 1.",
    ),
    "version as text": (
        "version = 1",
        'version = "1"',
        'ci/matrix.toml:1: version is a string ("1"). Allowed: a whole number.',
    ),
    "unknown tier": (
        'tier = "extra-a"',
        'tier = "extra-aa"',
        (
            'ci/matrix.toml:47: suite.amd.extra-a-test-1-gpu-amd.tier is "extra-aa", which is no '
            "tier. Declared: stage-b, extra-a. Did you mean 'extra-a'?"
        ),
    ),
    "unknown runner config": (
        'runner_config = "cpu"',
        'runner_config = "cpus"',
        (
            'ci/matrix.toml:39: suite.cpu.stage-b-test-cpu.runner_config is "cpus", which is no '
            "runner config. Declared: cpu, 1-gpu. Did you mean 'cpu'?"
        ),
    ),
    "unknown backend": (
        "[backend.cpu]",
        "[backend.rocm]\n[backend.cpu]",
        (
            "ci/matrix.toml:3: backend.rocm names no backend. Allowed: cpu, cuda, amd, xpu, npu, "
            "musa, mlx."
        ),
    ),
    "backend of a suite": (
        "[suite.cpu.stage-b-test-cpu]",
        "[suite.cuda.stage-b-test-cpu]",
        (
            "ci/matrix.toml:37: suite.cuda.stage-b-test-cpu belongs to the backend 'cuda', which "
            "has no row. Add [backend.cuda]."
        ),
    ),
    "unknown default variant": (
        'default_variant = "rocm-7.2"',
        'default_variant = "rocm-72"',
        (
            'ci/matrix.toml:12: backend.amd.default_variant is "rocm-72", which is no variant of '
            "this backend. Declared: rocm-7.2, rocm-7.0. Did you mean 'rocm-7.2'?"
        ),
    ),
    "retired default variant": (
        'default_variant = "rocm-7.2"',
        'default_variant = "rocm-7.0"',
        (
            'ci/matrix.toml:12: backend.amd.default_variant is "rocm-7.0", which is retired. '
            "Current variants: rocm-7.2."
        ),
    ),
    "no default variant": (
        'default_variant = "cpu"',
        "",
        "ci/matrix.toml:3: backend.cpu lacks the key 'default_variant'. Variants: cpu.",
    ),
    "variant without torch": (
        'torch = "2.13.0+cpu"\n',
        "",
        (
            "ci/matrix.toml:6: backend.cpu.variant.cpu lacks the key 'torch'. It is required "
            "unless `retired` says why not."
        ),
    ),
    "loose torch": (
        '"2.13.0+cpu"',
        '">=2.13"',
        (
            'ci/matrix.toml:7: backend.cpu.variant.cpu.torch is ">=2.13". Allowed: an exact '
            "version, with its local label where it has one (2.11.0+rocm7.2)."
        ),
    ),
    "index that is no address": (
        '"https://index.example/cpu"',
        '"cpu"',
        (
            'ci/matrix.toml:8: backend.cpu.variant.cpu.index is "cpu". Allowed: the address of a '
            "package index: http, https or file."
        ),
    ),
    "requirements outside": (
        '"requirements/cpu.in"',
        '"../cpu.in"',
        (
            'ci/matrix.toml:9: backend.cpu.variant.cpu.requirements is "../cpu.in". Allowed: a '
            "path from the project's root with forward slashes, not above it."
        ),
    ),
    "not a table": (
        "[tier.stage-b]",
        "[tier]\nstage-b = 3",
        "ci/matrix.toml:24: tier.stage-b is an integer (3). Allowed: a table.",
    ),
    "rows that are no table": (
        'env = { A = "backend", B = "backend" }',
        'env = "A=1"',
        'ci/matrix.toml:13: backend.amd.env is a string ("A=1"). Allowed: a table.',
    ),
    "a number where text belongs": (
        'A = "backend"',
        "A = 1",
        'ci/matrix.toml:13: backend.amd.env.A is an integer (1). Allowed: a string. Write "1".',
    ),
    "text where an array belongs": (
        'aliases = ["old-name"]',
        'aliases = "old-name"',
        (
            "ci/matrix.toml:44: suite.amd.stage-b-test-1-gpu-amd.aliases is a string "
            '("old-name"). Allowed: an array of strings. Write ["old-name"].'
        ),
    ),
    "an array where text belongs": (
        'tier = "extra-a"',
        'tier = ["extra-a"]',
        (
            "ci/matrix.toml:47: suite.amd.extra-a-test-1-gpu-amd.tier is an array (an array). "
            "Allowed: a string."
        ),
    ),
    "a date": (
        "max_job_minutes = 30",
        "max_job_minutes = 1979-05-27",
        (
            "ci/matrix.toml:30: runner.cpu.max_job_minutes is a date or time (1979-05-27). "
            "Allowed: a number."
        ),
    ),
    "text where a truth value belongs": (
        "[tier.stage-b]",
        '[tier.stage-b]\nnightly = "yes"',
        'ci/matrix.toml:24: tier.stage-b.nightly is a string ("yes"). Allowed: true or false.',
    ),
    "a truth value where a number belongs": (
        "max_job_minutes = 30",
        "max_job_minutes = true",
        "ci/matrix.toml:30: runner.cpu.max_job_minutes is a boolean (true). Allowed: a number.",
    ),
    "a fraction of a device": (
        "devices = 1\nmax_job_minutes = 30",
        "devices = 1.0\nmax_job_minutes = 30",
        "ci/matrix.toml:29: runner.cpu.devices is a float (1.0). Allowed: a whole number.",
    ),
    "no device": (
        "devices = 1\nmax_job_minutes = 30",
        "devices = 0\nmax_job_minutes = 30",
        (
            "ci/matrix.toml:29: runner.cpu.devices is 0. Allowed: a whole number, at least 1, at "
            "most 1024."
        ),
    ),
    "missing devices": (
        "devices = 1\nmax_job_minutes = 30",
        "max_job_minutes = 30",
        (
            "ci/matrix.toml:28: runner.cpu lacks the key 'devices'. It is required: Devices that "
            "one file owns while it runs. On cpu a device is a rank."
        ),
    ),
    "infinite minutes": (
        "max_job_minutes = 30",
        "max_job_minutes = inf",
        (
            "ci/matrix.toml:30: runner.cpu.max_job_minutes is inf. Allowed: a number, above 0, at "
            "most 527040."
        ),
    ),
    "minutes that are no number": (
        "max_job_minutes = 30",
        "max_job_minutes = nan",
        (
            "ci/matrix.toml:30: runner.cpu.max_job_minutes is nan. Allowed: a number, above 0, at "
            "most 527040."
        ),
    ),
    "no minutes": (
        "max_job_minutes = 30",
        "max_job_minutes = 0.0",
        (
            "ci/matrix.toml:30: runner.cpu.max_job_minutes is 0.0. Allowed: a number, above 0, at "
            "most 527040."
        ),
    ),
    "factor below one": (
        "factor = 2",
        "factor = 0.5",
        (
            "ci/matrix.toml:26: tier.extra-a.budget.factor is 0.5. Allowed: a number, at least 1, "
            "at most 1000."
        ),
    ),
    "bad variable": (
        'A = "backend"',
        '"A-B" = "backend"',
        (
            "ci/matrix.toml:13: backend.amd.env.A-B is no name for a variable. Allowed: a "
            "variable's name: letters, digits and underscores, no digit first."
        ),
    ),
    "shell": (
        'A = "backend"',
        'A = "$(id)"',
        (
            'ci/matrix.toml:13: backend.amd.env.A is "$(id)". Allowed: one line of text, taken as '
            "it stands: no `$(...)`, `${...}` or backtick."
        ),
    ),
    "a variable that the session owns": (
        'A = "backend"',
        'ROCR_VISIBLE_DEVICES = "0"',
        (
            "ci/matrix.toml:13: backend.amd.env.ROCR_VISIBLE_DEVICES is set by the session itself, "
            "for each slot. Remove it; the runner config says how many devices a file owns."
        ),
    ),
    "a name that a shell would read": (
        "[suite.amd.extra-a-test-1-gpu-amd]",
        '[suite.amd."x; rm -rf"]',
        (
            'ci/matrix.toml:46: suite.amd."x; rm -rf" is no name for a suite. Allowed: a name of '
            "letters, digits, dots, dashes and underscores, 100 at most, that starts with a letter "
            "or digit."
        ),
    ),
    "unknown architecture": (
        '["gfx942"]',
        '["gfx942", "sm_90"]',
        (
            'ci/matrix.toml:35: runner.1-gpu.arch.amd[1] is "sm_90". Architectures of amd: gfx942, '
            "gfx950 ..."
        ),
    ),
    "no architecture": (
        '["gfx942"]',
        "[]",
        "ci/matrix.toml:35: runner.1-gpu.arch.amd is empty. At least 1 element is needed.",
    ),
    "twice in an array": (
        '["gfx942"]',
        '["gfx942", "gfx942"]',
        'ci/matrix.toml:35: runner.1-gpu.arch.amd[1] says "gfx942" a second time. Remove it.',
    ),
    "unknown way to start": (
        'aliases = ["old-name"]',
        'isolation = "forks"',
        (
            "ci/matrix.toml:44: suite.amd.stage-b-test-1-gpu-amd.isolation is "
            "\"forks\". Allowed: fork, spawn. Did you mean 'fork'?"
        ),
    ),
    "alias that is a suite": (
        '["old-name"]',
        '["extra-a-test-1-gpu-amd"]',
        (
            "ci/matrix.toml:44: suite.amd.stage-b-test-1-gpu-amd.aliases[0] is "
            '"extra-a-test-1-gpu-amd", which is the name of a suite on amd already '
            "('extra-a-test-1-gpu-amd'). Remove one of them."
        ),
    ),
    "alias that is an alias": (
        'tier = "extra-a"',
        'tier = "extra-a"\naliases = ["old-name"]',
        (
            "ci/matrix.toml:48: suite.amd.extra-a-test-1-gpu-amd.aliases[0] is "
            "\"old-name\", which is an alias on amd already ('stage-b-test-1-gpu-amd'). Remove one "
            "of them."
        ),
    ),
    "two sessions of one name": (
        '[backend.amd.variant."rocm-7.0"]',
        "[backend.amd.variant.a]",
        # the tier below is added by the test
        (
            "ci/matrix.toml:25: tier.stage-b-a makes a second session 'amd-stage-b-a' (amd tier "
            "'stage-b', variant 'a'; tier 'stage-b-a', variant 'rocm-7.2'). Rename the tier or the "
            "variant."
        ),
    ),
    "an enormous number": (
        "max_job_minutes = 30",
        f"max_job_minutes = 1{'0' * 400}",
        (
            f"ci/matrix.toml:30: runner.cpu.max_job_minutes is 1{'0' * 59}. Allowed: a number, "
            "above 0, at most 527040."
        ),
    ),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_fault_is_told_with_its_place(
    name: str, spoil: Callable[[str, str], str], problems: Callable[[str], list[str]]
) -> None:
    old, new, message = SPOILT[name]
    text = spoil(old, new)
    if name == "two sessions of one name":
        text = text.replace("[tier.extra-a]", "[tier.stage-b-a]\n[tier.extra-a]")
        text += '\n[suite.amd.more]\ntier = "stage-b-a"\nrunner_config = "1-gpu"\n'
    assert message in problems(text)


def test_all_faults_are_told_in_one_run_and_none_brings_others(
    good: str, problems: Callable[[str], list[str]]
) -> None:
    text = good.replace("version = 1", "version = true")
    text = text.replace('tier = "extra-a"', 'tier = "nope"')
    text = text.replace("devices = 1\nmax_job_minutes = 30", "devices = -1\nmax_job_minutes = 30")
    text = text.replace('torch = "2.13.0+cpu"', "torch = 2.13")
    found = problems(text)
    assert [line.split(": ")[0] for line in found] == [
        "ci/matrix.toml:1",
        "ci/matrix.toml:7",
        "ci/matrix.toml:29",
        "ci/matrix.toml:47",
    ]


def test_a_column_is_known(spoil: Callable[[str, str], str]) -> None:
    with pytest.raises(MatrixError, match="gfx") as caught:
        parse(spoil('["gfx942"]', '["gfx942", "GFX950"]'), "t.toml")
    problem = caught.value.problems[0]
    assert (problem.line, problem.column) == (35, 27)


SYNTAX = {
    "no value": ("version =\n", r"t\.toml:1: is not valid TOML: Invalid value\."),
    "declared twice": (
        "a = 1\na = 2\n",
        r"t\.toml:2: is not valid TOML: Cannot overwrite a value\.",
    ),
    "open string": ('version = 1\na = "x\n', r"t\.toml:2: is not valid TOML: "),
    "open array": ("version = [1,\n\n", r"t\.toml:2: is not valid TOML: "),
    "open key": ("version", r"t\.toml:1: is not valid TOML: "),
    "mark": ("\ufeffversion = 1\n", r"t\.toml:1: begins with a byte order mark\. TOML is UTF-8 "),
    "deep": (f"a = {'[' * 20000}{']' * 20000}\n", r"t\.toml: nests arrays or tables too deeply"),
}


@pytest.mark.parametrize("name", SYNTAX)
def test_syntax_is_told_with_its_line(name: str) -> None:
    text, message = SYNTAX[name]
    with pytest.raises(MatrixError, match=message):
        parse(text, "t.toml")


def test_an_empty_file_lacks_what_is_required(problems: Callable[[str], list[str]]) -> None:
    missing = [line.split("'")[1] for line in problems("")]
    assert missing == ["backend", "runner", "suite", "tier", "version"]


def test_a_file_is_named_from_the_root(tmp_path: Path, good: str) -> None:
    path = tmp_path / "ci" / "matrix.toml"
    path.parent.mkdir()
    path.write_text(good, encoding="utf-8")
    assert load(path).path == "ci/matrix.toml"
    assert load(path, root=tmp_path / "ci").path == "matrix.toml"
    assert load(path, root=tmp_path / "elsewhere").path == path.as_posix()


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "ci"
    folder.mkdir()
    with pytest.raises(MatrixError, match=r"^ci/matrix\.toml: does not exist\. Run from the"):
        load(folder / "matrix.toml")
    (folder / "matrix.toml").write_bytes(b"version = 1\na = '\xff'\n")
    with pytest.raises(MatrixError, match=r"^ci/matrix\.toml:2: is not UTF-8: byte 0xff"):
        load(folder / "matrix.toml")
    (folder / "folder.toml").mkdir()
    with pytest.raises(MatrixError, match=r"^ci/folder\.toml: is a folder\."):
        load(folder / "folder.toml")
    (folder / "loop.toml").symlink_to("loop.toml")
    with pytest.raises(MatrixError, match=r"^ci/loop\.toml: cannot be read: "):
        load(folder / "loop.toml")


def test_windows_line_ends_count_as_lines(spoil: Callable[[str, str], str]) -> None:
    text = spoil('tier = "extra-a"', 'tier = "nope"').replace("\n", "\r\n")
    with pytest.raises(MatrixError, match=r"t\.toml:47: "):
        parse(text, "t.toml")


def test_retries_are_for_faults_of_the_machine_and_off_by_default(good: str) -> None:
    text = good.replace("[tier.stage-b]", "[tier.stage-b]\nretries = { infra = 2 }")
    tiers = parse(text, "t.toml").tiers
    assert (tiers["stage-b"].retries, tiers["extra-a"].retries) == (2, 0)
    with pytest.raises(MatrixError, match=r"retries.infra.*3"):
        parse(text.replace("infra = 2", "infra = 9"), "t.toml")
