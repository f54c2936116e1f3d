"""The guard's judgement on what an interpreter says of itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix.backends import BACKENDS
from hwmatrix.environments import faults, guard
from hwmatrix.environments.guard import Answer, OtherBuildError
from hwmatrix.errors import GuardError
from hwmatrix.model import Backend, Device, Variant

if TYPE_CHECKING:
    from pathlib import Path

PYTHON = "/env/bin/python"
MI300X = Device(key="0000:05:00.0", token=str(0), name="MI300X", arch="gfx942")


def variant(backend: Backend, torch: str, toolkit: str = "") -> Variant:
    return Variant(
        backend=backend, name="v", torch=torch, index="i", requirements="r", toolkit=toolkit
    )


def said(torch: str = "2.11.0+rocm7.2", **more: Any) -> Answer:
    kinds = {"cuda": None, "hip": None, "xpu": None, **more.pop("version", {"hip": "7.2.26015-f"})}
    facts = {"torch": torch, "prefix": "/env", "file": "/env/lib/torch/__init__.py"}
    return Answer(version=kinds, **{**facts, **more})


def judge(
    answer: Answer, which: Variant, devices: tuple[Device, ...] = (), *, exact: bool = True
) -> tuple[str, ...]:
    check = BACKENDS[which.backend].torch_check
    return guard.inspect(answer, which, check, devices, python=PYTHON, exact=exact)


AMD = variant(Backend.AMD, "2.11.0+rocm7.2", "7.2")


@pytest.mark.parametrize(
    ("which", "answer"),
    [
        (AMD, said()),
        (variant(Backend.CUDA, "2+cu130", "13.0"), said("2+cu130", version={"cuda": "13.0"})),
        (variant(Backend.XPU, "2+xpu"), said("2+xpu", version={"xpu": "20250302"})),
        (variant(Backend.CPU, "2+cpu"), said("2+cpu", version={})),
        (variant(Backend.NPU, "2+cpu"), said("2+cpu", version={})),
        (variant(Backend.MLX, "2"), said("2", version={})),
        (variant(Backend.MUSA, "2"), said("2", version={})),
    ],
)
def test_the_right_build_passes(which: Variant, answer: Answer) -> None:
    assert judge(answer, which) == ()


@pytest.mark.parametrize("which", [AMD, replace(AMD, toolkit="")])
def test_the_right_build_passes_on_its_device(which: Variant) -> None:
    assert judge(said(available=True, archs=("gfx90a", "gfx942")), which, (MI300X,)) == ()


@pytest.mark.parametrize(
    ("which", "answer", "reason"),
    [
        (
            AMD,
            said("2.11.0+cu130", version={"cuda": "13.0"}),
            r"built for cuda 13.0; torch.version.hip must be set",
        ),
        (AMD, said("2.11.0+cpu", version={}), r"built for none \(a cpu build\); torch.version.hip"),
        (AMD, said("2.12.0+rocm7.2"), r"torch is 2.12.0\+rocm7.2, the table pins 2.11.0\+rocm7.2"),
        (AMD, said(version={"hip": "7.1.25424"}), r"toolkit 7.1.25424; allowed is 7.2"),
        (AMD, said(version={"hip": "7.20.1"}), r"toolkit 7.20.1; allowed is 7.2"),
        (AMD, said(version={"hip": "7.2.1", "cuda": "13"}), r"which this backend never uses"),
        (
            variant(Backend.CPU, "2+cpu"),
            said("2+cpu", version={"cuda": "13.0"}),
            r"built for cuda 13.0, which this backend never uses",
        ),
        (
            variant(Backend.XPU, "2+xpu"),
            said("2+xpu", version={}),
            r"torch.version.xpu must be set",
        ),
        (
            variant(Backend.NPU, "2+cpu"),
            said("2+cpu", version={}, error="No module named 'torch_npu'"),
            r"importing torch, torch_npu fails: No module named 'torch_npu'",
        ),
        (AMD, Answer(error="No module named 'torch'"), r"cannot import torch \(No module named"),
        (AMD, Answer(), r"cannot import torch \(no version\)"),
    ],
)
def test_another_build_is_refused(which: Variant, answer: Answer, reason: str) -> None:
    with pytest.raises(OtherBuildError, match=reason):
        judge(answer, which)


def test_all_that_differs_is_said_at_once() -> None:
    with pytest.raises(OtherBuildError, match=r"toolkit 6.4.*the table pins.*It was found in"):
        judge(said("2.10.0+rocm6.4", version={"hip": "6.4.1"}), AMD)


def test_a_torch_from_outside_the_environment_is_refused_without_building_anew() -> None:
    with pytest.raises(GuardError, match=r"outside its own folder: PYTHONPATH") as caught:
        judge(said(file="/elsewhere/torch/__init__.py"), AMD)
    assert not isinstance(caught.value, OtherBuildError)


def test_another_version_is_a_note_in_somebody_elses_environment() -> None:
    answer = said("2.9.0a0+git1234", file="/opt/torch/__init__.py")
    assert judge(answer, AMD, exact=False) == (
        "torch is 2.9.0a0+git1234, the table pins 2.11.0+rocm7.2",
    )


def test_another_kind_is_refused_there_too() -> None:
    with pytest.raises(GuardError, match=r"torch.version.hip must be set.*leave --no-venv out"):
        judge(said("2.11.0+cu130", version={"cuda": "13.0"}), AMD, exact=False)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            said(available=False),
            r"torch.cuda.is_available\(\) is False, though the probe found MI300X",
        ),
        (
            said(available=True, archs=("gfx90a", "gfx1100")),
            r"torch is built for gfx90a, gfx1100, and not for gfx942",
        ),
    ],
)
def test_a_device_that_cannot_be_used_is_refused(answer: Answer, reason: str) -> None:
    with pytest.raises(GuardError, match=reason) as caught:
        judge(answer, AMD, (MI300X,))
    assert not isinstance(caught.value, OtherBuildError)


def test_without_devices_availability_is_not_judged() -> None:
    assert judge(said(available=False), AMD) == ()


def test_an_availability_that_was_not_asked_for_is_not_judged() -> None:
    assert judge(said(available=None), AMD, (MI300X,)) == ()


@pytest.mark.parametrize(
    ("arch", "built", "runs"),
    [
        ("sm_90", ("sm_80", "sm_90"), True),
        ("sm_89", ("sm_80", "sm_86"), True),
        ("sm_80", ("sm_86",), False),
        ("sm_103", ("sm_90", "sm_100"), True),
        ("sm_121", ("sm_90", "sm_120", "compute_120"), True),
        ("sm_120", ("sm_90", "sm_100"), False),
        ("sm_120", ("sm_90", "compute_90"), True),
        ("sm_75", ("sm_80", "compute_80"), False),
        ("sm_90", ("sm_90a",), True),
        ("gfx942", ("gfx942:sramecc+:xnack-",), True),
        ("gfx950", ("gfx942",), False),
        ("gfx950", ("gfx9-4-generic",), True),
        ("pvc", ("bmg",), True),
        ("", ("sm_90",), True),
    ],
)
def test_what_runs_on_what(arch: str, built: tuple[str, ...], *, runs: bool) -> None:
    assert guard.runs_on(arch, built) is runs


NEW = {"pytest": "9.0.1", "pytest-xdist": "3.8.0", "pytest-timeout": "2.4.0"}
FINE = {"pytest": "", "xdist": "", "pytest_timeout": ""}


@pytest.mark.parametrize(
    ("tools", "distributions", "missing"),
    [
        (FINE, NEW, ()),
        (FINE, {}, ()),
        (
            {**FINE, "xdist": "ModuleNotFoundError: No module named 'xdist'"},
            NEW,
            ("pytest-xdist: not there",),
        ),
        (
            {**FINE, "pytest": "ImportError: cannot import pluggy"},
            NEW,
            ("pytest: ImportError: cannot import pluggy",),
        ),
        (
            FINE,
            {**NEW, "pytest": "7.4.0", "pytest-timeout": "2.1"},
            (
                "pytest: 7.4.0, at least 8.0 is needed",
                "pytest-timeout: 2.1, at least 2.2 is needed",
            ),
        ),
        ({}, {}, ("pytest: not asked", "pytest-xdist: not asked", "pytest-timeout: not asked")),
    ],
)
def test_tools_that_are_missing(
    tools: dict[str, str], distributions: dict[str, str], missing: tuple[str, ...]
) -> None:
    assert guard.missing_tools(Answer(tools=tools, distributions=distributions)) == missing


def test_the_toolkit_is_said_in_words() -> None:
    assert guard.toolkit(said()) == "hip 7.2.26015-f"
    assert guard.toolkit(said(version={})) == ""


# ---------------------------------------------------------------- asking
def program(folder: Path, body: str) -> str:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


CHECK = BACKENDS[Backend.CPU].torch_check


def test_an_answer_among_other_words(tmp_path: Path) -> None:
    python = program(tmp_path, """echo noise; echo 'HWMATRIX:{"torch": "2.0", "archs": ["a"]}'""")
    answer = guard.ask(python, CHECK, {}, cwd=tmp_path, quick=True)
    assert (answer.torch, answer.archs) == ("2.0", ("a",))


@pytest.mark.parametrize(
    ("body", "limit_s", "reason"),
    [
        (
            "echo Segmentation fault; kill -SEGV $$",
            240,
            r"ended with status -11 .*Segmentation fault",
        ),
        ("exit 3", 240, r"ended with status 3 .*It said: nothing"),
        ("sleep 3600", 0.3, r"within 0.3 s: its import or the device's driver hangs"),
    ],
)
def test_no_answer(tmp_path: Path, body: str, limit_s: float, reason: str) -> None:
    python = program(tmp_path, body)
    with pytest.raises(GuardError, match=reason):
        guard.ask(python, CHECK, {}, cwd=tmp_path, quick=True, limit_s=limit_s)


def test_no_interpreter(tmp_path: Path) -> None:
    with pytest.raises(GuardError, match=r"does not start.*HWMATRIX_PYTHON"):
        guard.ask(str(tmp_path / "none"), CHECK, {}, cwd=tmp_path, quick=True)


# ---------------------------------------------------------------- what installers say
@pytest.mark.parametrize(
    ("output", "word"),
    [
        ("The virtual environment ... because ensurepip is not\navailable", "python3-venv"),
        (
            "Error: Command '['py', '-m', 'ensurepip']' returned non-zero exit status 1.",
            "python3-v",
        ),
        ("OSError: [Errno 28] No space left on device", "disk is full"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM", "does not have the hash"),
        ("error: Hash mismatch for `torch==2.11.0`", "does not have the hash"),
        ("invalid peer certificate: UnknownIssuer", "PIP_CERT"),
        ("ERROR: No matching distribution found for torch==2.11.0+rocm7.2", "no build fits"),
        ("x No solution found when resolving dependencies:", "no build fits"),
        ("NewConnectionError('...: Connection refused')", "cannot be reached"),
        ("error sending request for url (http://...)", "cannot be reached"),
        ("error: Permission denied (os error 13)", "no permission to write"),
        ("something else", ""),
    ],
)
def test_the_likely_reason(output: str, word: str) -> None:
    assert word in faults.likely(output)
    assert bool(word) == bool(faults.likely(output))


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: The candidate selected for download or install is a yanked version: 'torch'",
        "warning: `torch==2.11.0+cpu` is yanked (reason: broken)",
    ],
)
def test_a_withdrawn_release_is_noticed(line: str) -> None:
    assert faults.withdrawn(f"Looking\n  {line}\nInstalled") == line
    assert faults.withdrawn("Installed torch") == ""


def test_passwords_are_left_out() -> None:
    text = "at https://me:secret@host/x and http://host/y"
    assert faults.redact(text) == "at https://***@host/x and http://host/y"
