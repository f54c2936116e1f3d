"""A hub on loopback: serves folders as repositories at one commit, as the real one answers."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import json
import threading
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


def commit_of(folder: Path) -> str:
    """Return 40 digits that stand for the contents of a folder."""
    found = hashlib.sha1(usedforsecurity=False)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()


@contextlib.contextmanager
def serve(repositories: Mapping[str, Path]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the hub's address, and `owner/name@commit` of each repository.

    A key is `owner/name`, or `datasets/owner/name`.
    """
    commits = {name: commit_of(folder) for name, folder in repositories.items()}
    routes: dict[str, bytes] = {}
    for name, folder in repositories.items():
        files = {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file()}
        for file, path in files.items():
            routes[f"/{name}/resolve/{commits[name]}/{file}"] = path.read_bytes()
        rows = [
            {"type": "file", "path": file, "size": path.stat().st_size}
            for file, path in files.items()
        ]
        kind = name if name.startswith("datasets/") else f"models/{name}"
        routes[f"/api/{kind}/tree/{commits[name]}"] = json.dumps(rows).encode()

    class Hub(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = routes.get(unquote(self.path.partition("?")[0]))
            if body is None:
                self.send_error(404, "Entry not found")
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        names = {
            name: f"{name.removeprefix('datasets/')}@{commit}" for name, commit in commits.items()
        }
        yield f"http://127.0.0.1:{server.server_address[1]}", names
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
