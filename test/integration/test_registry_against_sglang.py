"""On forms that SGLang's own collector accepts, the same facts come out.

Its package is fetched with pip into a folder for such things (HWMATRIX_STATE, else the temporary
folder) and is never committed; where it cannot be had, the tests are skipped with the reason.
"""

from __future__ import annotations

import importlib.util
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hwmatrix.model import Backend
from hwmatrix.registry import scan

PROJECT = Path(__file__).parents[2]
DATA = PROJECT / "test/data/registry/real_registrations.jsonl"
Facts = tuple[str, float, str, str, str, bool, str]


def bench(name: str) -> Any:
    """Return a module of bench/scan, which is no package that tests could import."""
    spec = importlib.util.spec_from_file_location(
        f"bench_{name}", PROJECT / f"bench/scan/{name}.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def collector() -> Any:
    peer = bench("peer")
    try:
        return peer.load(peer.fetch(peer.state_folder(os.environ)))
    except peer.UnavailableError as error:
        pytest.skip(str(error))


def theirs(collector: Any, path: Path) -> list[Facts]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collector.collect_tests([str(path)], sanity_check=False)
    return [
        (
            item.backend.name.lower(),
            item.est_time,
            item.suite or "",
            item.stage or "",
            item.runner_config or "",
            item.nightly,
            item.disabled or "",
        )
        for item in found
    ]


def ours(root: Path, path: Path) -> list[Facts]:
    found = scan(root, [path.relative_to(root).as_posix()], ["*"])
    assert found.problems == ()
    return [
        (
            item.backend.value,
            item.est_s,
            item.suite,
            item.stage,
            item.runner_config,
            item.nightly,
            item.disabled.reason if item.disabled else "",
        )
        for item in found.registrations
    ]


def test_real_registrations_come_out_the_same(collector: Any, tmp_path: Path) -> None:
    trees = bench("trees")
    rows = trees.rows(DATA)
    paths = trees.make(tmp_path, rows, files=len(rows), size=1000 * len(rows))
    assert len(paths) > 90
    for path in paths:
        facts = ours(tmp_path, path)
        assert len(facts) == 1
        assert facts == theirs(collector, path)


WORDS = st.from_regex(r"[a-z0-9][a-z0-9. -]{0,15}[a-z0-9]", fullmatch=True)
ESTIMATES = st.one_of(st.integers(1, 10**6), st.floats(0.01, 1e6))


@st.composite
def lines(draw: st.DrawFn) -> str:
    """Draw a call as SGLang's collector takes it: bare, at the top, constants only."""
    arguments = [f"{draw(ESTIMATES)!r}"]
    named: dict[str, object] = {}
    if draw(st.booleans()):
        arguments.append(repr(draw(WORDS)))
        if draw(st.booleans()):
            arguments.append(repr(draw(st.booleans())))
        elif draw(st.booleans()):
            named["nightly"] = draw(st.booleans())
    else:
        named |= {"stage": draw(WORDS), "runner_config": draw(WORDS)}
    if draw(st.booleans()):
        named["disabled"] = draw(st.one_of(st.none(), WORDS))
    pairs = [f"{name}={value!r}" for name, value in named.items()]
    arguments += draw(st.permutations(pairs))
    return f"register_{draw(st.sampled_from(list(Backend)))}_ci({', '.join(arguments)})\n"


@settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(calls=st.lists(lines(), max_size=4, unique_by=lambda line: line.partition("(")[0]))
def test_generated_calls_come_out_the_same(
    collector: Any, tmp_path: Path, calls: list[str]
) -> None:
    path = tmp_path / "test_x.py"
    path.write_text('"""register_cuda_ci(1, "quoted")"""\n' + "x = 1\n".join(calls), "utf-8")
    assert ours(tmp_path, path) == theirs(collector, path)


@pytest.mark.parametrize(
    "source",
    [
        'mod.register_amd_ci(5, "s")\n',
        'try:\n    register_amd_ci(5, "s")\nfinally:\n    pass\n',
        'from sglang.test.ci.ci_register import register_amd_ci as r\nr(5, "s")\n',
        '_ = register_amd_ci(5, "s")\n',
    ],
)
def test_what_their_collector_passes_over_is_read(
    collector: Any, tmp_path: Path, source: str
) -> None:
    path = tmp_path / "test_x.py"
    path.write_text(source, "utf-8")
    assert theirs(collector, path) == []
    assert ours(tmp_path, path) == [("amd", 5.0, "s", "", "", False, "")]
