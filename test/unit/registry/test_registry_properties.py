"""What holds for every file: facts as meant, the quick way as good as the whole, no crash."""

from __future__ import annotations

import ast
import keyword
from typing import Any

import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from hwmatrix.model import Backend, Disabled, Registration
from hwmatrix.registry import reader
from hwmatrix.registry.calls import find

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), min_size=1).filter(
    lambda text: bool(text.strip())
)
PLAIN = st.from_regex(r"[a-z][a-z0-9.-]{0,20}", fullmatch=True)
ESTIMATES = st.one_of(
    st.integers(1, 10**9),
    st.floats(min_value=1e-3, max_value=1e9, allow_nan=False),
)


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, dict[str, object]]:
    """Draw the source of one valid call, and the fields that it must come out with."""
    est_time, backend = draw(ESTIMATES), draw(st.sampled_from(list(Backend)))
    meant: dict[str, object] = {"backend": backend, "est_s": float(est_time)}
    values: dict[str, object] = {"est_time": est_time}
    if draw(st.booleans()):
        values["suite"] = draw(WORDS)
    else:
        values["stage"], values["runner_config"] = draw(WORDS), draw(WORDS)
    meant |= {name: values[name] for name in values if name != "est_time"}
    if draw(st.booleans()):
        values["nightly"] = meant["nightly"] = draw(st.booleans())
    if draw(st.booleans()):
        values["disabled"] = reason = draw(PLAIN)
        meant["disabled"] = Disabled(reason=reason)
    if draw(st.booleans()):
        values["in_process_group"] = meant["in_process_group"] = draw(WORDS)
    return draw(written(f"register_{backend}_ci", values)), meant


@st.composite
def written(draw: st.DrawFn, name: str, values: dict[str, object]) -> str:
    """Draw a way of writing the call: positions or keywords, their order, space, concatenation."""
    positional = []
    rest = dict(values)
    for parameter in ("est_time", "suite", "nightly", "disabled"):
        if parameter not in rest or not draw(st.booleans()):
            break
        positional.append(draw(literal(rest.pop(parameter))))
    named = [f"{key}={draw(literal(value))}" for key, value in rest.items()]
    arguments = [*positional, *draw(st.permutations(named))]
    between = draw(st.sampled_from([", ", ",", ",\n    ", ",  # why\n"]))
    end = draw(st.sampled_from(["", ",", "\n"]))
    before = draw(st.sampled_from(["", "hw.", "a.b."]))
    return f"{before}{name}({between.join(arguments)}{end})"


@st.composite
def literal(draw: st.DrawFn, value: object) -> str:
    if isinstance(value, str) and draw(st.booleans()):
        at = draw(st.integers(0, len(value)))
        return f"{value[:at]!r} {value[at:]!r}"
    return repr(value)


@st.composite
def homes(draw: st.DrawFn, call: str) -> str:
    """Draw a place at module level for the call."""
    line = call.replace("\n", "\n        ")
    home = draw(
        st.sampled_from(
            [
                "{}",
                "_ = {}",
                "x = 1; {}",
                "if A:\n    {}",
                "if A:\n    pass\nelse:\n    {}",
                "try:\n    {}\nexcept ImportError:\n    pass",
                "try:\n    pass\nfinally:\n    {}",
                "with a, b:\n    if C:\n        {}",
                "({},)",
            ]
        )
    )
    return home.replace("{}", line if home.startswith(("if", "try", "with")) else call)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_call_comes_out_as_it_was_meant(data: st.DataObject) -> None:
    """Whatever the way of writing and the place at module level, the facts are those meant."""
    call, meant = data.draw(calls())
    text = f"import hw\n\n{data.draw(homes(call))}\n\n\nclass Test:\n    pass\n"
    result = reader.read("test_x.py", text.encode("utf-8"))
    assert result.problems == ()
    (found,) = result.registrations
    place = {"path": "test_x.py", "line": found.line, "column": found.column}
    values: dict[str, Any] = {**place, **meant}
    assert found == Registration(**values)
    line = text.split("\n")[found.line - 1]
    assert call.startswith(line[found.column - 1 :].partition("(")[0])


# ------------------------------------------------------------------ quick against whole

