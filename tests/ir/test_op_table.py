"""Every entry of the op table: its comprehension or decomposition means what its reference computes."""

from __future__ import annotations

import numpy as np
import pytest

from autocomp.errors import ModelError
from autocomp.frontends.text import parse, show
from autocomp.ir.body_meaning import evaluate_comprehension
from autocomp.ir.builder import Builder, checked_attrs
from autocomp.ir.decompose import decompose
from autocomp.ir.ops import OPS
from autocomp.ir.reference import evaluate
from autocomp.ir.scalar import SCALAR
from autocomp.ir.types import DTYPES, Sym, TensorType, dtype_of
from autocomp.tune.written import OP

RNG = np.random.default_rng(20240)


def floats(*shape, dtype="f4"):
    return RNG.standard_normal(shape).astype(dtype)


def ints(*shape, lo=-9, hi=9, dtype="i4"):
    return RNG.integers(lo, hi, shape).astype(dtype)


WINDOW = {"strides": (2, 1), "lo": (1, 0), "hi": (1, 2), "dilations": (1, 2)}
SPREAD = {"spread": (2, 3), "lo": (1, 0), "hi": (1, 2), "dilations": (1, 2)}
SPACE1 = {"strides": (2,), "lo": (2,), "hi": (1,), "dilations": (2,)}
SAMPLES = {
    "transpose": [((floats(2, 3, 5),), {"perm": (2, 0, 1)})],
    "reshape": [
        ((floats(4, 6, 5),), {"shape": (3, 8, 5)}),
        ((floats(2, 12, 4),), {"shape": (2, 3, 4, 2, 2)}),
        ((floats(1, 5, 1),), {"shape": (5,)}),
        ((floats(0, 3),), {"shape": (3, 0, 2)}),
    ],
    "broadcast": [((floats(3, 1, 4),), {"shape": (2, 3, 5, 4)})],
    "slice": [
        ((floats(5, 6),), {"starts": (4, 1), "limits": (-1, 6), "steps": (-2, 2)}),
        ((floats(5),), {"starts": (1,), "limits": (1,), "steps": (1,)}),
        ((floats(5),), {"starts": (0,), "limits": (-1,), "steps": (1,)}),  # none: a limit of -1 means something for negative steps only
    ],
    "pad": [((floats(3, 4),), {"lo": (1, -1), "hi": (2, 1), "value": 3.0}), ((ints(3),), {"lo": (2,), "hi": (0,), "value": 7})],
    "concat": [((floats(2, 3), floats(2, 5), floats(2, 1)), {"axis": 1}), ((floats(2),), {"axis": 0})],
    "reduce_sum": [
        ((floats(3, 4, 5),), {"axes": (0, 2)}),
        ((ints(3, 4, dtype="i8"),), {"axes": (1,), "keepdims": True}),
        ((floats(7, 3, dtype="f2"),), {"axes": (0,)}),
    ],
    "reduce_prod": [((floats(3, 4),), {"axes": (0,)}), ((ints(3, 4),), {"axes": (0, 1)})],
    "reduce_max": [
        ((floats(3, 4, 5),), {"axes": (1,)}),
        ((ints(3, 4),), {"axes": (0,), "keepdims": True}),
        ((floats(3, 0),), {"axes": (1,)}),
    ],
    "reduce_min": [((floats(3, 4, 5),), {"axes": (0, 1, 2)}), ((ints(3, 4, lo=0, dtype="u1"),), {"axes": (0,)})],
    "reduce_any": [((floats(3, 4) > 1,), {"axes": (1,)})],
    "reduce_all": [((floats(3, 4) > -1,), {"axes": (1,)})],
    "reduce_mean": [((floats(3, 5),), {"axes": (1,)}), ((floats(3, 5, dtype="f2"),), {"axes": (0,), "keepdims": True})],
    "reduce_argmax": [((floats(3, 4, 5),), {"axes": (1,), "keepdims": True}), ((np.array([3, 1, 3, 3], "i4"),), {"axes": (0,)})],
    "reduce_argmin": [((ints(3, 4, lo=0, hi=3),), {"axes": (1,)})],
    "matmul": [
        ((floats(2, 1, 3, 4), floats(5, 4, 6)), {}),
        ((floats(4), floats(4, 6)), {}),
        ((floats(3, 4), floats(4)), {}),
        ((floats(4), floats(4)), {}),
        ((floats(3, 7, dtype="f2"), floats(7, 5, dtype="f2")), {}),
        ((ints(3, 7, dtype="i1"), ints(7, 5, dtype="i1")), {}),
    ],
    "einsum": [((floats(2, 3, 4), floats(4, 2, 5)), {"spec": "abc,cad->abd"}), ((floats(3), floats(4)), {"spec": "a,b->ab"})],
    "conv": [
        ((floats(2, 4, 7, 9), floats(6, 2, 3, 3)), {**WINDOW, "groups": 2}),
        ((floats(2, 7, 9, 4), floats(3, 3, 2, 6)), {**WINDOW, "groups": 2, "layout": "nhwc"}),
        ((floats(1, 3, 8), floats(3, 1, 2)), {**SPACE1, "groups": 3}),
    ],
    "conv_direct": [
        ((floats(2, 4, 7, 9), floats(6, 2, 3, 3)), {**WINDOW, "groups": 2}),
        ((floats(2, 7, 9, 4), floats(6, 3, 3, 2)), {**WINDOW, "groups": 2, "layout": "nhwc_ohwi"}),
    ],
    "conv_spread": [
        ((floats(2, 4, 3, 4), floats(6, 2, 3, 3)), {**SPREAD, "groups": 2}),
        ((floats(2, 3, 4, 4), floats(3, 2, 4, 6)), {**SPREAD, "layout": "nhwc"}),
        ((floats(1, 3, 5), floats(3, 1, 4)), {"spread": (3,), "lo": (-1,), "hi": (2,), "dilations": (2,), "groups": 3}),
        ((floats(1, 5, 3), floats(4, 2, 3)), {"spread": (4,), "lo": (2,), "hi": (4,), "dilations": (3,), "layout": "nhwc_ohwi"}),
    ],
    "maxpool": [((floats(2, 4, 7, 9),), {**WINDOW, "window": (3, 3)}), ((ints(1, 2, 8),), {**SPACE1, "window": (3,)})],
    "patches": [((floats(2, 4, 7, 9),), {**WINDOW, "window": (3, 3)}), ((ints(1, 2, 8),), {**SPACE1, "window": (3,)})],
    "sumpool": [((floats(2, 7, 9, 4),), {**WINDOW, "window": (3, 3), "layout": "nhwc"})],
    "avgpool": [
        ((floats(2, 4, 7, 9),), {**WINDOW, "window": (3, 3)}),
        ((floats(2, 4, 6, 8),), {**WINDOW, "window": (2, 3), "count_include_pad": True}),
    ],
    "extent": [((floats(3, 4),), {"axis": 1, "dtype": "f32"})],
    "table": [
        ((), {"values": (0.5, -1, 2, 0, 3, 1), "shape": (2, 3), "dtype": "f64"}),
        ((), {"values": (7,), "shape": (), "dtype": "i32"}),
    ],
    "iota": [((), {"shape": (3, 4), "axis": 1, "dtype": "i32"})],
    "gather": [((floats(5, 4), np.array([[1, -1], [0, 2]])), {"axis": 0}), ((floats(2, 5, 3), np.array(4, "i4")), {"axis": 1})],
    "gather_elements": [((floats(3, 4), np.array([[1, -1, 0, 2]])), {"axis": 0})],
    "cumsum": [((floats(3, 5),), {"axis": 1}), ((ints(3, 5),), {"axis": 0, "exclusive": True, "reverse": True})],
    "gather_nd": [
        ((floats(3, 4, 5), np.array([[[1, -1], [0, 2]]])), {}),
        ((floats(2, 4, 3, 2), np.array([[[1], [-3]], [[0], [2]]], "i4")), {"batch_dims": 1}),
        ((floats(2, 3), np.array([1, 2])), {}),
    ],
    "one_hot": [
        ((np.array([[1, -1, 9]]), floats(2)), {"depth": 4, "axis": 1}),
        ((np.array([3, 0], "i1"), np.array([5, 7], "i4")), {"depth": 5, "axis": 0}),
        ((np.array([2, 200], "u1"), floats(2)), {"depth": 3, "axis": 1}),
    ],
    "tile": [((floats(2, 3),), {"repeats": (2, 3)}), ((ints(2, 1, 3),), {"repeats": (1, 4, 0)})],
    "pad_edge": [((floats(2, 3),), {"lo": (0, 2), "hi": (1, 1)}), ((floats(4),), {"lo": (-1,), "hi": (3,)})],
    "pad_reflect": [((floats(4, 3),), {"lo": (3, 0), "hi": (2, 2)}), ((floats(3),), {"lo": (7,), "hi": (6,)}),
                    ((ints(5),), {"lo": (-2,), "hi": (-3,)}), ((floats(1),), {"lo": (2,), "hi": (1,)})],
    "pad_wrap": [((floats(4, 3),), {"lo": (3, 0), "hi": (2, 5)}), ((floats(4),), {"lo": (2,), "hi": (-1,)}),
                 ((floats(2, 1),), {"lo": (1, 2), "hi": (4, 1)})],
    "cumprod": [((floats(3, 5),), {"axis": 1}), ((floats(3, 5, dtype="f2"),), {"axis": 0, "exclusive": True, "reverse": True})],
    "cummax": [((floats(3, 5),), {"axis": 1}), ((ints(3, 5),), {"axis": 0, "exclusive": True, "reverse": True})],
    "cummin": [((floats(3, 5, dtype="f2"),), {"axis": 0, "reverse": True}), ((ints(4),), {"axis": 0, "exclusive": True})],
    "maxpool_index": [
        ((floats(2, 4, 7, 9),), {**WINDOW, "window": (3, 3)}),
        ((floats(1, 2, 6, 8),), {**WINDOW, "window": (2, 3), "column_major": True}),
        ((ints(1, 2, 8, lo=0, hi=3),), {**SPACE1, "window": (3,)}),
        ((np.full((2, 2, 7, 9), -np.inf, np.float32),), {**WINDOW, "window": (3, 2), "lo": (2, 1), "hi": (1, 0), "dilations": (3, 1)}),
        ((np.zeros((1, 2, 8), "u1"),), {**SPACE1, "window": (3,)}),  # as large as the border
        ((np.array([[[1, 2, np.nan, 9, 3, np.nan, np.inf, 0]]]),), {**SPACE1, "window": (3,)}),
        ((np.full((2, 4, 7, 9), -np.inf),), {**WINDOW, "window": (3, 3)}),
    ],
    "topk": [((floats(3, 6),), {"k": 2, "axis": 1}), ((floats(3, 6),), {"k": 3, "axis": 0, "largest": False, "part": "indices"})],
    "radix_topk": [((floats(3, 6),), {"k": 4, "axis": 1, "part": "indices"})],
    "regroup": [((floats(3, 4),), {"shape": (2, 6)})],
    "scatter_nd": [((floats(5, 2), np.array([[1], [3]]), floats(2, 2)), {})],
    "scatter_elements": [((floats(3, 4), np.array([[1, 0, 2, 1]]), floats(1, 4)), {"axis": 0, "reduction": "add"})],
    "sum_at": [
        ((np.array([1, -1, 3, 9]), floats(4, 2)), {"axis": 0, "size": 5, "dtype": "f32"}),
        ((np.array([[1, 0, 2, 1]]), floats(1, 4, dtype="f2")), {"axis": 1, "size": 3, "dtype": "f32"}),
        ((np.array([2, 2, 0], "i4"), ints(2, 3)), {"axis": 1, "size": 3, "dtype": "i64"}),
    ],
    "softmax": [((floats(3, 7),), {"axes": (1,)}), ((floats(3, 7, dtype="f2"),), {"axes": (0,)})],
    "log_softmax": [((floats(3, 7),), {"axes": (1,)})],
    "layer_norm": [((floats(3, 7), floats(7), floats(7)), {"axes": (1,)})],
    "rms_norm": [((floats(3, 7), floats(7)), {"axes": (1,)})],
    "batch_norm": [((floats(2, 3, 4, 4), floats(3), floats(3), floats(3), np.abs(floats(3))), {})],
    "max_sumexp": [
        ((floats(3, 9),), {"axes": (1,), "part": "l"}),
        ((floats(3, 9),), {"axes": (0,), "part": "m", "keepdims": True}),
    ],
    "welford": [
        ((floats(3, 9) + 5,), {"axes": (1,), "part": "var"}),
        ((floats(3, 9, 2),), {"axes": (0, 1), "part": "mean", "keepdims": True}),
    ],
    "conv_transpose": [
        (
            (floats(2, 4, 5, 6), floats(4, 3, 3, 2)),
            {"strides": (2, 3), "lo": (1, 0), "hi": (0, -2), "dilations": (2, 1), "groups": 2},
        ),
        ((floats(1, 2, 5), floats(2, 3, 4)), {"strides": (1,), "lo": (2,), "hi": (1,), "dilations": (1,)}),
    ],
    "lrn": [((floats(2, 6, 3, 4),), {"size": 4, "alpha": 0.5, "bias": 2.0}), ((floats(1, 3, 5, dtype="f2"),), {"size": 3})],
    "softmax_weighted_sum": [((floats(2, 3, 7), floats(2, 7, 4)), {})],
    "loop": [
        (
            (floats(3), floats(5, 3)),
            {
                "body": (("add", (0, 1), ()), ("tanh", (2,), ())),
                "dtypes": ("f32", "f32"),
                "carried": 1,
                "scanned": 1,
                "results": (3, 2),
                "trips": 5,
                "part": part,
            },
        )
        for part in range(2)
    ],
    "stencil": [
        ((floats(9),), {"offsets": (-1, 0, 1), "weights": (0.25, 0.5, 0.25), "steps": 4}),
        ((floats(7, 6, dtype="f2"),), {"offsets": ((0, 0), (-1, 1), (2, 0)), "weights": (0.5, 0.25, 0.25), "steps": 3}),
        ((floats(2),), {"offsets": (-1, 1), "weights": (0.5, 0.5), "steps": 2}),
    ],
}
CASES = [(op, i) for op in sorted(SAMPLES) if op in OPS for i in range(len(SAMPLES[op]))]


