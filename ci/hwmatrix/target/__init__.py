"""What runs in the environment under test: the xdist plugin, the slot's server, the child.

    controller   outer pytest, started by the supervisor; hands units to workers (plugin, scheduler)
    worker       one per slot; journals and relays what the child reports (worker, relay)
    slot server  one per slot; starts the child, holds its budget, sweeps after it (server, watch)
    child        one per unit; an ordinary pytest run of the file (child, reporter)

Standard library, pytest and execnet; only `plugin`, `controller`, `scheduler` and `worker` know
that xdist carries the messages.
"""
