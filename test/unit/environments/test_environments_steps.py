"""The exact install commands per variant and installer, held against golden files."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hwmatrix.environments import pinning, steps
from hwmatrix.environments.settings import PipSettings
from hwmatrix.environments.steps import Installer, TorchSource
from hwmatrix.errors import EnvironmentBuildError
from hwmatrix.model import Backend, Variant

GOLDEN = Path(__file__).parents[2] / "data/environments"


def variant(backend: Backend, name: str, torch: str, build: str, **more: Any) -> Variant:
    return Variant(
        backend=backend,
        name=name,
        torch=torch,
        index=f"https://index.example/whl/{build}",
        requirements=f"requirements/{name}.in",
        **more,
    )


ROCM = variant(
    Backend.AMD,
    "rocm-7.2",
    "2.11.0+rocm7.2",
    "rocm7.2",
    toolkit="7.2",
    companions=("torchvision==0.26.0+rocm7.2",),
)
VARIANTS = (
    variant(Backend.CPU, "cpu", "2.13.0+cpu", "cpu"),
    variant(Backend.CUDA, "cuda-13.0", "2.11.0+cu130", "cu130", toolkit="13.0"),
    ROCM,
    variant(Backend.XPU, "xpu", "2.11.0+xpu", "xpu"),
    variant(Backend.NPU, "npu", "2.13.0+cpu", "cpu", companions=("torch-npu==2.13.0",)),
)
PLAIN = PipSettings()
RICH = PipSettings(
    index_url="https://user:secret@mirror.example/simple",
    extra_index_urls=("https://extra.example/simple", "file:///srv/simple"),
    find_links=("/srv/wheels", "https://links.example"),
    cert="/etc/ca.pem",
    client_cert="/etc/me.pem",
    trusted_hosts=("mirror.example",),
    proxy="http://proxy.example:3128",
    timeout="60",
    retries="2",
)
SETTINGS = {"plain": PLAIN, "rich": RICH, "no-index": PipSettings(no_index=True, find_links=("w",))}
INSTALLERS = (Installer(kind="uv", program="/bin/uv"), Installer(kind="pip", program="python"))


def planned(
    which: Variant,
    installer: Installer,
    chosen: PipSettings,
    links: str = "",
    lock: Path | None = None,
) -> Any:
    source = TorchSource(links=links) if links else TorchSource(index=which.index)
    made = steps.plan(
        which,
        installer=installer,
        base_python="/usr/bin/python3.12",
        folder=Path("/env"),
        source=source,
        settings=chosen,
        requirements=Path("/project") / which.requirements,
        constraints=Path("/env.constraints.txt"),
        lock=lock,
    )
    return [
        {"title": step.title, "command": list(step.command), "env": dict(step.env)} for step in made
    ]


@pytest.mark.parametrize("which", VARIANTS, ids=lambda item: item.name)
@pytest.mark.parametrize("installer", INSTALLERS, ids=lambda item: item.kind)
def test_commands_are_the_golden_ones(which: Variant, installer: Installer) -> None:
    found: dict[str, Any] = {
        name: planned(which, installer, chosen) for name, chosen in SETTINGS.items()
    }
    found["find-links"] = planned(which, installer, RICH, links="/srv/wheels")
    found["lock"] = planned(which, installer, RICH, lock=Path("/project/r.lock"))
    path = GOLDEN / f"{which.name}-{installer.kind}.json"
    if os.environ.get("HWMATRIX_WRITE_GOLDEN"):
        path.write_text(json.dumps(found, indent=1) + "\n")
    assert found == json.loads(path.read_text())


@pytest.mark.parametrize("which", VARIANTS, ids=lambda item: item.name)
@pytest.mark.parametrize("installer", INSTALLERS, ids=lambda item: item.kind)
def test_the_torch_step_sees_one_source_alone(which: Variant, installer: Installer) -> None:
    step = planned(which, installer, RICH)[1]
    assert which.index in step["env"].values()
    everything = " ".join([*step["command"], *step["env"].values()])
    assert not any(other in everything for other in ("extra.example", "mirror.example/simple"))
    assert "find-links" not in everything.lower()
    assert f"torch=={which.torch}" in step["command"]


@pytest.mark.parametrize("installer", INSTALLERS, ids=lambda item: item.kind)
def test_no_password_is_on_a_command_line(installer: Installer) -> None:
    for step in planned(ROCM, installer, RICH):
        assert not any("secret" in word for word in step["command"])


# ---------------------------------------------------------------- where torch comes from
@pytest.mark.parametrize(
    ("env", "address", "named_by"),
    [
        ({}, "https://index.example/whl/rocm7.2", ""),
        ({"HWMATRIX_TORCH_INDEX": "https://m/x"}, "https://m/x", "HWMATRIX_TORCH_INDEX"),
        (
            {"HWMATRIX_TORCH_INDEX": "https://m/whl/{build}"},
            "https://m/whl/rocm7.2",
            "HWMATRIX_TORCH_INDEX",
        ),
        (
            {"HWMATRIX_TORCH_INDEX": "https://m", "HWMATRIX_TORCH_INDEX_ROCM_7_2": "https://own"},
            "https://own",
            "HWMATRIX_TORCH_INDEX_ROCM_7_2",
        ),
        ({"HWMATRIX_TORCH_INDEX": ""}, "https://index.example/whl/rocm7.2", ""),
        (
            {"HWMATRIX_TORCH_INDEX_CUDA_13_0": "https://other"},
            "https://index.example/whl/rocm7.2",
            "",
        ),
    ],
)
def test_an_index_is_replaced_from_the_environment(
    env: dict[str, str], address: str, named_by: str
) -> None:
    assert steps.torch_index(ROCM, env) == (address, named_by)


MACHINE = platform.machine()


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ([f"torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_{MACHINE}.whl"], True),
        ([f"torch-2.13.0%2Bcpu-cp311-cp311-linux_{MACHINE}.whl"], True),
        (["torch-2.13.0+cpu-py3-none-any.whl"], True),
        (["torch-2.13.0+cpu-1-cp39-abi3-any.whl"], True),
        ([f"torch-2.13.0+cpu-cp310-cp310-linux_{MACHINE}.whl"], False),
        (["torch-2.13.0+cpu-cp312-abi3-any.whl"], False),
        (["torch-2.13.0+cpu-cp311-cp311-linux_other.whl"], False),
        (["torch-2.13.0-py3-none-any.whl"], False),
        (["torch-2.13.0+cu130-py3-none-any.whl"], False),
        (["torchvision-2.13.0+cpu-py3-none-any.whl"], False),
        (["torch-2.13.0+cpu.tar.gz", "notes.txt"], False),
        ([], False),
    ],
)
def test_a_local_wheel_is_taken_only_if_it_fits(
    tmp_path: Path, names: list[str], *, found: bool
) -> None:
    for name in names:
        (tmp_path / name).touch()
    chosen = PipSettings(find_links=("https://links.example", str(tmp_path / "no"), str(tmp_path)))
    source = steps.torch_source(VARIANTS[0], chosen, {}, (3, 11))
    assert source == (
        TorchSource(links=str(tmp_path)) if found else TorchSource(index=VARIANTS[0].index)
    )


def test_all_pins_must_lie_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "torch-2.11.0+rocm7.2-py3-none-any.whl").touch()
    chosen = PipSettings(find_links=(f"file://{tmp_path}",))
    assert steps.torch_source(ROCM, chosen, {}, (3, 11)).links == ""
    (tmp_path / "torchvision-0.26.0+rocm7.2-py3-none-any.whl").touch()
    assert steps.torch_source(ROCM, chosen, {}, (3, 11)).links == str(tmp_path)


def test_an_index_that_was_named_goes_before_a_local_wheel(tmp_path: Path) -> None:
    (tmp_path / "torch-2.13.0+cpu-py3-none-any.whl").touch()
    chosen = PipSettings(find_links=(str(tmp_path),))
    env = {"HWMATRIX_TORCH_INDEX": "https://m"}
    assert steps.torch_source(VARIANTS[0], chosen, env, (3, 11)) == TorchSource(index="https://m")


# ---------------------------------------------------------------- constraints and requirements
def test_constraints_hold_the_pins_and_drop_others_about_them() -> None:
    files = {
        "/etc/pip/constraints.txt": (
            "# a comment\ntorch<=2.14.1\nTorchVision <= 0.29 # why\nnumpy<3\n\n-c more.txt\n"
            "--constraint=/abs.txt\npytorch-lightning==2\n"
        )
    }
    assert pinning.constraint_lines(ROCM, files) == (
        "torch==2.11.0+rocm7.2",
        "torchvision==0.26.0+rocm7.2",
        "numpy<3",
        "-c /etc/pip/more.txt",
        "-c /abs.txt",
        "pytorch-lightning==2",
    )


def test_requirements_are_read_with_all_that_they_name(tmp_path: Path) -> None:
    folder = tmp_path / "requirements"
    folder.mkdir()
    (folder / "cpu.in").write_text("-r base.in # all\n-c pins.txt\npytest\n")
    (folder / "base.in").write_text("-r cpu.in\nnumpy\n")
    (folder / "pins.txt").write_text("numpy<3\n")
    start, contents = pinning.read_requirements(tmp_path, VARIANTS[0])
    assert start == folder / "cpu.in"
    assert {Path(path).name for path in contents} == {"cpu.in", "base.in", "pins.txt"}


def test_a_missing_requirements_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentBuildError, match=r"cpu: cannot read .*requirements/cpu.in"):
        pinning.read_requirements(tmp_path, VARIANTS[0])


@pytest.mark.parametrize(
    "line", ["torch==2", "Torch >=2", "torch[opt]==1", "torch; python_version>'3'", "torch@ file:x"]
)
def test_a_requirement_line_names(line: str) -> None:
    assert pinning.named(line) == "torch"


def test_pins_name_companions_too() -> None:
    assert pinning.pins(replace(ROCM, companions=())) == ("torch==2.11.0+rocm7.2",)
    assert pinning.pins(ROCM) == pinning.from_torchs_index(ROCM)
    assert pinning.pins(VARIANTS[-1]) == ("torch==2.13.0+cpu", "torch-npu==2.13.0")
    assert pinning.from_torchs_index(VARIANTS[-1]) == ("torch==2.13.0+cpu",)
