from __future__ import annotations

import pytest

from hwmatrix.redact import is_secret_name, redact_plain, redactor


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASSWORD",
        "API_KEY",
        "OPENAI_APIKEY",
        "MY_CREDENTIALS",
        "NPM_AUTH",
        "KEY",
        "token",
        "GH_PAT",
        "SSH_PASSPHRASE",
        "WANDB_API_KEYS",
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["PATH", "TOKENIZERS_PARALLELISM", "KEYBOARD", "MONKEY", "AUTHOR", "PWD", "PYTHONPATH"]
)
def test_names_of_others(name: str) -> None:
    assert not is_secret_name(name)


def test_values_go_wherever_they_stand() -> None:
    redact = redactor({"HF_TOKEN": "abcdef123", "PATH": "/usr/bin"})
    assert redact("x=abcdef123; abcdef123 /usr/bin") == "x=***; *** /usr/bin"


@pytest.mark.parametrize("value", ["", "1", "true", "abc", "default", "Disabled", " "])
def test_short_and_common_values_stay(value: str) -> None:
    text = "1 true abc default Disabled"
    assert redactor({"X_KEY": value})(text) == text


def test_longer_values_go_first() -> None:
    redact = redactor({"A_TOKEN": "secret1", "B_TOKEN": "secret1-and-more"})
    assert redact("secret1-and-more secret1") == "*** ***"


def test_each_line_of_a_value_and_its_quoted_forms() -> None:
    redact = redactor({"A_KEY": 'first"line\nsecond/line'})
    text = 'first"line | second/line | second%2Fline | first\\"line'
    assert redact(text) == "*** | *** | *** | ***"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ghp_" + "a1" * 18, "***"),
        ("x hf_" + "A1" * 17 + " y", "x *** y"),
        ("AKIA" + "ABCD1234" * 2, "***"),
        ("clone https://user:pa55@host/x", "clone https://***@host/x"),
        ("https://host/x:y@z", "https://host/x:y@z"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----!", "***!"),
        ("-----BEGIN PRIVATE KEY-----\ntorn", "***"),
        ("Bearer eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSM", "Bearer ***"),
        ("half_precision hf_ sk-", "half_precision hf_ sk-"),
    ],
)
def test_shapes_of_secrets(text: str, expected: str) -> None:
    assert redactor({})(text) == expected


def test_plain_values_keep_their_shape() -> None:
    redact = redactor({"A_KEY": "s3cr3t"})
    value = {"s3cr3t": ["s3cr3t", 1, None, True, {"a": ("s3cr3t", 2.5)}]}
    assert redact_plain(value, redact) == {"***": ["***", 1, None, True, {"a": ["***", 2.5]}]}
