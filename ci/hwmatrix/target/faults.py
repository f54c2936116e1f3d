"""The pytest plugin inside the child that tells faults of the machine from failures of the code.

By the exception itself: its class, its `errno`, its status or error code; never by its text. A
report of a phase that ended in such an exception carries `hw_fault`, a word of `KINDS`.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

FAULT = "hw_fault"

OUT_OF_MEMORY = "out of memory"
DEVICE_LOST = "device lost"
PORT_TAKEN = "port taken"
DOWNLOAD_REFUSED = "download refused"
KINDS = (OUT_OF_MEMORY, DEVICE_LOST, PORT_TAKEN, DOWNLOAD_REFUSED)

# By name, since none of these packages is imported here. torch's class serves every vendor; its
# older names are aliases of it, or of the same name in another module.
_CLASSES = {
    "torch.OutOfMemoryError": OUT_OF_MEMORY,
    "torch.cuda.OutOfMemoryError": OUT_OF_MEMORY,
    "torch.xpu.OutOfMemoryError": OUT_OF_MEMORY,
    "torch_npu.OutOfMemoryError": OUT_OF_MEMORY,
    "builtins.MemoryError": OUT_OF_MEMORY,
    "torch.distributed.DistNetworkError": PORT_TAKEN,
    "requests.exceptions.ConnectionError": DOWNLOAD_REFUSED,
    "requests.exceptions.Timeout": DOWNLOAD_REFUSED,
    "httpx.ConnectError": DOWNLOAD_REFUSED,
    "httpx.TimeoutException": DOWNLOAD_REFUSED,
    "huggingface_hub.errors.HfHubHTTPError": DOWNLOAD_REFUSED,
    "urllib.error.URLError": DOWNLOAD_REFUSED,
}
# `error_code` of torch.AcceleratorError: CUDA's numbers, which HIP shares for these. Unavailable,
# uncorrectable ECC error, and a device that is gone. An assertion in a kernel (710) is the code's.
_CODES = {46: DEVICE_LOST, 100: DEVICE_LOST, 214: DEVICE_LOST, 2: OUT_OF_MEMORY}
_ERRNOS = {errno.EADDRINUSE: PORT_TAKEN, errno.ENOMEM: OUT_OF_MEMORY}
# A server that is overloaded or counts requests; 404 and the like are the code's.
_LEAST_SERVER_ERROR = 500
_REFUSED_STATUS = frozenset({403, 429})


class Faults:
    """Marks reports whose exception is a fault of the machine."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Mark the report of a test."""
        report = yield
        if call.excinfo is not None and report.failed:
            _mark(report, call.excinfo.value)
        return report

    def pytest_exception_interact(
        self, call: pytest.CallInfo[object], report: pytest.CollectReport | pytest.TestReport
    ) -> None:
        """Mark the report of a file that could not be collected, before it is passed on."""
        if call.excinfo is not None and isinstance(report, pytest.CollectReport):
            _mark(report, call.excinfo.value)


def _mark(report: pytest.CollectReport | pytest.TestReport, error: BaseException) -> None:
    kind = fault_of(error)
    if kind:
        setattr(report, FAULT, kind)


def fault_of(error: BaseException) -> str:
    """Return the kind of fault that `error` is or was raised from, "" for a failure."""
    return next((kind for link in _chain(error) if (kind := _own_fault(link))), "")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _own_fault(error: BaseException) -> str:
    status = getattr(error, "code", None) or getattr(
        getattr(error, "response", None), "status_code", None
    )
    if isinstance(status, int) and not _refused(status):
        return ""  # an answer: the address is wrong, or the request
    if isinstance(error, OSError) and error.errno in _ERRNOS:
        return _ERRNOS[error.errno]
    names = {f"{cls.__module__}.{cls.__qualname__}" for cls in type(error).__mro__}
    code = getattr(error, "error_code", None)
    if "torch.AcceleratorError" in names and code in _CODES:
        return _CODES[code]
    return next((kind for name, kind in _CLASSES.items() if name in names), "")


def _refused(status: int) -> bool:
    return status in _REFUSED_STATUS or status >= _LEAST_SERVER_ERROR
