"""All files of a report, each written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix.errors import RunFolderError
from hwmatrix.reporting.json_report import report_json
from hwmatrix.reporting.junit import junit_xml
from hwmatrix.reporting.summary import summary_md
from hwmatrix.reporting.timeline import timeline_html

if TYPE_CHECKING:
    from hwmatrix.reporting.result import Report


def write_all(report: Report, folder: Path) -> tuple[Path, ...]:
    """Write report.json, junit.xml, summary.md and timeline.html; return their paths.

    Readers never see half a file: each is written beside its place and moved there.

    Raises:
        RunFolderError: the folder cannot be written (no permission, no space, no folder). The
            journal stays what it is: `python -m hwmatrix report RUN` makes the files later.
    """
    contents = {
        "report.json": report_json(report),
        "junit.xml": junit_xml(report),
        "summary.md": summary_md(report),
        "timeline.html": timeline_html(report),
    }
    return tuple(write_text(folder / name, content) for name, content in contents.items())


def write_text(path: Path, content: str) -> Path:
    """Write `content` to `path` by way of a temporary file beside it; return `path`.

    Raises:
        RunFolderError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(content)
            temporary.chmod(0o644)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        why = error.strerror or str(error)
        message = (
            f"{path}: cannot be written: {why}. What the journal took is kept: make space or give"
            " permission, then run `python -m hwmatrix report` on the folder of the run."
        )
        raise RunFolderError(message) from error
    return path
