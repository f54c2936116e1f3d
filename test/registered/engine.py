"""What the suites of transformers' continuous-batching engine share."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from typing import TYPE_CHECKING

import tiny_models
import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT_S = 120.0  # for one request; the tiny models need seconds
PAGE = 16
NEVER = -1  # the engine's word for no end-of-sequence token: every request runs to its length


def settings(new_tokens: int, **more: object):
    """Return greedy generation of exactly `new_tokens` tokens."""
    from transformers import GenerationConfig

    return GenerationConfig(max_new_tokens=new_tokens, do_sample=False, pad_token_id=0, **more)


def greedy(model, prompt: list[int], new_tokens: int) -> list[int]:
    """Return the model's own continuation, by the plain `generate` over one sequence."""
    ids = torch.tensor([prompt], device=model.device)
    # Without a mask, `generate` takes tokens that equal the padding for padding.
    mask = torch.ones_like(ids)
    found = model.generate(ids, attention_mask=mask, generation_config=settings(new_tokens))
    return found[0, len(prompt) :].tolist()


@contextlib.contextmanager
def batching(model, *, new_tokens: int = 16, **config: object) -> Iterator[object]:
    """Run a continuous-batching manager; `config` goes into ContinuousBatchingConfig."""
    from transformers import ContinuousBatchingConfig

    chosen = {"page_size": PAGE, "num_blocks": 64, "max_batch_tokens": 128, **config}
    if "page_size" not in {field.name for field in dataclasses.fields(ContinuousBatchingConfig)}:
        chosen["block_size"] = chosen.pop("page_size")  # its name up to transformers 5.17
    with model.continuous_batching_context_manager(
        generation_config=settings(new_tokens, eos_token_id=NEVER),
        continuous_batching_config=ContinuousBatchingConfig(**chosen),
        timeout=LIMIT_S,
    ) as manager:
        yield manager


def held(manager) -> contextlib.AbstractContextManager[object]:
    """Hold the engine while requests come in, where this transformers can: they meet then.

    Without that, a thread that gets no turn between two requests lets the first one run alone.
    """
    return manager.pause() if hasattr(manager, "pause") else contextlib.nullcontext()


def collect(manager, wanted: set[str]) -> dict[str, object]:
    """Return the final output of each wanted request, in the order in which they finished.

    Raises:
        TimeoutError: one did not finish in time.
    """
    done: dict[str, object] = {}
    end = time.monotonic() + LIMIT_S
    while wanted - done.keys():
        if time.monotonic() > end:
            message = f"not finished after {LIMIT_S} s: {sorted(wanted - done.keys())}"
            raise TimeoutError(message)
        output = manager.get_result(timeout=0.2)
        if output is not None and output.is_finished():
            done[output.request_id] = output
    return done


@contextlib.contextmanager
def counted(owner: type, method: str) -> Iterator[list[tuple[tuple[object, ...], object]]]:
    """Keep the arguments and the result of each call of `owner.method`, which works on."""
    calls: list[tuple[tuple[object, ...], object]] = []
    original = getattr(owner, method)

    def spy(self, *arguments, **named):
        result = original(self, *arguments, **named)
        calls.append((arguments, result))
        return result

    setattr(owner, method, spy)
    try:
        yield calls
    finally:
        setattr(owner, method, original)


def prompt(length: int, seed: int) -> list[int]:
    """Return random token ids."""
    return tiny_models.tokens(1, length, seed=seed, device="cpu")[0].tolist()
