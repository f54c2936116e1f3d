"""The registration markers: one per backend, from one definition, without effect."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import pytest

import hwmatrix
from hwmatrix import marks
from hwmatrix.errors import HwMatrixError
from hwmatrix.model import Backend
from hwmatrix.registry.facts import PARAMETERS, POSITIONAL

MARKERS: dict[Backend, Any] = {b: getattr(hwmatrix, f"register_{b}_ci") for b in Backend}


def test_there_is_one_marker_per_backend_and_no_other() -> None:
    assert tuple(backend.value for backend in Backend) == marks.BACKENDS
    exported = {name for name in hwmatrix.__all__ if name.startswith("register_")}
    assert exported == {f"register_{backend}_ci" for backend in Backend}
    assert len(set(map(id, MARKERS.values()))) == len(Backend)


@pytest.mark.parametrize(("backend", "marker"), MARKERS.items())
def test_a_marker_has_its_name_and_does_nothing(backend: Backend, marker: Any) -> None:
    assert marker.__name__ == marker.__qualname__ == f"register_{backend}_ci"
    assert f"for {backend};" in marker.__doc__
    assert pickle.loads(pickle.dumps(marker)) is marker
    assert marker(5, "s") is None
    assert marker(5.5, "s", True, "why") is None
    assert marker(5, stage="a", runner_config="b", in_process_group="g") is None


@pytest.mark.parametrize(("backend", "marker"), MARKERS.items())
def test_what_python_would_refuse_is_refused_by_name(backend: Backend, marker: Any) -> None:
    with pytest.raises(TypeError, match=rf"^register_{backend}_ci\(\) missing 1 required"):
        marker()
    with pytest.raises(TypeError, match=rf"^register_{backend}_ci\(\) got an unexpected keyword"):
        marker(5, "s", tags=[])


def test_the_signature_is_the_one_that_the_reader_knows() -> None:
    parameters = inspect.signature(hwmatrix.register_amd_ci).parameters
    assert tuple(parameters) == PARAMETERS
    by_position = [p.name for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert tuple(by_position) == POSITIONAL


def test_the_rest_is_loaded_on_first_use() -> None:
    assert hwmatrix.Backend is Backend
    assert hwmatrix.HwMatrixError is HwMatrixError
    assert isinstance(hwmatrix.__version__, str)
    assert all(hasattr(hwmatrix, name) for name in hwmatrix.__all__)
    with pytest.raises(AttributeError, match="module 'hwmatrix' has no attribute 'nothing'"):
        _ = hwmatrix.nothing


def test_the_version_without_a_distribution_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert hwmatrix._version() == "0+source"
    monkeypatch.setattr(metadata, "version", lambda _name: "1.2")
    assert hwmatrix._version() == "1.2"
