"""A checkpoint written by four ranks is read back whole by one, by two, and in another layout.

torch.distributed.checkpoint stores each rank's shard; loading re-divides it. Values are integers
made from their place, so each element is checked, not a sum.

Teeth: the tensor read back is held against the layout transposed over the ranks (what a loader that
ignores offsets would give), a key that was never saved must be refused by name, and a shard file
cut short must not load.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from platform_facts import PLATFORM, rendezvous_port
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from hwmatrix import register_amd_ci, register_cpu_ci, register_cuda_ci, requires

register_cpu_ci(30, suite="stage-c-test-cpu-4-rank")
# cuda: not measured yet on four GPUs; copied from cpu. amd: copied from cuda.
register_cuda_ci(45, suite="stage-c-test-4-gpu")
register_amd_ci(45, suite="stage-c-test-4-gpu-amd")

RANKS = 4
ROWS, COLUMNS = 42, 12  # 42 rows do not divide by four: the shards differ in size


def whole(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.arange(ROWS * COLUMNS).view(ROWS, COLUMNS).to(dtype)


def placed(tensor: torch.Tensor, mesh, *placements) -> DTensor:
    return distribute_tensor(tensor.to(PLATFORM.device), mesh, placements)


def save(folder: str, mesh) -> None:
    state = {
        "rows": placed(whole(), mesh, Shard(0)),
        "columns": placed(whole(torch.bfloat16) % 256, mesh, Shard(1)),
        "copies": placed(whole(torch.int64), mesh, Replicate()),
        "step": 17,
    }
    shapes = sorted({tuple(state["rows"].to_local().shape)})
    assert shapes[0][0] < ROWS, "the tensor is sharded"
    dcp.save(state, checkpoint_id=folder)


def load_in_another_layout(folder: str, mesh) -> None:
    state = {
        "rows": placed(torch.zeros(ROWS, COLUMNS), mesh, Shard(1)),
        "columns": placed(torch.zeros(ROWS, COLUMNS, dtype=torch.bfloat16), mesh, Shard(0)),
        "copies": placed(torch.zeros(ROWS, COLUMNS, dtype=torch.int64), mesh, Shard(0)),
        "step": 0,
    }
    dcp.load(state, checkpoint_id=folder)
    rows = state["rows"].full_tensor().cpu()
    assert torch.equal(rows, whole())
    assert not torch.equal(rows, whole().flip(0)), "the values tell their place"
    assert torch.equal(state["columns"].full_tensor().cpu(), whole(torch.bfloat16) % 256)
    assert torch.equal(state["copies"].full_tensor().cpu(), whole(torch.int64))
    assert state["step"] == 17


def load_on_a_mesh_of_two_by_two(folder: str, _mesh) -> None:
    grid = init_device_mesh(PLATFORM.device, (2, 2))
    state = {"rows": placed(torch.zeros(ROWS, COLUMNS), grid, Shard(0), Shard(1))}
    assert state["rows"].to_local().shape == (ROWS // 2, COLUMNS // 2)
    dcp.load(state, checkpoint_id=folder)
    assert torch.equal(state["rows"].full_tensor().cpu(), whole())


def refuse_a_key_that_was_never_saved(folder: str, mesh) -> None:
    state = {"rowz": placed(torch.zeros(ROWS, COLUMNS), mesh, Shard(0))}
    with pytest.raises(CheckpointException, match="rowz"):
        dcp.load(state, checkpoint_id=folder)


CASES = (
    save,
    load_in_another_layout,
    load_on_a_mesh_of_two_by_two,
    refuse_a_key_that_was_never_saved,
)


def one_rank(rank: int, port: int, folder: str, failures) -> None:
    torch.set_num_threads(1)
    if PLATFORM.device != "cpu":
        getattr(torch, PLATFORM.device).set_device(rank)
    dist.init_process_group(
        PLATFORM.collectives,
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=RANKS,
        timeout=dt.timedelta(seconds=60),
    )
    try:
        mesh = init_device_mesh(PLATFORM.device, (RANKS,))
        for case in CASES:
            try:
                case(folder, mesh)
            except Exception as fault:  # noqa: BLE001 - told to the parent, case by case
                failures.append((case.__name__, rank, repr(fault)))
            dist.barrier()
    finally:
        dist.destroy_process_group()


@pytest.fixture(scope="module")
def run():
    """One run over four ranks: its failures (case, rank, error) and the folder it wrote."""
    with mp.get_context("spawn").Manager() as manager, tempfile.TemporaryDirectory() as folder:
        found = manager.list()
        mp.spawn(one_rank, args=(rendezvous_port(), folder, found), nprocs=RANKS)
        yield list(found), Path(folder)


@requires(devices=RANKS)
@pytest.mark.parametrize("name", [case.__name__ for case in CASES])
def test_over_four_ranks(name, run):
    failures, _ = run
    assert [failure for failure in failures if failure[0] == name] == []


@requires(devices=RANKS)
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled, unavailable or uninitialized")
def test_one_process_reads_what_four_wrote(run):
    _, folder = run
    assert len(list(folder.glob("*.distcp"))) == RANKS
    state = {"rows": torch.zeros(ROWS, COLUMNS), "step": 0}
    dcp.load(state, checkpoint_id=folder)
    assert torch.equal(state["rows"], whole())
    assert state["step"] == 17


@requires(devices=RANKS)
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled, unavailable or uninitialized")
def test_a_shard_cut_short_does_not_load(run, tmp_path):
    _, folder = run
    for source in folder.iterdir():
        data = source.read_bytes()
        cut = data[: len(data) // 2] if source.suffix == ".distcp" else data
        (tmp_path / source.name).write_bytes(cut)
    state = {"rows": torch.zeros(ROWS, COLUMNS)}
    with pytest.raises(CheckpointException, match="rank"):
        dcp.load(state, checkpoint_id=tmp_path)
