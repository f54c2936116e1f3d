"""Pages of a JSON API: bounded in time, in size and in retries; the token goes to one host only."""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from hwmatrix.gate.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from email.message import Message

# A page of 100 changed files with their patches has been seen with 6 MB.
LARGEST_PAGE = 64 * 1024 * 1024
_TOKEN = re.compile(r"[\x21-\x7e]+")
_CHUNK = 256 * 1024
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
# Worth another try: the server's own faults, and too many requests.
_TRANSIENT = frozenset({429, 500, 502, 503, 504})


class ApiError(Exception):
    """What stands between the gate and an answer of the API, in words for people."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Patience:
    """How long to go on: seconds for one silence of the server, for all of it; tries per page."""

    silence_s: float = 10.0
    total_s: float = 60.0
    tries: int = 3
    pause_s: float = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Api:
    """A JSON API at `base`, asked with `token` (none where it is empty).

    `proxies` are those of `urllib.request.ProxyHandler`. `clock` and `sleep` are in seconds.
    """

    base: str
    token: str = field(default="", repr=False)
    proxies: Mapping[str, str] = field(default_factory=dict)
    patience: Patience = field(default_factory=Patience)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def pages(self, path: str) -> Iterator[object]:
        """Yield the parsed pages of `path`, following the `next` links.

        Raises:
            ApiError: a page cannot be had, or the time is over.
        """
        url = f"{self.base.rstrip('/')}/{path}"
        home = _origin(url)
        _check_home(url, home, with_token=bool(self.token))
        if self.token and not _TOKEN.fullmatch(self.token):
            # urllib would quote it in its complaint.
            raise ApiError("the token holds characters that no token has")
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler(dict(self.proxies)), _SameHost(home)
        )
        until = self.clock() + self.patience.total_s
        while url:
            body, headers = self._page(opener, url, until)
            try:
                yield json.loads(body)
            except (ValueError, RecursionError):
                raise ApiError(f"{_shown(url)} did not answer with JSON") from None
            url = _next(headers, url, home)

    def _page(
        self, opener: urllib.request.OpenerDirector, url: str, until: float
    ) -> tuple[bytes, Message]:
        """One page, tried again after a fault of the server or the network."""
        request = urllib.request.Request(url, headers=self._headers())  # noqa: S310 - pages() has checked the scheme
        attempt = 0
        while True:
            attempt += 1
            pause_s = self.patience.pause_s * 2 ** (attempt - 1)
            try:
                return self._read(opener, request, until)
            except urllib.error.HTTPError as error:
                with error:
                    reason = _refusal(error)
                wait_s = _wait_s(error, pause_s)
            except (OSError, ValueError, http.client.HTTPException) as error:
                why = quoted(str(error) or type(error).__name__)
                reason, wait_s = f"{_shown(url)} could not be reached ({why})", pause_s
            left_s = until - self.clock()
            if wait_s < 0 or attempt >= self.patience.tries or wait_s >= left_s:
                raise ApiError(f"{reason}; tried {attempt} time{'s' * (attempt > 1)}")
            self.sleep(wait_s)

    def _headers(self) -> dict[str, str]:
        headers = {
            "Accept": "application/vnd.github+json",
            "User-Agent": "hwmatrix",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        return headers | ({"Authorization": f"Bearer {self.token}"} if self.token else {})

    def _read(
        self, opener: urllib.request.OpenerDirector, request: urllib.request.Request, until: float
    ) -> tuple[bytes, Message]:
        """The whole body: a server that sends byte by byte is bounded by the time for all."""
        url, left_s = request.full_url, until - self.clock()
        if left_s <= 0:
            raise ApiError(f"{_shown(url)}: no time left of {self.patience.total_s:g} s")
        with opener.open(request, timeout=min(self.patience.silence_s, left_s)) as answer:
            body = bytearray()
            while chunk := answer.read1(_CHUNK):
                body += chunk
                if len(body) > LARGEST_PAGE:
                    raise ApiError(f"{_shown(url)} sent more than {LARGEST_PAGE} bytes")
                if self.clock() > until:
                    raise ApiError(
                        f"{_shown(url)} took longer than {self.patience.total_s:g} s in all"
                    )
            if answer.length:
                raise http.client.IncompleteRead(bytes(body), answer.length)
            return bytes(body), answer.headers


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows redirects within one host: urllib would hand the token to any other as well."""

    def __init__(self, home: tuple[str, str, int | None]) -> None:
        self._home = home

    def redirect_request(  # noqa: PLR0917 - urllib calls it so
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Return the request to `newurl`.

        Raises:
            ApiError: it is on another host.
        """
        if _origin(newurl) != self._home:
            fp.close()
            raise ApiError(f"{_shown(req.full_url)} redirects to another host, {_shown(newurl)}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check_home(url: str, home: tuple[str, str, int | None], *, with_token: bool) -> None:
    if home[0] not in {"http", "https"} or not home[1]:
        raise ApiError(
            f"{_shown(url)} is no address of an API; $GITHUB_API_URL must be https://..."
        )
    if home[0] == "http" and with_token and home[1] not in _LOOPBACK:
        raise ApiError(f"{_shown(url)} would get the token unencrypted; use https")


def _origin(url: str) -> tuple[str, str, int | None]:
    try:
        parts = urlsplit(url)
        origin = parts.scheme, parts.hostname or "", parts.port
    except ValueError:
        return "", "", None
    return origin


def _shown(url: str) -> str:
    """An address without its user part and query, safe to print."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return quoted(url)
    return quoted(f"{parts.scheme}://{host}{port}{parts.path}")


def _next(headers: Message, url: str, home: tuple[str, str, int | None]) -> str:
    """The address of the next page, empty on the last.

    Raises:
        ApiError: it is on another host.
    """
    for link in ", ".join(headers.get_all("Link") or []).split(","):
        target, _, parameters = link.strip().partition(">")
        if target.startswith("<") and 'rel="next"' in parameters:
            found = urljoin(url, target[1:])
            if _origin(found) != home:
                raise ApiError(f"{_shown(url)} names a next page on another host")
            return found
    return ""


def _wait_s(error: urllib.error.HTTPError, pause_s: float) -> float:
    """Seconds until the next try; negative where none would help."""
    after = error.headers.get("Retry-After", "")
    if after.isascii() and after.isdigit():
        return max(pause_s, float(after[:9]))
    return pause_s if error.code in _TRANSIENT else -1.0


def _refusal(error: urllib.error.HTTPError) -> str:
    """What an HTTP status means here."""
    if error.headers.get("X-RateLimit-Remaining") == "0":
        why = "the token's rate limit is used up"
    else:
        why = {
            401: "the token is not accepted",
            403: "the token may not read this; the job needs `permissions: pull-requests: read`",
            404: "there is no such thing, or the token may not see it; the job needs "
            "`permissions: pull-requests: read, contents: read`",
        }.get(error.code, "an error of the server")
    return f"{_shown(error.url or '')} answered {error.code}: {why}"
