"""A dense Qwen3 with a LoRA adapter gives the log-probabilities of its float64 reference.

KL(reference || backend) <= 5e-3, averaged over positions, for the adapter kept beside the weights
and merged into them, in float32 and bfloat16. The reference is the same model in float64 with eager
attention on the CPU, the adapter unmerged.

Teeth: the base model against the reference with the adapter is beyond the limit by a factor of ten
at least, and so is an adapter with its scaling halved or with another adapter's weights; float32
keeps to a limit of its own, 5e-9, which bfloat16 breaks.
"""

from __future__ import annotations

import functools

import pytest
import torch
from platform_facts import DEVICE
from tiny_models import logprobs, qwen3, tokens, with_lora

from hwmatrix import register_amd_ci, register_cpu_ci, register_cuda_ci, register_xpu_ci
from hwmatrix.kit import assert_logprob_kl, logprob_kl

register_cpu_ci(
    15,
    suite="stage-b-test-cpu",
)
register_cuda_ci(
    30,
    suite="extra-a-test-1-gpu-large",
)
# amd and xpu: copied from cuda, never measured there.
register_amd_ci(
    30,
    suite="stage-b-test-1-gpu-small-amd",
)
register_xpu_ci(
    30,
    suite="stage-b-test-1-gpu-xpu",
)

MAX_KL = 5e-3
MAX_KL_FLOAT32 = 5e-9
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def ids(device: str = DEVICE) -> torch.Tensor:
    return tokens(4, 128, device=device)


def adapted(dtype: torch.dtype, *, device: str = DEVICE, attention: str = "sdpa", seed: int = 1):
    return with_lora(qwen3(dtype, device, attention=attention), seed=seed, targets=TARGETS)


@functools.cache
def reference() -> torch.Tensor:
    return logprobs(adapted(torch.float64, device="cpu", attention="eager"), ids("cpu"))


def place(name: str, dtype: torch.dtype) -> str:
    return f"KL qwen3 lora {name} {str(dtype).removeprefix('torch.')}"


@pytest.mark.parametrize("how", ["unmerged", "merged"])
@pytest.mark.parametrize(
    ("dtype", "limit"), [(torch.float32, MAX_KL_FLOAT32), (torch.bfloat16, MAX_KL)], ids=str
)
def test_log_probabilities_are_those_of_the_reference(dtype, limit, how):
    model = adapted(dtype)
    if how == "merged":
        model = model.merge_and_unload()
        assert not any("lora" in name for name, _ in model.named_parameters())
    assert_logprob_kl(logprobs(model, ids()), reference(), limit, name=place(how, dtype))


def test_bfloat16_breaks_the_limit_of_float32():
    assert logprob_kl(logprobs(adapted(torch.bfloat16), ids()), reference()).mean > MAX_KL_FLOAT32


@pytest.mark.parametrize("mistake", ["base alone", "scaling halved", "another adapter"])
def test_mistakes_are_beyond_the_limit(mistake):
    if mistake == "base alone":
        model = qwen3(torch.float32, attention="sdpa")
    elif mistake == "another adapter":
        model = adapted(torch.float32, seed=2)
    else:
        model = adapted(torch.float32)
        for module in model.modules():
            if isinstance(getattr(module, "scaling", None), dict):  # attention has one of its own
                module.scaling["default"] /= 2
    found = logprob_kl(logprobs(model, ids()), reference())
    print(mistake, found)
    assert found.mean > 10 * MAX_KL


def test_a_disabled_adapter_is_the_base_model():
    base = logprobs(qwen3(torch.float32, attention="sdpa"), ids())
    model = adapted(torch.float32)
    with model.disable_adapter():
        assert torch.equal(logprobs(model, ids()), base)
    assert not torch.equal(logprobs(model, ids()), base)


def test_two_adapters_in_one_batch_keep_apart():
    model = adapted(torch.float32)
    other = adapted(torch.float32, seed=2)
    state = {k: v for k, v in other.state_dict().items() if "lora_" in k}
    model.add_adapter("second", model.peft_config["default"])
    renamed = {k.replace(".default.", ".second."): v for k, v in state.items()}
    missing = model.load_state_dict(renamed, strict=False)
    assert not missing.unexpected_keys
    names = ["default", "second", "default", "second"]
    with torch.inference_mode():
        mixed = model(ids(), adapter_names=names).logits.double().cpu().log_softmax(-1)
    first, second = (logprobs(m, ids()) for m in (model, other))
    want = torch.stack([(first, second)[at % 2][at] for at in range(4)])
    assert logprob_kl(mixed, want).mean <= MAX_KL_FLOAT32
    assert logprob_kl(mixed, first).mean > MAX_KL