def entry(op, arrays, attrs):
    attrs = checked_attrs(op, attrs)
    types = tuple(TensorType(dtype_of(x), x.shape) for x in arrays)
    return attrs, types, OPS[op].infer(types, attrs)


def close(got, want):
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    scale = max(1.0, float(np.abs(want.astype("f8")[np.isfinite(want.astype("f8"))]).max(initial=0)))
    eps = dtype_of(want).eps or 0.0
    np.testing.assert_allclose(got.astype("f8"), want.astype("f8"), rtol=64 * eps, atol=64 * eps * scale)


def test_every_entry_has_a_sample():
    assert sorted(set(OPS) - set(SAMPLES) - set(SCALAR) - {OP}) == []  # a program written by hand: tests/run/test_written_programs.py


@pytest.mark.parametrize(("op", "i"), CASES)
def test_meaning_is_the_reference(op, i):
    arrays, attrs = SAMPLES[op][i]
    attrs, types, out = entry(op, arrays, attrs)
    want = OPS[op].reference(arrays, attrs, out)
    assert want.shape == out.shape
    assert dtype_of(want) == out.dtype
    if OPS[op].comprehension is not None:
        c = OPS[op].comprehension(types, attrs, out)
        if hasattr(c, "value"):
            assert tuple(a.extent for a in c.axes) == out.shape
            close(evaluate_comprehension(c.axes, c.value, arrays), want)
    if OPS[op].decompose is not None:
        b = Builder()
        nodes = [b.input(f"x{k}", t) for k, t in enumerate(types)]
        b.output("y", b.op(op, *nodes, **attrs))
        g = decompose(b.graph())
        assert all(OPS[n.op].decompose is None for n in g.nodes() if n.op in OPS)
        close(evaluate(g, {f"x{k}": x for k, x in enumerate(arrays)}, float64=False)["y"], want)


