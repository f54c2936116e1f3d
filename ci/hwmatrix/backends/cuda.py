"""cuda: NVIDIA devices, asked of NVML; CUDA_VISIBLE_DEVICES alone says which a slot has.

Indices are only worth something under CUDA_DEVICE_ORDER=PCI_BUS_ID, which is NVML's order too;
CUDA's own default puts the fastest first. So every slot sets that order, and an inherited list of
indices on unlike GPUs is refused without it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix.backends import masks
from hwmatrix.backends.facts import rivals_of
from hwmatrix.backends.files import GIB, numbered, run_tool
from hwmatrix.codec import from_plain
from hwmatrix.errors import VisibilityError
from hwmatrix.model import Backend, Device, Probe, TorchCheck

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

VISIBILITY = "CUDA_VISIBLE_DEVICES"
_ORDER = "CUDA_DEVICE_ORDER"


_TORCH = TorchCheck(
    version=("cuda",),
    never=("hip",),
    available="torch.cuda.is_available",
    archs="torch.cuda.get_arch_list",
)


@dataclass(frozen=True, kw_only=True)
class Instance:
    """One MIG instance."""

    uuid: str
    name: str = ""
    memory: int = 0


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU as NVML has it; `memory` in bytes."""

    index: int
    uuid: str
    pci: str = ""
    name: str = ""
    memory: int = 0
    arch: str = ""
    mig: bool = False
    instances: tuple[Instance, ...] = ()


@dataclass(frozen=True, kw_only=True)
class NvmlAnswer:
    """All that NVML said; `missing` when there is no such library."""

    missing: str = ""
    driver: str = ""
    cuda: str = ""
    gpus: tuple[Gpu, ...] = ()
    problems: tuple[str, ...] = ()


def ask_nvml(env: Mapping[str, str]) -> NvmlAnswer:
    """Return what NVML says in a child of its own, within the limit for vendor tools."""
    script = str(Path(__file__).with_name("nvml.py"))
    answer = run_tool([sys.executable, "-I", "-S", script], env)
    if answer.problem:
        return NvmlAnswer(problems=(f"NVML: {answer.problem}",))
    try:
        return from_plain(NvmlAnswer, json.loads(answer.text))
    except (ValueError, TypeError) as error:
        return NvmlAnswer(problems=(f"NVML: cannot read its answer ({error})",))


@dataclass(frozen=True)
class Cuda:
    """NVIDIA GPUs and MIG instances; `ask` is NVML, another in tests."""

    ask: Callable[[Mapping[str, str]], NvmlAnswer] = ask_nvml
    backend: Backend = Backend.CUDA
    visibility: str = VISIBILITY
    rivals: tuple[str, ...] = rivals_of(VISIBILITY)
    env: Mapping[str, str] = field(default_factory=lambda: {_ORDER: "PCI_BUS_ID"})
    torch_check: TorchCheck = _TORCH
    host: str = "a machine with NVIDIA GPUs"

    def probe(self, env: Mapping[str, str], root: Path = Path("/")) -> Probe:
        """Return the GPUs and MIG instances that CUDA_VISIBLE_DEVICES leaves.

        Raises:
            VisibilityError: the list names what is not here, or counts in an unknown order.
        """
        answer = self.ask(env)
        files = ", ".join(f"/dev/{path.name}" for path in numbered(root / "dev", r"nvidia\d+"))
        found = f"{len(answer.gpus)} GPUs" if not answer.missing else "not found"
        devices = _visible(answer, env) if answer.gpus else ()
        cuda = f" (CUDA {answer.cuda})" if answer.cuda else ""
        return Probe(
            backend=self.backend,
            devices=devices,
            driver=f"{answer.driver}{cuda}".strip(),
            looked_for=(
                f"NVML (libnvidia-ml.so.1): {found}",
                f"/dev/nvidia*: {files or 'absent'}",
                *((f"{VISIBILITY}={env[VISIBILITY]}",) if VISIBILITY in env else ()),
            ),
            problems=(*answer.problems, *_empty_gpus(answer)),
        )


def _empty_gpus(answer: NvmlAnswer) -> tuple[str, ...]:
    return tuple(
        f"GPU {gpu.index} ({gpu.name}) is in MIG mode and has no instances; make some with "
        "`nvidia-smi mig -cgi ... -C`, or switch MIG off"
        for gpu in answer.gpus
        if gpu.mig and not gpu.instances
    )


def _visible(answer: NvmlAnswer, env: Mapping[str, str]) -> tuple[Device, ...]:
    value = env.get(VISIBILITY)
    # Indices shift when a GPU is lost between the two enumerations; ids do not.
    by_id = bool(answer.problems) or (value is not None and masks.uses_ids(value))
    if value is None:
        return tuple(device for gpu in answer.gpus for device in _devices(gpu, by_id=by_id))
    if masks.uses_ids(value):
        everything = [d for gpu in answer.gpus for d in (_whole(gpu), *_instances(gpu))]
        names = [(device.key,) for device in everything]
        chosen = [everything[i] for i in masks.select(VISIBILITY, value, names)]
        return _without_parents(value, chosen, answer)
    _order_is_known(value, answer, env)
    chosen_gpus = masks.select(VISIBILITY, value, [() for _ in answer.gpus])
    return tuple(device for i in chosen_gpus for device in _devices(answer.gpus[i], by_id=by_id))


def _order_is_known(value: str, answer: NvmlAnswer, env: Mapping[str, str]) -> None:
    kinds = sorted({gpu.name for gpu in answer.gpus})
    if len(kinds) > 1 and env.get(_ORDER) != "PCI_BUS_ID" and value.strip():
        raise VisibilityError(
            f"{VISIBILITY}={value} counts in CUDA's default order, fastest first, and the GPUs "
            f"here differ ({', '.join(kinds)}), so it is not certain which are meant. Set "
            f"{_ORDER}=PCI_BUS_ID and count as nvidia-smi does, or name the GPUs by UUID."
        )


def _without_parents(value: str, chosen: list[Device], answer: NvmlAnswer) -> tuple[Device, ...]:
    split = {gpu.uuid for gpu in answer.gpus if gpu.mig}
    for device in chosen:
        if device.key in split:
            raise VisibilityError(
                f"{VISIBILITY}={value}: {device.key} is in MIG mode; CUDA would pick one of its "
                "instances. Name the instances (MIG-...), as `nvidia-smi -L` prints them."
            )
    return tuple(chosen)


def _whole(gpu: Gpu, *, token: str = "") -> Device:
    return Device(
        key=gpu.uuid,
        token=token or gpu.uuid,
        name=gpu.name,
        arch=gpu.arch,
        memory_gib=round(gpu.memory / GIB, 2),
    )


def _instances(gpu: Gpu) -> tuple[Device, ...]:
    return tuple(
        Device(
            key=item.uuid,
            token=item.uuid,
            name=item.name,
            arch=gpu.arch,
            memory_gib=round(item.memory / GIB, 2),
        )
        for item in gpu.instances
    )


def _devices(gpu: Gpu, *, by_id: bool) -> tuple[Device, ...]:
    """Return the GPU, or its instances in MIG mode: CUDA then offers nothing else."""
    if gpu.mig:
        return _instances(gpu)
    return (_whole(gpu, token="" if by_id else str(gpu.index)),)
