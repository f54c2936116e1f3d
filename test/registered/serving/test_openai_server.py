"""`transformers serve` answers as an OpenAI server: ready, streaming, two at once, gone at the end.

A tiny Llama is saved with a tokenizer made here and served by the real command. Answers of the
server are held against greedy decoding of the same model in this process.

Teeth: a model that is not there must be refused by the server's own status and leave the server
alive; the streamed pieces must be many, and their sum the whole answer; a second server on the same
port must fail with its log in the message; no process is left after the end.
"""

from __future__ import annotations

import json
import shutil
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import torch
from platform_facts import DEVICE, container_may_lack
from tiny_models import VOCABULARY, llama

from hwmatrix import process, register_cpu_ci, register_cuda_ci
from hwmatrix.kit import record_measurement, start_server

register_cpu_ci(45, suite="stage-b-test-cpu")
register_cuda_ci(90, suite="stage-b-test-1-gpu-small")

# What `transformers serve` needs.
container_may_lack("fastapi", "uvicorn", "openai", "pydantic", "requests", "rich")

NEW, LIMIT_S = 16, 150
SPECIAL = ("<pad>", "<end>", "<unk>", "<user>", "<assistant>", "<system>", "<6>", "<7>")
CHAT = (
    "{% for m in messages %}<{{ m['role'] }}> {{ m['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model with its tokenizer, as the server loads it."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    # One word for each token: equal texts are then equal tokens, whatever the model says.
    words = [*SPECIAL, *(f"w{at}" for at in range(len(SPECIAL), VOCABULARY))]
    plain = Tokenizer(
        models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="<unk>")
    )
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=plain,
        pad_token="<pad>",
        eos_token="<end>",
        unk_token="<unk>",
        chat_template=CHAT,
    )
    place = tmp_path_factory.mktemp("model")
    model = llama(device="cpu")
    model.generation_config.pad_token_id = 0
    model.save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


def command(folder: Path) -> list[str]:
    found = shutil.which("transformers", path=str(Path(sys.executable).parent))
    script = found or shutil.which("transformers")
    assert script, "the transformers command is not beside this Python"
    device = "cpu" if DEVICE == "cpu" else f"{DEVICE}:0"
    options = ["--host", "127.0.0.1", "--port", "{port}", "--device", device]
    return [script, "serve", *options, "--dtype", "float32", str(folder)]


@pytest.fixture(scope="module")
def running(folder, tmp_path_factory):
    log = tmp_path_factory.mktemp("server") / "server.log"
    # The list of models is read from the hub's cache, which a new machine does not have.
    cache = tmp_path_factory.mktemp("hub")
    env = {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(cache)}
    started = start_server(command(folder), log=log, limit_s=LIMIT_S, env=env)
    yield started, started.ready_s
    tree = [started.child.pid, *(p.pid for p in process.descendants(started.child.pid))]
    started.stop()
    assert [pid for pid in tree if process.look(pid) is not None] == []


def ask(url: str, folder: Path, content: str, **more):
    """Return the open answer of the chat endpoint."""
    body = {
        "model": str(folder),
        "messages": [{"role": "user", "content": content}],
        "max_tokens": NEW,
        "temperature": 0.0,
        **more,
    }
    request = urllib.request.Request(
        f"{url}/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    return urllib.request.urlopen(request, timeout=60)


def whole(url: str, folder: Path, content: str) -> str:
    with ask(url, folder, content, stream=False) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]


def streamed(url: str, folder: Path, content: str) -> list[str]:
    """Return the pieces of text in the order in which they came."""
    pieces = []
    with ask(url, folder, content, stream=True) as answer:
        for raw in answer:
            line = raw.decode().strip()
            if not line.startswith("data:") or line.endswith("[DONE]"):
                continue
            choices = json.loads(line[5:]).get("choices", [])
            pieces += [choice.get("delta", {}).get("content") or "" for choice in choices]
    return [piece for piece in pieces if piece]


def expected(folder: Path, content: str) -> str:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": content}], add_generation_prompt=True, return_tensors="pt"
    )["input_ids"].to(DEVICE)
    out = llama().generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=NEW,
        do_sample=False,
        pad_token_id=0,
    )
    return tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True)


def test_it_is_ready_and_lists_its_models(running):
    server, ready_s = running
    record_measurement("transformers serve ready", ready_s, limit=LIMIT_S, unit="s")
    with urllib.request.urlopen(f"{server.url}/v1/models", timeout=60) as answer:
        assert answer.status == 200
        assert "data" in json.load(answer)


def test_the_answer_is_greedy_decodings(running, folder):
    server, _ = running
    found = whole(server.url, folder, "w50 w60 w70")
    assert found == expected(folder, "w50 w60 w70")
    assert found != whole(server.url, folder, "w80 w90")


def test_streamed_pieces_are_many_and_make_the_answer(running, folder):
    server, _ = running
    pieces = streamed(server.url, folder, "w100 w200")
    assert len(pieces) > NEW // 4
    assert "".join(pieces) == whole(server.url, folder, "w100 w200")


def test_two_clients_at_once_get_their_own_answers(running, folder):
    server, _ = running
    found: dict[str, str] = {}

    def client(content: str) -> None:
        found[content] = "".join(streamed(server.url, folder, content))

    threads = [threading.Thread(target=client, args=(c,)) for c in ("w300", "w400 w500")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {content: expected(folder, content) for content in ("w300", "w400 w500")}
    assert found["w300"] != found["w400 w500"]


def test_a_bad_request_is_refused_and_the_server_lives(running, folder):
    server, _ = running
    request = urllib.request.Request(
        f"{server.url}/v1/chat/completions",
        data=b'{"messages": 5}',
        headers={"Content-Type": "application/json"},
    )
    with pytest.raises(urllib.error.HTTPError, match=r"4\d\d|500") as refused:
        urllib.request.urlopen(request, timeout=60)
    assert refused.value.code >= 400
    assert whole(server.url, folder, "w50 w60 w70") == expected(folder, "w50 w60 w70")