@pytest.mark.parametrize("name", sorted(SCALAR))
def test_pointwise_entries_broadcast(name):
    fn = SCALAR[name]
    for kind in fn.kinds:
        make = {
            "f": lambda s: np.abs(floats(*s)) * 0.9 + 0.05,
            "i": lambda s: ints(*s, lo=1, hi=7),
            "u": lambda s: ints(*s, lo=1, hi=7, dtype="u4"),
            "b": lambda s: floats(*s) > 0,
        }[kind]
        shapes = [(3, 1, 4), (2, 1), (3, 2, 4)][: fn.arity]
        arrays = tuple(make(s) for s in shapes)
        if name == "where":
            arrays = (arrays[0] > 0, *arrays[1:])
        if name == "acosh":
            arrays = tuple(a + 1 for a in arrays)
        attrs, types, out = entry(name, arrays, {"to": "f64"} if name == "cast" else {})
        want = OPS[name].reference(arrays, attrs, out)
        c = OPS[name].comprehension(types, attrs, out)
        close(evaluate_comprehension(c.axes, c.value, arrays), want)


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "text"),
    [
        ("add", [(3,), (4,)], {}, "shapes [3] and [4] do not broadcast"),
        ("matmul", [(3, 4), (5, 6)], {}, "inner dimensions of f32[3, 4] and f32[5, 6] differ"),
        ("transpose", [(3, 4)], {"perm": (0, 0)}, "perm [0, 0] is no permutation of the 2 dimensions of f32[3, 4]"),
        ("reshape", [(3, 4)], {"shape": (5,)}, "cannot reshape f32[3, 4] into [5]: element counts differ"),
        ("reshape", [(Sym("n", 1, 9), 4)], {"shape": (Sym("n", 1, 9), 5)}, "cannot reshape [n, 4] into [n, 5]: element counts differ"),
        ("reshape", [(Sym("n", 1, 9), 4)], {"shape": (2, Sym("m", 1, 9))}, "cannot reshape [n, 4] into [2, m]: element counts differ"),
        (
            "conv",
            [(1, 3, 8, 8), (4, 2, 3, 3)],
            {"strides": (1, 1), "lo": (0, 0), "hi": (0, 0), "dilations": (1, 1)},
            "do not divide into 1 groups",
        ),
        ("conv_spread", [(1, 3, 8), (4, 3, 3)], {"spread": (2,), "lo": (0,), "hi": (0,), "dilations": (4,)}, "have a common divisor"),
        ("reduce_sum", [(3,)], {"axes": (1,)}, "axes [1] are not distinct dimensions of f32[3]"),
        ("add", [(3,)], {}, "takes 2 operands, got 1"),
        ("reduce_sum", [(3,)], {}, "needs attribute axes"),
        ("exp", [(3,)], {"base": 2}, "has no attribute base"),
        ("bitand", [(3,), (3,)], {}, "bitand takes"),
    ],
)
def test_type_rules_refuse_with_shapes(op, shapes, attrs, text):
    b = Builder()
    nodes = [b.input(f"x{k}", TensorType(DTYPES["f32"], s)) for k, s in enumerate(shapes)]
    with pytest.raises(ModelError) as e:
        b.op(op, *nodes, **attrs)
    assert text in str(e.value)


