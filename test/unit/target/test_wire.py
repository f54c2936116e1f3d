from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from hwmatrix.target.wire import Control, Frames, GoneError, Request, frame

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUEST = Request(
    unit="a.py",
    selectors=("a.py",),
    options=("-x", "--timeout-method=signal"),
    cwd="/root",
    log="/run/a.log",
    stacks="/run/a.stacks",
    temporary="/tmp/a",
    test_limit_s=1.5,
    budget_s=3.0,
    worker_input={"workerid": "gw0"},
    done=("a.py::test",),
    env={"A": "B"},
    isolation="fork",
)


@pytest.fixture
def pair() -> Iterator[tuple[Control, Control]]:
    one, other = socket.socketpair()
    ends = Control(one), Control(other)
    yield ends
    for end in ends:
        end.close()


def test_request_round_trip() -> None:
    assert Request.from_plain(REQUEST.to_plain()) == REQUEST
    assert REQUEST.args == ["a.py", "-x", "--timeout-method=signal"]


def test_control_carries_messages_and_descriptors(pair: tuple[Control, Control]) -> None:
    one, other = pair
    read, write = os.pipe()
    one.send({"do": "run", "request": REQUEST.to_plain()}, [write])
    one.send({"do": "stop"})
    messages = other.receive() or []
    while len(messages) < 2:
        messages += other.receive() or []
    assert [message["do"] for message in messages] == ["run", "stop"]
    assert Request.from_plain(messages[0]["request"]) == REQUEST
    arrived = other.take_descriptor()
    os.write(arrived, b"through")
    assert os.read(read, 10) == b"through"
    for descriptor in (read, write, arrived):
        os.close(descriptor)


def test_control_tells_when_the_other_end_is_gone() -> None:
    one, other = socket.socketpair()
    control = Control(one)
    other.close()
    assert control.receive() is None
    with pytest.raises(GoneError, match="Broken pipe"):
        control.send({"do": "stop"})
    control.close()


def test_frames_come_out_whole_however_they_are_cut() -> None:
    events: list[dict[str, object]] = [
        {"kind": "a", "n": (1, 2)},
        {"kind": "b", "text": "x" * 1000, "none": None},
    ]
    data = b"".join(frame(event) for event in events)
    read, write = os.pipe()
    frames = Frames(read)
    found = []
    for index in range(0, len(data), 13):
        os.write(write, data[index : index + 13])
        more, over = frames.read()
        found += more
        assert not over
    assert found == events
    assert isinstance(found[0]["n"], tuple)
    assert frames.read() == ([], False)
    os.close(write)
    assert frames.read() == ([], True)
    os.close(read)


def test_rest_reads_all_that_is_there() -> None:
    read, write = os.pipe()
    frames = Frames(read)
    for number in range(3):
        os.write(write, frame({"kind": "a", "number": number}))
    assert [event["number"] for event in frames.rest()] == [0, 1, 2]
    os.write(write, frame({"kind": "torn"})[:-1])
    os.close(write)
    assert frames.rest() == []
    os.close(read)


def test_what_cannot_be_carried_goes_as_its_repr() -> None:
    class Odd:
        def __repr__(self) -> str:
            return "<odd>"

    read, write = os.pipe()
    nested = {2: 1 << 80}
    event = {"kind": "a", "odd": [Odd(), (1, Odd())], "nested": nested, "set": {1}}
    os.write(write, frame(event))
    (found,) = Frames(read).rest()
    assert found["odd"] == ["<odd>", (1, "<odd>")]
    assert found["nested"] == {2: str(1 << 80)}
    assert found["set"] == "{1}"
    os.close(read)
    os.close(write)
