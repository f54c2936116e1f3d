"""One session from request to verdict: plan, check the hardware, make, run, tell."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hwmatrix import backends, environments, placing, planning, reporting, runfolder, supervise
from hwmatrix import matrix as matrix_stage
from hwmatrix.app import assets, origin, resume, screen, truth
from hwmatrix.errors import RetiredVariantError, RunFolderError, UsageError
from hwmatrix.model import Backend, Isolation, RunSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hwmatrix.app.place import Place
    from hwmatrix.app.request import SessionRequest
    from hwmatrix.model import (
        Environment,
        Matrix,
        Plan,
        Probe,
        RunnerConfig,
        SessionName,
        Slot,
        Variant,
    )

LEASE_WAIT = "HWMATRIX_LEASE_WAIT_S"
# Another session's suite takes up to its job's limit, an hour or so; half of that is a guess at
# when waiting pays more than a second machine.
LEASE_WAIT_S = 1800.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A session planned: nothing installed, nothing run."""

    matrix: Matrix
    session: SessionName
    plan: Plan


def prepare(request: SessionRequest, place: Place) -> Prepared:
    """Return the plan of the session asked for; needs no device and no torch.

    Raises:
        HwMatrixError: any finding about table, registrations or plan.
    """
    facts = truth.read(place)
    session = matrix_stage.find_session(facts.matrix, request.name)
    if session.retired:
        raise RetiredVariantError(
            f"{session.name}: variant {session.variant} is retired: {session.retired} "
            f"Current: {facts.matrix.backends[session.backend].default_variant}."
        )
    truth.check(facts, session, place)
    plan = planning.make_plan(
        facts.matrix,
        session,
        facts.assignment,
        suites=request.suites,
        shard=request.shard,
        shards=request.shards,
        paths=tuple(_from_root(path, place) for path in request.paths),
        allow_empty=request.allow_empty,
    )
    return Prepared(matrix=facts.matrix, session=session, plan=plan)


def _from_root(path: str, place: Place) -> str:
    """Return `path` (from the root or from here, with or without `::test`) as from the root."""
    name, mark, rest = path.partition("::")
    base = place.root if (place.root / name).exists() else place.cwd
    return Path(os.path.relpath(base / name, place.root)).as_posix() + mark + rest


def run(
    request: SessionRequest, place: Place, *, announce: Callable[[Path], None] | None = None
) -> int:
    """Return the exit status: 0 for a green verdict, 1 for a red one, 14 where assets alone lack.

    `announce` is told the run's folder before anything runs in it.

    Raises:
        HwMatrixError: what stopped the session before anything ran; its class has the status.
    """
    began = time.monotonic()
    prepared = prepare(request, place)
    earlier = resume.earlier(request.resume, request.name, place) if request.resume else None
    if earlier is not None:
        prepared = replace(prepared, plan=earlier.spec.plan)
    plan = prepared.plan
    if request.plan_only:
        assets.needs_of(prepared, plan.mine, place)  # what is wrong with them is told now
        screen.show_plan(plan, request, place)
        return 0
    if not plan.mine:
        place.say(f"{plan.session}: nothing to do, as --allow-empty allows. Nothing was run.")
        return 0
    done = earlier.done if earlier is not None else ()
    units = tuple(unit for unit in plan.mine if unit.id not in done)
    needs = assets.needs_of(prepared, units, place)
    root = Path(place.env.get(runfolder.DEVICE_ROOT) or "/")
    probe = backends.BACKENDS[plan.backend].probe(place.env, root)
    variant = _variant(prepared)
    configs = _runner_configs(prepared)
    backends.check(probe, configs, plan.backend, session=plan.session, toolkit=variant.toolkit)
    for config in configs:
        probe = backends.fitting(probe, config)
    slots = _slots(probe, plan, request, place)
    environment = _environment(request, variant, slots[0], place)
    withheld = assets.provide(needs, environment, place, fetch=not request.no_fetch)
    environment = replace(environment, env=assets.offline_env(needs, environment, place))
    setup_s = time.monotonic() - began
    keys = [device.key for device in probe.devices]
    wanted = len({device.key for slot in slots for device in slot.devices})
    with supervise.leased(keys, _lease_terms(plan, place), wanted=wanted) as lease:
        if plan.backend is not Backend.CPU:  # a rank is no one's
            held = tuple(device for device in probe.devices if device.key in lease.keys)
            slots = _slots(replace(probe, devices=held), plan, request, place)
        slots = lease.ports(slots)
        spec = _spec(request, prepared, environment, slots, place, setup_s=setup_s)
        spec = earlier.goes_on_as(spec) if earlier is not None else spec
        spec = replace(spec, done=(*spec.done, *withheld))
        screen.show_start(spec, environment, probe, place)
        return _execute(spec, request, place, announce, withheld)


def _slots(probe: Probe, plan: Plan, request: SessionRequest, place: Place) -> tuple[Slot, ...]:
    """Make the slots that the plan's units need of the devices that there are."""
    return backends.make_slots(
        probe,
        widths={unit.devices for unit in plan.mine},
        count=request.slots,
        env=place.env,
        cores=backends.usable_cores(),
    )