def test_commuting_operands_have_one_order_however_deep():
    b = Builder()
    x, y = b.input("x", TensorType(DTYPES["f32"], (3,))), b.input("y", TensorType(DTYPES["f32"], (3,)))
    p, q = b.op("exp", b.op("sub", x, y)), b.op("exp", b.op("sub", y, x))
    assert b.op("add", p, q) is b.op("add", q, p)
    assert b.op("sub", p, q) is not b.op("sub", q, p)


def test_a_graph_is_walked_once():
    """Reports ask for its nodes at each call of each kernel."""
    b = Builder("g")
    x = b.input("x", TensorType(DTYPES["f32"], (4,)))
    b.output("y", b.op("exp", x))
    g = b.graph()
    assert g.nodes() is g.nodes()


def test_nodes_are_hash_consed_and_deep_sharing_is_cheap():
    b = Builder()
    x = b.input("x", TensorType(DTYPES["f64"], (2,)))
    y = x
    for _ in range(60):
        y = b.op("mul", b.op("add", y, y), b.const(0.5, DTYPES["f64"]))
    assert b.op("add", x, y) is b.op("add", y, x)
    b.output("y", y)
    assert len(b.graph().nodes()) < 130
    np.testing.assert_array_equal(evaluate(b.graph(), {"x": np.array([1.5, -2.0])})["y"], [1.5, -2.0])


