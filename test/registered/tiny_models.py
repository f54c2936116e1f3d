"""Small models of real architectures with random weights, made from a config: nothing is fetched.

All weights are drawn on the CPU in float32 from one seed, so each backend and dtype starts from the
same numbers. `LENGTH` fits below every model's window.
"""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before transformers is imported: nothing is fetched

import torch
from platform_facts import DEVICE

VOCABULARY = 1024
# Larger than the usual 0.02: with it, random models give nearly flat distributions, and a
# divergence between flat distributions is small whatever went wrong.
SPREAD = 0.08


def qwen3(dtype: torch.dtype = torch.float32, device: str = DEVICE, *, attention: str = "eager"):
    """Return a dense Qwen3 of 2.9 million parameters."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=32,
        max_position_embeddings=1024,
        initializer_range=SPREAD,
        attn_implementation=attention,
    )
    torch.manual_seed(1000)
    return Qwen3ForCausalLM(config).to(device, dtype).eval()


def llama(dtype: torch.dtype = torch.float32, device: str = DEVICE, *, attention: str = "sdpa"):
    """Return a Llama of two layers, for servers: they rewrite Qwen3's answers by its template."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        initializer_range=SPREAD,
        attn_implementation=attention,
        bos_token_id=None,
        eos_token_id=None,
    )
    torch.manual_seed(1002)
    return LlamaForCausalLM(config).to(device, dtype).eval()


def gpt_oss(dtype: torch.dtype = torch.float32, device: str = DEVICE):
    """Return a GPT-OSS mixture of eight experts; every other layer sees a window of 32 tokens."""
    from transformers import GptOssConfig, GptOssForCausalLM

    config = GptOssConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=128,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=32,
        num_local_experts=8,
        num_experts_per_tok=2,
        sliding_window=32,
        max_position_embeddings=512,
        initializer_range=SPREAD,
        rope_parameters={"rope_type": "default", "rope_theta": 150000.0},
        attn_implementation="eager",
    )
    torch.manual_seed(1001)
    model = GptOssForCausalLM(config)
    if dtype == torch.float64:
        model.set_experts_implementation("eager")  # the grouped product takes no float64
    return model.to(device, dtype).eval()


def tokens(rows: int, length: int, seed: int = 7, device: str = DEVICE) -> torch.Tensor:
    """Return random token ids; none of the first eight, which configs use as special tokens."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(8, VOCABULARY, (rows, length), generator=generator).to(device)


def with_lora(model, *, seed: int = 1, rank: int = 8, targets=("q_proj", "k_proj", "v_proj")):
    """Return the model under a LoRA adapter whose B is random too (peft starts it at zero)."""
    from peft import LoraConfig, get_peft_model

    settings = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=list(targets))
    wrapped = get_peft_model(model, settings).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in wrapped.named_parameters():
            if "lora_" in name:
                drawn = torch.randn(parameter.shape, generator=generator)
                parameter.copy_(drawn * 0.05)
    return wrapped


def logprobs(model, ids: torch.Tensor) -> torch.Tensor:
    """Return log-probabilities of the next token at every position, in float64 on the CPU."""
    with torch.inference_mode():
        return model(ids).logits.double().cpu().log_softmax(-1)
