"""Symbolic dimensions: rules keep them, meanings agree at their sizes, and what cannot keep one is refused with its reason."""

from __future__ import annotations

import numpy as np
import pytest

from autocomp.errors import ModelError, UnsupportedOp
from autocomp.ir.affine import Aff
from autocomp.ir.body_meaning import evaluate_comprehension
from autocomp.ir.builder import Builder
from autocomp.ir.checks import check_graph
from autocomp.ir.decompose import decompose
from autocomp.ir.node import Graph
from autocomp.ir.ops import OPS
from autocomp.ir.reference import evaluate, evaluate_nodes
from autocomp.ir.sizes import expression, linear, product, quotient, quotients, relations, size_of, spelt, total, with_computed
from autocomp.ir.types import F32, Sym, TensorType

N, M = Sym("N", 1, 64), Sym("M", 2, 64, 2)
HALF = size_of(quotient(linear(total([(N, 1)], 1)), 2))  # (N + 1) // 2
SIZES = with_computed({"N": 5, "M": 4}, [HALF])


def build(op, shapes, attrs) -> Graph:
    b = Builder("g")
    nodes = [b.input(f"x{k}", TensorType(F32, s)) for k, s in enumerate(shapes)]
    b.output("y", b.op(op, *nodes, **attrs))
    return b.graph()


CONV = {"strides": (1, 1), "lo": (1, 1), "hi": (1, 1), "dilations": (1, 1)}


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "shape"),
    [
        ("softmax", [(4, N)], {"axes": (1,)}, (4, N)),
        ("reduce_mean", [(N, 4, M)], {"axes": (0, 1, 2)}, ()),
        ("layer_norm", [(3, N), (N,), (N,)], {"axes": (1,)}, (3, N)),
        ("matmul", [(N, 8), (8, M)], {}, (N, M)),
        ("matmul", [(N, M), (M, 3)], {}, (N, 3)),
        ("add", [(N, 8), (1, 8)], {}, (N, 8)),
        ("reshape", [(N, 8)], {"shape": (N, 2, 4)}, (N, 2, 4)),
        ("reshape", [(N, M, 4)], {"shape": (N, M, 2, 2)}, (N, M, 2, 2)),
        ("slice", [(N, 8)], {"starts": (0, 2), "limits": (N, 8), "steps": (1, 3)}, (N, 2)),
        ("broadcast", [(N, 8)], {"shape": (3, N, 8)}, (3, N, 8)),
        ("concat", [(N, 8), (N, 3)], {"axis": 1}, (N, 11)),
        ("cumsum", [(2, N)], {"axis": 1}, (2, N)),
        ("welford", [(4, N)], {"axes": (1,), "part": "mean"}, (4,)),
        ("conv", [(N, 3, 6, 6), (4, 3, 3, 3)], CONV, (N, 4, 6, 6)),
        ("conv", [(1, 3, N, M), (4, 3, 3, 3)], CONV | {"strides": (2, 1)}, (1, 4, HALF, M)),
        ("slice", [(N, 8)], {"starts": (0, 0), "limits": (N, 8), "steps": (2, 1)}, (HALF, 8)),
        ("slice", [(N, 64)], {"starts": (0, 0), "limits": (N, N), "steps": (1, 1)}, (N, N)),
    ],
)
def test_symbols_are_kept_and_mean_their_size(op, shapes, attrs, shape):
    g = build(op, shapes, attrs)
    check_graph(g)
    assert g.outputs[0][1].type.shape == shape
    rng = np.random.default_rng(3)
    arrays = {n.attrs["name"]: rng.standard_normal([SIZES.get(str(d), d) for d in n.type.shape]).astype("f4") for n in g.inputs}
    want = evaluate(g, arrays)["y"]
    small = decompose(g)
    np.testing.assert_allclose(evaluate(small, arrays)["y"], want, rtol=1e-9)
    for n in small.nodes():
        if n.op in OPS and OPS[n.op].comprehension is not None:
            operands = evaluate_nodes(n.inputs, arrays, small.params, False, SIZES)
            c = OPS[n.op].comprehension(tuple(i.type for i in n.inputs), n.attrs, n.type)
            got = evaluate_comprehension(c.axes, c.value, operands, SIZES)
            np.testing.assert_allclose(got, evaluate_nodes((n,), arrays, small.params, False, SIZES)[0], rtol=1e-5, atol=1e-5)


