"""skip_on and requires: facts, sentences, and what is refused where the decorator stands."""

from __future__ import annotations

import unittest
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix import backends, requires, skip_on, skips
from hwmatrix.errors import UsageError
from hwmatrix.model import Backend, Device, Probe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Session = Any  # a function that sets a session's variables, given by keyword
Machine = Any  # a function that puts a machine's devices in place, given by keyword

AMD = {
    "HWMATRIX_BACKEND": "amd",
    "HWMATRIX_DEVICES": "1",
    "HWMATRIX_MEMORY_GIB": "64",
    "HWMATRIX_ARCH": "gfx942",
}


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    """Set a session's variables; AMD's unless told otherwise."""

    def session(**values: str) -> None:
        for name, value in {**AMD, **{f"HWMATRIX_{k}": v for k, v in values.items()}}.items():
            monkeypatch.setenv(name, value)

    session()
    return session


def why(decorator: Callable[[Any], Any]) -> str | None:
    """Return the reason with which the decorator skips, or None."""

    def test() -> None:
        pass

    assert decorator(test) is test
    reason = getattr(test, "__unittest_skip_why__", None)
    assert getattr(test, "__unittest_skip__", False) is (reason is not None)
    marked = [mark.kwargs["reason"] for mark in getattr(test, "pytestmark", [])]
    assert marked == ([] if reason is None else [reason])
    return reason


@pytest.mark.usefixtures("session")
def test_skip_on_says_what_was_found() -> None:
    assert why(skip_on("amd", reason="no kernel")) == (
        "not on amd, found amd (1 device, 64 GiB each, gfx942): no kernel"
    )
    assert why(skip_on("xpu", "amd", reason="no kernel")) == (
        "not on xpu or amd, found amd (1 device, 64 GiB each, gfx942): no kernel"
    )
    assert why(skip_on("cuda", "cpu", reason="no kernel")) is None


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"devices": 1}, None),
        ({"devices": 2}, "needs 2 devices"),
        ({"memory_gib": 64}, None),
        ({"memory_gib": 64.5}, "needs 64.5 GiB per device"),
        ({"arch": "gfx942"}, None),
        ({"arch": "gfx94*"}, None),
        ({"arch": ["gfx950", "gfx942"]}, None),
        ({"arch": "gfx95*"}, "needs gfx95*"),
        ({"arch": "gfx94"}, "needs gfx94"),
        ({"arch": ("gfx950", "sm_90")}, "needs gfx950 or sm_90"),
        ({"devices": 2, "arch": "sm_90"}, "needs 2 devices and sm_90"),
        ({"devices": 1, "memory_gib": 80}, "needs 80 GiB per device"),
    ],
)
@pytest.mark.usefixtures("session")
def test_requires_says_what_was_needed_and_found(wanted: dict[str, Any], expected: object) -> None:
    found = "found amd (1 device, 64 GiB each, gfx942)"
    assert why(requires(**wanted)) == (expected and f"{expected}, {found}")
    assert why(requires(**wanted, reason="big")) == (expected and f"{expected}, {found}: big")


def test_what_is_unknown_is_not_held_against_a_test(session: Session) -> None:
    session(DEVICES="", MEMORY_GIB="", ARCH="")
    assert why(requires(devices=8, memory_gib=200, arch="gfx950")) is None
    assert why(skip_on("amd", reason="r")) == "not on amd, found amd: r"
    session(DEVICES="2", MEMORY_GIB="", ARCH="")
    assert why(requires(devices=8, arch="gfx950")) == "needs 8 devices, found amd (2 devices)"


@pytest.mark.usefixtures("session")
def test_a_class_is_skipped_and_so_are_those_derived_from_it_but_not_its_base() -> None:
    class Base(unittest.TestCase):
        pass

    @skip_on("amd", reason="r")
    class Middle(Base):
        pass

    class Derived(Middle):
        pass

    assert not hasattr(Base, "__unittest_skip__")
    assert not hasattr(Base, "pytestmark")
    assert getattr(Middle, "__unittest_skip__", False) is True
    assert getattr(Derived, "__unittest_skip__", False) is True


