"""Rows too wide to stay on chip: softmax and normalisation read them once for their statistics (monoid rules), and once to finish."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import autocomp
from autocomp.cost.chip import Chip, load_chip
from autocomp.egraph.cover import cover
from autocomp.egraph.saturate import saturate
from autocomp.ir import reference
from autocomp.ir.builder import Builder
from autocomp.ir.decompose import decompose
from autocomp.ir.kernel import KernelGraph
from autocomp.ir.node import Graph
from autocomp.ir.types import F32, TensorType
from autocomp.options import Options
from autocomp.rewrite import load_rules
from autocomp.trace import Trace
from tests.helpers.covers import run_cover

WIDE = 1 << 22
RULE = {"softmax": "monoids/max-sumexp", "log_softmax": "monoids/max-sumexp", "layer_norm": "monoids/welford"}
PAIR = {"softmax": "max_sumexp", "log_softmax": "max_sumexp", "layer_norm": "welford"}


def rows(name: str, width: int) -> Graph:
    b = Builder(name)
    x = b.input("x", TensorType(F32, (8, width)))
    more = (b.input("g", TensorType(F32, (width,))), b.input("b", TensorType(F32, (width,)))) if name == "layer_norm" else ()
    b.output("y", b.op(name, x, *more, axes=(1,)))
    return b.graph()


def covered(graph: Graph, chip: str | Chip, without: tuple[str, ...] = ()) -> KernelGraph:
    rules, options = load_rules(without=without), Options()
    chip = load_chip(chip) if isinstance(chip, str) else chip
    return cover(saturate(decompose(graph), rules, options, Trace()), rules, chip, options, Trace())


@pytest.mark.parametrize("chip", ["h200", "c500", "cpu"])
@pytest.mark.parametrize("name", sorted(RULE))
def test_a_wide_row_is_read_once_for_its_statistics(name: str, chip: str) -> None:
    one, more = covered(rows(name, WIDE), chip), covered(rows(name, WIDE), chip, (RULE[name],))
    assert PAIR[name] in one.calls[0].ops
    assert len(one.calls) == 1
    assert one.predicted < more.predicted
    assert PAIR[name] not in " ".join(o for c in more.calls for o in c.ops)


@pytest.mark.parametrize("name", sorted(RULE))
def test_a_row_that_stays_on_chip_takes_the_plain_form(name: str) -> None:
    """Moving partial sums costs arithmetic and saves nothing there."""
    assert PAIR[name] not in covered(rows(name, 1024), "h200").calls[0].ops


@pytest.mark.parametrize("name", sorted(RULE))
def test_the_pair_means_what_the_row_means(name: str) -> None:
    """On a chip where no row stays, 37 elements are as good as a million."""
    graph, chip = rows(name, 37), load_chip("h200")
    tiny = replace(chip, memories=tuple(replace(m, capacity=64.0) if m.name == "shared" else m for m in chip.memories))
    k = covered(graph, tiny)
    assert PAIR[name] in k.calls[0].ops
    rng = np.random.default_rng(0)
    x = {n.attrs["name"]: rng.standard_normal(n.type.shape).astype("f4") for n in graph.inputs}
    np.testing.assert_allclose(run_cover(k, x)["y"], reference.evaluate(graph, x)["y"], rtol=1e-5, atol=1e-5)


PARTS = "graph g\ninput x: f32[3, 5003]\n%m = max_sumexp(x, axes=[1], keepdims=True, part=\"m\")\n" \
        "%l = max_sumexp(x, axes=[1], keepdims=True, part=\"l\")\n%0 = sub(x, %m)\n%1 = exp(%0)\n%2 = div(%1, %l)\noutput y = %2\n"
MOMENTS = "graph g\ninput x: f32[3, 5003]\n%m = welford(x, axes=[1], keepdims=True, part=\"mean\")\n" \
          "%v = welford(x, axes=[1], keepdims=True, part=\"var\")\n%0 = sub(x, %m)\n%1 = add(%v, const(0.1, f32))\n%2 = rsqrt(%1)\n" \
          "%3 = mul(%0, %2)\noutput y = %3\n"


@pytest.mark.parametrize("text", [PARTS, MOMENTS, MOMENTS.replace("%3 = mul(%0, %2)\noutput y = %3", "output y = %0")])
def test_parts_of_one_state_are_made_by_one_step(text: str) -> None:
    program = autocomp.optimize(text)
    assert program.verify().ratio <= 1
    statements = [line for line in program.source().splitlines() if line.startswith(" *") and "= reduce" in line]
    assert len(statements) == (1 if "output y = %0" in text else 2)  # nobody counts the elements of a whole row


def test_a_sum_of_all_elements_begins_in_their_rows() -> None:
    """A divergence of softmaxes: nothing of their size is stored, as the kernel that has their rows on chip adds each up. Kernels that
    store x are shared by five readers, so the search comes there by a tensor of rows that nobody stores yet."""
    b = Builder("divergence")
    x, y = (
        b.op("sub", v, b.op("reduce_max", v, axes=(1,), keepdims=True)) for v in (b.input(n, TensorType(F32, (5015, 30230))) for n in "xy")
    )
    total = lambda v: b.op("reduce_sum", b.op("exp", v), axes=(1,), keepdims=True)
    x = b.op("div", b.op("exp", x), total(x))
    p = b.op("where", b.op("eq", x, b.const(0.0, F32)), b.const(0.0, F32), b.op("mul", b.op("log", x), x))
    p = b.op("where", b.op("isnan", x), b.const(float("nan"), F32), p)
    q = b.op("mul", b.op("sub", y, b.op("log", total(y))), x)
    b.output("z", b.op("div", b.op("reduce_sum", b.op("sub", p, q), axes=(0, 1)), b.const(5015.0, F32)))
    one, more = covered(b.graph(), "h200"), covered(b.graph(), "h200", ("idioms/rows-before-all/*",))
    assert len(one.calls) == 2 < len(more.calls)
    assert one.predicted < 0.9 * more.predicted


def test_columns_too_long_for_a_core_are_read_once_for_both_statistics() -> None:
    """The maximum and the sum of exponentials of each column are siblings, of which a part of the rows is one block's."""
    text = "graph g\ninput x: f16[40000, 256]\n%0 = softmax(x, axes=[0])\noutput y = %0\n"
    kernels = autocomp.optimize(text, target="cuda:h200", cache=False).kernels
    assert [k.name for k in kernels[:2]] == ["cast_reduce_max_and_cast_max_sumexp_part", "cast_reduce_max_and_cast_max_sumexp_join"]
    assert len(kernels) == 3
