"""What test files import: `register_<backend>_ci`, `skip_on` and `requires`.

`import hwmatrix` stays cheap (no third-party module, nothing of the standard library that the
bare interpreter does not hold already), since every test file pays for it. All else is loaded on
first use.
"""

from __future__ import annotations

from hwmatrix.marks import (
    register_amd_ci,
    register_cpu_ci,
    register_cuda_ci,
    register_mlx_ci,
    register_musa_ci,
    register_npu_ci,
    register_xpu_ci,
)
from hwmatrix.skips import requires, skip_on

TYPE_CHECKING = False  # `typing` itself is too dear to import here; type checkers know the name
if TYPE_CHECKING:
    from hwmatrix.errors import HwMatrixError
    from hwmatrix.model import Backend

    __version__: str

__all__ = [
    "Backend",
    "HwMatrixError",
    "__version__",
    "register_amd_ci",
    "register_cpu_ci",
    "register_cuda_ci",
    "register_mlx_ci",
    "register_musa_ci",
    "register_npu_ci",
    "register_xpu_ci",
    "requires",
    "skip_on",
]


def __getattr__(name: str) -> object:
    """Return what is loaded on first use: `Backend`, `HwMatrixError`, `__version__`."""
    value: object
    if name == "Backend":
        from hwmatrix import model

        value = model.Backend
    elif name == "HwMatrixError":
        from hwmatrix import errors

        value = errors.HwMatrixError
    elif name == "__version__":
        value = _version()
    else:
        message = f"module 'hwmatrix' has no attribute {name!r}"
        raise AttributeError(message)
    globals()[name] = value
    return value


def _version() -> str:
    """Return the version of the installed distribution; `0+source` where none is installed."""
    from importlib import metadata

    try:
        return metadata.version("hwmatrix")
    except metadata.PackageNotFoundError:
        return "0+source"
