"""`nox --list` with 60 sessions from the table, beside a noxfile that spells 60 sessions out.

    PYTHONPATH=ci python bench/nox_list/run.py [--rounds N]

Prints medians of alternating runs and their ratio (the aim: at most 1.5). Needs nox beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "ci"
BACKENDS = ("cuda", "amd", "xpu", "npu")
TIERS = 15
AIM = 1.5

HEAD = """\
version = 1

[project]
roots = ["test"]
python_files = ["test_*.py"]

[budget]
factor = 3.0
floor_s = 30
startup_s = 60
grace_s = 30
"""
FROM_TABLE = f"""\
import sys
from pathlib import Path

sys.path.insert(0, {str(PACKAGE)!r})
from hwmatrix import sessions

sessions.register(Path(__file__).resolve().parent)
"""
SPELLED_OUT = """\
@nox.session(python=False, default=False, tags=[{backend!r}, {tier!r}])
def {function}(session):
    "{tier} on {backend}"
    session.run("true", external=True)

"""


def table() -> str:
    """Return a table with a session for each backend and tier."""
    rows = [HEAD]
    for backend in BACKENDS:
        rows.append(f'[backend.{backend}]\ndefault_variant = "one"\n')
        rows.append(f"[backend.{backend}.variant.one]")
        rows.append('torch = "2.13.0"\nindex = "https://download.pytorch.org/whl/cpu"')
        rows.append('requirements = "requirements.in"\n')
    rows += [f'[tier.tier-{n:02}]\nabout = "number {n}"\n' for n in range(TIERS)]
    rows.append("[runner.one]\ndevices = 1\nslots = 1\nmax_job_minutes = 60\n")
    for backend in BACKENDS:
        for n in range(TIERS):
            rows.append(f"[suite.{backend}.tier-{n:02}-test-one-{backend}]")
            rows.append(f'tier = "tier-{n:02}"\nrunner_config = "one"\n')
    return "\n".join(rows)


def spelled_out() -> str:
    """Return a noxfile with the same sessions, each a function of its own."""
    parts = ["import nox\n"]
    parts += [
        SPELLED_OUT.format(backend=backend, tier=f"tier-{n:02}", function=f"{backend}_tier_{n:02}")
        for backend in BACKENDS
        for n in range(TIERS)
    ]
    return "\n".join(parts)


def listing(folder: Path) -> tuple[float, int]:
    """Return the wall seconds of `nox --list`, and how many sessions it listed."""
    began = time.perf_counter()
    ended = subprocess.run(
        [sys.executable, "-m", "nox", "--list"],
        cwd=folder,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=True,
    )
    seconds = time.perf_counter() - began
    return seconds, sum(line.startswith(("- ", "* ")) for line in ended.stdout.splitlines())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        ours, peer = Path(name, "ours"), Path(name, "peer")
        (ours / "ci").mkdir(parents=True)
        peer.mkdir()
        (ours / "ci" / "matrix.toml").write_text(table())
        (ours / "requirements.in").touch()
        (ours / "noxfile.py").write_text(FROM_TABLE)
        (peer / "noxfile.py").write_text(spelled_out())
        times: dict[str, list[float]] = {"ours": [], "peer": []}
        counts = {}
        for round_number in range(rounds + 1):
            for key, folder in (("ours", ours), ("peer", peer)):
                seconds, counts[key] = listing(folder)
                if round_number:  # the first fills the byte-code caches
                    times[key].append(seconds)
    ratio = statistics.median(a / b for a, b in zip(times["ours"], times["peer"], strict=True))
    found = {
        "sessions": counts,
        "ours_s": round(statistics.median(times["ours"]), 3),
        "peer_s": round(statistics.median(times["peer"]), 3),
        "ratio": round(ratio, 2),
        "aim": AIM,
    }
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
