"""What each backend offers to the reference suites, as data; no test repeats an `if hip`.

`PLATFORM` is the row of the backend under test: `HWMATRIX_BACKEND` where a session set it, else
what the installed torch was built for and sees. Importing this module touches no device.
"""

from __future__ import annotations

import importlib.util
import os
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
import torch

if TYPE_CHECKING:
    from collections.abc import Mapping

HALF = (torch.bfloat16, torch.float16)
ALL = (torch.float32, *HALF)
NOT_CUDNN = "cuDNN is NVIDIA's"


@dataclass(frozen=True)
class Platform:
    """One backend: where tensors live and what its torch build can do.

    `sdpa` maps a kernel of scaled_dot_product_attention to the dtypes that it takes, or to the
    reason why the backend lacks it. `attention` maps an implementation of transformers to the
    package that it needs beside them, to nothing, or to a reason that begins with "no ";
    `decode_attention` holds what differs from that in decode. `fp8_storage` are the 8-bit formats
    that casts are tested in; `fp8_matmul` is the one that the matrix unit multiplies, or empty with
    `no_fp8_matmul` as the reason. `collectives` is the torch.distributed back end. `must_have` are
    the operators whose absence is a fault; others are looked for in the torch at hand
    (`missing_kernel`).
    """

    backend: str
    device: str
    collectives: str
    sdpa: Mapping[str, tuple[torch.dtype, ...] | str]
    fp8_storage: tuple[str, ...]
    fp8_matmul: str = ""
    no_fp8_matmul: str = ""
    dtypes: tuple[torch.dtype, ...] = ALL
    grouped_mm: tuple[torch.dtype, ...] = (torch.bfloat16,)
    no_grouped_mm: str = ""
    must_have: tuple[str, ...] = ()
    attention: Mapping[str, str] = field(default_factory=lambda: {"eager": "", "sdpa": ""})
    decode_attention: Mapping[str, str] = field(default_factory=dict)


# AMD's gfx942 (MI300X, MI325X) multiplies the "fnuz" formats, gfx950 (MI350X, MI355X) OCP's.
AMD_FP8 = {"gfx942": "float8_e4m3fnuz", "gfx950": "float8_e4m3fn"}
FP8 = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2")


def container_may_lack(*modules: str) -> None:
    """Skip the whole file, visibly, in a container (`--no-venv`) that lacks one of `modules`.

    An environment that hwmatrix made has what the requirements name: there the import itself fails.
    """
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing and os.environ.get("HWMATRIX_FOUND"):
        what = f"this container lacks {', '.join(missing)}: --overlay DIR brings them"
        pytest.skip(what, allow_module_level=True)


def _arch() -> str:
    return os.environ.get("HWMATRIX_ARCH", "").split(":")[0]