def test_a_size_that_no_input_has_is_refused():
    g = build("broadcast", [(N, 8)], {"shape": (M, N, 8)})
    with pytest.raises(ModelError, match=r"the size of f32\[M, N, 8\] is not known"):
        evaluate(g, {n.attrs["name"]: np.zeros((5, 8), "f4") for n in g.inputs})


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "text"),
    [
        ("add", [(N, 8), (M, 8)], {}, "shapes [N, 8] and [M, 8] do not broadcast"),
        ("slice", [(N, 8)], {"starts": (3, 0), "limits": (N, 8), "steps": (2, 1)}, "the size (N - 2) // 2 may be -1 (1 <= N <= 64)"),
        ("slice", [(N, 8)], {"starts": (0, 0), "limits": (N, 8), "steps": (-1, 1)}, "a slice of the symbolic dimension N"),
        ("slice", [(N, 8)], {"starts": (0, 0), "limits": (N, N), "steps": (1, 1)}, "a slice of the dimension of 8: the size 8 - N may be"),
        ("conv", [(1, 3, N, 6), (4, 3, 4, 3)], CONV, "pads 1 and 1) does not fit a dimension of N (1..64)"),
        ("stencil", [(N,)], {"offsets": (-1, 1), "weights": (0.5, 0.5), "steps": 2}, "symbolic dimensions of f32[N]"),
    ],
)
def test_what_cannot_keep_a_symbol_is_refused(op, shapes, attrs, text):
    with pytest.raises((ModelError, UnsupportedOp)) as e:
        build(op, shapes, attrs)
    assert text in str(e.value)


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        ((5, 8), (6, 8), "input 'x1' has N = 6, another input has N = 5"),
        ((65, 8), (65, 8), "input 'x0' has N = 65, allowed are 1..64"),
        ((5, 7), (5, 8), "input 'x0' wants f32[N, 8], got f32[5, 7]"),
    ],
)
def test_inputs_must_agree_on_a_symbol(a, b, text):
    g = build("add", [(N, 8), (N, 8)], {})
    with pytest.raises(ModelError) as e:
        evaluate(g, {"x0": np.zeros(a, "f4"), "x1": np.zeros(b, "f4")})
    assert text in str(e.value)


def test_products_of_sums_are_multiplied_out_where_they_cancel():
    n = Sym("n", 4, 64)
    assert total([(product([2, n, n]), 1), (product([n, total([(n, 2)], -1)]), -1)]) == n  # 2n*n - n*(2n - 1)


def test_one_size_has_one_form():
    """Of 7*n // 8, of n less it, and of products of sums that are sums of products."""
    n, m = Sym("n", 1, 64), Sym("m", 1, 64)
    over = lambda k, more, by: size_of(quotient(({n: k}, more), by))
    assert total([(n, 8), (over(7, 0, 8), -8)]) == product([over(1, 7, 8), 8])
    assert total([(n, 1), (over(5, 1, 7), -1)]) == over(2, 5, 7) and over(5, 1, 7).lo == 0
    for more in range(-3, 9):
        size = total([(over(5, more, 7), 1)], 3)
        assert all(with_computed({"n": v}, [size])[size.name] == (5 * v + more) // 7 + 3 for v in range(1, 30))
    a, b = over(1, 7, 8), size_of(quotient(({m: 1}, 7), 8))
    less = product([total([(a, 1)], -1), total([(b, 1)], -1)])
    assert total([(product([a, b]), 1), (n, 1)]) == total([(less, 1), (a, 1), (b, 1), (n, 1)], -1)


def test_what_sizes_say_of_each_other_holds():
    """Of sizes computed from symbols that are not among them: at all values, no relation is negative, and some are 0."""
    n = Sym("n", 4, 40)
    filled = size_of(quotient(({n: 1}, 3), 4))
    found = [(product([filled, 4]), filled, n), (product([2, n, n]), product([n, total([(n, 2)], -1)]), product([n, n])),
             (total([(product([filled, 4]), 1), (n, 1)]), n)]  # fmt: skip
    over = lambda k, more, by: size_of(quotient(({n: k}, more), by))
    found += [(over(1, 1, 2), over(1, 1, 4)), (over(1, -1, 6), over(1, 2, 4)), (over(2, 1, 3), over(3, 5, 4)),
              (over(1, 0, 3), over(1, -3, 2))]  # fmt: skip
    for sizes in found:
        assert relations(sizes)
        for v in range(4, 41):
            values = with_computed({"n": v}, sizes)
            assert all(r.eval(values) >= 0 for r in relations(sizes))
    two, three = total([(n, 2)], 1), total([(n, 3)], -2)
    ways = spelt(["n"], [three, product([two, two])])
    assert ways["n"].eval(with_computed({"n": 9}, [three])) == 9


def test_a_floor_that_a_size_is_is_said_by_its_name():
    n = Sym("n", 1, 64)
    part = size_of(quotient(({n: 1}, 63), 64))  # (n + 63) // 64
    more = total([(part, 3)], 2)
    at = (expression(part) * 5 - "i0" - 1) // 2
    assert at.with_atoms(quotients([part, n, more])) == (Aff.of(part.name) * 5 - "i0" - 1) // 2
    half = size_of(quotient(({n: 1}, 1), 2))  # floor((n + 1)/2), which the size (n + 5) // 2 is 2 more than
    assert expression(half).with_atoms(quotients([total([(half, 1)], 2)])) == Aff.of("size_n_plus_5_by_2") - 2
