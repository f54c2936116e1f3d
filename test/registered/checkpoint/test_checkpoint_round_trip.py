"""A model comes back from its checkpoint bit for bit, on the device, whatever its dtypes.

Teeth: one flipped byte in the archive is refused or changes the tensors (`test_damage_*`), a
pickle that would run code is refused by `weights_only`, a missing key is named, and tied weights
must still be tied, which equality of values alone would not show.
"""

from __future__ import annotations

import copy
import os
import pickle
import unittest

import pytest
import torch
from platform_facts import DEVICE, draw
from torch import nn

from hwmatrix import register_amd_ci, register_cpu_ci, register_cuda_ci, register_xpu_ci

register_cpu_ci(10, suite="stage-b-test-cpu")
register_cuda_ci(14, suite="stage-b-test-1-gpu-small")
# amd and xpu: copied from cuda, never measured there.
register_amd_ci(14, suite="stage-b-test-1-gpu-small-amd")
register_xpu_ci(14, suite="stage-b-test-1-gpu-xpu")

DTYPES = (
    torch.float32,
    torch.bfloat16,
    torch.float16,
    torch.float8_e4m3fn,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2,
    torch.int8,
    torch.bool,
)


class Tied(nn.Module):
    """Embedding and output share their weight, as in most small language models."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(97, 32)
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 97, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("steps", torch.tensor(7))
        self.register_buffer("scratch", torch.zeros(3), persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.embedding(tokens)))


def model(seed: int) -> Tied:
    torch.manual_seed(seed)
    return Tied().to(DEVICE)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    a, b = (t.detach().cpu().contiguous().reshape(-1).view(torch.uint8) for t in (a, b))
    return torch.equal(a, b)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("mmap", [False, True], ids=["read", "mapped"])
def test_tensors_come_back_bit_equal(dtype, mmap, tmp_path):
    x = draw(300, 7, seed=121).mul(10).to(dtype)
    tensors = {"plain": x, "view": x[::2, 1:5], "empty": x[:0], "scalar": x[0, 0]}
    torch.save(tensors, tmp_path / "t.pt")
    back = torch.load(tmp_path / "t.pt", map_location=DEVICE, weights_only=True, mmap=mmap)
    assert back.keys() == tensors.keys()
    assert all(same_bits(back[name], tensors[name]) for name in tensors)
    assert back["view"].stride() == tensors["view"].stride()
    assert {t.device.type for t in back.values()} == {DEVICE}
    back["plain"].view(torch.uint8)[0, 0] ^= 1
    assert not same_bits(back["plain"], x)


def test_views_still_share_their_memory(tmp_path):
    x = draw(16, seed=122)
    torch.save([x, x[4:8]], tmp_path / "t.pt")
    whole, part = torch.load(tmp_path / "t.pt", map_location=DEVICE, weights_only=True)
    whole[5] = 42
    assert part[1].item() == 42


def test_a_model_comes_back_whole(tmp_path):
    source, target = model(1), model(2)
    tokens = torch.arange(97, device=DEVICE)
    assert not torch.equal(source(tokens), target(tokens))
    torch.save(source.state_dict(), tmp_path / "m.pt")
    state = torch.load(tmp_path / "m.pt", map_location="cpu", weights_only=True)
    assert "scratch" not in state
    report = target.load_state_dict(state)
    assert not report.missing_keys
    assert not report.unexpected_keys
    assert torch.equal(source(tokens), target(tokens))
    assert target.head.weight is target.embedding.weight


def test_training_goes_on_as_if_never_stopped(tmp_path):
    def step(network, optimiser):
        tokens = torch.arange(97, device=DEVICE)
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(tokens), tokens.flip(0)).backward()
        optimiser.step()

    straight = model(3)
    optimiser = torch.optim.AdamW(straight.parameters(), lr=1e-2)
    for _ in range(3):
        step(straight, optimiser)
    torch.save([straight.state_dict(), optimiser.state_dict()], tmp_path / "m.pt")
    resumed, forgetful = model(4), copy.deepcopy(straight)
    again = torch.optim.AdamW(resumed.parameters(), lr=1e-2)
    weights, moments = torch.load(tmp_path / "m.pt", map_location=DEVICE, weights_only=True)
    resumed.load_state_dict(weights)
    again.load_state_dict(moments)
    step(straight, optimiser)
    step(resumed, again)
    # A model without its optimiser's moments takes another step.
    step(forgetful, torch.optim.AdamW(forgetful.parameters(), lr=1e-2))
    want = straight.embedding.weight
    torch.testing.assert_close(resumed.embedding.weight, want, rtol=1e-6, atol=1e-7)
    assert (forgetful.embedding.weight - want).abs().max().item() > 1e-4


def test_damage_does_not_go_unseen(tmp_path):
    x = draw(4096, seed=123)
    path = tmp_path / "t.pt"
    torch.save({"x": x}, path)
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    path.write_bytes(raw)
    try:
        back = torch.load(path, map_location=DEVICE, weights_only=True)["x"]
    except (RuntimeError, pickle.UnpicklingError, ValueError):
        return
    assert not same_bits(back, x)


def test_a_truncated_archive_is_refused(tmp_path):
    path = tmp_path / "t.pt"
    torch.save({"x": draw(4096, seed=124)}, path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises((RuntimeError, OSError, EOFError, pickle.UnpicklingError), match=r"\w"):
        torch.load(path, map_location=DEVICE, weights_only=True)


class Bomb:
    """Unpickling runs a command."""

    def __reduce__(self):
        return os.system, ("exit 3",)


class TestRefusals(unittest.TestCase):
    """What loading must not accept."""

    def test_code_is_refused(self) -> None:
        import io

        buffer = io.BytesIO()
        torch.save({"x": torch.zeros(1), "b": Bomb()}, buffer)
        buffer.seek(0)
        with self.assertRaisesRegex(pickle.UnpicklingError, "system"):
            torch.load(buffer, weights_only=True)

    def test_missing_and_unknown_keys_are_named(self) -> None:
        state = model(5).state_dict()
        state["nrom.weight"] = state.pop("norm.weight")
        with self.assertRaisesRegex(RuntimeError, r"(?s)norm\.weight.*nrom\.weight"):
            model(6).load_state_dict(state)

    def test_another_shape_is_refused(self) -> None:
        state = model(5).state_dict()
        state["norm.bias"] = torch.zeros(33)
        with self.assertRaisesRegex(RuntimeError, "size mismatch for norm.bias"):
            model(6).load_state_dict(state)