def _lease_terms(plan: Plan, place: Place) -> supervise.Terms:
    """How this session waits for devices that another one holds; ranks of cpu are no one's.

    Raises:
        UsageError: `HWMATRIX_LEASE_WAIT_S` is no number of seconds.
    """
    given = place.env.get(LEASE_WAIT, "")
    try:
        wait_s = float(given) if given else LEASE_WAIT_S
    except ValueError:
        raise UsageError(f"{LEASE_WAIT}={given!r} is not a number of seconds.") from None
    return supervise.Terms(
        folder=supervise.folder_of(place.env),
        session=plan.session,
        wait_s=wait_s,
        say=place.say,
        devices=plan.backend is not Backend.CPU,
        exclusive=any(unit.exclusive for unit in plan.mine),
    )


def _runner_configs(prepared: Prepared) -> tuple[RunnerConfig, ...]:
    """The machine shapes that the planned suites ask for, each once."""
    planned = {unit.suite for unit in prepared.plan.mine}
    names = dict.fromkeys(
        suite.runner_config
        for suite in prepared.matrix.suites
        if suite.backend is prepared.plan.backend and suite.name in planned
    )
    return tuple(prepared.matrix.runner_configs[name] for name in names)


def _variant(prepared: Prepared) -> Variant:
    """The build of torch that the session names."""
    row = prepared.matrix.backends[prepared.plan.backend]
    return row.variants[prepared.plan.variant]


def _environment(
    request: SessionRequest, variant: Variant, slot: Slot, place: Place
) -> Environment:
    """Make the environment under test, or take the one that is there (`--no-venv`)."""
    return environments.make(
        variant,
        torch_check=backends.BACKENDS[variant.backend].torch_check,
        slot=slot,
        root=place.root,
        state=place.state,
        env=place.env,
        overlay=Path(request.overlay).resolve() if request.overlay else None,
        no_venv=request.no_venv,
        say=place.say,
    )


def _spec(
    request: SessionRequest,
    prepared: Prepared,
    environment: Environment,
    slots: Sequence[Slot],
    place: Place,
    *,
    setup_s: float,
) -> RunSpec:
    """Everything that the processes of the run need, in one value.

    `setup_s` is what set-up has taken: what it has left of its time is the run's. The run starts
    processes of its own before the first unit begins, so it gets at least a file's start-up
    allowance on top of its deadline.
    """
    plan = prepared.plan
    start_s = max(plan.setup_s - setup_s, prepared.matrix.tiers[plan.tier].budget.startup_s)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    run_id = f"{plan.session}-{stamp}-{os.getpid()}"
    fail_fast = plan.fail_fast and not request.continue_on_error
    return RunSpec(
        run_id=run_id,
        plan=plan,
        root=str(place.root),
        folder=str(place.state / "runs" / run_id),
        python=environment.python,
        slots=tuple(slots),
        at_once=request.slots or 0,
        pytest_args=request.pytest_args,
        selection=request.selects,
        fail_fast=fail_fast,
        max_failures=request.max_failures or (1 if fail_fast else 0),
        deadline_s=start_s
        + planning.deadline_s(
            plan,
            prepared.matrix,
            [placing.place_of(slot) for slot in slots],
            at_once=request.slots or 0,
        ),
        isolation=Isolation.FORK,
        preload=prepared.matrix.backends[plan.backend].preload,
        retries=prepared.matrix.tiers[plan.tier].retries,
        env=environment.env,
        commit=origin.commit(place.root, place.env),
        table_hash=origin.table_hash(place.table),
        command=reporting.session_words(plan.session, nox="HWMATRIX_PARENT" in place.env),
        options=reporting.session_options(
            suites=request.suites,
            no_venv=request.no_venv,
            overlay=request.overlay,
            slots=request.slots,
            continue_on_error=request.continue_on_error,
        ),
        setup_s=setup_s,
    )


def _execute(
    spec: RunSpec,
    request: SessionRequest,
    place: Place,
    announce: Callable[[Path], None] | None,
    withheld: Mapping[str, str],
) -> int:
    """Run under supervision with the live view, then tell what the journal says.

    `withheld` are units that lack an asset, with the reason: not run, and red.
    """
    folder = Path(spec.folder)
    try:
        folder.mkdir(parents=True, exist_ok=bool(spec.resumed))
        _point_latest(folder)
        assets.withhold(folder, withheld, place)
    except OSError as error:
        raise RunFolderError(
            f"{folder}: cannot be made ({error}). Free space or give permission, or set "
            "HWMATRIX_STATE to another folder. Nothing was run."
        ) from error
    if announce is not None:
        announce(folder)
    live = screen.live_view(spec, folder, place)
    ending = supervise.run(spec, env=place.env, tick=live.tick)
    live.finish()
    if ending.reason:
        place.say(f"{spec.plan.session}: the run ended early: {ending.reason}.")
    status = screen.show_report(folder, place, as_json=request.json, known=live.known())
    status = assets.status(folder, status, withheld, place)
    # A shell, and the CI runner behind it, must see that a signal ended this, whatever the verdict.
    return 128 + ending.signal if ending.signal else status


def _point_latest(folder: Path) -> None:
    """Make `runs/latest` name this run; two sessions may do so at once."""
    link = folder.parent / f".latest-{os.getpid()}"
    link.unlink(missing_ok=True)
    link.symlink_to(folder.name)
    link.replace(folder.parent / "latest")
