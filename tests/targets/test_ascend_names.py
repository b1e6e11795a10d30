"""Each value of a printed kernel has a name of its own: one that stands in an inner block hides another's place."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from autocomp.targets.ascend.operand import name_of

import autocomp

DECLARED = re.compile(r"const (?:ac_\w+|LocalTensor<\w+>) (\w+) =")


def test_no_two_hints_make_one_name():
    names = Counter(name_of(hint, n) for hint in ("m", "m2", "m22", "t", "t1", "in0_t", "in0_t2") for n in range(1, 250))
    assert set(names.values()) == {1}


@pytest.mark.parametrize("rows", [59, 60, 65])
def test_names_of_two_passes_over_rows(rows):
    """A maximum m2 was m22, and a minimum m in a loop behind it was m22 as well, elsewhere and of another type."""
    graph = f"graph g\ninput x: u8[{rows}, 1340]\n%0 = reduce_argmax(x, axes=[1], keepdims=False)\noutput y = %0\n"
    for source in autocomp.optimize(graph, target="ascend:910b1").printed.values():
        assert set(Counter(DECLARED.findall(source.text)).values()) == {1}
