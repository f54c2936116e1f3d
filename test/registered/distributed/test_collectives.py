"""Collectives over four spawned ranks give exactly what one process computes.

Every rank fills its tensors with small integers made from its rank: sums in float32 are then
exact in any order, so results are compared for equality, not closeness.

Teeth: each check is also run against the answer that one rank less would give, and must differ
(`differs`): a collective that silently leaves a rank out, or returns its input, cannot pass.
"""

from __future__ import annotations

import datetime as dt

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from platform_facts import PLATFORM, rendezvous_port

from hwmatrix import register_amd_ci, register_cpu_ci, register_cuda_ci, requires

register_cpu_ci(20, suite="stage-c-test-cpu-4-rank")
# cuda: not measured yet on four GPUs; copied from cpu. amd: copied from cuda.
register_cuda_ci(25, suite="stage-c-test-4-gpu")
register_amd_ci(25, suite="stage-c-test-4-gpu-amd")

RANKS = 4
LENGTH = 1000


def part(rank: int, device: str, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return integers below 200 that tell rank and position."""
    return (torch.arange(LENGTH, device=device) % 97 + 31 * (rank + 1)).to(dtype)


def check(actual: torch.Tensor, expected: torch.Tensor, differs: torch.Tensor) -> None:
    assert torch.equal(actual, expected)
    assert not torch.equal(expected, differs), "the negative control cannot tell the ranks apart"


def all_reduce_sum(rank: int, device: str) -> None:
    tensor = part(rank, device)
    dist.all_reduce(tensor)
    parts = [part(r, device) for r in range(RANKS)]
    check(tensor, sum(parts), sum(parts[:-1]))


def all_reduce_max(rank: int, device: str) -> None:
    tensor = part(rank, device) * (1 if rank % 2 else -1)
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    parts = torch.stack([part(r, device) * (1 if r % 2 else -1) for r in range(RANKS)])
    check(tensor, parts.amax(0), parts[:-1].amax(0))


def all_reduce_bf16(rank: int, device: str) -> None:
    # Sums stay below 256: exact in bfloat16's eight bits.
    tensor = (part(rank, device) % 50).to(torch.bfloat16)
    dist.all_reduce(tensor)
    parts = [(part(r, device) % 50).to(torch.bfloat16) for r in range(RANKS)]
    check(tensor, sum(parts), sum(parts[:-1]))


def all_gather(rank: int, device: str) -> None:
    out = torch.empty(RANKS * LENGTH, device=device)
    dist.all_gather_into_tensor(out, part(rank, device))
    parts = [part(r, device) for r in range(RANKS)]
    check(out, torch.cat(parts), torch.cat(parts[::-1]))


def reduce_scatter(rank: int, device: str) -> None:
    full = torch.cat([part(rank, device) + 7 * r for r in range(RANKS)])
    out = torch.empty(LENGTH, device=device)
    dist.reduce_scatter_tensor(out, full)
    parts = [part(r, device) + 7 * rank for r in range(RANKS)]
    check(out, sum(parts), sum(parts[:-1]))


def all_to_all(rank: int, device: str) -> None:
    mine = torch.cat([part(rank, device) * 1000 + peer for peer in range(RANKS)])
    out = torch.empty_like(mine)
    dist.all_to_all_single(out, mine)
    check(out, torch.cat([part(r, device) * 1000 + rank for r in range(RANKS)]), mine)


def broadcast(rank: int, device: str) -> None:
    tensor = part(rank, device)
    dist.broadcast(tensor, src=2)
    check(tensor, part(2, device), part(0, device))


def send_and_receive_in_a_ring(rank: int, device: str) -> None:
    out = torch.empty(LENGTH, device=device)
    ops = [
        dist.P2POp(dist.isend, part(rank, device), (rank + 1) % RANKS),
        dist.P2POp(dist.irecv, out, (rank - 1) % RANKS),
    ]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    check(out, part((rank - 1) % RANKS, device), part(rank, device))


def two_groups_of_two(rank: int, device: str) -> None:
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    tensor = part(rank, device)
    dist.all_reduce(tensor, group=groups[rank // 2])
    first = rank // 2 * 2
    pair = part(first, device) + part(first + 1, device)
    check(tensor, pair, sum(part(r, device) for r in range(RANKS)))


CASES = (
    all_reduce_sum,
    all_reduce_max,
    all_reduce_bf16,
    all_gather,
    reduce_scatter,
    all_to_all,
    broadcast,
    send_and_receive_in_a_ring,
    two_groups_of_two,
)


def one_rank(rank: int, port: int, failures) -> None:
    torch.set_num_threads(1)
    device = PLATFORM.device if PLATFORM.device == "cpu" else f"{PLATFORM.device}:{rank}"
    if device != "cpu":
        getattr(torch, PLATFORM.device).set_device(rank)
    dist.init_process_group(
        PLATFORM.collectives,
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=RANKS,
        timeout=dt.timedelta(seconds=60),
    )
    try:
        for case in CASES:
            try:
                case(rank, device)
            except Exception as fault:  # noqa: BLE001 - told to the parent, case by case
                failures.append((case.__name__, rank, repr(fault)))
            dist.barrier()
    finally:
        dist.destroy_process_group()


@pytest.fixture(scope="module")
def failures():
    """What went wrong in one run of all cases over four ranks: (case, rank, error)."""
    with mp.get_context("spawn").Manager() as manager:
        found = manager.list()
        mp.spawn(one_rank, args=(rendezvous_port(), found), nprocs=RANKS)
        yield list(found)


@requires(devices=RANKS)
@pytest.mark.parametrize("name", [case.__name__ for case in CASES])
def test_collective(name, failures):
    assert [failure for failure in failures if failure[0] == name] == []
