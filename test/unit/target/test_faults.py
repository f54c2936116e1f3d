from __future__ import annotations

import errno
from email.message import Message
from urllib.error import HTTPError, URLError

import pytest

from hwmatrix.target import faults


def exception(name: str, *bases: type[BaseException], **keys: object) -> BaseException:
    """An exception whose class has the full name `name`, as another package would define it."""
    module, _, short = name.rpartition(".")
    cls = type(short, bases or (RuntimeError,), {"__module__": module, **keys})
    made: BaseException = cls("text that nobody reads")
    return made


def http(code: int) -> HTTPError:
    return HTTPError("address", code, "text", Message(), None)


class Response:
    def __init__(self, status_code: int) -> None:
        self.status_code = status_code


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (exception("torch.OutOfMemoryError"), faults.OUT_OF_MEMORY),
        (MemoryError(), faults.OUT_OF_MEMORY),
        (OSError(errno.ENOMEM, "x"), faults.OUT_OF_MEMORY),
        (OSError(errno.EADDRINUSE, "x"), faults.PORT_TAKEN),
        (exception("torch.AcceleratorError", error_code=46), faults.DEVICE_LOST),
        (exception("torch.AcceleratorError", error_code=214), faults.DEVICE_LOST),
        (exception("torch.AcceleratorError", error_code=710), ""),
        (URLError("x"), faults.DOWNLOAD_REFUSED),
        (http(503), faults.DOWNLOAD_REFUSED),
        (http(429), faults.DOWNLOAD_REFUSED),
        (http(404), ""),
        (
            exception("huggingface_hub.errors.HfHubHTTPError", response=Response(502)),
            faults.DOWNLOAD_REFUSED,
        ),
        (exception("huggingface_hub.errors.HfHubHTTPError", response=Response(401)), ""),
        (RuntimeError("CUDA out of memory"), ""),
        (FileNotFoundError(2, "x"), ""),
    ],
)
def test_kind_comes_from_the_exception_and_not_from_its_text(
    error: BaseException, kind: str
) -> None:
    assert faults.fault_of(error) == kind


def test_what_it_was_raised_from_counts() -> None:
    outer = RuntimeError("could not start")
    outer.__cause__ = OSError(errno.EADDRINUSE, "x")
    assert faults.fault_of(outer) == faults.PORT_TAKEN
    during = RuntimeError("while handling")
    during.__context__ = MemoryError()
    assert faults.fault_of(during) == faults.OUT_OF_MEMORY
    during.__suppress_context__ = True
    assert faults.fault_of(during) == ""


def test_a_chain_that_bites_its_tail_ends() -> None:
    one, two = RuntimeError("one"), RuntimeError("two")
    one.__cause__, two.__cause__ = two, one
    assert faults.fault_of(one) == ""
