"""Bytes to source: encodings, line ends, and files that are none."""

from __future__ import annotations

import pytest

from hwmatrix.model import Backend
from hwmatrix.registry import reader

CALL = b'register_amd_ci(5, "s")\n'
AMD = frozenset({Backend.AMD})


def lines(data: bytes) -> list[tuple[int, int]]:
    result = reader.read("test_x.py", data)
    assert result.problems == ()
    return [(r.line, r.column) for r in result.registrations]


def problem(data: bytes) -> str:
    result = reader.read("test_x.py", data)
    assert result.registrations == ()
    (found,) = result.problems
    assert found.backends == AMD
    return str(found)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"\xef\xbb\xbf" + CALL, [(1, 1)], id="byte order mark"),
        pytest.param(b"\xef\xbb\xbf# coding: utf-8\n" + CALL, [(2, 1)], id="mark, declared"),
        pytest.param(b"x = 1\r\n\r\n" + CALL.replace(b"\n", b"\r\n"), [(3, 1)], id="CRLF"),
        pytest.param(b"x = 1\r\r" + CALL.replace(b"\n", b"\r"), [(3, 1)], id="CR"),
        pytest.param(b"x = 1\r\n\n\r" + CALL, [(4, 1)], id="mixed line ends"),
        pytest.param(b'"""a\r\nb"""\r\n' + CALL, [(3, 1)], id="CRLF in a string"),
        pytest.param(b"x = 1\n\f\n" + CALL, [(3, 1)], id="form feed on a line of its own"),
        pytest.param(b"x = 1\n\f" + CALL, [(2, 2)], id="form feed before the call"),
        pytest.param(b"x = '\f'\n" + CALL, [(2, 1)], id="form feed in a string"),
        pytest.param("x = '\u2028\x85'\n".encode() + CALL, [(2, 1)], id="Unicode line ends"),
        pytest.param(b"# -*- coding: utf-8 -*-\n" + CALL, [(2, 1)], id="UTF-8 declared"),
        pytest.param(b"# vim: set fileencoding=utf_8 :\n" + CALL, [(2, 1)], id="UTF-8 for vim"),
        pytest.param(b"# coding: us-ascii\n" + CALL, [(2, 1)], id="ASCII declared"),
        pytest.param(b"\n\n# coding: latin-1\n" + CALL, [(4, 1)], id="declared too late"),
        pytest.param(b"x = 1\n# coding: latin-1\n" + CALL, [(3, 1)], id="declared after code"),
        pytest.param(CALL.rstrip(), [(1, 1)], id="no line end"),
        pytest.param(b"", [], id="empty"),
        pytest.param(b"\xef\xbb\xbf", [], id="only a mark"),
        pytest.param("# \u00e9\u00e8\n".encode() + CALL, [(2, 1)], id="UTF-8"),
    ],
)
def test_places_are_those_that_editors_show(data: bytes, expected: object) -> None:
    assert lines(data) == expected


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(
            b"x = 1\n\0" + CALL,
            "test_x.py:2: the file holds a NUL byte; it is no Python source. "
            "Remove the byte: an editor that shows control characters finds it.",
            id="NUL byte",
        ),
        pytest.param(
            b"# coding: latin-1\n" + CALL,
            "test_x.py:1: the file declares the encoding 'latin-1'; test files are UTF-8. "
            "Save it as UTF-8 and drop the declaration.",
            id="another encoding",
        ),
        pytest.param(
            b"#!/usr/bin/env python3\r\n# -*- coding: Shift_JIS -*-\r\n" + CALL,
            "test_x.py:2: the file declares the encoding 'shift-jis'; test files are UTF-8. "
            "Save it as UTF-8 and drop the declaration.",
            id="another encoding in line 2",
        ),
        pytest.param(
            CALL + b"x = '\xe9'\n",
            "test_x.py:2: byte 0xe9 is not UTF-8; test files are UTF-8. Save it as UTF-8.",
            id="bytes that are not UTF-8",
        ),
        pytest.param(
            CALL + b"x = '\xed\xa0\x80'\n",
            "test_x.py:2: byte 0xed is not UTF-8; test files are UTF-8. Save it as UTF-8.",
            id="a surrogate",
        ),
    ],
)
def test_what_is_no_utf_8_source_is_refused(data: bytes, message: str) -> None:
    assert problem(data) == message


def test_what_the_parser_says_is_passed_on() -> None:
    assert problem(b"\x1a" + CALL).startswith("test_x.py:1: the file does not parse (invalid ")


def test_utf_16_is_refused_and_concerns_nobody_whom_it_does_not_mention() -> None:
    result = reader.read("test_x.py", CALL.decode().encode("utf-16"))
    assert result.problems == ()
    (remark,) = result.remarks
    assert "NUL byte" in remark.found


def test_an_unreadable_file_concerns_the_backends_that_its_text_mentions() -> None:
    data = b"\0 register_cpu_ci register_npu_ci"
    (found,) = reader.read("test_x.py", data).problems
    assert found.backends == {Backend.CPU, Backend.NPU}


def test_an_unreadable_file_that_mentions_an_unknown_backend_concerns_all() -> None:
    (found,) = reader.read("test_x.py", b"\0 register_rocm_ci").problems
    assert found.backends == frozenset()
