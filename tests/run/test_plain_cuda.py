"""Plain calls of CUDA programs, as far as they can be looked at without a device (tests/gpu/test_runtime.py has the rest)."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace

import pytest

import autocomp
from autocomp.runtime.cuda import CudaExecutor
from autocomp.runtime.plain_cuda import KEPT, PlainCuda

TEXT = "graph g\ndim n in 1..100\ninput x: f32[n, 8]\n%0 = exp(x)\n%1 = reduce_sum(%0, axes=[1])\noutput y = %0\noutput z = %1\n"


def executor() -> CudaExecutor:
    program = autocomp.optimize(TEXT, target="cuda:h200")
    made = CudaExecutor.__new__(CudaExecutor)  # no device is here
    made.calls, made.slots, made.device = program.calls, program.slots, SimpleNamespace(device_id=0)
    made.plain = PlainCuda.of(made)
    return made


def test_what_is_no_tensor_on_the_device_is_left_to_run():
    torch = pytest.importorskip("torch")
    one = executor()
    x = torch.randn(4, 8)
    for args in ((x,), (x, x), (), (1,), (x.numpy(),), (x.to("meta"),), (torch.nn.Parameter(x),)):
        assert one.plain(one, args) is None


def test_sizes_are_read_from_shapes_and_wrong_ones_are_not_kept():
    one = executor()
    plain = one.plain
    plain._sized(one, ((7, 8),))
    assert plain._ready[((7, 8),)][:2] == ((7,), ((7, 8), (7,)))
    for wrong in ((101, 8), (7, 9), (7,)):
        plain._sized(one, (wrong,))
    assert len(plain._ready) == 1
    for n in range(1, 90):
        plain._sized(one, ((n, 8),))
    assert len(plain._ready) == KEPT and ((89, 8),) in plain._ready


def test_the_executor_goes_with_its_program_and_waits_first():
    """Without the collector, which would leave its memory on the device for as long."""
    one, left = executor(), []
    one.plain.leave = lambda: left.append(True)
    held = weakref.ref(one)
    gc.disable()
    try:
        del one
        assert held() is None and left == [True]
    finally:
        gc.enable()
