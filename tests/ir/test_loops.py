"""The op `loop`: its meaning, its unrolled form, its text, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.errors import ModelError, UnsupportedOp
from autocomp.frontends.text import parse, show
from autocomp.ir.builder import Builder, make_op
from autocomp.ir.checks import check_graph
from autocomp.ir.loop_bodies import loop, loops_of, unrolled
from autocomp.ir.loop_choice import MOST_OPERATIONS, settled
from autocomp.ir.node import Graph
from autocomp.ir.reference import evaluate
from autocomp.ir.tolerance import relative_error
from autocomp.ir.types import BOOL, F32, I64, Sym, TensorType
from autocomp.trace import Trace

RNG = np.random.default_rng(14)


def rnn(trips, batch=3, wide=4, hidden=5) -> Graph:
    """tanh(x_t + h w), a sum that is carried beside it, and a scale that no step changes."""
    b = Builder("rnn")
    t = lambda *shape: TensorType(F32, shape)
    x, h, c = b.input("x", t(trips, batch, hidden)), b.input("h", t(batch, hidden)), b.input("c", t(batch, hidden))
    w, s = b.input("w", t(hidden, hidden)), b.input("s", t())

    def body(carries, slices):
        h, c, scale = carries
        new = b.op("tanh", b.op("add", slices[0], b.op("matmul", h, b.op("transpose", w, perm=(1, 0)))))
        total = b.op("add", c, b.op("mul", new, b.op("mul", scale, b.const(0.5, F32))))
        return [new, total, scale], [new, b.op("relu", total)]

    finals, stacks = loop(b, [h, c, s], [x], body, trips)
    for k, n in enumerate([*finals, *stacks]):
        b.output(f"y{k}", n)
    return b.graph()


def feed(trips, batch=3, hidden=5):
    f = lambda *shape: RNG.standard_normal(shape).astype("f4")
    return {"x": f(trips, batch, hidden), "h": f(batch, hidden), "c": f(batch, hidden), "w": f(hidden, hidden), "s": f()}


def by_hand(given):
    x, h, c, w, s = (given[k].astype("f8") for k in "xhcws")
    hs, cs = [], []
    for x_t in x:
        h = np.tanh(x_t + h @ w.T)
        c = c + h * (s * 0.5)
        hs.append(h)
        cs.append(np.maximum(c, 0))
    return [h, c, s, np.array(hs).reshape(x.shape), np.array(cs).reshape(x.shape)]


@pytest.mark.parametrize("trips", [0, 1, 2, 7])
def test_a_loop_means_its_steps(trips):
    graph, given = rnn(trips), feed(trips)
    check_graph(graph)
    for k, (got, want) in enumerate(zip(evaluate(graph, given).values(), by_hand(given), strict=True)):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12, err_msg=f"y{k}")
    for got, want in zip(evaluate(graph, given, float64=False).values(), by_hand(given), strict=True):
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_what_no_step_changes_is_outside():
    """The transposed factor and half of the scale are made once; the scale is no carry; all results are one loop's."""
    nodes = loops_of(rnn(4))
    assert {n.attrs["carried"] for n in nodes} == {2}
    assert {tuple(s[0] for s in n.attrs["body"]) for n in nodes} == {("matmul", "add", "tanh", "mul", "add", "relu")}
    assert len({n.inputs for n in nodes}) == 1
    assert {"transpose", "mul"} <= {n.op for n in nodes[0].inputs}


def test_unrolled_means_the_same():
    graph, given = rnn(7), feed(7)
    flat = unrolled(graph, lambda n: True)
    check_graph(flat)
    assert not loops_of(flat)
    assert unrolled(graph, lambda n: False).outputs == graph.outputs
    for got, want in zip(evaluate(flat, given).values(), evaluate(graph, given).values(), strict=True):
        np.testing.assert_array_equal(got, want)
    with pytest.raises(ModelError, match="stacks the results of no step"):
        unrolled(rnn(0), lambda n: True)


def test_loops_in_loops():
    b = Builder("nested")
    t = lambda *shape: TensorType(F32, shape)
    x, h = b.input("x", t(3, 2, 4)), b.input("h", t(4))

    def outer(carries, slices):
        finals, _ = loop(b, carries, slices, lambda c, s: ([b.op("add", b.op("mul", c[0], carries[0]), s[0])], []), 2)
        return finals, finals

    finals, stacks = loop(b, [h], [x], outer, 3)
    b.output("y", finals[0])
    b.output("ys", stacks[0])
    graph, given = b.graph(), {"x": RNG.standard_normal((3, 2, 4)).astype("f4"), "h": RNG.standard_normal(4).astype("f4")}
    h, ys = given["h"].astype("f8"), []
    for x_t in given["x"].astype("f8"):
        start = h
        for x_tt in x_t:
            h = h * start + x_tt
        ys.append(h)
    for g in (graph, unrolled(graph, lambda n: True)):
        got = evaluate(g, given)
        np.testing.assert_allclose(got["y"], h, rtol=1e-12)
        np.testing.assert_allclose(got["ys"], ys, rtol=1e-12)


