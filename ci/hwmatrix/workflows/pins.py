"""The actions that generated workflows use, by commit: a tag can be moved, a commit cannot.

To move one: `git ls-remote https://github.com/OWNER/NAME refs/tags/TAG`, change both values here,
then `python -m hwmatrix workflow`.
"""

from __future__ import annotations

PINS = {
    "CHECKOUT": ("actions/checkout", "08c6903cd8c0fde910a37f88322edcfb5dd907a8", "v5.0.0"),
    "SETUP_PYTHON": ("actions/setup-python", "e797f83bcb11b83ae66e0230d6156d7c80228e7c", "v6.0.0"),
    "UPLOAD": ("actions/upload-artifact", "ea165f8d65b6e75b540449e92b4886f43607fa02", "v4.6.2"),
    "DOWNLOAD": ("actions/download-artifact", "634f93cb2916e3fdff6788551b99b062d0335ce0", "v5.0.0"),
}


def uses(name: str) -> str:
    """Return what stands after `uses:`, with the version as a comment."""
    action, commit, version = PINS[name]
    return f"{action}@{commit} # {version}"
