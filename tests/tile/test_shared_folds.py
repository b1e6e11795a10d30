"""Reductions that ask for one fold of one value share its statement."""

from autocomp.targets import load_target

import autocomp
from autocomp.ir.schedule import Schedule


def test_softmax_of_a_wide_row_folds_its_maximum_once():
    # the wide softmax is max_sumexp and a maximum beside it: both need the maximum of the row
    text = "graph g\ninput x: f16[512, 131072]\n%0 = softmax(x, axes=[1])\noutput out = %0\n"
    program = autocomp.optimize(text, target="cuda:h200")
    (printed,) = program.printed.values()
    assert "monoids/max-sumexp" in printed.text
    source = load_target("cuda:h200").emit(program.calls.calls[0].kernel, Schedule.make({"i0": 1}, threads=256, cluster=8))
    assert source.text.count("= reduce max i1") == 1
    assert source.text.count("= reduce add i1") == 1
