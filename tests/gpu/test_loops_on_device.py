"""Programs with loops on a CUDA device: launches a step, a CUDA graph from the second run on, within other captures, in a saved folder."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

import autocomp
from autocomp.ir.types import Sym
from tests.helpers.loop_graphs import by_hand, check, feed, network
from tests.run.test_loops_on_gpus import odd


def compiled(model, **more):
    return autocomp.optimize(model, target="cuda", **more)


@pytest.mark.parametrize("trips", [0, 2, 7, 512])
def test_steps_one_behind_the_other(trips):
    """The first run launches every step, the second makes a graph, later ones start it."""
    program = compiled(network(trips))
    for seed in range(4):
        check(program.run(feed(trips, seed=seed)), by_hand(program.graph, feed(trips, seed=seed)))
    if trips:
        timing = program.profile(feed(trips), repeat=3)
        assert timing.total > 0 and timing.by_kernel.keys() == {k.name for k in program.kernels}
    assert program.verify().ratio <= 1


def test_open_steps_and_batch():
    program = compiled(network(Sym("steps", 1, 600), Sym("batch", 1, 9)))
    for trips, batch in ((1, 3), (70, 9), (512, 2), (1, 3), (512, 2), (512, 2)):
        check(program.run(feed(trips, batch)), by_hand(program.graph, feed(trips, batch)))


def test_slices_that_are_copied_apart():
    program = compiled(odd(300))
    assert all(x.begins and x.ends for x in program.calls.loops.values())
    for seed in range(3):
        program.verify(seed=seed)


def test_a_bound_call_is_one_graph():
    program = compiled(network(64))
    start, outputs = program.executor.bind(feed(64, seed=5))
    for _ in range(3):
        start()
    check({n: x.numpy() for n, x in outputs.items()}, by_hand(program.graph, feed(64, seed=5)))


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_torch_on_streams_and_in_captures(name):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    module = getattr(torch.nn, name)(64, 128, num_layers=2, bidirectional=True).eval()
    x = torch.randn(100, 3, 64)
    program = compiled(module, example_inputs=(x,))
    with torch.no_grad():
        wide = deepcopy(module).double()  # the program reads the module's own parameters
        want = wide(x.double())[0].numpy()
    given = x.cuda()
    for _ in range(4):
        np.testing.assert_allclose(program(given)[0].cpu().numpy(), want, rtol=1e-4, atol=1e-5)
    with torch.cuda.stream(torch.cuda.Stream()):
        got = program(given)[0]
        torch.cuda.current_stream().synchronize()
    np.testing.assert_allclose(got.cpu().numpy(), want, rtol=1e-4, atol=1e-5)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        out = program(given)[0]
    given.copy_(x.flip(0))
    captured.replay()
    torch.cuda.synchronize()
    with torch.no_grad():
        want = wide(x.double().flip(0))[0].numpy()
    np.testing.assert_allclose(out.cpu().numpy(), want, rtol=1e-4, atol=1e-5)


def test_a_compiled_module_runs_loops():
    torch = pytest.importorskip("torch")
    module = torch.nn.GRU(16, 32).eval().cuda()
    x = torch.randn(40, 2, 16, device="cuda")
    compiled_module = torch.compile(module, backend="autocomp")
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(compiled_module(x)[0], module(x)[0], rtol=1e-3, atol=1e-4)
