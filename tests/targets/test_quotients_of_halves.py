"""Quotients of halves by one value a row on GPUs: one reciprocal a row, also where the divisor was repeated first."""

from __future__ import annotations

import re

import pytest

import autocomp
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers.repeats import GPUS

TEXT = """graph g
input x: {d}[37, 72]
%0 = mul(x, x)
%1 = reduce_sum(%0, axes=[1])
%2 = sqrt(%1)
%3 = max(%2, const(0.001, {d}))
{repeat}
%5 = div(x, %4)
output y = %5
"""
REPEATED, SHORT = "%9 = reshape(%3, shape=[37, 1])\n%4 = broadcast(%9, shape=[37, 72])", "%4 = reshape(%3, shape=[37, 1])"


@pytest.mark.parametrize("repeat", [REPEATED, SHORT])
@pytest.mark.parametrize("d", ["f16", "bf16"])
@pytest.mark.parametrize("target", GPUS)
def test_one_reciprocal_a_row(target, d, repeat):
    program = autocomp.optimize(TEXT.format(d=d, repeat=repeat), target=target, cache=False)
    each = re.compile(r"ac_div_half\((in0|cast)_t\d*\[r\]|(in0|cast)_t\d*\[r\] / ")
    assert not each.search(program.source())
    whole = autocomp.optimize(TEXT.format(d=d, repeat=repeat), target=target, cache=False, exact=True)
    assert each.search(whole.source())


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("d", ["f16", "bf16"])
def test_it_is_right(d, model, tmp_path):
    program = autocomp.optimize(TEXT.format(d=d, repeat=REPEATED), target="cuda:h200", cache=False)
    program.executor = ModelExecutor(program, tmp_path, model)
    program.verify(seed=3)
