"""Grammar-constrained decoding gives text of the grammar, whatever the model would rather say.

xgrammar masks the logits of transformers' `generate`: JSON by schema, a regular expression, a
choice among words. The model's weights are random, so that nothing but the grammar can bring order
in, and it is sampled, not greedy, with several seeds.

Teeth: the same seeds without a grammar give no text of the grammar; the choice is really the
model's (several of the words occur, and banning one never gives it); a mask that is shifted by one
token is noticed by the grammar's own matcher.
"""

from __future__ import annotations

import json
import re

import pytest
import torch
from platform_facts import DEVICE, container_may_lack
from tiny_models import VOCABULARY, qwen3

from hwmatrix import register_amd_ci, register_cpu_ci, register_cuda_ci, register_xpu_ci

container_may_lack("xgrammar")
import xgrammar as xgr  # noqa: E402 - not every container has it
from xgrammar.contrib.hf import LogitsProcessor  # noqa: E402 - as above

register_cpu_ci(
    20,
    suite="stage-b-test-cpu",
)
register_cuda_ci(
    40,
    suite="stage-b-test-1-gpu-small",
)
# amd and xpu: copied from cuda, never measured there.
register_amd_ci(
    40,
    suite="stage-b-test-1-gpu-small-amd",
)
register_xpu_ci(
    40,
    suite="stage-b-test-1-gpu-xpu",
)

STOP, FIRST_BYTE, NEW = 1, 8, 64
SEEDS = range(3)
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6, "pattern": "^[a-z]{1,6}$"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2},
        "ok": {"type": "boolean"},
    },
    "required": ["name", "age", "tags", "ok"],
    "additionalProperties": False,
}
PATTERN = r"[A-F0-9]{4}(-[A-F0-9]{2}){2}"
WORDS = ("north", "east", "south", "west")


def vocabulary() -> list[bytes]:
    """Return eight special tokens, all bytes, and pairs of bytes that cross tokens of grammars."""
    special = [f"<special {at}>".encode() for at in range(FIRST_BYTE)]
    singles = [bytes([value]) for value in range(256)]
    letters = b'abcdefghijklmnopqrstuvwxyz{}[]":,0123456789 '
    pairs = [bytes([a, b]) for a in letters for b in letters]
    return (special + singles + pairs)[:VOCABULARY]


@pytest.fixture(scope="module")
def model():
    return qwen3(attention="sdpa")


@pytest.fixture(scope="module")
def compiler():
    info = xgr.TokenizerInfo(vocabulary(), vocab_size=VOCABULARY, stop_token_ids=[STOP])
    return xgr.GrammarCompiler(info)


def compiled(compiler, kind: str):
    if kind == "json":
        return compiler.compile_json_schema(json.dumps(SCHEMA), any_whitespace=False)
    if kind == "regex":
        return compiler.compile_regex(PATTERN)
    return compiler.compile_grammar("root ::= " + " | ".join(f'"{word}"' for word in WORDS))


def generate(model, seed: int, grammar=None, **more) -> tuple[list[int], bytes]:
    """Return new tokens and their text, without the stop token."""
    torch.manual_seed(seed)
    ids = torch.tensor([[10, 20, 30, 40 + seed]], device=DEVICE)
    processors = [LogitsProcessor(grammar)] if grammar is not None else []
    out = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        logits_processor=processors,
        do_sample=True,
        top_k=0,
        max_new_tokens=NEW,
        eos_token_id=STOP,
        pad_token_id=0,
        **more,
    )
    tokens = out[0, ids.shape[1] :].tolist()
    words = vocabulary()
    return tokens, b"".join(words[token] for token in tokens if token != STOP)


def belongs(kind: str, text: bytes) -> bool:
    """Return whether the text is of the grammar, by the standard library alone."""
    if kind == "regex":
        return re.fullmatch(PATTERN.encode(), text) is not None
    if kind == "choice":
        return text.decode("utf-8", "replace") in WORDS
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return (
        isinstance(value, dict)
        and list(value) == ["name", "age", "tags", "ok"]
        and re.fullmatch("[a-z]{1,6}", value["name"]) is not None
        and type(value["age"]) is int
        and 0 <= value["age"] <= 150
        and len(value["tags"]) <= 2
        and set(value["tags"]) <= {"a", "b"}
        and type(value["ok"]) is bool
    )


every_kind = pytest.mark.parametrize("kind", ["json", "regex", "choice"])


@every_kind
def test_constrained_text_is_of_the_grammar(kind, model, compiler):
    grammar = compiled(compiler, kind)
    for seed in SEEDS:
        tokens, text = generate(model, seed, grammar)
        assert belongs(kind, text), text
        assert tokens[-1] == STOP


@every_kind
def test_unconstrained_text_is_not(kind, model):
    assert not any(belongs(kind, generate(model, seed)[1]) for seed in SEEDS)


def test_the_choice_is_the_models(model, compiler):
    grammar = compiled(compiler, "choice")
    chosen = {generate(model, seed, grammar)[1].decode() for seed in range(12)}
    assert len(chosen) > 1
    without = compiler.compile_grammar('root ::= "north" | "east" | "south"')
    assert "west" not in {generate(model, seed, without)[1].decode() for seed in range(12)}


def test_rows_of_a_batch_keep_their_own_grammar(model, compiler):
    torch.manual_seed(5)
    grammars = [compiled(compiler, kind) for kind in ("json", "choice")]
    ids = torch.tensor([[10, 20, 30], [11, 21, 31]], device=DEVICE)
    out = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        logits_processor=[LogitsProcessor(grammars)],
        do_sample=True,
        max_new_tokens=NEW,
        eos_token_id=STOP,
        pad_token_id=0,
    )
    words, texts = vocabulary(), []
    for row in out[:, 3:].tolist():
        kept = row[: row.index(STOP)]
        texts.append(b"".join(words[token] for token in kept))
    assert belongs("json", texts[0])
    assert belongs("choice", texts[1])
    assert not belongs("choice", texts[0])


def test_a_token_outside_the_grammar_is_refused_by_the_matcher(model, compiler):
    grammar = compiled(compiler, "choice")
    tokens, _ = generate(model, 1, grammar)
    right, shifted = xgr.GrammarMatcher(grammar), xgr.GrammarMatcher(grammar)
    assert all(right.accept_token(token) for token in tokens)
    assert right.is_terminated()
    assert not shifted.accept_token(tokens[0] + 1)


def test_only_allowed_tokens_keep_a_finite_logit(compiler):
    processor = LogitsProcessor(compiled(compiler, "choice"))
    scores = torch.zeros(1, VOCABULARY, device=DEVICE)
    masked = processor(torch.tensor([[10]], device=DEVICE), scores)
    words = vocabulary()
    allowed = {words[at] for at in masked[0].isfinite().nonzero().flatten().tolist()}
    assert allowed == {
        word[:length] for word in (w.encode() for w in WORDS) for length in (1, 2)
    } & set(words)