@pytest.mark.parametrize("dtype", ["f64", "bf16", "f16"])
@pytest.mark.parametrize("op", [op for op in sorted(SAMPLES) if op in OPS and not OPS[op].opaque])
def test_meaning_is_the_reference_in_other_float_types(op, dtype):
    to = DTYPES[dtype].numpy
    for arrays, attrs in SAMPLES[op]:
        if not any(x.dtype == np.float32 for x in arrays):
            continue
        cast = tuple(x.astype(to) if x.dtype == np.float32 else x for x in arrays)
        if op in ("max_sumexp", "welford") and dtype != "f64":
            with pytest.raises(ModelError, match="does not take"):
                entry(op, cast, attrs)
            continue
        a, types, out = entry(op, cast, attrs)
        want = OPS[op].reference(cast, a, out)
        assert dtype_of(want) == out.dtype
        if OPS[op].comprehension is not None:
            c = OPS[op].comprehension(types, a, out)
            close(evaluate_comprehension(c.axes, c.value, cast), want)
        else:
            b = Builder()
            b.output("y", b.op(op, *(b.input(f"x{k}", t) for k, t in enumerate(types)), **attrs))
            g = decompose(b.graph())
            close(evaluate(g, {f"x{k}": x for k, x in enumerate(cast)}, float64=False)["y"], want)


