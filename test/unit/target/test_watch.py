from __future__ import annotations

from hwmatrix.target import watch


def test_the_steps_of_a_kill_stay_below_five_seconds() -> None:
    """Tests on whole runs allow for machines that are very busy; the promise is kept here."""
    steps_s = (watch.ACK_S, watch.STACKS_S, watch.STACKS_S, watch.TERM_S, watch.KILL_S)
    assert sum(steps_s) < 5
