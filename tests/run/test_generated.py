"""Small graphs through generated code: types, tails, empty tensors, guards, gathers, against the op table's references."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import autocomp
from autocomp.ir.reference import evaluate
from autocomp.runtime.inputs import random_inputs

pytestmark = pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")

GRAPHS = {
    "empty sum": "input x: f32[2, 0, 4]\n%0 = reduce_sum(x, axes=[1])\noutput y = %0",
    "empty iota": "input x: f32[2]\n%0 = iota(shape=[0], axis=0)\noutput y = %0",
    "empty": "input x: f32[0]\n%0 = exp(x)\noutput y = %0",
    "empty depth": "input x: f32[3, 0]\ninput w: f32[0, 4]\n%0 = matmul(x, w)\noutput y = %0",
    "empty depth, one factor twice": "dim B in 1..64\ninput x: f32[B, 0]\n%0 = exp(x)\n%1 = transpose(%0, perm=[1, 0])\n"
                                     "%2 = matmul(%0, %1)\noutput y = %2",
    "scalar": "input x: f32[]\n%0 = exp(x)\noutput y = %0",
    "copy": "input x: i8[3, 5]\n%0 = transpose(x, perm=[1, 0])\noutput y = %0",
    "shifts": "input x: i32[7]\ninput n: i32[7]\n%0 = shl(x, n)\n%1 = shr(x, n)\n%2 = add(%0, %1)\noutput y = %2",
    "integer powers": "input x: i32[2, 4]\ninput n: i32[2, 4]\n%0 = sub(x, const(3, i32))\n%1 = sub(n, const(4, i32))\n"
                      "%2 = pow(%0, %1)\noutput y = %2",
    "bool": "input x: f32[17]\n%0 = gt(x, const(0.0, f32))\n%1 = not(%0)\n%2 = where(%1, x, const(2.0, f32))\noutput y = %2\noutput m = %1",
    "repeated factors": "input x: f32[3, 4]\ninput w: f32[8, 5]\n%0 = reshape(x, shape=[3, 1, 4])\n%1 = broadcast(%0, shape=[3, 2, 4])\n"
                        "%2 = reshape(%1, shape=[3, 8])\n%3 = matmul(%2, w)\n%4 = transpose(%2, perm=[1, 0])\n%5 = matmul(%2, %4)\n"
                        "output y = %3\noutput z = %5",
    "half": "input x: f16[9, 33]\ninput w: f16[33, 20]\n%0 = matmul(x, w)\n%1 = tanh(%0)\noutput y = %1",
    "double": "input x: f64[9, 33]\n%0 = reduce_max(x, axes=[0])\n%1 = sqrt(%0)\n%2 = mul(%1, %1)\noutput y = %2",
    "argmax": "input x: f32[5, 37]\n%0 = reduce_argmax(x, axes=[1])\noutput y = %0",
    "gather": "input x: f32[11, 6]\ninput i: i64[4]\n%0 = gather(x, i, axis=0)\n%1 = mul(%0, %0)\noutput y = %1",
    "pool": "input x: f32[1, 3, 11, 9]\n%0 = maxpool(x, strides=[2, 1], lo=[1, 0], hi=[1, 2], dilations=[1, 2], "
            "window=[3, 3])\noutput y = %0",
    "pad": "input x: f32[5, 7]\n%0 = exp(x)\n%1 = pad(%0, lo=[1, 2], hi=[0, 3], value=9.0)\noutput y = %1",
    "concat": "input x: f32[5, 7]\ninput z: f32[5, 2]\n%0 = concat(x, z, axis=1)\n%1 = neg(%0)\noutput y = %1",
    "depthwise": "input x: f32[2, 6, 9, 9]\ninput w: f32[6, 1, 3, 3]\n%0 = conv(x, w, strides=[1, 1], lo=[1, 1], hi=[1, 1], "
                 "dilations=[1, 1], groups=6)\noutput y = %0",
    "strided conv": "input x: f32[1, 5, 13, 11]\ninput w: f32[20, 5, 3, 3]\n%0 = conv(x, w, strides=[2, 2], lo=[1, 1], hi=[1, 1], "
                    "dilations=[1, 1])\n%1 = relu(%0)\noutput y = %1",
    "integers": "input x: i16[4, 50]\n%0 = reduce_sum(x, axes=[1])\n%1 = mod(%0, const(7, i16))\noutput y = %1",
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_generated_code_means_the_graph(name):
    program = autocomp.optimize(f"graph g\n{GRAPHS[name]}\n")
    feed = random_inputs(program.graph, seed=3)
    want = evaluate(program.graph, feed, float64=False)
    got = program.run(feed)
    assert not any(c.kernel.opaque for c in program.calls.calls)
    for k, w in want.items():
        assert got[k].dtype == w.dtype
        assert got[k].shape == w.shape
        tolerance = 4e-3 if w.dtype == np.float16 else 2e-5
        np.testing.assert_allclose(got[k].astype("f8"), w.astype("f8"), rtol=tolerance, atol=tolerance)
