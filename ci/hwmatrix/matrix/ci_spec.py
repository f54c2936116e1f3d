"""The model of `[ci]` and of a backend's `container` (docs/ci.md)."""

from __future__ import annotations

from hwmatrix.matrix.spec import Field, Number, Rows, Table, Text, Texts
from hwmatrix.matrix.words import NAME, RELATIVE, SOME

_DAY_S = 86400.0
_DAYS = 30

# An expression would be evaluated by the CI engine, and blanks or quotes have no place here.
_IMAGE = Text(
    word="image",
    what="a container image with its tag (not `latest`) or digest, without blanks",
    pattern=r"(?!.*:latest$)[A-Za-z0-9][A-Za-z0-9._/:-]*(:[A-Za-z0-9._-]+|@sha256:[0-9a-f]{64})",
)
_VOLUME = Text(
    word="volume",
    what="`source:target` or `source:target:ro`, without blanks",
    pattern=r"[A-Za-z0-9._/~-]+:/[A-Za-z0-9._/-]*(:ro|:rw)?",
)
_OPTIONS = Text(
    word="options",
    what="options of `docker create`: words of letters, digits and `=:,./_-`, no quotes",
    pattern=r"([A-Za-z0-9=:,./_-]+( [A-Za-z0-9=:,./_-]+)*)?",
)
_FOLDER = Text(
    word="folder",
    what="a folder, absolute or from the project's root, without blanks",
    pattern=r"(?!(.*/)?\.\.(/|$))[A-Za-z0-9._/-]+",
)
_PYTHON = Text(word="Python", what="a version such as 3.12", pattern=r"3\.[0-9]{1,2}(\.[0-9]+)?")

CONTAINER = Table(
    fields={
        "images": Field(
            spec=Rows(noun="variant", key=NAME, value=_IMAGE),
            about="The image in which the jobs of a variant run, with the torch that it has "
            "(`--no-venv`). Variants without one run on the machine itself.",
        ),
        "volumes": Field(
            spec=Texts(item=_VOLUME), about="Folders of the machine that it sees.", default=()
        ),
        "options": Field(
            spec=_OPTIONS, about="Devices, groups, shared memory: options for docker.", default=""
        ),
        "overlay": Field(
            spec=_FOLDER, about="The folder of what the image lacks (`--overlay`).", default=""
        ),
        "requirements": Field(
            spec=RELATIVE,
            about="What a job installs into `overlay` first, where that is not there.",
            default="",
        ),
    }
)

CI = Table(
    fields={
        "labels": Field(
            spec=Texts(item=SOME, at_least=1),
            about="Labels of the machine for what needs no device: plan, checks, finish.",
            default=("ubuntu-24.04",),
        ),
        "python": Field(
            spec=_PYTHON,
            about="The Python that jobs outside containers set up; that of the machine where "
            "empty.",
            default="",
        ),
        "checks": Field(
            spec=Texts(item=NAME, at_least=1),
            about="Nox sessions that every run must pass beside the table's own.",
            default=("lint-registrations",),
        ),
        "target_minutes": Field(
            spec=Number(at_least=0, at_most=_DAYS * 1440),
            about="What one job should take, set-up included: a session gets as few shards as "
            "that needs. 0 for as few as `max_job_minutes` allows.",
            default=0.0,
        ),
        "overhead_s": Field(
            spec=Number(at_least=0, at_most=_DAY_S),
            about="Seconds that a job spends around its session: checkout, interpreter, upload.",
            default=300.0,
        ),
        "max_parallel": Field(
            spec=Number(whole=True, at_least=0, at_most=256),
            about="Jobs that run side by side at most; 0 for as many as the engine runs.",
            default=0,
        ),
        "retention_days": Field(
            spec=Number(whole=True, at_least=1, at_most=90),
            about="Days for which reports are kept.",
            default=14,
        ),
    }
)