@pytest.mark.parametrize("op", sorted(set(SAMPLES) & set(OPS) | set(SCALAR)))
def test_text_form_round_trips(op):
    if op in SAMPLES:
        samples = [(tuple(TensorType(dtype_of(x), x.shape) for x in arrays), attrs) for arrays, attrs in SAMPLES[op]]
    else:
        fn = SCALAR[op]
        types = [TensorType(DTYPES[{"f": "f32", "i": "i32", "u": "u8", "b": "bool"}[fn.kinds[0]]], (3, 2))] * fn.arity
        types[0] = TensorType(DTYPES["bool"], (3, 2)) if op == "where" else types[0]
        samples = [(tuple(types), {"to": "bf16"} if op == "cast" else {})]
    for types, attrs in samples:
        b = Builder("one op")
        b.output("y", b.op(op, *(b.input(f"x{k}", t) for k, t in enumerate(types)), **attrs))
        g = b.graph()
        again = parse(show(g))
        assert again.outputs == g.outputs
        assert show(again) == show(g)


def test_values_of_topk_beside_nan_in_every_float_type():
    """NaN is the largest, as NumPy sorts: its own order of bf16 knows no NaN."""
    for dtype in map(DTYPES.get, ("f32", "f16", "bf16")):
        x = np.array([1, np.nan, 0.5, np.inf, 3], np.float32).astype(dtype.numpy)
        graph = parse(f"graph g\ninput x: {dtype}[5]\n%0 = topk(x, axis=0, k=3, largest=True, part=\"values\")\noutput y = %0\n")
        (y,) = evaluate(graph, {"x": x}).values()
        assert np.array_equal(np.asarray(y, np.float64), [np.nan, np.inf, 3], equal_nan=True), dtype
