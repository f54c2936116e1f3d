"""The command: options, GitHub's variables, proxies, changed paths from files."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hwmatrix.app import gate as app_gate
from hwmatrix.app.place import Place
from hwmatrix.errors import GateError, UsageError
from hwmatrix.gate import local
from hwmatrix.gate.decide import STARTING
from hwmatrix.gate.selection import CONTINUE, INPUTS
from hwmatrix.matrix.gate_spec import GATE
from hwmatrix.model import GateEvent

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEDULE = {"schedule": "0 */6 * * *", "repository": {"full_name": "o/r"}}


@pytest.fixture
def place(tmp_path: Path) -> Callable[..., Place]:
    (tmp_path / "ci").mkdir()
    data = (Path(__file__).parents[2] / "data" / "gate" / "matrix.toml").read_bytes()
    (tmp_path / "ci" / "matrix.toml").write_bytes(data)
    (tmp_path / "event.json").write_text(json.dumps(SCHEDULE), encoding="utf-8")

    def make(out: io.TextIOBase | None = None, **env: str) -> Place:
        return Place(
            root=tmp_path,
            cwd=tmp_path,
            state=tmp_path / ".hwmatrix",
            env=env,
            out=out or io.StringIO(),  # type: ignore[arg-type]  # a text stream either way
            err=io.StringIO(),
        )

    return make


def test_options() -> None:
    assert app_gate.parse([]) == app_gate.GateRequest()
    words = "--event e --event-name push --inputs {} --label a --label b --diff main --json --"
    assert app_gate.parse(words.split()) == app_gate.GateRequest(
        event="e",
        event_name="push",
        inputs="{}",
        labels=("a", "b"),
        diff="main",
        json=True,
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--labels a", "unrecognized arguments: --labels a. See `python -m hwmatrix gate --help`"),
        ("--label a --payload-labels", "not allowed with argument --label"),
        ("--changes a --diff b", "not allowed with argument --changes"),
    ],
)
def test_wrong_options(words: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        app_gate.parse(words.split())


def test_the_event_that_github_names(place: Callable[..., Place], tmp_path: Path) -> None:
    event = str(tmp_path / "event.json")
    here = place(GITHUB_EVENT_PATH=event, GITHUB_EVENT_NAME="schedule")
    assert app_gate.run(["--json"], here) == 0
    assert json.loads(here.out.getvalue())["event"] == "schedule '0 */6 * * *'"  # type: ignore[attr-defined]  # a StringIO
    wrong = place(GITHUB_EVENT_PATH=event, GITHUB_EVENT_NAME="page_build")
    with pytest.raises(GateError, match="the gate knows no event 'page_build'"):
        app_gate.run([], wrong)


def test_a_file_of_ones_own_is_not_what_github_names(place: Callable[..., Place]) -> None:
    here = place(GITHUB_EVENT_NAME="push")
    decision = app_gate.decide(app_gate.parse(["--event", "event.json"]), here)
    assert [each.session for each in decision.sessions] == ["cuda-accuracy"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no event: give --event FILE, or set GITHUB_EVENT_PATH"),
        (["--event", "none.json"], "the event 'none.json' cannot be read: No such file"),
        (["--event", "."], "the event '.' cannot be read: Is a directory"),
        (["--event", "a\0b"], "cannot be read: embedded null byte"),
    ],
)
def test_no_event(words: list[str], message: str, place: Callable[..., Place]) -> None:
    with pytest.raises(GateError, match=message):
        app_gate.run(words, place())


def test_an_error_is_marked_in_githubs_log(place: Callable[..., Place]) -> None:
    here = place(GITHUB_ACTIONS="true")
    with pytest.raises(GateError, match="no event"):
        app_gate.run([], here)
    assert here.err.getvalue().startswith("::error title=gate::no event: give")  # type: ignore[attr-defined]  # a StringIO


def test_words_on_a_stream_that_knows_ascii_alone(
    place: Callable[..., Place], tmp_path: Path
) -> None:
    push = {"before": "a" * 40, "after": "b" * 40, "ref": "refs/heads/grün"}
    (tmp_path / "event.json").write_text(json.dumps(push), encoding="utf-8")
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    assert app_gate.run(["--event", "event.json"], place(out=out)) == 0
    assert raw.getvalue().startswith(b"event  push on 'gr\\xfcn'\n")


PROXIES = {
    "none": ("https://api.example.com", {}, {}),
    "https": (
        "https://api.example.com",
        {"https_proxy": "http://p:1", "http_proxy": "http://q:2"},
        {"https": "http://p:1"},
    ),
    "capitals": ("https://api.example.com", {"HTTPS_PROXY": "http://p:1"}, {"https": "http://p:1"}),
    "a client's header": ("http://api.example.com", {"HTTP_PROXY": "http://p:1"}, {}),
    "http": ("http://api.example.com", {"http_proxy": "http://p:1"}, {"http": "http://p:1"}),
    "itself": ("https://api.example.com", {"https_proxy": "p", "no_proxy": "api.example.com"}, {}),
    "under it": (
        "https://api.example.com",
        {"https_proxy": "p", "NO_PROXY": "x, .example.com"},
        {},
    ),
    "beside it": (
        "https://api.example.com",
        {"https_proxy": "p", "no_proxy": "ample.com"},
        {"https": "p"},
    ),
    "everything": ("https://api.example.com", {"https_proxy": "p", "no_proxy": "*"}, {}),
    "this machine": ("http://127.0.0.1:80", {"http_proxy": "p"}, {}),
}


@pytest.mark.parametrize("name", PROXIES)
def test_proxies(name: str) -> None:
    base, env, found = PROXIES[name]
    assert app_gate.proxies(base, env) == found


@pytest.mark.parametrize(
    ("data", "names", "unreadable"),
    [
        (b"src/a.py\nsrc/b.py\n", ("src/a.py", "src/b.py"), ""),
        (b"src/a.py\r\n\r\n", ("src/a.py",), ""),
        (b"src/a\nb.py\0src/c.py\0", ("src/a\nb.py", "src/c.py"), ""),
        (b"a.py\na.py", ("a.py",), ""),
        (b"\xff.py\n", ("\udcff.py",), ""),
        (b'"src/\\303\\274.py"\n', (), "the list has names in git's quotes; make it with -z"),
        (b"", (), "lists no path"),
        (b"\0\0", (), "lists no path"),
    ],
)
def test_a_list_of_paths(
    data: bytes, names: tuple[str, ...], unreadable: str, tmp_path: Path
) -> None:
    path = tmp_path / "changed"
    path.write_bytes(data)
    found = local.from_file(path)
    assert found.names == names
    assert bool(found.unreadable) is bool(unreadable)
    assert unreadable in found.unreadable


def test_a_list_that_is_not_there(tmp_path: Path) -> None:
    assert "cannot be read: No such file" in local.from_file(tmp_path / "none").unreadable


def test_git_that_is_not_there(tmp_path: Path) -> None:
    found = local.from_git(tmp_path, "main", {"PATH": str(tmp_path)})
    assert "git cannot be run" in found.unreadable


def test_no_repository(tmp_path: Path) -> None:
    found = local.from_git(
        tmp_path, "main", {"PATH": "/usr/bin:/bin", "GIT_CEILING_DIRECTORIES": "/"}
    )
    assert "git diff ended with" in found.unreadable


# ---------------------------------------------------------------- the page that explains it all


def test_the_page_names_every_event_input_option_and_key() -> None:
    page = (Path(__file__).parents[3] / "docs" / "gate.md").read_text("utf-8")
    options = [word for action in app_gate.parser()._actions for word in action.option_strings]
    names = [event.value for event in GateEvent] + [*INPUTS, CONTINUE, *STARTING]
    names += [f"{word}" for word in options if word not in {"-h", "--help"}]
    missing = [name for name in names if not re.search(rf"`{re.escape(name)}[` ]", page)]
    assert missing == []
    keys = [key for key in GATE.fields if key not in {"name", "about", "events"}]
    assert [key for key in keys if key not in page] == []
