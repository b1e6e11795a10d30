"""What is widened for a norm is stored narrow: the norm widens it on its way in."""

import numpy as np

import autocomp
from autocomp.ir.reference import evaluate
from autocomp.runtime.inputs import random_inputs
from tests.helpers.covers import run_cover

GRAPH = """graph g
input x: f16[2048, 768]
input w: f16[768, 768]
input b: f16[768]
input r: f16[2048, 768]
input g: f32[768]
input o: f32[768]
%0 = matmul(x, w)
%1 = add(%0, b)
%2 = add(%1, r)
%3 = cast(%2, to="f32")
%4 = reduce_sum(%3, axes=[1], keepdims=True)
%5 = mul(%4, const(0.0013020833333333333, f32))
%6 = sub(%3, %5)
%7 = mul(%6, %6)
%8 = reduce_sum(%7, axes=[1], keepdims=True)
%9 = mul(%8, const(0.0013020833333333333, f32))
%10 = add(%9, const(1e-05, f32))
%11 = rsqrt(%10)
%12 = mul(%6, %11)
%13 = mul(%12, g)
%14 = add(%13, o)
%15 = cast(%14, to="f16")
output out = %15
"""


def test_a_sum_that_a_norm_widens_is_stored_narrow():
    program = autocomp.optimize(GRAPH, target="cuda:h200")
    assert len(program.kernels) == 2
    assert {o.type.dtype.name for c in program.calls.calls for o in c.kernel.outputs} == {"f16"}


def test_weights_of_8_bits_that_are_read_in_both_orders():
    """Classes of one group that are all in memory, and that bodies may also make themselves: none is made from itself."""
    program = autocomp.optimize(
        """graph g
input x: f16[64, 128]
input z: f16[64, 96]
param q: i8[96, 128] = random(1)
%w = cast(q, to="f16")
%wt = transpose(%w, perm=[1, 0])
%a = matmul(x, %wt)
%b = matmul(z, %w)
%qt = transpose(q, perm=[1, 0])
%v = cast(%qt, to="f16")
%c = matmul(x, %v)
%d = add(%a, %c)
output o = %d
output p = %b
""",
        target="cuda:h200",
    )
    got = run_cover(program.calls, feed := random_inputs(program.graph, 0))
    for name, want in evaluate(program.graph, feed).items():
        np.testing.assert_allclose(got[name], want, rtol=1e-9, atol=1e-9)
