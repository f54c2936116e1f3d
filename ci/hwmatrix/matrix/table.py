"""The model of `ci/matrix.toml`: every key, what it takes, what it means, what holds without it."""

from __future__ import annotations

import dataclasses

from hwmatrix.matrix.ci_spec import CI, CONTAINER
from hwmatrix.matrix.gate_spec import GATE
from hwmatrix.matrix.spec import Field, Flag, Number, Rows, Table, Tables, Text, Texts
from hwmatrix.matrix.words import (
    BACKEND,
    ENV,
    INDEX,
    LINE,
    MODULE,
    NAME,
    RELATIVE,
    REQUIREMENT,
    SOME,
    TOOLKIT,
    TORCH,
)
from hwmatrix.model import Isolation

_YEAR_S = 366 * 86400.0
_YEAR_MINUTES = 366 * 1440.0

_BUDGET = Table(
    fields={
        "factor": Field(
            spec=Number(at_least=1, at_most=1000),
            about="How many times its file's estimate one test may take.",
            default=3.0,
        ),
        "floor_s": Field(
            spec=Number(above=0, at_most=_YEAR_S),
            about="Seconds that one test may take however small the estimate is.",
            default=30.0,
        ),
        "startup_s": Field(
            spec=Number(above=0, at_most=_YEAR_S),
            about="Seconds for an interpreter to start and import the heavy packages.",
            default=60.0,
        ),
        "grace_s": Field(
            spec=Number(above=0, at_most=_YEAR_S),
            about="Seconds left, at least, for the rest of a file of which one test hung.",
            default=30.0,
        ),
    }
)

# A tier's own rules have no defaults: what they leave out is as in the general ones.
_TIER_BUDGET = Table(
    fields={key: dataclasses.replace(row, default=None) for key, row in _BUDGET.fields.items()}
)

_RETRIES = Table(
    fields={
        "infra": Field(
            spec=Number(whole=True, at_least=0, at_most=3),
            about="How often a file runs again after a fault of the machine (device lost, out of "
            "memory, port taken, killed from outside); never after a failure of its own.",
            default=0,
        )
    }
)

_VARIANT = Table(
    fields={
        "torch": Field(
            spec=TORCH,
            about="The exact torch, pinned for every later install. Required unless retired.",
        ),
        "toolkit": Field(
            spec=TOOLKIT,
            about="The toolkit that this torch was built with; the guard asserts it.",
            default="",
        ),
        "index": Field(
            spec=INDEX,
            about="The index that torch comes from; a mirror can be set in the environment. "
            "Required unless retired.",
        ),
        "requirements": Field(
            spec=RELATIVE,
            about="The file of what else the tests need. Required unless retired.",
        ),
        "constraints": Field(
            spec=RELATIVE, about="A constraints file or hashed lock for it.", default=""
        ),
        "companions": Field(
            spec=Texts(item=REQUIREMENT),
            about="Packages without which this torch cannot use the device (torch-npu).",
            default=(),
        ),
        "retired": Field(
            spec=SOME,
            about="Why this variant is no longer tested; its sessions answer with this reason.",
            default="",
        ),
    }
)

_BACKEND_ROW = Table(
    fields={
        "default_variant": Field(
            spec=NAME,
            about="The variant of the sessions whose name has none. Required where there are "
            "variants.",
            default="",
        ),
        "preload": Field(
            spec=Texts(item=MODULE),
            about="Modules that a fork server imports once; they must not touch a device.",
            default=(),
        ),
        "setup_s": Field(
            spec=Number(at_least=0, at_most=_YEAR_S),
            about="Seconds that each machine spends on its environment before tests run.",
            default=300.0,
        ),
        "env": Field(spec=ENV, about="Environment switches for all tests on this backend."),
        "variant": Field(
            spec=Rows(noun="variant", key=NAME, value=_VARIANT),
            about="Builds of torch. A backend without one can be planned but not run.",
        ),
        "container": Field(spec=CONTAINER, about="How its CI jobs run in a container, if so."),
    }
)

