"""Labels and changed paths as they are now, from GitHub's API.

Live and not from the event: a run that is started again still has the payload of its first time.
Whatever stands in the way comes out as `Facts.unreadable`; what follows from it is the decision's
business. Limits are those of GitHub's REST reference: "List pull requests files" gives 3000 files
at most, "Compare two commits" 300.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from hwmatrix.gate.decision import Facts
from hwmatrix.gate.http import ApiError
from hwmatrix.model import GateEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hwmatrix.gate.events import Event
    from hwmatrix.gate.http import Api

_FILES_OF_PULL = 3000
_FILES_OF_COMPARE = 300
# An issue has at most 100 labels; far more pages than that are a fault of the server.
_PAGES = 40
_NO_COMMIT = frozenset({"", "0" * 40, "0" * 64})


def fetch_labels(event: Event, api: Api) -> Facts:
    """Return the labels that the event's pull request has now."""
    if not event.repository or not event.number:
        return Facts(unreadable="the event does not say of which pull request it is")
    path = f"repos/{event.repository}/issues/{event.number}/labels?per_page=100"
    try:
        return Facts(names=tuple(_names(_rows(api, path), "name")))
    except ApiError as error:
        return Facts(unreadable=str(error))


def fetch_changes(event: Event, api: Api) -> Facts:
    """Return the paths that the event's change touches, old names of moved files included."""
    if not event.repository:
        return Facts(unreadable="the event does not say of which repository it is")
    try:
        if event.name is GateEvent.PULL_REQUEST:
            return _of_pull(event, api)
        return _of_range(event, api)
    except ApiError as error:
        return Facts(unreadable=str(error))


def _of_pull(event: Event, api: Api) -> Facts:
    path = f"repos/{event.repository}/pulls/{event.number}/files?per_page=100"
    rows = list(_rows(api, path))
    if len(rows) >= _FILES_OF_PULL:
        return Facts(unreadable=f"GitHub lists no more than {_FILES_OF_PULL} files")
    if len(rows) < event.changed_files:
        return Facts(
            unreadable=f"GitHub lists {len(rows)} files of {event.changed_files} that changed"
        )
    return _paths(rows)


def _of_range(event: Event, api: Api) -> Facts:
    """What lies between two commits. A forced push leaves out what it took back: not known."""
    if event.forced:
        return Facts(unreadable="a forced push took commits back")
    if event.before in _NO_COMMIT or event.after in _NO_COMMIT:
        return Facts(unreadable="there is no earlier commit to compare with")
    spec = quote(f"{event.before}...{event.after}", safe="")
    # The files stand on the first page; further pages hold commits alone.
    page = next(iter(api.pages(f"repos/{event.repository}/compare/{spec}?per_page=1")), None)
    rows = page.get("files") if isinstance(page, dict) else None
    if not isinstance(rows, list):
        return Facts(unreadable="GitHub's comparison of the commits lists no files")
    if len(rows) >= _FILES_OF_COMPARE:
        return Facts(unreadable=f"GitHub lists no more than {_FILES_OF_COMPARE} files")
    return _paths(rows)


def _paths(rows: Iterable[object]) -> Facts:
    kept = list(rows)
    names = [*_names(kept, "filename"), *_names(kept, "previous_filename", required=False)]
    if not names:
        # A change without a file is rarer than an API that answers with nothing.
        return Facts(unreadable="GitHub lists no changed file")
    return Facts(names=tuple(dict.fromkeys(names)))


def _rows(api: Api, path: str) -> Iterator[object]:
    for count, page in enumerate(api.pages(path), start=1):
        if not isinstance(page, list):
            message = "the API did not answer with a list"
            raise ApiError(message)
        if count > _PAGES:
            message = f"the API has more than {_PAGES} pages"
            raise ApiError(message)
        yield from page


def _names(rows: Iterable[object], key: str, *, required: bool = True) -> Iterator[str]:
    for row in rows:
        value = row.get(key) if isinstance(row, dict) else None
        if isinstance(value, str):
            yield value
        elif required:
            message = f"an element of the API's list has no {key}"
            raise ApiError(message)
