"""What README and docs say holds: links, exit codes, options, commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hwmatrix import cli, errors
from hwmatrix.app import request

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []


def test_every_exit_code_stands_in_the_readme() -> None:
    told = {int(n) for n in re.findall(r"(?<![\w.])(\d{1,2}) [a-z]", README.split("## Exit")[1])}
    waiting, codes = [errors.HwMatrixError], set()
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        if "exit_code" in vars(cls) and cls is not errors.HwMatrixError:
            codes.add(cls.exit_code)
    assert codes <= told, f"not in README: {sorted(codes - told)}"


def test_every_option_of_a_session_stands_in_the_readme() -> None:
    options = {
        word
        for action in request.parser()._actions
        for word in action.option_strings
        if word.startswith("--")
    }
    assert {o for o in options - {"--help"} if o not in README} == set()


def test_every_command_stands_in_the_help() -> None:
    text = cli.parser().format_help()
    for name in ("session", "lint", "list", "report", *cli._COMMANDS):
        assert name in text
