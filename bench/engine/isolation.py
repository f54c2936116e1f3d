"""What a process per file costs: this engine against one interpreter per file and against none.

    PYTHONPATH=ci python -m bench.engine.isolation [--files 40] [--slots 2] [--import torch]

Ways: `python file.py` one after another; SGLang's own runner, which does that too, and its worker
that forks for each file, both fetched with pip (`peer.py`; left out, with the reason, where that
fails); `pytest -n SLOTS --dist loadfile`, which isolates nothing; the engine with forks and with
fresh interpreters. Each way runs the same files; the wall time includes everything from start to
end. The ways take turns `--repeat` times. Run it from the project's root with an interpreter that
has torch, pytest, xdist and pytest-timeout.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.engine.runs import run_spec, spec_of
from bench.scan import peer

from hwmatrix.model import Isolation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FILE = """
{imports}
import pytest
import torch

DEVICE = "{device}"

@pytest.mark.parametrize("size", [8, 16, 32])
def test_product(size):
    left = torch.eye(size, device=DEVICE)
    assert torch.equal(left @ left, left)

if __name__ == "__main__":
    sys_exit = pytest.main([__file__, "-q", "-p", "no:cacheprovider"])
    raise SystemExit(sys_exit)
"""


def write_files(root: Path, count: int, imports: Sequence[str], device: str) -> list[str]:
    names = [f"test_number_{index:02}.py" for index in range(count)]
    lines = "\n".join(f"import {name}" for name in imports)
    for name in names:
        (root / name).write_text(FILE.format(imports=lines, device=device))
    return names


def timed(run: Callable[[], bool]) -> float:
    started = time.monotonic()
    if not run():
        message = "a run failed: its time says nothing"
        raise SystemExit(message)
    return round(time.monotonic() - started, 2)


def one_after_another(root: Path, names: Sequence[str]) -> bool:
    return all(
        subprocess.run(
            [sys.executable, name], cwd=root, capture_output=True, check=False
        ).returncode
        == 0
        for name in names
    )


def plain_xdist(root: Path, names: Sequence[str], slots: int) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(slots), "--dist", "loadfile"]
    command += ["-p", "no:cacheprovider", *names]
    return subprocess.run(command, cwd=root, capture_output=True, check=False).returncode == 0


def sglang(root: Path, names: Sequence[str], folder: Path, batch: int) -> bool:
    """Run the files with SGLang's runner; `batch` above 1 for so many from one forking worker."""
    command = [sys.executable, "-m", "bench.engine.peer", str(folder), str(batch), *names]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, check=False)
    return done.returncode == 0


def sglang_ways(
    root: Path, names: Sequence[str], given: argparse.Namespace
) -> dict[str, Callable[[], bool]]:
    """Return the ways of SGLang, none where its package cannot be had."""
    try:
        folder = Path(given.sglang or peer.fetch_all(peer.state_folder(os.environ)))
    except peer.UnavailableError as error:
        print(f"left out: {error}", file=sys.stderr)
        return {}
    version = given.sglang or peer.VERSION
    return {
        f"b: sglang {version}, its runner": lambda: sglang(root, names, folder, 1),
        f"w: sglang {version}, its forking worker": lambda: sglang(root, names, folder, len(names)),
    }


def engine(
    root: Path, names: Sequence[str], slots: int, isolation: Isolation, preload: str
) -> bool:
    runs = root.parent / "runs"  # shared, as a project's: what one run learnt serves the next
    with tempfile.TemporaryDirectory(dir=runs) as folder:
        modules = tuple(name for name in preload.split(",") if name)
        spec = spec_of(root, Path(folder), names, slots=slots, isolation=isolation, preload=modules)
        return run_spec(spec).exit_status == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--import", dest="imports", default="torch")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--sglang", default="", help="a folder in which sglang/test/ci lies")
    parser.add_argument("--skip", default="", help="ways to leave out, by their letters")
    given = parser.parse_args()
    # Where it is set, every process compiles what others have compiled: Python's default counts.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        for path in (root, Path(folder) / "runs"):
            path.mkdir()
        names = write_files(root, given.files, given.imports.split(","), given.device)
        ways: dict[str, Callable[[], bool]] = {
            "a: python file.py in turn": lambda: one_after_another(root, names),
            **sglang_ways(root, names, given),
            "c: pytest -n, loadfile": lambda: plain_xdist(root, names, given.slots),
            "f: engine, fork": lambda: engine(
                root, names, given.slots, Isolation.FORK, given.imports
            ),
            "s: engine, spawn": lambda: engine(
                root, names, given.slots, Isolation.SPAWN, given.imports
            ),
        }
        found: dict[str, list[float]] = {}
        for _ in range(given.repeat):
            for way, run in ways.items():
                if way[0] not in given.skip:
                    found.setdefault(way, []).append(timed(run))
    facts = {"files": given.files, "slots": given.slots, "cores": os.cpu_count()}
    print(json.dumps({**facts, "imports": given.imports, "device": given.device, "wall_s": found}))


if __name__ == "__main__":
    main()
