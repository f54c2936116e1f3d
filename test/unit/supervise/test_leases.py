from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hwmatrix.errors import LeaseError
from hwmatrix.model import Device, Slot
from hwmatrix.supervise import leases

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

HOLDS = """
import sys
from pathlib import Path
from hwmatrix.model import Device, Slot
from hwmatrix.supervise import leases
whole = sys.argv[3:] == ["exclusive"]
terms = leases.Terms(
    folder=Path(sys.argv[1]), session="other-session", wait_s=0, say=print, exclusive=whole
)
slot = Slot(index=0, devices=(Device(key=sys.argv[2], token="0"),))
keys = [device.key for device in slot.devices]
with leases.leased(keys, terms):
    print("held", flush=True)
    sys.stdin.read()
"""


def slot(*keys: str, index: int = 0) -> Slot:
    return Slot(index=index, devices=tuple(Device(key=key, token="0") for key in keys))


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def terms(tmp_path: Path, said: list[str]) -> leases.Terms:
    folder = tmp_path / "leases"
    return leases.Terms(folder=folder, session="amd-stage-b", wait_s=0, say=said.append)


class Other:
    """A session in another process that holds a device until `end`."""

    def __init__(self, folder: Path, key: str, *words: str) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-c", HOLDS, str(folder), key, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.popen.stdout is not None
        assert self.popen.stdout.readline() == b"held\n"

    def end(self) -> None:
        self.popen.communicate()

    def kill(self) -> None:
        self.popen.kill()
        self.popen.communicate()


@contextlib.contextmanager
def leased(slots: Sequence[Slot], terms: leases.Terms) -> Iterator[tuple[Slot, ...]]:
    """Hold all devices of the slots, and a range of ports each."""
    keys = dict.fromkeys(device.key for one in slots for device in one.devices)
    with leases.leased(list(keys), terms) as lease:
        assert lease.keys == frozenset(keys)
        yield lease.ports(slots)


def test_slots_get_ranges_of_ports_that_do_not_meet(terms: leases.Terms) -> None:
    slots = [slot("a", index=0), replace(slot("b", index=1), env={"KEPT": "1"})]
    with leased(slots, terms) as made:
        first, second = (int(one.env[leases.PORT]) for one in made)
        assert abs(first - second) >= int(made[0].env[leases.PORTS])
        assert made[1].env["KEPT"] == "1"
        assert [one.devices for one in made] == [one.devices for one in slots]


def test_a_port_that_the_table_sets_stays(terms: leases.Terms) -> None:
    given = replace(slot("a"), env={leases.PORT: "9000"})
    with leased([given], terms) as (made,):
        assert made.env[leases.PORT] == "9000"


def test_held_device_is_refused_and_its_holder_named(terms: leases.Terms) -> None:
    other = Other(terms.folder, "0000:01:00.0")
    with (
        pytest.raises(LeaseError, match=r"0000:01:00.0 is held by other-session \(pid \d+, since"),
        leased([slot("0000:01:00.0")], terms),
    ):
        pass
    with leased([slot("0000:02:00.0")], terms):
        pass
    other.end()


def test_waiting_says_so_and_goes_on_when_the_other_ends(
    terms: leases.Terms, said: list[str]
) -> None:
    other = Other(terms.folder, "a")

    def say(text: str) -> None:
        said.append(text)
        other.end()

    with leased([slot("a")], replace(terms, wait_s=30.0, say=say)) as (made,):
        assert made.devices[0].key == "a"
    assert len(said) == 1
    assert said[0].startswith("waiting for device a, held by other-session")


def test_a_lock_does_not_outlive_its_process(terms: leases.Terms) -> None:
    Other(terms.folder, "a").kill()
    with leased([slot("a")], terms):
        told = json.loads((terms.folder / "device-a.lock").read_text())
        assert (told["pid"], told["session"]) == (os.getpid(), "amd-stage-b")


def test_ranks_of_cpu_are_no_ones(terms: leases.Terms) -> None:
    other = Other(terms.folder, "rank0")
    with leased([slot("rank0")], replace(terms, devices=False)) as (made,):
        assert leases.PORT in made.env
    other.end()