PLATFORMS: Mapping[str, Platform] = {
    "cpu": Platform(
        backend="cpu",
        device="cpu",
        collectives="gloo",
        sdpa={
            "math": ALL,
            "flash": ALL,
            "efficient": "torch has no memory-efficient kernel for CPU",
            "cudnn": NOT_CUDNN,
        },
        attention={
            "eager": "",
            "sdpa": "",
            "flex_attention": "",
            "flash_attention_2": "no flash attention for CPU",
        },
        decode_attention={
            "flex_attention": "no flex decode on a CPU: each length is compiled anew (180 s)"
        },
        fp8_storage=FP8,
        fp8_matmul="float8_e4m3fn",
        must_have=("aten::_int_mm", "aten::_weight_int8pack_mm"),
        grouped_mm=(torch.float32, torch.bfloat16),
    ),
    "cuda": Platform(
        backend="cuda",
        device="cuda",
        collectives="nccl",
        sdpa={"math": ALL, "flash": HALF, "efficient": ALL, "cudnn": HALF},
        attention={
            "eager": "",
            "sdpa": "",
            "flex_attention": "",
            "flash_attention_2": "flash_attn",
            "flash_attention_3": "flash_attn_interface",
        },
        decode_attention={
            "flex_attention": "no flex decode kernel: torch 2.11's inductor finds no choice for it"
        },
        fp8_storage=FP8,
        fp8_matmul="float8_e4m3fn",
        must_have=("aten::_int_mm",),
    ),
    "amd": Platform(
        backend="amd",
        device="cuda",
        collectives="nccl",
        sdpa={"math": ALL, "flash": HALF, "efficient": ALL, "cudnn": NOT_CUDNN},
        attention={
            "eager": "",
            "sdpa": "",
            # Its Triton back end: FLASH_ATTENTION_TRITON_AMD_ENABLE.
            "flash_attention_2": "flash_attn",
            "flash_attention_3": "no Hopper kernels on AMD",
        },
        fp8_storage=FP8,
        fp8_matmul=AMD_FP8.get(_arch(), ""),
        no_fp8_matmul=f"{_arch() or 'an unnamed architecture'} is not one of {', '.join(AMD_FP8)}",
    ),
    "xpu": Platform(
        backend="xpu",
        device="xpu",
        collectives="xccl",
        sdpa={
            "math": ALL,
            "flash": "torch serves XPU through its overrideable kernel",
            "efficient": "torch has no memory-efficient kernel for XPU",
            "cudnn": NOT_CUDNN,
            "overrideable": HALF,
        },
        attention={"eager": "", "sdpa": "", "flash_attention_2": "no flash attention for XPU"},
        fp8_storage=FP8,
        no_fp8_matmul="oneDNN's fp8 product is not in every torch build for XPU",
        no_grouped_mm="torch has no grouped product for XPU",
    ),
    # torch-npu registers the device when torch is imported (torch.backends entry point).
    "npu": Platform(
        backend="npu",
        device="npu",
        collectives="hccl",
        sdpa={
            "math": HALF,
            "flash": "torch-npu has fused attention under names of its own",
            "efficient": "torch-npu has fused attention under names of its own",
            "cudnn": NOT_CUDNN,
        },
        fp8_storage=(),
        no_fp8_matmul="no fp8 unit is known for Ascend 910",
        no_grouped_mm="torch has no grouped product for NPU",
    ),
}


def _by_torch() -> str:
    if torch.cuda.is_available():
        return "amd" if torch.version.hip else "cuda"
    return "xpu" if torch.xpu.is_available() else "cpu"


BACKEND = os.environ.get("HWMATRIX_BACKEND") or _by_torch()
PLATFORM = PLATFORMS[BACKEND]
DEVICE = PLATFORM.device


def missing_kernel(operator: str) -> str:
    """Return why `operator` cannot be tested here, or nothing where it can or must be there."""
    if operator in PLATFORM.must_have:
        return ""
    key = DEVICE.upper()  # torch's dispatcher calls ROCm CUDA too
    if torch._C._dispatch_has_kernel_for_dispatch_key(operator, key):
        return ""
    return f"torch {torch.__version__} has no {operator} for {BACKEND}"


def why_no_attention(name: str, *, decode: bool = False) -> str:
    """Return why transformers' attention `name` cannot run here, or nothing where it must."""
    needs = PLATFORM.attention[name]
    if decode:
        needs = PLATFORM.decode_attention.get(name, needs)
    if needs.startswith("no "):
        return needs
    if needs and importlib.util.find_spec(needs) is None:
        return f"{name} needs the package {needs}, which this environment lacks"
    return ""


def draw(*shape: int, seed: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Return normal numbers on the device: drawn on the CPU, so every backend sees the same."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(DEVICE, dtype)


def roundoff(dtype: torch.dtype) -> float:
    """Return the unit roundoff u of `dtype`: rounding to nearest errs by at most u x |value|."""
    return torch.finfo(dtype).eps / 2


def synchronize() -> None:
    """Wait for the device; nothing to wait for on the CPU."""
    if PLATFORM.device != "cpu":
        getattr(torch, PLATFORM.device).synchronize()


def rendezvous_port() -> int:
    """Return the port that the slot holds a lease on, or one that was free a moment ago."""
    leased = os.environ.get("HWMATRIX_PORT")
    if leased:
        return int(leased)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
