"""The registration markers: one definition, one function per backend, no effect at run time.

`hwmatrix.registry` reads the calls from the syntax tree of the test file. At run time they only
have to accept what the reader accepts and to refuse what Python itself would refuse.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` itself is too dear to import here; type checkers know the name
if TYPE_CHECKING:
    from types import FunctionType
    from typing import Protocol

    class Marker(Protocol):
        """The signature that all markers share."""

        def __call__(
            self,
            est_time: float,
            suite: str | None = None,
            nightly: bool = False,  # noqa: FBT001, FBT002 - the order that the field writes
            disabled: str | None = None,
            *,
            stage: str | None = None,
            runner_config: str | None = None,
            in_process_group: str | None = None,
        ) -> None:
            """Register this file: `est_time` seconds, in `suite` or `stage` + `runner_config`."""


BACKENDS = ("cpu", "cuda", "amd", "xpu", "npu", "musa", "mlx")  # a test holds it to model.Backend


def _register(
    est_time: float,
    suite: str | None = None,
    nightly: bool = False,  # noqa: FBT001, FBT002 - the order that the field writes, FBT001, FBT002 - the order that the field writes
    disabled: str | None = None,
    *,
    stage: str | None = None,
    runner_config: str | None = None,
    in_process_group: str | None = None,
) -> None:
    """Register the test file for {backend}; does nothing when it runs.

    The call is read without running the file, so every argument is a literal and the call a
    statement of its own at module level.

    Args:
        est_time: seconds that the file takes on {backend}, above 0.
        suite: the suite's name or alias in ci/matrix.toml; or give both `stage` and
            `runner_config` in its place.
        nightly: must agree with the suite's tier.
        disabled: why the file is not to run: "reason", or
            "reason [owner=@x until=2026-12-31]".
        stage: the tier of the suite, together with `runner_config`.
        runner_config: the shape of machine, together with `stage`.
        in_process_group: files with the same group may share one process.
    """


if not TYPE_CHECKING:  # pragma: no branch - TYPE_CHECKING is False whenever this runs
    FunctionType = type(_register)  # `types` may not be loaded yet


def _marker(backend: str) -> Marker:
    """Return `_register` under the backend's name, so that errors and editors show that name."""
    name = f"register_{backend}_ci"
    code = _register.__code__.replace(co_name=name)
    made = FunctionType(code, globals(), name, _register.__defaults__)
    made.__kwdefaults__ = _register.__kwdefaults__
    made.__annotations__ = _register.__annotations__
    made.__doc__ = (_register.__doc__ or "").replace("{backend}", backend)
    made.__module__ = "hwmatrix"
    made.__qualname__ = name
    return made


register_cpu_ci = _marker("cpu")
register_cuda_ci = _marker("cuda")
register_amd_ci = _marker("amd")
register_xpu_ci = _marker("xpu")
register_npu_ci = _marker("npu")
register_musa_ci = _marker("musa")
register_mlx_ci = _marker("mlx")