_TIER = Table(
    fields={
        "about": Field(spec=LINE, about="When it runs and how dear it is.", default=""),
        "nightly": Field(
            spec=Flag(),
            about="Whether registrations here say `nightly=True`: both or neither.",
            default=False,
        ),
        "fail_fast": Field(
            spec=Flag(), about="Whether the first failure stops the rest.", default=False
        ),
        "target_minutes": Field(
            spec=Number(at_least=0, at_most=_YEAR_MINUTES),
            about="What one CI job of this tier should take, set-up included; as `[ci]` says "
            "where 0.",
            default=0.0,
        ),
        "env": Field(spec=ENV, about="Environment switches, over those of the backend."),
        "budget": Field(
            spec=_TIER_BUDGET, about="Budget rules of this tier, over the general ones."
        ),
        "retries": Field(
            spec=_RETRIES,
            about="What runs a second time; a pass then is reported as flaky. Nothing by default.",
        ),
    }
)

_RUNNER = Table(
    fields={
        "about": Field(spec=LINE, about="What machine this is.", default=""),
        "devices": Field(
            spec=Number(whole=True, at_least=1, at_most=1024),
            about="Devices that one file owns while it runs. On cpu a device is a rank.",
            required=True,
        ),
        "slots": Field(
            spec=Number(whole=True, at_least=1, at_most=1024),
            about="How many files a machine of this shape runs side by side in the plan; the "
            "probe decides at run time.",
            default=1,
        ),
        "memory_gib": Field(
            spec=Number(at_least=0, at_most=1_000_000),
            about="Memory that each device must have; 0 for any.",
            default=0.0,
        ),
        "max_job_minutes": Field(
            spec=Number(above=0, at_most=_YEAR_MINUTES),
            about="What a CI job on this machine may take, set-up included.",
            required=True,
        ),
        "arch": Field(
            spec=Rows(noun="backend", key=BACKEND, value=Texts(item=NAME, at_least=1)),
            about="Architectures that will do, per backend (gfx942, sm_90); any where none is "
            "listed.",
        ),
        "labels": Field(
            spec=Rows(noun="backend", key=BACKEND, value=Texts(item=SOME, at_least=1)),
            about="Labels of the CI machines of this shape, per backend.",
        ),
    }
)

_SUITE = Table(
    fields={
        "tier": Field(spec=NAME, about="The tier that this suite belongs to.", required=True),
        "runner_config": Field(spec=NAME, about="The runner config that it needs.", required=True),
        "aliases": Field(
            spec=Texts(item=NAME),
            about="Older names that registrations may still use.",
            default=(),
        ),
        "isolation": Field(
            spec=Text(what="a way to start", choices=tuple(m.value for m in Isolation)),
            about="How its files' processes begin; the engine chooses where nothing is said.",
            default="",
        ),
        "exclusive": Field(
            spec=Flag(),
            about="True: each of its files has the host for itself, as performance tests need.",
            default=False,
        ),
        "about": Field(spec=LINE, about="What this suite proves.", default=""),
        "env": Field(spec=ENV, about="Environment switches, over those of tier and backend."),
    }
)

_PROJECT = Table(
    fields={
        "roots": Field(
            spec=Texts(item=RELATIVE, at_least=1),
            about="Folders whose files are searched for registrations.",
            default=("test/registered",),
        ),
        "python_files": Field(
            spec=Texts(item=SOME, at_least=1),
            about="Globs for the names of the files that must register.",
            default=("test_*.py",),
        ),
    }
)

TABLE = Table(
    fields={
        "version": Field(
            spec=Number(whole=True, at_least=1, at_most=1),
            about="The version of this format.",
            required=True,
        ),
        "project": Field(spec=_PROJECT, about="Where the test files are."),
        "budget": Field(spec=_BUDGET, about="How budgets follow from estimates, in every tier."),
        "backend": Field(
            spec=Rows(noun="backend", key=BACKEND, value=_BACKEND_ROW),
            about="Kinds of accelerators, with their builds of torch.",
            required=True,
        ),
        "tier": Field(
            spec=Rows(noun="tier", key=NAME, value=_TIER),
            about="When suites run and how dear they are, in the order in which they run.",
            required=True,
        ),
        "runner": Field(
            spec=Rows(noun="runner config", key=NAME, value=_RUNNER),
            about="Shapes of machines.",
            required=True,
        ),
        "suite": Field(
            spec=Rows(
                noun="backend",
                key=BACKEND,
                value=Rows(noun="suite", key=NAME, value=_SUITE),
            ),
            about="Suites, keyed by backend and name: `[suite.amd.extra-a-test-1-gpu-large-amd]`.",
            required=True,
        ),
        "gate": Field(
            spec=Tables(noun="rule", value=GATE),
            about="What each event of CI starts, and under which conditions.",
        ),
        "ci": Field(spec=CI, about="What holds for all jobs of CI."),
    }
)
