"""Tensors whose axes lie in another order than they are named: read where they lie, and results lie as torch's do."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import autocomp
from autocomp.errors import ModelError, UnsupportedOp
from autocomp.ir.orders import as_named, in_memory_order, inverse, order_of, turned
from autocomp.runtime.device_array import DeviceArray
from autocomp.runtime.inputs import random_inputs

torch = pytest.importorskip("torch", reason="torch is not installed")
nn = torch.nn
LAST = torch.channels_last


def compiled(module, *xs, **options):
    return autocomp.optimize(module.eval(), example_inputs=xs, target="cpu", **options)


@pytest.mark.parametrize(("shape", "strides", "order"), [
    ((2, 3, 4), (12, 4, 1), None), ((2, 3, 4), (12, 1, 3), (0, 2, 1)), ((4, 3), (1, 4), (1, 0)),
    ((2, 8, 5, 6), (240, 1, 48, 8), (0, 2, 3, 1)),
    ((2, 3, 4), (0, 4, 1), None), ((2, 3), (6, 2), None), ((1, 8, 5, 1), (40, 1, 8, 8), (0, 2, 3, 1)), ((3, 1, 1), (1, 7, 9), None),
    ((), (), None),
])  # fmt: skip
def test_an_order_is_that_of_a_dense_array(shape, strides, order):
    assert order_of(shape, strides) == order


def test_turning_there_and_back():
    x = np.arange(24).reshape(2, 3, 4)
    for order in ((1, 2, 0), (2, 0, 1), (0, 2, 1)):
        back = as_named(in_memory_order({"x": x}, {"x": order}), {"x": order})["x"]
        assert back.base is x.base and np.array_equal(back, x)
        assert turned(turned(x, order), inverse(order)).strides == x.strides


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm, self.second = nn.Conv2d(5, 12, 3, padding=1), nn.BatchNorm2d(12), nn.Conv2d(12, 7, 3, stride=2)

    def forward(self, x):
        y = torch.relu(self.norm(self.first(x)))
        return self.second(y), nn.functional.max_pool2d(y, 2), y.mean((2, 3))


def test_channels_last_in_and_out():
    module, x = Convolutions(), torch.randn(2, 5, 9, 11).to(memory_format=LAST)
    program = compiled(module, x)
    (lies,) = (n.type.shape for n in program.graph.inputs)
    assert lies == (2, 9, 11, 5)
    assert not any(k.name.startswith("transpose") for k in program.kernels)
    with torch.no_grad():
        for y, want in zip(program(x), module(x), strict=True):
            assert y.shape == want.shape and y.stride() == want.stride()
            torch.testing.assert_close(y, want, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(program(x.contiguous())[0], module(x)[0], rtol=1e-4, atol=1e-5)  # copied once
        got = program(x.contiguous().numpy())[0]
    assert got.shape == (2, 7, 4, 5) and got.strides == tuple(4 * s for s in (140, 1, 35, 7))
    program.verify()


@pytest.mark.parametrize("make", [
    lambda: torch.randn(6, 4).t(), lambda: torch.randn(3, 4, 6).permute(2, 0, 1), lambda: torch.randn(4, 1, 6).transpose(0, 2),
    lambda: torch.randn(4, 1).expand(4, 6), lambda: torch.randn(8, 12)[::2, ::2], lambda: torch.randn(30)[6:].view(4, 6),
    lambda: torch.randn(0, 4).t(), lambda: torch.randn(1, 5, 1, 1).to(memory_format=LAST),
])  # fmt: skip
def test_any_strides(make):
    x = make()
    module = nn.Tanh()
    y = compiled(module, x)(x)
    moves = lambda t: [s for s, n in zip(t.stride(), t.shape) if n != 1 and t.numel()]
    assert moves(y) == moves(module(x))
    torch.testing.assert_close(y, module(x))


def test_a_transposed_factor_is_read_where_it_lies():
    class Product(nn.Module):
        def forward(self, a, b):
            return a @ b

    a, b = torch.randn(9, 33), torch.randn(17, 33).t()
    program = compiled(Product(), a, b)
    assert [k.name for k in program.kernels] == ["matmul"]
    torch.testing.assert_close(program(a, b), a @ b, rtol=1e-4, atol=1e-5)


class LaidOutAnew(nn.Module):
    """Results whose order in memory is not that of the values they are copies of."""

    def forward(self, x):
        heads = x.permute(0, 2, 1, 3)
        return heads.contiguous(), heads + 1, x.to(memory_format=LAST), x.contiguous(memory_format=LAST), heads.clone()


def test_results_that_a_module_lays_out_anew_lie_so():
    x = torch.randn(2, 5, 3, 7)
    for got, want in zip(compiled(LaidOutAnew(), x)(x), LaidOutAnew()(x), strict=True):
        assert got.stride() == want.stride() and torch.equal(got, want)


def test_the_cache_tells_orders_apart(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    x = torch.randn(1, 3, 3, 3)
    for _ in range(2):  # made, then read
        for y in (x, x.to(memory_format=LAST)):
            got = compiled(nn.Sigmoid(), y)(y)
            assert got.stride() == y.stride()
            torch.testing.assert_close(got, y.sigmoid())


def test_errors_speak_of_axes_as_they_are_named():
    x = torch.randn(2, 5, 9, 11).to(memory_format=LAST)
    with pytest.raises(ModelError, match=r"wants f32\[2, 5, 9, 11\], got f32\[2, 5, 9, 10\]"):
        compiled(Convolutions(), x)(x[..., :10])
    with pytest.raises(UnsupportedOp, match=r"input 'input' cannot be written in place: its axes lie in the order \[1, 0\]"):
        compiled(nn.Tanh(), torch.randn(4, 6).t(), donate=["input"])


def test_a_graph_s_own_inputs_are_as_callers_give_them():
    program = compiled(nn.Tanh(), torch.randn(4, 6).t())
    (x,) = random_inputs(program.graph).values()
    assert x.shape == (6, 4) and x.strides == (4, 24)


def test_a_device_array_turned():
    x = DeviceArray(SimpleNamespace(handle=4096, device_id=0), (2, 3, 5), np.dtype("f4"), SimpleNamespace(handle=2))
    assert x.strides is None
    y = x.transpose((0, 2, 1))
    assert (y.shape, y.strides, y.order) == ((2, 5, 3), (15, 1, 5), (0, 2, 1))
    assert y.__cuda_array_interface__["strides"] == (60, 4, 20)
    for axes in ((1, 2, 0), (2, 1, 0), (2, 0, 1)):
        want = np.empty((2, 5, 3), "f4").transpose(0, 1, 2)
        lies = np.empty((2, 3, 5), "f4").transpose(0, 2, 1).transpose(axes)
        assert y.transpose(axes).shape == want.transpose(axes).shape
        assert (y.transpose(axes).strides or tuple(s // 4 for s in lies.strides)) == tuple(s // 4 for s in lies.strides)
    assert y.transpose((0, 2, 1)).strides is None


def test_products_of_bytes_read_a_transposed_factor_where_it_lies():
    class Product(nn.Module):
        def forward(self, a, b):
            return torch._int_mm(a, b)

    a, b = torch.randint(-128, 127, (33, 64), dtype=torch.int8), torch.randint(-128, 127, (40, 64), dtype=torch.int8).t()
    assert torch.equal(compiled(Product(), a, b)(a, b), torch._int_mm(a, b))
