"""SGLang's own runner of test files, without the rest of SGLang.

    python -m bench.engine.peer FOLDER BATCH FILE...

`FOLDER` holds `sglang/test/ci` as the wheel does (`bench/scan/peer.py`). `BATCH` is how many files
one forking worker serves; 1 is SGLang's default, a new interpreter for each file. What its modules
import of the engine is replaced by stand-ins that are never reached while all goes well; so are
SciPy and Triton, which the worker imports first, where they are missing: that makes it quicker.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType

_LIMIT_S = 600.0
_WORKER_NEEDS = ("scipy", "triton")


def stand_in(name: str, **attributes: object) -> None:
    """Make `import name` give a module with these attributes, and nothing of the package's own."""
    parent, _, last = name.rpartition(".")
    if parent and parent not in sys.modules:
        stand_in(parent)
    module = ModuleType(name)
    module.__path__ = []
    vars(module).update(attributes)
    sys.modules[name] = module
    if parent:
        setattr(sys.modules[parent], last, module)


def prepare(folder: str, scratch: Path) -> None:
    """Put the runner on the path, and stand-ins for what it and its worker import."""
    sys.path.insert(0, folder)
    importlib.import_module("sglang.test.ci")  # the package's name, before parts of it are played
    stand_in("sglang.srt.debug_utils", cuda_coredump=ModuleType("cuda_coredump"))
    vars(sys.modules["sglang.srt.debug_utils"].cuda_coredump)["is_enabled"] = lambda: False
    stand_in("sglang.srt.utils.common", kill_process_tree=None)
    for name in _WORKER_NEEDS:
        if importlib.util.find_spec(name) is None:
            (scratch / f"{name}.py").write_text("")
    # It starts `python3`, whichever that is.
    bin_folder = str(Path(sys.executable).parent)
    os.environ["PATH"] = os.pathsep.join([bin_folder, os.environ.get("PATH", os.defpath)])
    os.environ["PYTHONPATH"] = str(scratch)


def main(argv: list[str]) -> int:
    folder, batch, *files = argv
    with tempfile.TemporaryDirectory() as scratch:
        prepare(folder, Path(scratch))
        runner = importlib.import_module("sglang.test.ci.ci_utils")
        status = runner.run_unittest_files(
            [runner.TestFile(name) for name in files],
            timeout_per_file=_LIMIT_S,
            fork_worker_batch_size=int(batch),
        )
    return int(status != 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
