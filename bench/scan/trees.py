"""A stand-in tree of test files, made from registrations as they stand in a public GPU project.

Bodies are made up, in the style of such tests (classes, parametrised cases, tensors, server
fixtures), with a fixed seed: the same tree every time.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SEED = 20260101
_PART = 1800  # bytes of one method, about
_HEAD = '''"""{title}

Usage:
    python3 -m pytest {name} -v
"""

import os
import time
import unittest
from types import SimpleNamespace

import torch

from hwmatrix import {names}
from myengine.test.kits import GSM8KMixin, MMMUMixin
from myengine.test.server import DEFAULT_URL, CustomTestCase, kill_process_tree, launch_server

{calls}

MODEL = os.environ.get("MYENGINE_TEST_MODEL", "org/model-{index}-instruct")
'''
_METHOD = '''
    def test_{word}_{number}(self):
        """Check {word} against the reference with {number} tokens.

        The limit is that of the kernel's own tests: bfloat16 keeps eight bits of mantissa, and
        the sum over the head dimension adds about three bits of noise to what is left.
        """
        # Shapes are those of the model at tensor parallel size 1; larger ones are in the nightly
        # suite, since the reference needs float64 and so takes most of the time on the device.
        batch, heads, dim = {a}, {b}, {c}
        query = torch.randn(batch, heads, dim, dtype=torch.bfloat16, device=self.device)
        key = torch.randn(batch * {d}, heads, dim, dtype=torch.bfloat16, device=self.device)
        args = SimpleNamespace(num_shots={a}, max_new_tokens={c}, parallel={d}, host=self.host)
        for step in range({b}):
            with self.subTest(step=step, word="{word}"):
                output = self.engine.{word}(query, key, scale=1.0 / dim**0.5, causal=True)
                reference = self.reference.{word}(query.double(), key.double())
                error = (output.double() - reference).abs().max().item()
                self.assertLess(error, {e}, f"{word} at step {{step}}: {{error:.3e}}")
                self.results[f"{word}-{{step}}"] = {{"error": error, "shape": output.shape}}
        if {a} > {b} and self.metrics["accuracy"] >= 0.{c}:
            print(f"{word}: {{args.num_shots=}} {{self.metrics['accuracy']:.3f}}")
'''
_CLASS = """

class Test{title}{number}(CustomTestCase):
    @classmethod
    def setUpClass(cls):
        cls.host, cls.device = DEFAULT_URL, "cuda"
        cls.process = launch_server(
            MODEL,
            DEFAULT_URL,
            timeout={c},
            other_args=["--tp", "{a}", "--mem-fraction-static", "0.{c}", "--attention", "{word}"],
        )

    @classmethod
    def tearDownClass(cls):
        kill_process_tree(cls.process.pid)
"""
_TAIL = """

if __name__ == "__main__":
    unittest.main()
"""
_WORDS = ("decode", "prefill", "verify", "extend", "rotate", "quantize", "gather", "route", "merge")


class Row(NamedTuple):
    """One registration: its path if known, and the call as source."""

    path: str
    call: str
    text: str


def rows(data: Path) -> tuple[Row, ...]:
    """Return the registrations that both readers accept: no empty suite, no unknown keyword."""
    facts = map(json.loads, data.read_text("utf-8").splitlines())
    return tuple(_row(fact) for fact in facts if fact.get("suite") != "")


def _row(facts: dict[str, object]) -> Row:
    names = ("est_time", "suite", "nightly", "disabled", "stage", "runner_config")
    given = ", ".join(f"{name}={facts[name]!r}" for name in names if name in facts)
    return Row(str(facts.get("path", "")), str(facts["call"]), f"{facts['call']}({given})")


def make(root: Path, known: Sequence[Row], *, files: int, size: int) -> tuple[Path, ...]:
    """Write `files` test files of `size` bytes in all below `root`; return their paths."""
    chance = random.Random(_SEED)
    weights = [chance.lognormvariate(0, 0.8) for _ in range(files)]
    paths = []
    for index, weight in enumerate(weights):
        row = known[index % len(known)]
        stem = Path(row.path or "test/registered/misc/test_more.py")
        path = root / stem.parent / f"{stem.stem}_{index}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        target = size * weight / sum(weights)
        path.write_text("".join(_source(index, path.name, row, int(target), chance)), "utf-8")
        paths.append(path)
    return tuple(paths)


def _source(index: int, name: str, row: Row, target: int, chance: random.Random) -> Iterator[str]:
    """Yield the parts of one file of about `target` bytes."""
    title = name.replace("_", " ").capitalize()
    head = _HEAD.format(title=title, name=name, names=row.call, calls=row.text, index=index)
    yield head
    written, number = len(head) + len(_TAIL), 0
    while written + _PART / 2 < target or not number:
        word = chance.choice(_WORDS)
        values = {key: chance.randrange(2, 64) for key in "abcd"}
        fill = {"word": word, "title": word.title(), "number": number, "e": "1e-3", **values}
        part = (_METHOD if number % 4 else _CLASS + _METHOD).format_map(fill)
        written += len(part)
        number += 1
        yield part
    yield _TAIL
