"""A derived tile program computes its kernel under any tiles: every kind of reduction, tiles that stick out, several axes at once."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import autocomp
from autocomp.errors import UnsupportedOp
from autocomp.ir import body_meaning
from autocomp.ir.schedule import Schedule
from autocomp.tile import meaning
from autocomp.tile.derive import derive
from tests.helpers import fresh
from tests.helpers.device_graphs import graph

X = {"x": "f32[7, 11]"}
KERNELS = {
    "sum of exp": graph(X, "%0 = exp(x)\n%1 = reduce_sum(%0, axes=[1])"),
    "product": graph(X, "%0 = reduce_prod(x, axes=[1])"),
    "least of negatives": graph(X, "%0 = abs(x)\n%1 = neg(%0)\n%2 = reduce_max(%1, axes=[1])"),
    "columns": graph(X, "%0 = cos(x)\n%1 = reduce_min(%0, axes=[0])"),
    "place of the largest": graph(X, "%0 = reduce_argmax(x, axes=[1])"),
    "softmax": graph(X, "%0 = softmax(x, axes=[1])"),
    "variance": graph(X, """%m = reduce_mean(x, axes=[1], keepdims=True)
        %d = sub(x, %m)
        %s = mul(%d, %d)
        %v = reduce_mean(%s, axes=[1], keepdims=True)
        %e = add(%v, const(0.001, f32))
        %r = rsqrt(%e)
        %y = mul(%d, %r)"""),
    "product of maps": graph({"x": "f32[7, 11]", "w": "f32[11, 5]"}, "%0 = cos(x)\n%1 = matmul(%0, w)\n%2 = relu(%1)"),
    "product of two maps": graph({"x": "f32[7, 11]", "w": "f32[11, 5]"}, "%0 = cos(x)\n%1 = cos(w)\n%2 = matmul(%0, %1)"),
    "attention": graph({"q": "f32[7, 3]", "k": "f32[11, 3]", "v": "f32[11, 5]"},
                       "%t = transpose(k, perm=[1, 0])\n%s = matmul(q, %t)\n%p = softmax(%s, axes=[1])\n%o = matmul(%p, v)"),
    "sum of the same": graph({"x": "f32[7]"}, "%0 = broadcast(x, shape=[3, 7])\n%1 = exp(%0)\n%2 = reduce_sum(%1, axes=[0])"),
    "product of the same": graph({"x": "f32[7, 1]", "w": "f32[11, 5]"}, "%0 = broadcast(x, shape=[7, 11])\n%1 = matmul(%0, w)"),
    "sum of products that are stored too": graph(
        {"a": "f32[7, 11]", "b": "f32[7, 11]"},
        """%bt = transpose(b, perm=[1, 0])
        %at = transpose(a, perm=[1, 0])
        %p = matmul(a, %bt)
        %q = matmul(a, %at)
        %s = add(%p, %q)""") + "output p = %p\noutput q = %q\n",
    "running sum of a softmax": graph(X, "%0 = softmax(x, axes=[1])\n%1 = cumsum(%0, axis=1, exclusive=False, reverse=False)"),
    "weighted sum": graph({"s": "f32[7, 11]", "v": "f32[11, 5]"}, "%0 = softmax(s, axes=[1])\n%1 = matmul(%0, v)"),
}


@pytest.mark.parametrize("name", KERNELS)
def test_any_tiles_give_the_kernels_result(name):
    seed = fresh.seed()
    rng = np.random.default_rng(seed)
    tried = 0
    calls = [c for target in ("cpu", "cuda:h200") for c in autocomp.optimize(KERNELS[name], target=target).calls.calls]
    for k in {c.kernel.signature: c.kernel for c in calls}.values():
        arrays = {a.name: rng.standard_normal(a.type.shape) for a in k.inputs}
        want = body_meaning.evaluate(k, arrays, {})
        names = [a for a, _ in derive(k, Schedule()).axes]
        for sizes in product((0, 2, 4) if len(names) < 4 else (0, 4), repeat=len(names)):
            tile = {a: n for a, n in zip(names, sizes, strict=True) if n}
            try:
                program = derive(k, Schedule.make(tile), short=tried % 2 == 1)
            except UnsupportedOp:
                continue
            got = meaning.run(program, arrays)
            for out, value in want.items():
                np.testing.assert_allclose(got[out], value, rtol=1e-9, atol=1e-12, err_msg=f"seed {seed}, {tile}")
            tried += 1
    assert tried >= 9
