"""The processes around a run: the guard starts a supervisor, and no process outlives the two.

    guard        the `hwmatrix session` process; waits, forwards signals, shows progress (guard)
    supervisor   in a session of its own; deadline, outer pytest, accounts (supervisor)

Both are subreapers, so each sweeps what the other would have when it is killed.
"""

from hwmatrix.supervise.guard import Ending, run
from hwmatrix.supervise.leases import Terms, folder_of, leased

__all__ = ["Ending", "Terms", "folder_of", "leased", "run"]
