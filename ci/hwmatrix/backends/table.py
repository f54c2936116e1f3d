"""The dict of all backends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwmatrix.backends.amd import Amd
from hwmatrix.backends.cpu import Cpu
from hwmatrix.backends.cuda import Cuda
from hwmatrix.backends.mlx import Mlx
from hwmatrix.backends.musa import Musa
from hwmatrix.backends.npu import Npu
from hwmatrix.backends.xpu import Xpu
from hwmatrix.model import Backend

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hwmatrix.backends.facts import BackendFacts

BACKENDS: Mapping[Backend, BackendFacts] = {
    Backend.CPU: Cpu(),
    Backend.CUDA: Cuda(),
    Backend.AMD: Amd(),
    Backend.XPU: Xpu(),
    Backend.NPU: Npu(),
    Backend.MUSA: Musa(),
    Backend.MLX: Mlx(),
}