@pytest.mark.usefixtures("session")
def test_static_and_class_methods_are_marked_inside() -> None:
    class Test:
        @skip_on("amd", reason="r")
        @staticmethod
        def test_static() -> None:
            pass

        @skip_on("amd", reason="r")
        @classmethod
        def test_class(cls) -> None:
            pass

    assert getattr(Test.test_static, "__unittest_skip__", False) is True
    assert getattr(Test.test_class, "__unittest_skip__", False) is True
    assert isinstance(vars(Test)["test_static"], staticmethod)


ANY: Any = {}  # keeps the type checker out of what is wrong on purpose
NO_NAME: Any = print


def wrong(**values: object) -> Any:
    """Return requires() with arguments that a type checker would refuse."""
    return lambda: requires(**{**ANY, **values})


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (
            lambda: skip_on(reason="r"),
            r"skip_on\(\) names no backend; allowed: backends: cpu, cuda",
        ),
        (lambda: skip_on("adm", reason="r"), r"no backend: 'adm'\. Did you mean 'amd'\?; allowed"),
        (lambda: skip_on("AMD", reason="r"), r"skip_on\(\) names no backend: 'AMD'"),
        (
            lambda: skip_on(NO_NAME, reason="r"),
            r"skip_on\(\) names no backend: <built-in",
        ),
        (lambda: skip_on("amd", reason=""), r"skip_on\(\) has reason=''; allowed: say in words"),
        (lambda: skip_on("amd", reason=" "), r"skip_on\(\) has reason=' '"),
        (lambda: skip_on("amd", **{**ANY, "reason": None}), r"skip_on\(\) has reason=None"),
        (requires, r"requires\(\) asks for nothing; allowed: give devices="),
        (lambda: requires(devices=0), r"devices=0; allowed: a whole number, 1 or more"),
        (lambda: requires(devices=-1), r"requires\(\) has devices=-1"),
        (lambda: requires(devices=True), r"requires\(\) has devices=True"),
        (wrong(devices=1.5), r"requires\(\) has devices=1.5"),
        (lambda: requires(memory_gib=0), r"memory_gib=0; allowed: a finite number above 0"),
        (lambda: requires(memory_gib=-1), r"requires\(\) has memory_gib=-1"),
        (lambda: requires(memory_gib=float("inf")), r"requires\(\) has memory_gib=inf"),
        (lambda: requires(memory_gib=float("nan")), r"requires\(\) has memory_gib=nan"),
        (wrong(memory_gib="64"), r"requires\(\) has memory_gib='64'"),
        (lambda: requires(memory_gib=True), r"requires\(\) has memory_gib=True"),
        (lambda: requires(arch=""), r"requires\(\) has arch=''; allowed: names such as 'gfx942'"),
        (lambda: requires(arch=[]), r"requires\(\) has arch=\[\]"),
        (lambda: requires(arch="*"), r"requires\(\) has arch='\*'"),
        (wrong(arch=[942]), r"requires\(\) has arch=\[942\]"),
        (wrong(devices=1, reason=3), r"requires\(\) has reason=3; allowed: words"),
    ],
)
@pytest.mark.usefixtures("session")
def test_wrong_arguments_are_refused_where_they_stand(
    use: Callable[[], object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        use()


def test_wrong_arguments_are_refused_on_every_machine(session: Session) -> None:
    session(BACKEND="cpu")
    with pytest.raises(UsageError, match=r"Did you mean 'amd'\?"):
        skip_on("adm", reason="r")


@pytest.mark.parametrize("target", [3, None, "name", pytest.fixture(lambda: 1)])
@pytest.mark.usefixtures("session")
def test_what_is_no_test_cannot_be_decorated(target: object) -> None:
    with pytest.raises(UsageError, match="allowed: a test function, method or class"):
        skip_on("amd", reason="r")(target)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"BACKEND": "rocm"}, r"HWMATRIX_BACKEND names no backend: 'rocm'"),
        ({"BACKEND": "cdua"}, r"'cdua'\. Did you mean 'cuda'\?"),
        ({"DEVICES": "many"}, r"HWMATRIX_DEVICES is 'many'; allowed: a number, or empty"),
        ({"DEVICES": "-1"}, r"HWMATRIX_DEVICES is '-1'"),
        ({"MEMORY_GIB": "nan"}, r"HWMATRIX_MEMORY_GIB is 'nan'"),
        ({"MEMORY_GIB": "inf"}, r"HWMATRIX_MEMORY_GIB is 'inf'"),
    ],
)
def test_variables_that_no_session_writes_are_refused(
    session: Session, values: dict[str, str], message: str
) -> None:
    session(**values)
    with pytest.raises(UsageError, match=message):
        requires(devices=1)


