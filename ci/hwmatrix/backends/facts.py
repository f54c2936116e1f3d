"""The protocol that all backends keep, and the types that their files share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from hwmatrix.model import Backend, Probe, TorchCheck

Access = Callable[[Path, int], bool]
"""`os.access`: whether this process may use a path in a mode; tests hand in another."""

DEVICE_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "ZE_AFFINITY_MASK",
    "ONEAPI_DEVICE_SELECTOR",
    "SYCL_DEVICE_FILTER",
    "ASCEND_RT_VISIBLE_DEVICES",
    "MUSA_VISIBLE_DEVICES",
)
"""Every variable by which a runtime hides devices. Those that only a container tool reads
(NVIDIA_VISIBLE_DEVICES, ASCEND_VISIBLE_DEVICES, MTHREADS_VISIBLE_DEVICES) are none: by the time a
session runs they have had their effect."""


def rivals_of(visibility: str) -> tuple[str, ...]:
    """Return all device variables but `visibility`, which the backend owns."""
    return tuple(name for name in DEVICE_VARIABLES if name != visibility)


class BackendFacts(Protocol):
    """What hwmatrix knows of one backend."""

    @property
    def backend(self) -> Backend:
        """Which one it is."""

    @property
    def visibility(self) -> str:
        """The one variable that a slot sets; empty where the backend has none."""

    @property
    def rivals(self) -> tuple[str, ...]:
        """The variables that a slot removes."""

    @property
    def env(self) -> Mapping[str, str]:
        """Variables that every slot sets whatever its devices."""

    @property
    def torch_check(self) -> TorchCheck:
        """What the guard asks of torch."""

    @property
    def host(self) -> str:
        """What to run on, for messages: `a machine with AMD GPUs`."""

    def probe(self, env: Mapping[str, str], root: Path = Path("/")) -> Probe:
        """Return the devices that the inherited variables leave, in the runtime's order.

        `root` is the folder under which the file system is read. No torch, and each vendor tool
        under a time limit.

        Raises:
            VisibilityError: the inherited variables contradict each other or name no device.
        """
