"""Run inside the environment under test: says as JSON which torch and which tools are in it.

Standard library only, and run as a file, so that it works in any Python from 3.10 on. The first
argument is a JSON object: `modules` to import beside torch, `available` and `archs` as dotted
names, `quick` to read torch/version.py in place of importing torch.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import sys
import traceback
from pathlib import Path
from typing import Any

KINDS = ("cuda", "hip", "xpu")
TOOLS = ("pytest", "xdist", "pytest_timeout")


def main(question: dict[str, object]) -> dict[str, object]:
    """Return the answer: `error` says what went wrong first, if anything did."""
    answer: dict[str, object] = {
        "python": sys.version.split()[0],
        "prefix": sys.prefix,
        "distributions": _distributions(),
        "tools": _tools(),
    }
    try:
        if question.get("quick"):
            answer.update(_quick())
        else:
            _ask_torch(question, answer)
    except ModuleNotFoundError as error:
        answer["error"] = f"No module named {error.name!r}"
    except BaseException as error:  # noqa: BLE001 - torch's import raises whatever a driver does
        last = traceback.format_exception_only(type(error), error)[-1].strip()
        answer["error"] = last
    return answer


def _distributions() -> dict[str, str]:
    found: dict[str, str] = {}
    for item in importlib.metadata.distributions():
        name = item.metadata["Name"]
        if name:
            found.setdefault(name.lower().replace("_", "-").replace(".", "-"), item.version)
    return found


def _tools() -> dict[str, str]:
    """Return for each tool the reason why it cannot be imported, empty if it can."""
    reasons = {}
    for name in TOOLS:
        try:
            importlib.import_module(name)
        except BaseException as error:  # noqa: BLE001, PERF203 - any failure is the answer
            reasons[name] = f"{type(error).__name__}: {error}"
        else:
            reasons[name] = ""
    return reasons


def _quick() -> dict[str, object]:
    """Return the facts that torch's version.py states, without importing torch."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.origin:
        raise ModuleNotFoundError("torch", name="torch")
    path = Path(spec.origin).with_name("version.py")
    namespace: dict[str, object] = {}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), namespace)  # noqa: S102 - torch's own file, as an import would run it
    facts = {kind: namespace.get(kind) for kind in KINDS}
    return {"torch": str(namespace["__version__"]), "file": spec.origin, "version": facts}


def _ask_torch(question: dict[str, object], answer: dict[str, object]) -> None:
    """Add the facts to `answer` as they come, so that those before a failure are kept."""
    torch = importlib.import_module("torch")
    answer["torch"], answer["file"] = str(torch.__version__), str(torch.__file__)
    answer["version"] = {kind: getattr(torch.version, kind, None) for kind in KINDS}
    modules = question.get("modules")
    for name in modules if isinstance(modules, list) else []:
        importlib.import_module(name)
    if question.get("available"):
        answer["available"] = bool(_call(str(question["available"])))
    if question.get("archs"):
        answer["archs"] = [str(item) for item in _call(str(question["archs"]))]


def _call(dotted: str) -> Any:  # noqa: ANN401 - what torch returns
    parts = dotted.split(".")
    value: Any = importlib.import_module(parts[0])
    for part in parts[1:]:
        value = getattr(value, part)
    return value()


if __name__ == "__main__":
    # Python puts a script's folder first; its modules must not stand for others of their names.
    sys.path[:] = [entry for entry in sys.path if entry != str(Path(__file__).parent)]
    print("HWMATRIX:" + json.dumps(main(json.loads(sys.argv[1]))))  # noqa: T201 - its answer
