"""Who reads, writes and frees memory on a CUDA device, and when: streams of torch, other programs, deleted programs, captured calls."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import autocomp
from autocomp.errors import AutocompError, ModelError
from autocomp.runtime.inputs import random_inputs
from tests.helpers.device_graphs import graph

torch = pytest.importorskip("torch")

N = 1024
SQUARE = f"f16[{N}, {N}]"
TWICE = graph({"x": SQUARE}, "%0 = mul(x, const(2, f16))")
CHAIN = graph({"x": SQUARE, "w": SQUARE}, "%0 = matmul(x, w)\n%1 = softmax(%0, axes=[1])\n%2 = matmul(%1, x)")
WEIGHTS = f"graph g\nparam w: {SQUARE} = random(3)\ninput x: {SQUARE}\n%0 = matmul(x, w)\n%1 = softmax(%0, axes=[1])\noutput y = %1\n"


def compiled(text: str):
    return autocomp.optimize(text, target="cuda")


def numbers(*shape: int):
    return torch.randn(shape, device="cuda", dtype=torch.float16) * 0.1


def long_work():
    """Work of about a millisecond on the current stream."""
    big = numbers(4096, 4096)
    for _ in range(8):
        big = big @ big


def test_a_result_that_one_stream_reads_is_not_another_call_s_memory():
    program, x = compiled(TWICE), numbers(N, N)
    zeros = torch.zeros_like(x)
    one, two = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    for _ in range(10):
        with torch.cuda.stream(one):
            y = program(x)
            long_work()
            read = y.clone()
            del y  # the clone has not run yet
        with torch.cuda.stream(two):
            others = [program(zeros) for _ in range(4)]
        torch.cuda.synchronize()
        assert torch.equal(read, x * 2)
        del others


def test_a_bound_call_outlives_its_program():
    program, x = compiled(WEIGHTS), numbers(N, N)
    want = program(x)
    start, outputs = program.executor.bind({"x": x})
    stream, upload = program.executor.device.create_stream(), compiled(TWICE).executor._upload
    del program
    gc.collect()
    torch.cuda.synchronize()
    filling = [upload(np.full((N, N), 7, np.float16)) for _ in range(8)]  # what was freed is taken and overwritten
    start(stream)
    stream.sync()
    assert torch.equal(torch.from_dlpack(outputs["y"]), want)
    del filling


def test_a_program_may_go_while_its_kernels_run():
    x = numbers(N, N)
    want = compiled(CHAIN)(x, x)
    for _ in range(3):
        long_work()
        assert torch.equal(compiled(CHAIN)(x, x), want)


def test_results_of_one_program_go_into_another_in_order():
    first, second = compiled(CHAIN), compiled(TWICE)
    start, outputs = first.executor.bind(random_inputs(first.graph, 1))
    start(first.executor.stream)
    want = outputs["out"].numpy() * np.float16(2)
    for _ in range(20):
        outputs["out"].buffer.fill(b"\xff", stream=first.executor.stream)
        start(first.executor.stream)
        y = second.run({"x": outputs["out"]})["out"]
        outputs["out"].buffer.fill(b"\xff", stream=first.executor.stream)
        np.testing.assert_array_equal(y.numpy(), want)


def test_two_names_of_one_result_are_two_tensors():
    program = compiled("graph g\ninput x: f32[8]\n%0 = exp(x)\noutput a = %0\noutput b = %0\n")
    a, b = program(torch.zeros(8, device="cuda"))
    a += 1
    assert torch.equal(b, torch.ones_like(b))


def test_torch_captures_a_call():
    program, x, w = compiled(CHAIN), numbers(N, N), numbers(N, N)
    with pytest.raises(AutocompError, match="CUDA graph cannot capture"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        program(x, w)
    program(x, w)
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        y = program(x, w)
    for _ in range(3):
        x.copy_(numbers(N, N))
        recorded.replay()
        assert torch.equal(y, program(x, w))
    del program
    gc.collect()
    want = y.clone()
    y.zero_()
    recorded.replay()
    assert torch.equal(y, want)


def test_memory_is_given_back():
    program, x, w = compiled(CHAIN), numbers(N, N), numbers(N, N)
    program(x, w)
    feed = random_inputs(program.graph, 0)

    def use() -> int:
        for _ in range(200):
            program(x, w)
        for _ in range(10):
            program.run(feed)
            program.executor.bind({"x": x, "w": w})
        gc.collect()
        torch.cuda.synchronize()
        return torch.cuda.mem_get_info()[0]

    free = [use() for _ in range(5)]  # other processes take and give back memory too; what leaks is gone after every round
    assert min(before - after for before, after in zip(free, free[1:])) < 8 << 20


def test_tensors_that_are_more_than_their_memory_are_refused_or_computed():
    program = compiled(graph({"x": "f32[8, 8]"}, "%0 = exp(x)"))
    x = torch.randn(8, 8, device="cuda")
    for given, text in ((x.clone().requires_grad_(), "input 'x' records gradients"), (x.to_sparse(), "input 'x' is stored as"),
                        (torch.empty(8, 8, device="meta"), "meta")):  # fmt: skip
        with pytest.raises(ModelError, match=text):
            program(given)
    negative = torch._neg_view(x)  # as the imaginary part of a conjugate is
    assert negative.is_neg()
    torch.testing.assert_close(program(negative), (-x).exp())
