"""Runs on a machine with NVIDIA GPUs, without network: what only hardware can show.

    PYTHONPATH=ci:. python3 -m bench.hardware.run [--out FILE] [--overlay DIR] [--parts ...]

1. `suite`, `extra`: `cuda-stage-b --no-venv` of this repository on one slot, then on one per GPU:
   verdict, seconds, ratio, and the devices of each worker, which must be disjoint; then
   `cuda-extra-a`.
2. `refused`: what must be: `amd-stage-b`, and a variant of another CUDA toolkit.
3. `fork`, `spawn`: a probe project whose files import torch and transformers, touch the GPU and
   record what they saw: forked children against fresh interpreters (seconds per file, and their
   ratio); memory free at each start; a file that runs out of memory and one that trips a
   device-side assert, each with a clean file after it on the same slot.
4. `together`: two sessions of one slot each, started at once: on two GPUs each has its own.

Prints one JSON object; every figure comes from this run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FILES = 6

TABLE = """\
version = 1

[project]
roots = ["test"]
python_files = ["test_*.py"]

[budget]
factor = 3.0
floor_s = 60
startup_s = 120
grace_s = 30

[backend.cuda]
default_variant = "here"
preload = ["torch", "transformers"]

[backend.cuda.variant.here]
torch = "{torch}"
toolkit = "{toolkit}"
index = "https://download.pytorch.org/whl/cu130"
requirements = "requirements.in"

[tier.stage-b]
about = "probe"

[runner.1-gpu]
devices = 1
slots = 1
max_job_minutes = 60

[suite.cuda.stage-b-test-1-gpu]
tier = "stage-b"
runner_config = "1-gpu"
isolation = "{isolation}"
"""
HEAD = """\
import json, os, time
began = time.time()
from hwmatrix import register_cuda_ci
register_cuda_ci(est_time={est}, suite="stage-b-test-1-gpu")
import torch, transformers
imported = time.time()
def record(**more):
    free, total = torch.cuda.mem_get_info()
    row = dict(file=os.path.basename(__file__), uuid=str(torch.cuda.get_device_properties(0).uuid),
        count=torch.cuda.device_count(), slot=os.environ["HWMATRIX_SLOT"], began=began,
        mask=os.environ["CUDA_VISIBLE_DEVICES"], imported=imported, free=free, total=total,
        pid=os.getpid(), **more)
    with open(os.environ["PROBE_RECORDS"], "a") as file:
        file.write(json.dumps(row) + "\\n")
"""
TOUCH = """\
def test_touch():
    assert float(torch.ones(8, device="cuda").sum()) == 8.0
    record(product=time.time())
"""
PRODUCT = """\
def test_product():
    x = torch.ones(4096, 4096, device="cuda")
    assert float((x @ x)[0, 0]) == 4096.0
    record(product=time.time())
"""
OUT_OF_MEMORY = """\
def test_oom():
    record(product=time.time())
    held = []
    while True:
        held.append(torch.empty(8 << 30, dtype=torch.uint8, device="cuda"))
"""
DEVICE_ASSERT = """\
def test_assert():
    record(product=time.time())
    table = torch.zeros(4, 4, device="cuda")
    table[torch.tensor([99], device="cuda")].sum().item()