# ------------------------------------------------------------------ outside a session


class Facts:
    """A backend that has the given devices, and counts how often it is asked."""

    def __init__(self, backend: Backend, *devices: Device) -> None:
        self.backend = backend
        self.devices = devices
        self.asked = 0

    def probe(self, env: Mapping[str, str], root: object = None) -> Probe:
        assert env is not None
        assert root is None
        self.asked += 1
        return Probe(backend=self.backend, devices=self.devices)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Stand outside a session, on a machine with the given devices."""
    for name in AMD:
        monkeypatch.delenv(name, raising=False)

    def machine(**devices: tuple[Device, ...]) -> dict[Backend, Facts]:
        kinds = {b: Facts(b, *devices.get(b.value, ())) for b in Backend}
        monkeypatch.setattr(backends, "BACKENDS", kinds)
        monkeypatch.setattr(skips, "_probed", None)
        return kinds

    return machine


def device(arch: str, memory_gib: float) -> Device:
    return Device(key=arch, token="0", arch=arch, memory_gib=memory_gib)


def test_outside_a_session_one_probe_tells(machine: Machine) -> None:
    kinds = machine(amd=(device("gfx942", 192.0), device("gfx942", 64.0)))
    assert why(requires(devices=4)) == "needs 4 devices, found amd (2 devices, 64 GiB each, gfx942)"
    assert why(skip_on("cuda", reason="r")) is None
    assert [kinds[backend].asked for backend in kinds] == [0, 1, 1, 0, 0, 0, 0]


def test_mixed_devices_have_no_arch_in_common(machine: Machine) -> None:
    machine(xpu=(device("a", 16.0), device("b", 16.0)))
    assert why(requires(arch="a", devices=1)) is None
    assert str(skips.current()) == "xpu (2 devices, 16 GiB each)"


def test_without_an_accelerator_it_is_the_cpu(machine: Machine) -> None:
    machine(cpu=(device("x86_64", 8.0), device("x86_64", 8.0)))
    assert str(skips.current()) == "cpu (2 devices, 8 GiB each, x86_64)"


def test_without_any_device_it_is_a_cpu_of_unknown_size(machine: Machine) -> None:
    machine()
    assert why(skip_on("cpu", reason="r")) == "not on cpu, found cpu: r"
    assert why(requires(devices=64)) is None


def test_the_real_backends_can_be_asked() -> None:
    found = skips.from_probe({})
    assert found.backend in {backend.value for backend in Backend}


def test_without_pytest_only_unittest_is_told(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session()
    monkeypatch.setattr(skips, "sys", SimpleNamespace(modules={}))

    @skip_on("amd", reason="r")
    def test() -> None:
        pass

    assert getattr(test, "__unittest_skip__", False) is True
    assert not hasattr(test, "pytestmark")
