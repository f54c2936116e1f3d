"""SGLang's own collector of registrations and runner, fetched for comparison, never committed.

Only what stands in `sglang/test/ci` of the wheel is kept. The collector needs nothing but the
standard library; `bench/engine/peer.py` gives the runner what it needs. Used by
`bench/scan/run.py`, `bench/engine/isolation.py` and
`test/integration/test_registry_against_sglang.py`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

VERSION = "0.5.23"  # pinned, so that figures and facts can be compared over time
_FOLDER = "sglang/test/ci/"
_LIMIT_S = 180  # the wheel has 39 MB


class UnavailableError(Exception):
    """The package cannot be had here; the message says why."""


def state_folder(env: Mapping[str, str]) -> Path:
    """Return where the file is kept between runs: HWMATRIX_STATE, else the temporary folder."""
    state = env.get("HWMATRIX_STATE")
    return Path(state or tempfile.gettempdir()) / f"hwmatrix-peer-{VERSION}"


def fetch(folder: Path) -> Path:
    """Return the path of the collector's source, downloaded with pip if it is not there yet.

    Raises:
        UnavailableError: no pip, no network, no wheel for this Python.
    """
    return fetch_all(folder) / _FOLDER / "ci_register.py"


def fetch_all(folder: Path) -> Path:
    """Return the folder in which `sglang/test/ci` lies, downloaded with pip if it does not yet.

    Raises:
        UnavailableError: no pip, no network, no wheel for this Python.
    """
    kept = folder / "wheel"
    if kept.is_dir():
        return kept
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary=:all:", f"--dest={scratch}", f"sglang=={VERSION}"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_LIMIT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UnavailableError(f"sglang {VERSION} was not fetched: {error}") from None
        wheels = sorted(Path(scratch).glob("*.whl"))
        if done.returncode or not wheels:
            said = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
            raise UnavailableError(f"sglang {VERSION} was not fetched: {said}")
        beside = Path(scratch, "wheel")
        with zipfile.ZipFile(wheels[0]) as wheel:
            wheel.extractall(beside, [n for n in wheel.namelist() if n.startswith(_FOLDER)])
        with contextlib.suppress(OSError):  # another process was sooner
            beside.rename(kept)
    return kept


def load(source: Path) -> ModuleType:
    """Return the collector as a module of its own, outside any package."""
    spec = importlib.util.spec_from_file_location("sglang_ci_register", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
