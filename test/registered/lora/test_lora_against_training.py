"""A served LoRA adapter gives the log-probabilities that its trainer saw: KL <= 5e-3.

The base model, the adapter and the log-probabilities that the trainer recorded come from the hub,
named by the machine as `owner/name@commit` or as folders:

- `HWMATRIX_LORA_BASE`: a model (`*.safetensors`, configuration, tokenizer);
- `HWMATRIX_LORA_RECORDING`: a data set of `adapter_config.json`, `adapter_model.safetensors` and
  `logprobs.jsonl`, one sequence a line: `tokens`, a list of token ids, and `logprobs`, for each
  token but the first a mapping of token ids to the log-probabilities that the trainer's forward
  gave there (the most likely ones; at least half of the probability must be among them).

Where the machine names neither, the same code runs on what is made here: a tiny Qwen3, an adapter
that a real training loop of peft trained, and what its last forward gave, served by a hub on
loopback. The results are labelled as that: they prove the way, and nothing about other weights.

Teeth: the base model without its adapter, a recording of the base model, and a recording of another
training's adapter are all beyond the limit; so is a recording whose tokens moved by one position.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, NamedTuple

import pytest
import tinyhub
import torch
from platform_facts import DEVICE
from tiny_models import qwen3

from hwmatrix import register_amd_ci, register_cpu_ci, register_cuda_ci, register_xpu_ci
from hwmatrix.kit import assert_logprob_kl, logprob_kl, record_measurement, requires_asset
from hwmatrix.kit.assets import fetch

if TYPE_CHECKING:
    from pathlib import Path

register_cpu_ci(
    50,
    suite="stage-b-test-cpu",
)
# cuda: copied from cpu, never measured there. amd and xpu: copied from cuda.
register_cuda_ci(
    60,
    suite="extra-a-test-1-gpu-large",
)
register_amd_ci(
    60,
    suite="stage-b-test-1-gpu-small-amd",
)
register_xpu_ci(
    60,
    suite="stage-b-test-1-gpu-xpu",
)

BASE = requires_asset(
    "lora-base", hub="$HWMATRIX_LORA_BASE", files=("*.j*", "*.safetensors"), optional=True
)
RECORDING = requires_asset(
    "lora-recording",
    hub="$HWMATRIX_LORA_RECORDING",
    kind="datasets",
    files=("adapter_config.json", "adapter_model.safetensors", "logprobs.jsonl"),
    optional=True,
)

MAX_KL = 5e-3
STEPS, BATCH, LENGTH, TOP = 40, 8, 48, 256
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
Rows = list[dict[int, float]]


# ------------------------------------------------------------------ the trainer


def lesson(seed: int, rows: int = BATCH) -> torch.Tensor:
    """Return sequences in which each token follows from the one before, by a rule of the seed."""
    generator = torch.Generator().manual_seed(seed)
    steps = torch.randint(3, 40, (1,), generator=generator)
    starts = torch.randint(8, 1000, (rows, 1), generator=generator)
    return 8 + (starts + steps * torch.arange(LENGTH)) % 1000


def train(base, seed: int):
    """Return the trained model, its last batch, what the last forward gave for it, and losses.

    The last forward is that of a training step whose update is not made: the adapter as it is
    saved is the one that gave those log-probabilities.
    """
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(seed)
    settings = LoraConfig(r=8, lora_alpha=16, target_modules=TARGETS, task_type="CAUSAL_LM")
    model = get_peft_model(base, settings).train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    losses = []
    for step in range(STEPS + 1):
        ids = lesson(seed * 1000 + step % 4).to(DEVICE)
        logits = model(ids).logits
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        losses.append(loss.item())
        if step == STEPS:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model, ids, logits.detach().double().log_softmax(-1), losses


def write_recording(path: Path, ids: torch.Tensor, logprobs: torch.Tensor) -> None:
    """Write what a trainer recorded: the most likely tokens of each position."""
    with path.open("w", encoding="utf-8") as out:
        for row, given in zip(ids.tolist(), logprobs[:, :-1], strict=True):
            values, tokens = given.topk(TOP)
            tops = [
                dict(zip(map(str, t), v, strict=True))
                for t, v in zip(tokens.tolist(), values.tolist(), strict=True)
            ]
            out.write(json.dumps({"tokens": row, "logprobs": tops}) + "\n")


# ------------------------------------------------------------------ what is tested: fetch, load


class Subject(NamedTuple):
    """Where base, adapter and recording lie, and what to call a result of them."""

    base: Path
    recording: Path
    label: str


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train, save and record: two adapters on one base; each in a folder as a data set has it."""
    made = tmp_path_factory.mktemp("trained")
    qwen3().save_pretrained(made / "base")
    for name, seed in (("first", 1), ("second", 2)):
        model, ids, logprobs, losses = train(qwen3(attention="sdpa"), seed)
        model.save_pretrained(made / name)
        write_recording(made / name / "logprobs.jsonl", ids, logprobs)
        record_measurement(f"loss of the {name} training", losses[-1], limit=losses[0] / 2)
        assert losses[-1] < losses[0] / 2, losses
    with torch.inference_mode():
        plain = qwen3(attention="sdpa")(ids).logits.double().log_softmax(-1)
    write_recording(made / "of_base.jsonl", ids, plain)
    return made


