"""A number in a model is no reason to allocate: each table is checked against a limit before it is made, and refused with both numbers."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import autocomp
from autocomp.errors import AutocompError
from autocomp.frontends.text import parse
from autocomp.ir.ops.windows import TOGETHER
from tests.helpers.time_limits import within

ROOM = 3 << 30  # bytes that a test may take beyond what the process has


def model(*nodes: onnx.NodeProto, x: tuple[int, ...] = (1, 1, 4, 4), opset: int = 19, **given: object) -> bytes:
    value = lambda n, s: helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
    constants = [numpy_helper.from_array(np.asarray(v), k) for k, v in given.items()]
    graph = helper.make_graph(list(nodes), "g", [value("x", x)], [value("y", None)], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]).SerializeToString()


def node(op: str, *operands: str, out: str = "y", **attrs: object) -> onnx.NodeProto:
    return helper.make_node(op, operands, [out], **attrs)


@pytest.fixture(autouse=True)
def little_memory() -> Iterator[None]:
    """What is allocated all the same fails at once, here and on large machines."""
    with open("/proc/self/statm") as f:
        now = int(f.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + ROOM, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def models(n: int) -> dict[str, bytes]:
    long, wide = np.array([n], np.int64), np.array([1, 1, n, 4], np.int64)
    return {
        "pads, the edge's": model(node("Pad", "x", "s", mode="edge"), x=(3,), s=np.array([n, n])),
        "pads, mirrored": model(node("Pad", "x", "s", mode="reflect"), x=(3,), s=np.array([n, n])),
        "pads, around": model(node("Pad", "x", "s", mode="wrap"), x=(3,), s=np.array([n, n])),
        "means": model(node("AveragePool", "x", kernel_shape=[n], pads=[n - 1, n - 1]), x=(1, 1, 4)),
        "sizes": model(node("Resize", "x", "", "", "s", mode="linear"), s=wide),
        "sizes, cubic": model(node("Resize", "x", "", "", "s", mode="cubic"), s=wide),
        "scales": model(node("Resize", "x", "", "s", mode="nearest"), s=np.array([1, 1, n, 1], np.float32)),
        "numbers": model(node("Range", "a", "s", "b", out="r"), node("Cast", "r", out="c", to=1), node("Mul", "c", "x"), x=(1,),
                         a=np.int64(0), s=np.int64(n), b=np.int64(1)),
        "ones": model(node("ConstantOfShape", "s", out="c"), node("EyeLike", "c", out="e"), node("Mul", "e", "x"), x=(1,),
                      s=np.array([2, n])),
        "mel": model(node("MelWeightMatrix", "s", "s", "r", "a", "b", out="m"), node("Add", "m", "x"), x=(1,), s=np.int64(n),
                     r=np.int64(8000), a=np.float32(0), b=np.float32(4000)),
        "repeats": model(node("Tile", "x", "s", out="t"), node("Range", "a", "n", "b", out="r"), node("Cast", "r", out="c", to=1),
                         node("Add", "t", "c"), x=(1,), s=long, a=np.int64(0), n=np.int64(n), b=np.int64(1)),
    }  # fmt: skip


@pytest.mark.parametrize("name", models(2))
@pytest.mark.parametrize("n", [2**28, 2**33, 2**40, 2**61])
def test_a_table_of_any_length_is_refused_before_it_is_made(name, n):
    with within(20), pytest.raises(AutocompError, match="limit is") as e:
        autocomp.optimize(models(n)[name], cache=False)
    assert "MemoryError" not in str(e.value)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
def test_a_window_of_any_size_needs_no_table(op):
    n = 2**27
    with within(20):
        program = autocomp.optimize(model(node(op, "x", kernel_shape=[n, n], pads=[n // 2] * 4)), cache=False)
        x = np.random.default_rng(0).standard_normal(tuple(program.graph.inputs[0].type.shape)).astype(np.float32)
        y = program(x)
    of_all = {"MaxPool": np.max, "AveragePool": np.mean, "LpPool": np.linalg.norm}[op]  # each window holds the whole image
    want = np.stack([of_all(image) for image in x.reshape(-1, *x.shape[2:])]).reshape(*x.shape[:2], 1, 1)
    np.testing.assert_allclose(y, np.broadcast_to(want, y.shape), rtol=1e-5)


def test_numbers_of_many_windows_are_a_table_a_dimension(monkeypatch):
    """Too many windows for one table: each dimension has its own, and means are the same."""
    x = np.random.default_rng(0).standard_normal((1, 2, 9, 8)).astype(np.float32)
    pool = model(node("AveragePool", "x", kernel_shape=[3, 2], pads=[2, 1, 1, 1], strides=[2, 1]), x=x.shape)
    want = autocomp.optimize(pool, cache=False)(x)
    monkeypatch.setattr("autocomp.ir.ops.windows.TOGETHER", 10)
    program = autocomp.optimize(pool, cache=False)
    assert len([p for p in program.graph.params if "window_counts" in p]) == 2
    np.testing.assert_allclose(program(x), want, rtol=1e-6)
    assert TOGETHER > 10


def test_a_large_constant_is_computed_by_a_kernel():
    """What parameters of 4 bytes make is folded as far as it is small; a program's memory is not asked for while it is compiled."""
    text = "graph g\ninput x: f32[1]\nparam w: f32[3] = random(1)\n"
    text += "%0 = broadcast(w, shape=[{}, 3])\n%1 = exp(%0)\n%2 = cumsum(%1, axis=0)\n"
    text += "%3 = reduce_max(%2, axes=[0])\n%4 = add(%3, x)\noutput y = %4\n"
    small, large = (autocomp.optimize(parse(text.format(n)), cache=False) for n in (8, 2**27))
    assert len(small.kernels) == 1
    assert small.calls.constants
    assert not large.calls.constants
    assert len(large.kernels) > 1