def test_text_and_symbols():
    steps, batch = Sym("steps", 1, 100), Sym("batch", 1, 8)
    graph, given = rnn(steps, batch), feed(6, 2)
    again = parse(show(graph))
    for got, want in zip(evaluate(again, given).values(), by_hand(given), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    assert unrolled(graph, lambda n: True).outputs == graph.outputs  # an open number of steps stays a loop


def growing(trips) -> Graph:
    """x = 1.5 x, at most m steps, while the sum is below `stop`; a and b change places."""
    b = Builder("growing")
    x, m, stop = b.input("x", TensorType(F32, (3,))), b.input("m", TensorType(I64, ())), b.input("stop", TensorType(F32, ()))
    runs = lambda n, x: b.op("and", b.op("lt", n, m), b.op("lt", b.op("reduce_sum", x, axes=(0,), keepdims=False), stop))

    def body(carries, slices):
        n, _, x, first, second, _ = carries
        n, x = b.op("add", n, b.const(1, I64)), b.op("mul", x, b.const(1.5, F32))
        return [n, runs(n, x), x, second, first, b.const(3.0, F32)], []

    zero = b.const(0, I64)
    start = [zero, runs(zero, x), x, b.op("neg", x), b.op("exp", x), stop]
    for k, y in enumerate(loop(b, start, [], body, trips, condition=1)[0]):
        b.output(f"y{k}", y)
    return b.graph()


@pytest.mark.parametrize("trips", [0, 1, 6])
def test_a_condition_ends_a_loop(trips):
    graph = growing(trips)
    check_graph(graph)
    flat = unrolled(graph, lambda n: True)
    program = autocomp.optimize(graph, target="cpu")
    for m, stop in ((0, 90), (1, 90), (4, 90), (9, 90), (9, 5), (9, -1)):
        given = {"x": np.float32([1, 0.5, 0.25]), "m": np.int64(m), "stop": np.float32(stop)}
        x, a, b, last, steps = given["x"].astype("f8"), -given["x"].astype("f8"), np.exp(given["x"].astype("f8")), stop, 0
        while steps < min(m, trips) and x.sum() < stop:
            x, a, b, last, steps = x * 1.5, b, a, 3, steps + 1
        for got in (evaluate(graph, given), evaluate(flat, given), program.run(given)):
            assert bool(got["y1"]) == (steps < m and x.sum() < stop)
            for k, want in ((0, steps), (2, x), (3, a), (4, b), (5, last)):
                np.testing.assert_allclose(got[f"y{k}"], want, rtol=1e-5)
    again = parse(show(graph), params=graph.params)
    assert evaluate(again, given)["y0"] == evaluate(graph, given)["y0"]


@pytest.mark.parametrize(("attrs", "text"), [({"condition": 0}, "condition 0, which is no carry of one truth value"),
                                             ({"condition": 9}, "has condition 9")])  # fmt: skip
def test_a_condition_is_a_carry(attrs, text):
    n = loops_of(growing(4))[0]
    with pytest.raises(ModelError, match=text):
        make_op("loop", n.inputs, {**n.attrs, **attrs})
    with pytest.raises(ModelError, match="stacks results of steps whose number"):
        make_op("loop", n.inputs, {**n.attrs, "results": (*n.attrs["results"], n.attrs["results"][2])})
    b = Builder()
    go, x = b.input("go", TensorType(BOOL, ())), b.input("x", TensorType(F32, ()))
    with pytest.raises(ModelError, match="it ends at once or never"):
        loop(b, [go, x], [], lambda c, s: ([c[0], b.op("exp", c[1])], []), 3, condition=0)


@pytest.mark.parametrize(
    ("attrs", "text"),
    [
        ({"trips": 5}, "whose first dimension is not its 5 steps"),
        ({"trips": -1}, "trips is -1"),
        ({"part": 9}, "there are 4"),
        ({"results": (0, 99, 0, 0)}, "results"),
        ({"results": (4, 1, 0, 0)}, "carry 0 begins as"),
        ({"body": (("tanh", (99,), ()),)}, "reads what is not made yet"),
        ({"body": (("nothing", (0,), ()),)}, "is no op"),
        ({"body": (("tanh", (0, 1), ()),)}, "has 2 operands"),
        ({"carried": 9}, "of 5 operands"),
        ({"dtypes": ("f16",) * 5}, "has dtypes"),
    ],
)
def test_what_is_wrong_is_refused(attrs, text):
    n = loops_of(rnn(4))[0]
    with pytest.raises(ModelError, match=text):
        make_op("loop", n.inputs, {**n.attrs, **attrs})


def test_a_carry_keeps_its_type():
    b = Builder()
    h = b.input("h", TensorType(F32, (3,)))
    with pytest.raises(ModelError, match="begins as"):
        loop(b, [h], [], lambda c, s: ([b.op("cast", c[0], to="f16")], []), 3)


def test_errors_grow_with_the_steps():
    short, long = (relative_error(rnn(n)) for n in (4, 400))
    assert 8 < long["y0"] / short["y0"] < 12  # the root of 100


def test_what_is_too_much_for_a_list_of_kernels_is_refused():
    assert not loops_of(settled(rnn(9), False, Trace()))
    wide = loop_of_many_operations(1000, MOST_OPERATIONS // 1000 + 1)
    assert loops_of(settled(wide, True, Trace()))
    with pytest.raises(UnsupportedOp, match=r"a loop of 1000 steps of \d+ operations: programs for this target are lists of kernels"):
        settled(wide, False, Trace())


def loop_of_many_operations(trips, operations) -> Graph:
    b = Builder("many")
    x = b.input("x", TensorType(F32, (4,)))

    def body(carries, slices):
        y = carries[0]
        for k in range(operations):
            y = b.op("tanh" if k % 2 else "exp", y)
        return [y], []

    (y,), _ = loop(b, [x], [], body, trips)
    b.output("y", y)
    return b.graph()
