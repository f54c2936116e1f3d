"""Slots whose memory is held by someone else, on a device tree made of files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwmatrix.model import Backend

if TYPE_CHECKING:
    from test.integration.engine.conftest import Engine

ONE, TWO = "0000:01:00.0", "0000:02:00.0"
PASSES = "def test_passes():\n    pass\n"
# Once a slot is retired: else the other slot may be through with all units before that one is up.
PASSES_LATE = """
    import os, pathlib, time

    def test_passes():
        journal = pathlib.Path(os.environ["ENGINE_TEST_RUN"], "journal")
        while not any("SlotRetired" in path.read_text() for path in journal.iterdir()):
            time.sleep(0.02)
"""


def use(engine: Engine, key: str, mib: int) -> None:
    engine.env["HWMATRIX_DEVICE_ROOT"] = str(engine.root)
    folder = engine.root / "sys/bus/pci/devices" / key
    folder.mkdir(parents=True)
    (folder / "mem_info_vram_used").write_text(f"{mib << 20}\n")


def test_slot_that_does_not_come_clear_is_retired(engine: Engine) -> None:
    use(engine, ONE, 9000)
    use(engine, TWO, 100)
    units = engine.write(one=PASSES_LATE, two=PASSES_LATE, three=PASSES_LATE)
    result = engine.run(*units, backend=Backend.AMD, keys=[ONE, TWO])
    (retired,) = result.of("SlotRetired")
    assert retired["slot"] == 0
    assert f"{ONE}: 9000 MiB in use" in retired["reason"]
    for unit in units:
        assert result.end(unit)["cause"] == "finished"
        assert result.of("UnitStart", unit)[0]["slot"] == 1
    assert result.ending["reason"] == ""


def test_without_a_clear_slot_nothing_is_run(engine: Engine) -> None:
    use(engine, ONE, 9000)
    units = engine.write(one=PASSES, two=PASSES)
    result = engine.run(*units, backend=Backend.AMD, keys=[ONE])
    assert [line["unit"] for line in result.of("UnitNotRun")] == list(units)
    assert "no slot can be used any more" in result.ending["reason"]
