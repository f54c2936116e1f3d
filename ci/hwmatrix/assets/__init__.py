"""Assets to folders of this machine: found where they lie, fetched once where they do not.

`find` looks, `fetch` brings what is missing into the cache under a lock. A missing asset is a
fault of the machine (`AssetError`), never a failure of a test. See `docs/assets.md`.
"""

from __future__ import annotations

from hwmatrix.assets.fetching import Fetcher, fetch
from hwmatrix.assets.finding import Found, cache_folder, find, look, size_of, wanted

__all__ = ["Fetcher", "Found", "cache_folder", "fetch", "find", "look", "size_of", "wanted"]