STATEMENTS = st.sampled_from(
    [
        'register_amd_ci(5, "s")\n',
        'register_cpu_ci(5,\nsuite="t")\n',
        'if x: register_npu_ci(5, "s")\n',
        'if x:\n    register_cuda_ci(5, "s")\nelif y:\n    pass\nelse:\n    register_npu_ci(0)\n',
        "try:\n    from hwmatrix import register_amd_ci\nexcept A:\n    register_amd_ci = None\n",
        'try:\n    pass\nfinally:\n    register_xpu_ci(5, "s")\n',
        "from hwmatrix import register_mlx_ci as r\n",
        'r(5, "s")\n',
        "for r in y:\n    pass\n",
        'HELP = """\nregister_musa_ci(5)\n"""\n',
        "HELP = '''\nx = 1\nregister_musa_ci(5)\ny'''\n",
        "x = (\nregister_musa_ci\n)\n",
        "x = \\\nregister_musa_ci\n",
        "# register_musa_ci(5)\n",
        "def f():\n    pass\n",
        'def f():\n    r = 1\n    register_amd_ci(5, "s")\n    return r\n',
        "@decorator\n",
        '@register_npu_ci(5, "s")\n',
        "class A:\n    pass\n",
        "\n",
        "\f\n",
        "x = 1\n",
        "del register_amd_ci\n",
        "é = 1\n",
    ]
)
NOISE = st.sampled_from(
    ['"""', "'''", '"', "(\n", ")\n", "[", "]", "\\\n", "    ", "f'{", "lambda: "]
)
PIECES = st.one_of(st.lists(STATEMENTS, max_size=8), st.lists(st.one_of(STATEMENTS, NOISE)))


def whole(text: bytes) -> object:
    """Return what the parse of the whole text gives, or None where it does not parse."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return None
    found = find(body, {})
    if found.aliases:
        found = find(body, found.aliases)
    return reader._result("test_x.py", text, found)


@settings(max_examples=500)
@given(PIECES.map("".join))
@example('try:\n    from hwmatrix import register_amd_ci\nexcept ImportError:\n    pass\nx = "\n')
@example('"""\nx\n"""register_amd_ci(5, "s")\n')
@example('x = """\nregister_amd_ci(5, "s")\nx = """\nregister_amd_ci(6, "s")\n')
def test_the_part_that_is_parsed_tells_what_the_whole_would(text: str) -> None:
    """Where a file parses, reading it up to its last mention gives what the whole gives."""
    data = text.encode()
    expected = whole(data)
    event(f"parses: {expected is not None}")
    if expected is not None:
        assert reader.read("test_x.py", data) == expected


# ------------------------------------------------------------------ no crash

BYTES = st.one_of(
    st.binary(max_size=200),
    st.lists(
        st.one_of(
            st.binary(max_size=6),
            st.sampled_from(
                [
                    b"register_amd_ci",
                    b"register_rocm_ci",
                    b"(5, 's')",
                    b"(",
                    b")",
                    b"\n",
                    b"\r\n",
                    b"\xef\xbb\xbf",
                    b"# coding: ",
                    b"import ",
                    b" as ",
                    b"*",
                    b"**",
                    b"=",
                    "ｒ".encode(),  # noqa: RUF001 - a compatibility character is the point
                    *(word.encode() + b" " for word in keyword.kwlist),
                ]
            ),
        ),
        max_size=20,
    ).map(b"".join),
)


@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
@settings(max_examples=500)
@given(data=BYTES, thorough=st.booleans())
def test_no_bytes_crash_the_reader(*, data: bytes, thorough: bool) -> None:
    """Any bytes give a result, whose problems can be printed and have a place in the file."""
    result = reader.read("test_x.py", data, thorough=thorough)
    for problem in (*result.problems, *result.remarks):
        assert str(problem).startswith("test_x.py")
        assert 0 <= problem.line <= data.count(b"\n") + data.count(b"\r") + 2
        assert "\n" not in str(problem)


@given(st.text(max_size=60))
def test_disabled_takes_any_text_or_says_why_not(text: str) -> None:
    """A text without a bracket of keys is the reason as it stands."""
    result = reader.read("test_x.py", f'register_amd_ci(5, "s", disabled={text!r})\n'.encode())
    if text.strip() and "[" not in text:
        assert result.registrations[0].disabled == Disabled(reason=text.strip())
    assert len(result.registrations) + len(result.problems) == 1