@pytest.fixture(scope="module")
def subject(request, tmp_path_factory) -> Subject:
    """Return what the machine names, else what was made here, fetched from a hub on loopback."""
    if any(os.environ.get(name) for name in ("HWMATRIX_LORA_BASE", "HWMATRIX_LORA_RECORDING")):
        return Subject(BASE.path(), RECORDING.path(), "")
    made = request.getfixturevalue("trained")
    with tinyhub.serve({"local/base": made / "base", "datasets/local/run": made / "first"}) as (
        address,
        names,
    ):
        env = {
            "HF_ENDPOINT": address,
            "HWMATRIX_ASSETS": str(tmp_path_factory.mktemp("assets")),
            "HWMATRIX_LORA_BASE": names["local/base"],
            "HWMATRIX_LORA_RECORDING": names["datasets/local/run"],
        }
        fetch(BASE, env)
        fetch(RECORDING, env)
    label = " [made here: tiny Qwen3, trained in this test]"
    return Subject(BASE.path(env), RECORDING.path(env), label)


def read_recording(path: Path) -> list[tuple[list[int], Rows]]:
    """Return tokens and rows of log-probabilities of each recorded sequence."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        given = json.loads(line)
        rows = [{int(token): value for token, value in row.items()} for row in given["logprobs"]]
        assert len(rows) == len(given["tokens"]) - 1, f"{path}: not one row a token but the first"
        found.append((given["tokens"], rows))
    return found


def load(subject: Subject, dtype: torch.dtype, how: str):
    """Return base and adapter as an engine serves them: beside the weights, merged, or neither."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(subject.base, dtype=dtype).to(DEVICE)
    if how == "base alone":
        return base.eval()
    model = PeftModel.from_pretrained(base, subject.recording)
    return (model.merge_and_unload() if how == "merged" else model).eval()


def answers(model, recorded: list[tuple[list[int], Rows]]) -> Rows:
    """Return the model's log-probabilities of the recorded tokens, all positions in a row."""
    found: Rows = []
    for tokens, rows in recorded:
        with torch.inference_mode():
            logits = model(torch.tensor([tokens], device=DEVICE)).logits[0, :-1]
        given = logits.double().log_softmax(-1).cpu()
        for at, row in enumerate(rows):
            ids = list(row)
            found.append(dict(zip(ids, given[at, ids].tolist(), strict=True)))
    return found


def references(recorded: list[tuple[list[int], Rows]]) -> Rows:
    return [row for _, rows in recorded for row in rows]


@pytest.mark.parametrize("how", ["unmerged", "merged"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_engine_gives_what_the_trainer_recorded(subject, dtype, how):
    recorded = read_recording(subject.recording / "logprobs.jsonl")
    found = answers(load(subject, dtype, how), recorded)
    short = str(dtype).removeprefix("torch.")
    name = f"KL lora against training {how} {short}{subject.label}"
    assert_logprob_kl(found, references(recorded), MAX_KL, name=name)


def test_the_base_model_alone_is_beyond_the_limit(subject):
    recorded = read_recording(subject.recording / "logprobs.jsonl")
    found = logprob_kl(
        answers(load(subject, torch.float32, "base alone"), recorded), references(recorded)
    )
    print(found)
    assert found.mean > MAX_KL


@pytest.mark.parametrize("which", ["second/logprobs.jsonl", "of_base.jsonl"])
def test_another_recording_is_beyond_the_limit(subject, trained, which):
    if not subject.label:
        pytest.skip("the other recordings are of the model made here, not of the machine's")
    recorded = read_recording(trained / which)
    found = logprob_kl(
        answers(load(subject, torch.float32, "merged"), recorded), references(recorded)
    )
    print(which, found)
    assert found.mean > MAX_KL


def test_rows_that_moved_by_one_position_are_beyond_the_limit(subject):
    recorded = [
        (tokens, [*rows[1:], rows[0]])
        for tokens, rows in read_recording(subject.recording / "logprobs.jsonl")
    ]
    found = logprob_kl(
        answers(load(subject, torch.float32, "merged"), recorded), references(recorded)
    )
    print(found)
    assert found.mean > MAX_KL
