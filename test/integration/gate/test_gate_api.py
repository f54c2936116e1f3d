"""Labels and changed paths from a server that plays GitHub's API, in all its moods."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

import pytest

from hwmatrix.gate import Event
from hwmatrix.gate.github import fetch_changes, fetch_labels
from hwmatrix.gate.http import LARGEST_PAGE, Api, ApiError, Patience
from hwmatrix.model import GateEvent

if TYPE_CHECKING:
    from collections.abc import Callable

TOKEN = "ghs_0123456789abcdefghijABCDEFGHIJ"
PULL = Event(name=GateEvent.PULL_REQUEST, number=7, repository="ada-example/kernels")
LABELS = "/repos/ada-example/kernels/issues/7/labels?per_page=100"
FILES = "/repos/ada-example/kernels/pulls/7/files?per_page=100"
OLD, NEW = "a" * 40, "b" * 40
PUSH = dataclasses.replace(PULL, name=GateEvent.PUSH, number=0, before=OLD, after=NEW)
COMPARE = f"/repos/ada-example/kernels/compare/{OLD}...{NEW}?per_page=1"


@pytest.fixture
def naps() -> list[float]:
    return []


@pytest.fixture
def client(api: Any, naps: list[float]) -> Callable[..., Api]:
    def make(base: str = "", token: str = TOKEN, **patience: Any) -> Api:
        given = Patience(**patience)
        return Api(base=base or api.base, token=token, patience=given, sleep=naps.append)

    return make


def rows(key: str, *names: str) -> list[dict[str, object]]:
    return [{key: name, "sha": "x"} for name in names]


# ---------------------------------------------------------------- labels


def test_labels_as_they_are_now(api: Any, client: Callable[..., Api]) -> None:
    api.on(LABELS, {"body": rows("name", "bug", "run-ci")})
    assert fetch_labels(PULL, client()).names == ("bug", "run-ci")
    ((path, headers),) = api.asked
    assert path == LABELS
    assert headers["authorization"] == f"Bearer {TOKEN}"
    assert headers["x-github-api-version"] == "2022-11-28"


def test_without_a_token_none_is_sent(api: Any, client: Callable[..., Api]) -> None:
    api.on(LABELS, {"body": []})
    assert fetch_labels(PULL, client(token="")).unreadable == ""
    assert "authorization" not in api.asked[0][1]


def test_a_pull_request_without_labels_has_none(api: Any, client: Callable[..., Api]) -> None:
    api.on(LABELS, {"body": []})
    found = fetch_labels(PULL, client())
    assert (found.names, found.unreadable) == ((), "")


def test_pages_are_followed(api: Any, client: Callable[..., Api]) -> None:
    more = {"Link": '<BASE/second?page=2>; rel="next", <BASE/second?page=2>; rel="last"'}
    api.on(LABELS, {"body": rows("name", "bug"), "headers": more})
    api.on(
        "/second?page=2",
        {"body": rows("name", "run-ci"), "headers": {"Link": '<BASE>; rel="prev"'}},
    )
    assert fetch_labels(PULL, client()).names == ("bug", "run-ci")
    assert api.paths == [LABELS, "/second?page=2"]


def test_pages_without_end_are_left(api: Any, client: Callable[..., Api]) -> None:
    again = {"Link": f'<BASE{LABELS}>; rel="next"'}
    api.on(LABELS, {"body": [], "headers": again})
    assert fetch_labels(PULL, client()).unreadable == "the API has more than 40 pages"


REFUSALS = {
    401: "the token is not accepted",
    403: "the token may not read this; the job needs `permissions: pull-requests: read`",
    404: "there is no such thing, or the token may not see it",
    418: "an error of the server",
}


@pytest.mark.parametrize("status", REFUSALS)
def test_a_refusal_is_told_at_once(
    status: int, api: Any, client: Callable[..., Api], naps: list[float]
) -> None:
    api.on(LABELS, {"body": {"message": "::error::no"}, "status": status})
    found = fetch_labels(PULL, client())
    assert f"answered {status}: {REFUSALS[status]}" in found.unreadable
    assert found.unreadable.endswith("tried 1 time")
    assert (found.names, naps, len(api.asked)) == ((), [], 1)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_fault_of_the_server_is_tried_again(
    status: int, api: Any, client: Callable[..., Api], naps: list[float]
) -> None:
    api.on(LABELS, {"status": status}, {"status": status}, {"body": rows("name", "run-ci")})
    assert fetch_labels(PULL, client()).names == ("run-ci",)
    assert naps == [1.0, 2.0]


def test_a_server_that_stays_broken_is_given_up(
    api: Any, client: Callable[..., Api], naps: list[float]
) -> None:
    api.on(LABELS, {"status": 500})
    found = fetch_labels(PULL, client())
    assert found.unreadable.endswith("answered 500: an error of the server; tried 3 times")
    assert len(naps) == 2


def test_a_used_up_rate_limit_is_named(api: Any, client: Callable[..., Api]) -> None:
    api.on(LABELS, {"status": 403, "headers": {"X-RateLimit-Remaining": "0"}})
    assert "the token's rate limit is used up" in fetch_labels(PULL, client()).unreadable


def test_a_wait_that_the_server_asks_for_is_kept(
    api: Any, client: Callable[..., Api], naps: list[float]
) -> None:
    api.on(LABELS, {"status": 403, "headers": {"Retry-After": "7"}}, {"body": []})
    assert fetch_labels(PULL, client()).unreadable == ""
    assert naps == [7.0]


def test_a_wait_beyond_the_time_for_all_is_not(
    api: Any, client: Callable[..., Api], naps: list[float]
) -> None:
    api.on(LABELS, {"status": 429, "headers": {"Retry-After": "3600"}})
    assert "answered 429" in fetch_labels(PULL, client()).unreadable
    assert naps == []


def test_a_silent_server_is_left(api: Any, client: Callable[..., Api], naps: list[float]) -> None:
    api.on(LABELS, {"silent": True})
    found = fetch_labels(PULL, client(silence_s=0.1))
    assert "could not be reached ('timed out'); tried 3 times" in found.unreadable
    assert len(naps) == 2


def test_a_server_that_drips_is_left(api: Any) -> None:
    api.on(LABELS, {"raw": b" " * 10_000, "drip": True})
    ticks = iter([0.0, 0.0, 1.0])  # the start, the page, its first byte; then the time is over
    patience = Patience(silence_s=240.0, total_s=240.0)
    slow = Api(base=api.base, patience=patience, clock=lambda: next(ticks, 999.0))
    assert "took longer than 240 s in all" in fetch_labels(PULL, slow).unreadable
    assert next(ticks, None) is None


def test_a_page_that_begins_too_late_is_not_asked_for(api: Any) -> None:
    api.on(LABELS, {"body": [], "headers": {"Link": f'<BASE{LABELS}>; rel="next"'}})
    ticks = iter([0.0, 0.0, 1.0, 99.0, 99.0, 99.0])
    slow = Api(base=api.base, clock=lambda: next(ticks))
    assert "no time left of 60 s" in fetch_labels(PULL, slow).unreadable


def test_a_closed_door_is_told(client: Callable[..., Api]) -> None:
    # Port 9 (discard) of the loopback address: nobody listens there.
    found = fetch_labels(PULL, client(base="http://127.0.0.1:9"))
    assert "could not be reached" in found.unreadable


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"raw": b"<html>"}, "did not answer with JSON"),
        ({"raw": b""}, "did not answer with JSON"),
        ({"raw": b"[" * 200_000}, "did not answer with JSON"),
        ({"body": {"message": "x"}}, "the API did not answer with a list"),
        ({"body": [{"id": 1}]}, "an element of the API's list has no name"),
        ({"body": ["run-ci"]}, "an element of the API's list has no name"),
        ({"raw": b"[]", "length": 100}, "could not be reached"),
    ],
)
def test_an_answer_that_says_nothing_is_no_empty_list(
    answer: dict[str, Any], message: str, api: Any, client: Callable[..., Api]
) -> None:
    api.on(LABELS, answer)
    found = fetch_labels(PULL, client(tries=1))
    assert message in found.unreadable
    assert found.names == ()


def test_an_enormous_answer_is_left(
    api: Any, client: Callable[..., Api], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hwmatrix.gate.http.LARGEST_PAGE", 1000)
    api.on(LABELS, {"raw": b" " * 5000})
    assert "sent more than 1000 bytes" in fetch_labels(PULL, client()).unreadable
    assert LARGEST_PAGE >= 2**20


def test_an_event_without_its_pull_request_has_no_labels(client: Callable[..., Api]) -> None:
    nameless = dataclasses.replace(PULL, repository="")
    assert "does not say" in fetch_labels(nameless, client()).unreadable
    assert "does not say" in fetch_changes(nameless, client()).unreadable
    assert "does not say" in fetch_labels(dataclasses.replace(PULL, number=0), client()).unreadable


# ---------------------------------------------------------------- where the token goes


def test_the_token_follows_no_redirect_to_another_host(
    api: Any, client: Callable[..., Api]
) -> None:
    api.on(LABELS, {"status": 302, "headers": {"Location": "http://localhost:1/steal"}})
    found = fetch_labels(PULL, client())
    assert "redirects to another host, 'http://localhost:1/steal'" in found.unreadable


def test_a_redirect_within_the_host_is_followed(api: Any, client: Callable[..., Api]) -> None:
    api.on(LABELS, {"status": 301, "headers": {"Location": "BASE/repositories/1/labels"}})
    api.on("/repositories/1/labels", {"body": rows("name", "run-ci")})
    assert fetch_labels(PULL, client()).names == ("run-ci",)
    assert api.asked[1][1]["authorization"] == f"Bearer {TOKEN}"


def test_the_token_follows_no_page_to_another_host(api: Any, client: Callable[..., Api]) -> None:
    api.on(LABELS, {"body": [], "headers": {"Link": '<http://localhost:1/more>; rel="next"'}})
    assert "names a next page on another host" in fetch_labels(PULL, client()).unreadable


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("http://api.example.com", "would get the token unencrypted; use https"),
        ("ftp://api.example.com", "is no address of an API"),
        ("api.example.com", "is no address of an API"),
        ("https://", "is no address of an API"),
        ("https://[", "is no address of an API"),
        ("https://api.example.com:x", "is no address of an API"),
    ],
)
def test_an_address_that_is_none_is_not_asked(
    base: str, message: str, client: Callable[..., Api]
) -> None:
    assert message in fetch_labels(PULL, client(base=base)).unreadable


@pytest.mark.parametrize("token", [f"{TOKEN}\nX: y", f"{TOKEN} x", f"{TOKEN}\u00e9"])
def test_a_token_that_is_none_is_not_quoted(token: str, client: Callable[..., Api]) -> None:
    found = fetch_labels(PULL, client(token=token))
    assert found.unreadable == "the token holds characters that no token has"


def test_no_complaint_and_no_repr_holds_the_token(api: Any, client: Callable[..., Api]) -> None:
    with_user = api.base.replace("http://", f"http://user:{TOKEN}@")
    api.on(LABELS, {"status": 404})
    for base in (api.base, with_user, "http://127.0.0.1:9"):
        made = client(base=base)
        assert TOKEN not in fetch_labels(PULL, made).unreadable
    assert TOKEN not in repr(client())


def test_a_page_is_asked_for_only_when_it_is_wanted(api: Any, client: Callable[..., Api]) -> None:
    api.on("/x", {"body": {"files": []}, "headers": {"Link": '<BASE/y>; rel="next"'}})
    assert next(client().pages("x")) == {"files": []}
    assert api.paths == ["/x"]
    with pytest.raises(ApiError, match=re.escape("/y' answered 404")):
        list(client().pages("x"))


# ---------------------------------------------------------------- changed paths


def test_the_paths_of_a_pull_request(api: Any, client: Callable[..., Api]) -> None:
    moved = {"filename": "src/b.py", "previous_filename": "kernels/amd/b.py", "status": "renamed"}
    api.on(FILES, {"body": [*rows("filename", "src/a.py"), moved]})
    found = fetch_changes(dataclasses.replace(PULL, changed_files=2), client())
    assert found.names == ("src/a.py", "src/b.py", "kernels/amd/b.py")


def test_a_list_shorter_than_what_changed_is_not_known(
    api: Any, client: Callable[..., Api]
) -> None:
    api.on(FILES, {"body": rows("filename", "docs/a.rst")})
    found = fetch_changes(dataclasses.replace(PULL, changed_files=2), client())
    assert found.unreadable == "GitHub lists 1 files of 2 that changed"


def test_a_list_at_githubs_limit_is_not_known(api: Any, client: Callable[..., Api]) -> None:
    page = rows("filename", *(f"docs/{n}.rst" for n in range(100)))
    more = {"Link": f'<BASE{FILES}>; rel="next"'}
    api.on(FILES, *({"body": page, "headers": more} for _ in range(29)), {"body": page})
    found = fetch_changes(PULL, client())
    assert found.unreadable == "GitHub lists no more than 3000 files"
    assert len(api.asked) == 30


@pytest.mark.parametrize("answer", [{"body": []}, {"status": 403}, {"body": {"message": "x"}}])
def test_no_list_of_paths_is_not_known(
    answer: dict[str, Any], api: Any, client: Callable[..., Api]
) -> None:
    api.on(FILES, answer)
    found = fetch_changes(PULL, client())
    assert found.unreadable
    assert found.names == ()


def test_the_paths_of_a_push(api: Any, client: Callable[..., Api]) -> None:
    more = {"Link": '<BASE/commits?page=2>; rel="next"'}
    api.on(COMPARE, {"body": {"files": rows("filename", "src/a.py")}, "headers": more})
    assert fetch_changes(PUSH, client()).names == ("src/a.py",)
    assert api.paths == [COMPARE]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"files": rows("filename", *(f"{n}.py" for n in range(300)))}, "no more than 300 files"),
        ({"commits": []}, "lists no files"),
        ([], "lists no files"),
        ({"files": []}, "GitHub lists no changed file"),
    ],
)
def test_a_comparison_that_says_too_little_is_not_known(
    body: object, message: str, api: Any, client: Callable[..., Api]
) -> None:
    api.on(COMPARE, {"body": body})
    assert message in fetch_changes(PUSH, client()).unreadable


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"forced": True}, "a forced push took commits back"),
        ({"before": "0" * 40}, "there is no earlier commit to compare with"),
        ({"after": ""}, "there is no earlier commit to compare with"),
    ],
)
def test_a_push_that_cannot_be_compared_asks_nobody(
    change: dict[str, object], message: str, api: Any, client: Callable[..., Api]
) -> None:
    event = dataclasses.replace(PUSH, **change)  # type: ignore[arg-type]  # one field at a time, by name
    assert fetch_changes(event, client()).unreadable == message
    assert api.asked == []
