"""Streams order what they are told to order, and a captured graph replays what was captured.

Device only, and so registered for no CPU suite: a CPU has neither.

Teeth: a graph must not see work done after its capture, and must see what was put into its input
memory before the replay; both are held against the answer that a stale or an eager run would give.
"""

from __future__ import annotations

import unittest

import torch
from platform_facts import DEVICE, draw
from torch import nn

from hwmatrix import register_amd_ci, register_cuda_ci, register_xpu_ci, skip_on

register_cuda_ci(10, suite="stage-b-test-1-gpu-small")
# amd and xpu: copied from cuda, never measured there.
register_amd_ci(10, suite="stage-b-test-1-gpu-small-amd")
register_xpu_ci(10, suite="stage-b-test-1-gpu-xpu")

NO_STREAMS = "a CPU has no streams"
NO_GRAPHS = "torch captures graphs on CUDA and ROCm only"
SIZE = 1 << 20


def module():
    return getattr(torch, DEVICE)


@skip_on("cpu", reason=NO_STREAMS)
class TestStreams(unittest.TestCase):
    """Order within a stream, between streams, and elapsed time."""

    def test_a_stream_keeps_its_order(self) -> None:
        x = torch.zeros(SIZE, device=DEVICE)
        with module().stream(module().Stream()):
            for step in range(1, 101):
                x.add_(step)
        module().synchronize()
        self.assertTrue(bool((x == 5050).all()))

    def test_an_event_orders_two_streams(self) -> None:
        first, second = module().Stream(), module().Stream()
        for turn in range(10):
            x = torch.zeros(SIZE, device=DEVICE)
            module().synchronize()
            with module().stream(first):
                for _ in range(50):
                    x.add_(1)
                done = first.record_event()
            second.wait_event(done)
            with module().stream(second):
                x.mul_(3)
            module().synchronize()
            # The other order would give 50.
            self.assertTrue(bool((x == 150).all()), turn)

    def test_events_measure_time_and_completion(self) -> None:
        begin, end = (module().Event(enable_timing=True) for _ in range(2))
        a = draw(2048, 2048, seed=111, dtype=torch.float32)
        begin.record()
        for _ in range(20):
            a = torch.tanh(a @ a)
        end.record()
        end.synchronize()
        self.assertTrue(end.query())
        self.assertGreater(begin.elapsed_time(end), 0)

    def test_memory_freed_on_one_stream_is_not_reused_under_another(self) -> None:
        side = module().Stream()
        total = torch.zeros((), device=DEVICE, dtype=torch.float64)
        for turn in range(20):
            block = torch.full((SIZE,), float(turn), device=DEVICE)
            side.wait_stream(module().current_stream())
            with module().stream(side):
                total += block.double().sum()
            block.record_stream(side)
            del block
            torch.full((SIZE,), -1.0, device=DEVICE)
        module().synchronize()
        self.assertEqual(total.item(), float(SIZE * sum(range(20))))


@skip_on("cpu", "xpu", reason=NO_GRAPHS)
class TestGraphs(unittest.TestCase):
    """Capture and replay."""

    def setUp(self) -> None:
        torch.manual_seed(112)
        layers = (nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256))
        self.model = nn.Sequential(*layers).to(DEVICE).eval()
        self.input = draw(32, 256, seed=113, dtype=torch.float32)

    def capture(self):
        """Return a graph of the model and the memory that it writes."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.no_grad():
            for _ in range(3):
                self.model(self.input)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph), torch.no_grad():
            output = self.model(self.input)
        return graph, output

    def test_replay_equals_eager_on_new_input(self) -> None:
        graph, output = self.capture()
        for seed in (114, 115):
            self.input.copy_(draw(32, 256, seed=seed, dtype=torch.float32))
            stale = output.clone()
            graph.replay()
            with torch.no_grad():
                eager = self.model(self.input)
            torch.testing.assert_close(output, eager, rtol=1e-5, atol=1e-5)
            self.assertGreater((stale - eager).abs().max().item(), 0.01)

    def test_replay_sees_weights_changed_in_place(self) -> None:
        graph, output = self.capture()
        graph.replay()
        before = output.clone()
        with torch.no_grad():
            self.model[2].bias.add_(1)
        graph.replay()
        torch.testing.assert_close(output, before + 1, rtol=1e-5, atol=1e-5)

    def test_replayed_random_numbers_move_on(self) -> None:
        torch.cuda.manual_seed(116)
        drawn = torch.empty(SIZE, device=DEVICE)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            drawn.uniform_()
        graph.replay()
        first = drawn.clone()
        graph.replay()
        self.assertFalse(torch.equal(first, drawn))
        self.assertLess(abs(drawn.double().mean().item() - 0.5), 6 * 0.2887 / SIZE**0.5)

    def test_a_synchronising_call_cannot_be_captured(self) -> None:
        graph = torch.cuda.CUDAGraph()
        with self.assertRaises(RuntimeError), torch.cuda.graph(graph):
            self.input.sum().item()
        torch.cuda.synchronize()
        self.assertTrue(bool(self.input.isfinite().all()))
