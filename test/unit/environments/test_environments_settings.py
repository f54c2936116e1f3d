"""pip's settings: which files, which order, and what a clean environment keeps."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from hwmatrix.environments import settings
from hwmatrix.environments.settings import PipSettings

if TYPE_CHECKING:
    from pathlib import Path


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_nothing_set_is_nothing(tmp_path: Path) -> None:
    assert settings.read({}, root=tmp_path) == PipSettings()


def test_all_settings_come_from_the_environment(tmp_path: Path) -> None:
    env = {
        "PIP_INDEX_URL": "https://mirror/simple",
        "PIP_EXTRA_INDEX_URL": "https://a/simple https://b/simple https://a/simple",
        "PIP_FIND_LINKS": "wheels '/with space/wheels'",
        "PIP_NO_INDEX": "true",
        "PIP_CONSTRAINT": "c1.txt c2.txt",
        "PIP_CERT": "/ca.pem",
        "PIP_CLIENT_CERT": "/me.pem",
        "PIP_TRUSTED_HOST": "a b",
        "PIP_PROXY": "http://proxy:3128",
        "PIP_DEFAULT_TIMEOUT": "60",
        "PIP_RETRIES": "2",
    }
    assert settings.read(env, root=tmp_path) == PipSettings(
        index_url="https://mirror/simple",
        extra_index_urls=("https://a/simple", "https://b/simple"),
        find_links=("wheels", "/with space/wheels"),
        no_index=True,
        constraints=("c1.txt", "c2.txt"),
        cert="/ca.pem",
        client_cert="/me.pem",
        trusted_hosts=("a", "b"),
        proxy="http://proxy:3128",
        timeout="60",
        retries="2",
    )


def test_files_overrule_each_other_in_pips_order(tmp_path: Path) -> None:
    write(tmp_path, "etc/xdg/pip/pip.conf", "[global]\nindex-url = xdg\nproxy = xdg\ncert = xdg\n")
    write(tmp_path, "etc/pip.conf", "[global]\nindex-url = etc\nproxy = etc\n")
    write(tmp_path, "home/.config/pip/pip.conf", "[global]\nindex-url = user\n")
    write(tmp_path, "venv/pip.conf", "[install]\nretries = 9\n[global]\nretries = 1\n")
    env = {"HOME": str(tmp_path / "home"), "PIP_CERT": "env"}
    found = settings.read(env, prefix=str(tmp_path / "venv"), root=tmp_path)
    assert (found.index_url, found.proxy, found.cert) == ("user", "etc", "env")
    assert found.retries == "9"


@pytest.mark.parametrize("name", [".pip/pip.conf", "Library/Application Support/pip/pip.conf"])
def test_older_and_other_places_of_the_users_file(tmp_path: Path, name: str) -> None:
    write(tmp_path, f"home/{name}", "[global]\nfind_links =\n  one\n  two\n")
    env = {"HOME": str(tmp_path / "home")}
    assert settings.read(env, root=tmp_path).find_links == ("one", "two")


def test_the_file_that_is_named_comes_last(tmp_path: Path) -> None:
    write(tmp_path, "etc/pip.conf", "[global]\nindex-url = etc\n")
    write(tmp_path, "mine.conf", "[global]\nindex-url = mine\n")
    env = {"PIP_CONFIG_FILE": str(tmp_path / "mine.conf")}
    assert settings.read(env, root=tmp_path).index_url == "mine"


def test_files_can_be_switched_off(tmp_path: Path) -> None:
    write(tmp_path, "etc/pip.conf", "[global]\nindex-url = etc\n")
    assert settings.read({"PIP_CONFIG_FILE": os.devnull}, root=tmp_path) == PipSettings()


def test_a_file_that_is_no_configuration_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path, "etc/pip.conf", "index-url without a section\n")
    assert settings.read({}, root=tmp_path) == PipSettings()


def test_an_open_quote_is_split_at_spaces(tmp_path: Path) -> None:
    found = settings.read({"PIP_FIND_LINKS": "it's here"}, root=tmp_path)
    assert found.find_links == ("it's", "here")


@pytest.mark.parametrize("name", ["UV_DEFAULT_INDEX", "UV_INDEX_URL"])
def test_uvs_own_index_counts_where_pip_has_none(tmp_path: Path, name: str) -> None:
    assert settings.read({name: "uv"}, root=tmp_path).index_url == "uv"
    assert settings.read({name: "uv", "PIP_INDEX_URL": "pip"}, root=tmp_path).index_url == "pip"


def test_clean_drops_what_steers_and_keeps_the_rest() -> None:
    env = {
        "HOME": "/home/me",
        "PATH": "/bin",
        "PIP_CACHE_DIR": "/cache",
        "UV_CACHE_DIR": "/uv",
        "PIP_EXTRA_INDEX_URL": "x",
        "PIP_CONSTRAINT": "x",
        "PIP_UPGRADE": "1",
        "PIP_TARGET": "/elsewhere",
        "UV_INDEX": "x",
        "UV_TORCH_BACKEND": "auto",
        "PYTHONPATH": "x",
        "VIRTUAL_ENV": "x",
        "HTTPS_PROXY": "p",
    }
    assert settings.clean(env) == {
        "HOME": "/home/me",
        "PATH": "/bin",
        "HTTPS_PROXY": "p",
        "PIP_CACHE_DIR": "/cache",
        "UV_CACHE_DIR": "/uv",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_COMPILE": "1",
        "PIP_NO_INPUT": "1",
        "UV_NO_CONFIG": "1",
        "UV_NO_PROGRESS": "1",
        "UV_PYTHON_DOWNLOADS": "never",
    }
