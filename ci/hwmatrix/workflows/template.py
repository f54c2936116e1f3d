"""The text of the workflow files; `render.py` puts the table's facts in place of `@WORDS@`.

Nothing of an event stands in a shell line: what steps need comes as variables, and arguments as a
JSON list that the session itself reads.
"""

from __future__ import annotations

MAIN = """\
@HEADER@
name: hwmatrix

on:
@EVENTS@

# A push to a pull request ends the run before it. A label that no gate row names starts nothing:
# it must neither end a run nor stand in for its result.
concurrency:
  group: ${{ github.workflow }}-${{ @PULL@ }}
  cancel-in-progress: ${{ github.event_name == 'pull_request' }}

permissions: {}

env:
  PYTHONPATH: ci

jobs:
  plan:
    name: hwmatrix plan
    if: ${{ @CONCERNS@ }}
    runs-on: @LABELS@
    timeout-minutes: 20
    permissions:
      contents: read # the table, the test files
      pull-requests: read # labels and changed files as they are now
    outputs:
      count: ${{ steps.jobs.outputs.count }}
      matrix: ${{ steps.jobs.outputs.matrix }}
      max_parallel: ${{ steps.jobs.outputs.max_parallel }}
    steps:
@CHECKOUT_STEP@
      - name: What this event starts
        run: python3 -m hwmatrix gate --json > decision.json
        env:
          GITHUB_TOKEN: ${{ github.token }}
          HWMATRIX_INPUTS: ${{ toJSON(inputs) }}
      - name: Jobs
        id: jobs
        run: python3 -m hwmatrix matrix --decision decision.json
      - name: Decision
        if: ${{ always() }}
        uses: @UPLOAD@
        with: { name: decision, path: decision.json, overwrite: true, retention-days: @DAYS@ }

  checks:
    name: hwmatrix checks
    if: ${{ @CONCERNS@ }}
    runs-on: @LABELS@
    timeout-minutes: 60
    permissions:
      contents: read # the tree that is checked
    steps:
@CHECKOUT_STEP@
      - name: Checks
        run: ./ci/nox -s @CHECKS@

  test:
    name: ${{ matrix.name }}
    needs: plan
    if: ${{ needs.plan.outputs.count != '0' }}
    strategy:
      fail-fast: false
      max-parallel: ${{ fromJSON(needs.plan.outputs.max_parallel) }}
      matrix: ${{ fromJSON(needs.plan.outputs.matrix) }}
    runs-on: ${{ matrix.runs_on }}
    container: ${{ matrix.container }} # zizmor: ignore[unpinned-images] the table refuses those
    timeout-minutes: ${{ matrix.timeout }}
    permissions:
      contents: read # the tree that is tested
    steps:
@TEST_CHECKOUT_STEP@
      - name: Packages that the image lacks
        if: ${{ matrix.requirements }}
        run: test -d "$OVERLAY" || python3 -m pip install --target "$OVERLAY" -r "$REQUIREMENTS"
        env:
          OVERLAY: ${{ matrix.overlay }}
          REQUIREMENTS: ${{ matrix.requirements }}
      - name: Session
        id: session
        run: |
          test -z "$IMAGE" || exec python3 -m hwmatrix session "$SESSION"
          exec ./ci/nox -s "$SESSION"
        env:
          HWMATRIX_ARGS: ${{ toJSON(matrix.args) }}
          HWMATRIX_ENV: ${{ toJSON(matrix.env) }}
          IMAGE: ${{ matrix.container.image }}
          SESSION: ${{ matrix.session }}
      - name: Report, whatever happened
        if: ${{ always() && steps.session.outputs.folder }}
        uses: @UPLOAD@
        with:
          name: ${{ matrix.report }}
          path: ${{ steps.session.outputs.folder }}
          include-hidden-files: true # runs lie under .hwmatrix
          overwrite: true # a job that runs again replaces its report
          retention-days: @DAYS@

  finish:
    name: ${{ (@CONCERNS@) && 'hwmatrix' || 'hwmatrix (unrelated label)' }}
    needs: [plan, checks, test]
    if: ${{ always() && (@CONCERNS@) }}
    runs-on: @LABELS@
    timeout-minutes: 20
    permissions:
      contents: read # the table, to plan again what should have run
    steps:
@CHECKOUT_STEP@
      - uses: @DOWNLOAD@
        with: { path: reports }
      - name: Verdict
        run: python3 -m hwmatrix finish reports --decision reports/decision/decision.json
        env:
          HWMATRIX_NEEDS: >-
            {"plan": "${{ needs.plan.result }}", "checks": "${{ needs.checks.result }}",
            "test": "${{ needs.test.result }}"}
"""

SCHEDULE = """\
@HEADER@
name: hwmatrix @NAME@

on:
  schedule:
    - cron: "@CRON@"

concurrency:
  group: ${{ github.workflow }}-schedule
  cancel-in-progress: false

permissions: {}

jobs:
  run:
    name: @NAME@
    uses: ./.github/workflows/hwmatrix.yml # zizmor: ignore[self-repository] read everywhere
    permissions:
      contents: read # the tree that is tested
      pull-requests: read # what the called workflow asks for; a schedule has none
"""

CHECKOUT_STEP = """\
      - uses: @CHECKOUT@
        with: { persist-credentials: false }
"""

PYTHON_STEP = """\
      - uses: @SETUP_PYTHON@
@IF@        with: { python-version: "@PYTHON@" }
"""

# A container brings its own Python.
OUTSIDE = "        if: ${{ !matrix.container }}\n"

INPUTS = {
    "session": "a session, as nox -s takes it",
    "backend": "cpu, cuda, amd ...",
    "tier": "stage-b, extra-a ...",
    "suite": "a suite",
    "variant": "a build of torch",
    "runner": "a runner config",
    "file": "a registered file, or FILE::TEST",
    "continue_on_error": "true: a failure does not stop the rest",
}
