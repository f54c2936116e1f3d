"""Compare hwmatrix's scan with SGLang's collector: same files, same machine, same run.

    python -m bench.scan.run [--files 1000] [--megabytes 8.8] [--rounds 5] [--alone]

Every measurement is a process of its own; those of a round follow each other, so that both see
the same load. Printed are medians over the rounds, and the ratios of the medians.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

from bench.scan import peer, trees

PROJECT = Path(__file__).resolve().parents[2]
DATA = PROJECT / "test/data/registry/real_registrations.jsonl"
PATTERNS = ("test_*.py", "bench_*.py")
KINDS = {
    "sglang": "SGLang's collector",
    "cold": "hwmatrix, nothing cached",
    "thorough": "hwmatrix for lint, nothing cached",
    "fill": "hwmatrix, filling its cache",
    "warm": "hwmatrix, nothing changed",
}


def measure(kind: str, tree: Path, collector: Path | None) -> None:
    """Print the seconds that one kind takes in this process, imports aside, and its count."""
    if kind == "sglang":
        assert collector is not None
        module = peer.load(collector)
        names = sorted(str(path) for pattern in PATTERNS for path in tree.rglob(pattern))
        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            count = len(module.collect_tests(names))
        print(time.perf_counter() - begin, count)
        return
    from hwmatrix.registry import scan

    cache = tree / "scan.json" if kind in {"fill", "warm"} else None
    begin = time.perf_counter()
    # A fresh tree is too young to be cached; a clock an hour ahead makes it old enough.
    found = scan(
        tree,
        ["test"],
        PATTERNS,
        cache=cache,
        thorough=kind == "thorough",
        clock_ns=lambda: time.time_ns() + 3_600_000_000_000,
    )
    seconds = time.perf_counter() - begin
    assert not found.problems, found.problems[:3]
    assert kind != "warm" or found.reused == found.files
    print(seconds, len(found.registrations))


def child(kind: str, tree: Path, collector: Path | None) -> tuple[float, float, int]:
    """Return seconds inside, seconds of the whole process, and registrations found."""
    command = [
        sys.executable,
        "-m",
        "bench.scan.run",
        "--one",
        kind,
        str(tree),
        str(collector or ""),
    ]
    # With bytecode, as for a person: imports compile in the first round and not in the median.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env |= {"PYTHONPATH": str(PROJECT / "ci"), "PYTHONPYCACHEPREFIX": str(tree / ".pycache")}
    begin = time.perf_counter()
    done = subprocess.run(
        command, env=env, cwd=PROJECT, stdout=subprocess.PIPE, text=True, check=True
    )
    total = time.perf_counter() - begin
    seconds, count = done.stdout.split()
    return float(seconds), total, int(count)


def compare(
    tree: Path, collector: Path | None, rounds: int
) -> dict[str, list[tuple[float, float]]]:
    """Return per kind the (inside, process) seconds of each round."""
    kinds = [kind for kind in KINDS if kind != "sglang" or collector]
    times: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
    for _ in range(rounds):
        counts = set()
        for kind in kinds:
            seconds, total, count = child(kind, tree, collector)
            times[kind].append((seconds, total))
            counts.add(count)
        assert len(counts) == 1, f"the readers disagree on the number of registrations: {counts}"
        (tree / "scan.json").unlink()
    return times


def show(times: dict[str, list[tuple[float, float]]]) -> None:
    """Print the table of medians and ratios."""
    medians = {
        kind: (statistics.median(a for a, _ in rows), statistics.median(b for _, b in rows))
        for kind, rows in times.items()
    }
    base = medians.get("sglang")
    print(f"{'':36}{'scan':>10}{'ratio':>8}{'process':>11}{'ratio':>8}")
    for kind, (inside, total) in medians.items():
        ratios = (
            ("", "") if base is None else (f"{base[0] / inside:.1f}x", f"{base[1] / total:.1f}x")
        )
        print(
            f"{KINDS[kind]:36}{inside * 1000:7.0f} ms{ratios[0]:>8}"
            f"{total * 1000:8.0f} ms{ratios[1]:>8}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--megabytes", type=float, default=8.8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--alone", action="store_true", help="leave SGLang's collector out")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        kind, tree, collector = options.one
        measure(kind, Path(tree), Path(collector) if collector else None)
        return
    collector_path: Path | None = None
    if not options.alone:
        try:
            collector_path = peer.fetch(peer.state_folder(os.environ))
        except peer.UnavailableError as error:
            print(f"{error}; hwmatrix alone is measured")
    with tempfile.TemporaryDirectory() as folder:
        size = int(options.megabytes * 1e6)
        paths = trees.make(Path(folder), trees.rows(DATA), files=options.files, size=size)
        written = sum(path.stat().st_size for path in paths)
        print(
            f"{len(paths)} files, {written / 1e6:.1f} MB, Python {sys.version.split()[0]}, "
            f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, medians of {options.rounds}"
        )
        show(compare(Path(folder), collector_path, options.rounds))


if __name__ == "__main__":
    main()
