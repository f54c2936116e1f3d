from __future__ import annotations

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
with leases.leased([slot], terms):
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


def test_slots_get_ranges_of_ports_that_do_not_meet(terms: leases.Terms) -> None:
    slots = [slot("a", index=0), replace(slot("b", index=1), env={"KEPT": "1"})]
    with leases.leased(slots, terms) as made:
        first, second = (int(one.env[leases.PORT]) for one in made)
        assert abs(first - second) >= int(made[0].env[leases.PORTS])
        assert made[1].env["KEPT"] == "1"
        assert [one.devices for one in made] == [one.devices for one in slots]


def test_a_port_that_the_table_sets_stays(terms: leases.Terms) -> None:
    given = replace(slot("a"), env={leases.PORT: "9000"})
    with leases.leased([given], terms) as (made,):
        assert made.env[leases.PORT] == "9000"


def test_held_device_is_refused_and_its_holder_named(terms: leases.Terms) -> None:
    other = Other(terms.folder, "0000:01:00.0")
    with (
        pytest.raises(LeaseError, match=r"0000:01:00.0 is held by other-session \(pid \d+, since"),
        leases.leased([slot("0000:01:00.0")], terms),
    ):
        pass
    with leases.leased([slot("0000:02:00.0")], terms):
        pass
    other.end()


def test_waiting_says_so_and_goes_on_when_the_other_ends(
    terms: leases.Terms, said: list[str]
) -> None:
    other = Other(terms.folder, "a")

    def say(text: str) -> None:
        said.append(text)
        other.end()

    with leases.leased([slot("a")], replace(terms, wait_s=30.0, say=say)) as (made,):
        assert made.devices[0].key == "a"
    assert len(said) == 1
    assert said[0].startswith("waiting for device a, held by other-session")


def test_a_lock_does_not_outlive_its_process(terms: leases.Terms) -> None:
    Other(terms.folder, "a").kill()
    with leases.leased([slot("a")], terms):
        told = json.loads((terms.folder / "device-a.lock").read_text())
        assert (told["pid"], told["session"]) == (os.getpid(), "amd-stage-b")


def test_ranks_of_cpu_are_no_ones(terms: leases.Terms) -> None:
    other = Other(terms.folder, "rank0")
    with leases.leased([slot("rank0")], replace(terms, devices=False)) as (made,):
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
        leases.leased([slot("b")], mine),
    ):
        pass
    other.end()
    with leases.leased([slot("b")], mine) as made:
        assert len(made) == 1


def test_a_device_that_two_slots_share_is_locked_once(terms: leases.Terms) -> None:
    with leases.leased([slot("a", index=0), slot("a", index=1)], terms) as made:
        assert len(made) == 2


def test_no_range_of_ports_is_left(terms: leases.Terms, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "_RANGES", 1)
    with (
        pytest.raises(LeaseError, match="all port ranges from 20000 to 20049 are held"),
        leases.leased([slot("a", index=0), slot("b", index=1)], terms),
    ):
        pass
    with leases.leased([slot("a")], terms):
        pass


def test_folder_that_cannot_be_made(terms: leases.Terms, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    with (
        pytest.raises(LeaseError, match=r"cannot be made .* Set HWMATRIX_LEASES"),
        leases.leased([slot("a")], replace(terms, folder=blocked / "leases")),
    ):
        pass


def test_lock_that_cannot_be_opened(terms: leases.Terms) -> None:
    (terms.folder / "device-a.lock").mkdir(parents=True)
    with (
        pytest.raises(LeaseError, match="the lock cannot be opened"),
        leases.leased([slot("a")], terms),
    ):
        pass


def test_holder_that_left_no_name(terms: leases.Terms) -> None:
    other = Other(terms.folder, "a")
    (terms.folder / "device-a.lock").write_text("")
    with (
        pytest.raises(LeaseError, match="held by another session"),
        leases.leased([slot("a")], terms),
    ):
        pass
    other.end()


def test_folder_of_the_locks() -> None:
    assert leases.folder_of({leases.FOLDER: "/shared"}).as_posix() == "/shared"
    assert leases.folder_of({"TMPDIR": "/job"}).name == "hwmatrix-leases"