"""


def run(folder: Path, *words: str, **env: str) -> tuple[float, subprocess.CompletedProcess[str]]:
    """Return the wall seconds and the ended command."""
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-m", "hwmatrix", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "ci"), **env},
        capture_output=True,
        text=True,
        timeout=590,
        check=False,
    )
    sys.stderr.write(ended.stderr[-6000:])
    return time.monotonic() - began, ended


def own_suite(name: str, slots: int, *more: str) -> dict[str, Any]:
    """Return what session `name` with `--no-venv` on `slots` slots came to."""
    seconds, ended = run(ROOT, "session", name, "--no-venv", "--slots", str(slots), "--json", *more)
    if ended.returncode not in (0, 1):
        return {"status": ended.returncode, "error": ended.stderr[-2000:]}
    report = json.loads(ended.stdout)
    return {
        "session": name,
        "status": ended.returncode,
        "slots": slots,
        "seconds": round(seconds, 1),
        "run_seconds": report["seconds"],
        "verdict": report["verdict"],
        "devices": {row["slot"]: row["devices"] for row in report["slots"]},
        "files": {
            Path(unit["files"][0]).name: [unit["outcome"], round(unit["seconds"], 1)]
            for unit in report["units"]
        },
    }


def refused(*words: str) -> dict[str, Any]:
    """Return how a session that must not start ended."""
    _, ended = run(ROOT, "session", *words)
    return {"command": " ".join(words), "status": ended.returncode, "said": ended.stderr.strip()}


def probe(isolation: str, slots: int) -> dict[str, Any]:
    """Return what the files of a probe project saw under `isolation`."""
    import torch

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "ci").mkdir()
        (folder / "test").mkdir()
        (folder / "requirements.in").touch()
        (folder / "ci" / "matrix.toml").write_text(
            TABLE.format(torch=torch.__version__, toolkit=torch.version.cuda, isolation=isolation)
        )
        bodies = {f"test_{n}_touch.py": TOUCH for n in range(FILES)}
        bodies |= {f"test_{n}_product.py": PRODUCT for n in range(FILES)}
        bodies |= {"test_a_oom.py": OUT_OF_MEMORY, "test_b_assert.py": DEVICE_ASSERT}
        for number, (file, body) in enumerate(sorted(bodies.items(), reverse=True)):
            (folder / "test" / file).write_text(HEAD.format(est=30 - number) + body)
        records = folder / "records.jsonl"
        words = ("session", "cuda-stage-b", "--no-venv", "--slots", str(slots), "--json")
        seconds, ended = run(folder, *words, PROBE_RECORDS=str(records))
        if not records.exists():
            return {"status": ended.returncode, "error": ended.stderr[-3000:]}
        rows = [json.loads(line) for line in records.read_text().splitlines()]
        report = json.loads(ended.stdout)
        units = {Path(u["files"][0]).name: u for u in report["units"]}
    seconds_of = {
        kind: [unit["seconds"] for file, unit in units.items() if kind in file]
        for kind in ("touch", "product")
    }
    by_slot: dict[str, set[str]] = {}
    for row in rows:
        by_slot.setdefault(row["slot"], set()).add(row["uuid"])
    seen = list(by_slot.values())
    return {
        "isolation": isolation,
        "slots": slots,
        "seconds": round(seconds, 1),
        "file_s": {
            kind: {
                "median": round(statistics.median(times), 2),
                "fastest": round(min(times), 2),
                "slowest": round(max(times), 2),
            }
            for kind, times in seconds_of.items()
        },
        "outcomes": {file: [unit["outcome"], unit["reason"][:200]] for file, unit in units.items()},
        "devices_seen_by_children": {slot: sorted(uuids) for slot, uuids in by_slot.items()},
        "one_device_each": all(row["count"] == 1 for row in rows),
        "disjoint": all(len(uuids) == 1 for uuids in seen) and len(set.union(*seen)) == len(seen),
        "least_free_share_at_start": round(min(row["free"] / row["total"] for row in rows), 4),
        "notes": report["notes"],
    }


PARTS = ("suite", "extra", "refused", "fork", "spawn", "together")


def together(seconds: float) -> dict[str, Any]:
    """Return what two sessions saw that were started at once on this host: never one device."""
    gate = threading.Barrier(2)
    rows: list[dict[str, Any]] = []

    def one() -> None:
        gate.wait(seconds)
        began = time.time()
        row = own_suite("cuda-stage-b", 1, "test/registered/memory", "test/registered/runtime")
        rows.append({**row, "began": began, "ended": time.time()})

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"sessions": rows}


def measured(part: str, gpus: int, overlay: list[str]) -> object:
    """Return what one part came to."""
    if part == "suite":
        return [own_suite("cuda-stage-b", slots, *overlay) for slots in sorted({1, gpus})]
    if part == "extra":
        return own_suite("cuda-extra-a", gpus, *overlay)
    if part == "refused":
        return [
            refused("amd-stage-b"),
            refused("cuda-stage-b-cuda-12.6", "--no-venv"),
            refused("cpu-stage-b", "--no-venv"),
        ]
    if part == "together":
        return together(30)
    return probe(part, gpus)


def ratios(found: dict[str, Any]) -> dict[str, Any]:
    """Return the ratios of what was measured."""
    made: dict[str, Any] = {}
    fork, spawn = (found.get(part, {}).get("file_s", {}) for part in ("fork", "spawn"))
    if fork and spawn:
        made["fresh_interpreter_over_fork"] = {
            kind: round(spawn[kind]["median"] / fork[kind]["median"], 1) for kind in fork
        }
    runs = [row["run_seconds"] for row in found.get("suite", ()) if "run_seconds" in row]
    if len(runs) > 1:
        made["one_slot_over_all"] = round(runs[0] / runs[-1], 2)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="also write the JSON here, after each part")
    parser.add_argument("--overlay", help="folder of packages that the container lacks")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="in this order")
    options = parser.parse_args()
    overlay = ["--overlay", options.overlay] if options.overlay else []
    import torch

    found: dict[str, Any] = {
        "gpu": torch.cuda.get_device_name(0),
        "gpus": torch.cuda.device_count(),
        "cores": os.cpu_count(),
        "torch": torch.__version__,
    }
    text = ""
    for part in options.parts:
        found[part] = measured(part, found["gpus"], overlay)
        text = json.dumps({**found, **ratios(found)}, indent=2)
        if options.out:  # what was measured stays, whatever ends the next part
            options.out.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
