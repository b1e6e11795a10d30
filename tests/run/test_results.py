"""Memory of results: the same pages again once a result is gone, never while any view of it lives."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import autocomp
from autocomp.errors import ModelError
from autocomp.ir.builder import Builder
from autocomp.ir.types import F32, TensorType
from autocomp.runtime.given import host_array
from autocomp.runtime.pages import HUGE, SMALL, Pool, memory

N = SMALL // 4 + 12


def address(x: np.ndarray) -> int:
    return x.__array_interface__["data"][0]


@pytest.mark.parametrize("size", [0, 1, SMALL, HUGE - 1, HUGE + 5])
def test_memory_is_aligned_and_as_large_as_asked(size):
    m = memory(size)
    assert m.nbytes == size and (size == 0 or m.ctypes.data % 64 == 0)
    m[:] = 7
    if size >= HUGE:
        assert m.ctypes.data % HUGE == 0


def test_a_dropped_result_is_used_again():
    pool = Pool()
    a = pool.array((N,), "f4")
    at = address(a)
    del a
    assert address(pool.array((2, N // 2), "i4")) == at


@pytest.mark.parametrize("hold", [
    lambda a: a[3:5], lambda a: a.reshape(2, -1).T, lambda a: memoryview(a), lambda a: a.view("i4")[::2], lambda a: np.from_dlpack(a[4:]),
], ids=["slice", "transposed", "buffer", "cast", "dlpack"])  # fmt: skip
def test_a_view_keeps_a_result(hold):
    pool = Pool()
    a = pool.array((N,), "f4")
    at, view = address(a), hold(a)
    del a
    assert address(pool.array((N,), "f4")) != at
    del view
    assert address(pool.array((N,), "f4")) == at or address(pool.array((N,), "f4")) == at


def test_results_of_a_program_stay_what_they_were():
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        pytest.skip("no C compiler on PATH")
    program = autocomp.optimize(lambda x: x + 1, example_inputs=(np.zeros((200, 300), "f4"),))
    kept = [program(np.full((200, 300), i, "f4")) for i in range(5)]
    part = program(np.full((200, 300), 9, "f4"))[7:9]
    for i in range(5, 20):
        program(np.full((200, 300), i, "f4"))[...] = np.nan  # what a later call may be given: every element must be written
        assert (program(np.full((200, 300), i, "f4")) == i + 1).all()
    assert [(k == i + 1).all() for i, k in enumerate(kept)] == [True] * 5
    assert (part == 10).all()


def test_two_names_of_one_result_do_not_share_memory():
    b = Builder("names")
    x = b.input("x", TensorType(F32, (3, 5)))
    y = b.op("exp", x)
    for name, value in (("y", y), ("z", y), ("x1", x), ("x2", x)):
        b.output(name, value)
    program, feed = autocomp.optimize(b.graph()), {"x": np.zeros((3, 5), "f4")}
    got = program.run(feed)
    for written, kept, value in (("y", "z", 1), ("x1", "x2", 0)):
        got[written][...] = 7
        assert np.all(got[kept] == value)
    assert not feed["x"].any()


def test_what_numpy_cannot_read_is_refused_with_what_to_do():
    torch = pytest.importorskip("torch")
    program = autocomp.optimize(lambda x: x + 1, example_inputs=(np.zeros((2, 2), "f4"),))
    with pytest.raises(ModelError, match=r"NumPy cannot read a torch.Tensor: [\s\S]*next: give x.detach\(\).cpu\(\)"):
        program(torch.zeros(2, 2, requires_grad=True))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int8", "bool"])
def test_tensors_of_torch_give_tensors_of_torch(dtype):
    torch = pytest.importorskip("torch")
    x = torch.arange(-6, 6).reshape(3, 4).to(getattr(torch, dtype))
    module = type("Twice", (torch.nn.Module,), {"forward": lambda self, x: (x.T.contiguous(), x | x if dtype == "bool" else x + x)})()
    program = autocomp.optimize(module.eval(), example_inputs=(x,))
    for got, want in zip(program(x), module(x)):
        assert got.dtype == want.dtype
        assert torch.equal(got, want)
    assert isinstance(program(program.run({"x": np.zeros((3, 4), program.graph.inputs[0].type.dtype.numpy)})["output_0"].T)[0], np.ndarray)


def test_inputs_by_name():
    a, b = np.arange(3, dtype="f4"), np.ones(3, "f4")
    program = autocomp.optimize(lambda a, b: a - b, example_inputs=(a, b))
    for got in (program(a, b), program(a, b=b), program(b=b, a=a)):
        np.testing.assert_array_equal(got, a - b)
    for args, named, said in (((a,), {}, "1"), ((a, b), {"b": b}, "2, b"), ((a,), {"c": b}, "1, c"), ((a, b), {"c": b}, "2, c")):
        with pytest.raises(ModelError, match=rf"takes 2 inputs \(a, b\), got {said}$"):
            program(*args, **named)
    with pytest.raises(ModelError, match=r"wants f32\[3\], got f64\[3\]\n  next: convert it: x.astype\('float32'\)"):
        program(a.astype("f8"), b)


def test_the_imaginary_part_of_a_conjugate_has_its_sign():
    """torch keeps a flag beside the memory; DLPack hands out the memory alone."""
    torch = pytest.importorskip("torch")
    x = torch.complex(torch.zeros(4), torch.arange(4.0)).conj().imag
    assert x.is_neg()
    np.testing.assert_array_equal(host_array(x), -np.arange(4, dtype="f4"))