@pytest.mark.parametrize(("theirs", "ours"), [(["exclusive"], False), ([], True)])
def test_a_session_that_wants_the_host_and_others_wait_for_each_other(
    terms: leases.Terms, theirs: list[str], *, ours: bool
) -> None:
    mine = replace(terms, exclusive=ours, devices=False)
    other = Other(terms.folder, "a", *theirs)
    with (
        pytest.raises(LeaseError, match=r"the host is held by other-session .* another host"),
        leased([slot("b")], mine),
    ):
        pass
    other.end()
    with leased([slot("b")], mine) as made:
        assert len(made) == 1


def test_a_device_that_two_slots_share_is_locked_once(terms: leases.Terms) -> None:
    with leased([slot("a", index=0), slot("a", index=1)], terms) as made:
        assert len(made) == 2


def test_a_session_that_waits_for_the_host_is_not_overtaken(terms: leases.Terms) -> None:
    first = Other(terms.folder, "a")
    late: list[str] = []

    def say(text: str) -> None:
        late.append(text)
        # A third one comes while the second, which wants the host whole, waits.
        with (
            pytest.raises(LeaseError, match="a turn on the host is held by amd-stage-b"),
            leased([slot("b")], replace(terms, say=late.append)),
        ):
            pass
        first.end()

    whole = replace(terms, exclusive=True, wait_s=30.0, say=say)
    with leases.leased(["c"], whole) as lease:
        assert lease.keys == {"c"}
    assert late[0].startswith("waiting for the host, held by other-session")


def test_fewer_than_all_are_taken_where_they_are_free(terms: leases.Terms, said: list[str]) -> None:
    other = Other(terms.folder, "b")
    with leases.leased(["a", "b", "c"], terms, wanted=2) as lease:
        assert lease.keys == {"a", "c"}
        third = Other(terms.folder, "d")  # what was not wanted is free for others
        third.end()
    other.end()
    assert said == []


def test_where_too_few_are_free_the_first_are_waited_for(
    terms: leases.Terms, said: list[str]
) -> None:
    other = Other(terms.folder, "a")

    def say(text: str) -> None:
        said.append(text)
        # Nothing is held meanwhile that another session might want first.
        Other(terms.folder, "b").end()
        other.end()

    waiting = replace(terms, wait_s=30.0, say=say)
    with leases.leased(["a", "b"], replace(waiting), wanted=2) as lease:
        assert lease.keys == {"a", "b"}
    second = Other(terms.folder, "a")
    third = Other(terms.folder, "c")
    with (
        pytest.raises(LeaseError, match="device a is held by other-session"),
        leases.leased(["a", "b", "c"], terms, wanted=2),
    ):
        pass
    for one in (second, third):
        one.end()


def test_no_range_of_ports_is_left(terms: leases.Terms, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "_RANGES", 1)
    with (
        pytest.raises(LeaseError, match="all port ranges from 20000 to 20049 are held"),
        leased([slot("a", index=0), slot("b", index=1)], terms),
    ):
        pass
    with leased([slot("a")], terms):
        pass


def test_folder_that_cannot_be_made(terms: leases.Terms, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    with (
        pytest.raises(LeaseError, match=r"cannot be made .* Set HWMATRIX_LEASES"),
        leased([slot("a")], replace(terms, folder=blocked / "leases")),
    ):
        pass


def test_lock_that_cannot_be_opened(terms: leases.Terms) -> None:
    (terms.folder / "device-a.lock").mkdir(parents=True)
    with (
        pytest.raises(LeaseError, match="the lock cannot be opened"),
        leased([slot("a")], terms),
    ):
        pass


def test_holder_that_left_no_name(terms: leases.Terms) -> None:
    other = Other(terms.folder, "a")
    (terms.folder / "device-a.lock").write_text("")
    with (
        pytest.raises(LeaseError, match="held by another session"),
        leased([slot("a")], terms),
    ):
        pass
    other.end()


def test_folder_of_the_locks() -> None:
    assert leases.folder_of({leases.FOLDER: "/shared"}).as_posix() == "/shared"
    assert leases.folder_of({"TMPDIR": "/job"}).name == "hwmatrix-leases"
