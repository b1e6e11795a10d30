"""ONNX recurrences, Scan and Loop: loops whose steps may be open."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import autocomp
from autocomp.errors import UnsupportedOp
from autocomp.frontends.onnx import load_onnx
from autocomp.ir.loop_bodies import loops_of
from autocomp.ir.reference import evaluate

RNG = np.random.default_rng(3)


def model(op, gates, sizes, direction, lengths=False):
    """One recurrence of 4 inputs and 5 hidden, both sizes of its sequences given as numbers or names."""
    ways = 2 if direction == "bidirectional" else 1
    rng = np.random.default_rng(7)
    given = {"w": (ways, gates * 5, 4), "r": (ways, gates * 5, 5), "b": (ways, 2 * gates * 5)}
    weights = [numpy_helper.from_array(rng.standard_normal(s).astype("f4"), n) for n, s in given.items()]
    names = ["x", "w", "r", "b", *(["n"] if lengths else [])]
    outs = ["y", "h", *(["c"] if op == "LSTM" else [])]
    node = helper.make_node(op, names, outs, hidden_size=5, direction=direction)
    ins = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [*sizes, 4])]
    ins += [helper.make_tensor_value_info("n", TensorProto.INT32, sizes[1:])] if lengths else []
    values = [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outs]
    graph = helper.make_graph([node], "g", ins, values, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize(("op", "gates", "direction", "lengths"),
                         [("LSTM", 4, "bidirectional", False), ("GRU", 3, "forward", True), ("RNN", 1, "reverse", False)])  # fmt: skip
def test_open_sizes(op, gates, direction, lengths):
    program = autocomp.optimize(model(op, gates, ["steps", "batch"], direction, lengths), target="cpu")
    assert len(program.calls.loops) == (2 if direction == "bidirectional" else 1)
    for steps, batch in ((1, 2), (9, 3), (40, 1)):
        feed = {"x": RNG.standard_normal((steps, batch, 4)).astype("f4")}
        if lengths:
            feed["n"] = RNG.integers(0, steps + 1, batch).astype("i4")
        want = evaluate(load_onnx(model(op, gates, [steps, batch], direction, lengths)), feed)
        for name, got in program.run(feed).items():
            np.testing.assert_allclose(got, want[name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_many_steps_are_one_loop():
    short, long = (load_onnx(model("LSTM", 4, [n, 2], "forward")) for n in (8, 5000))
    assert len(short.nodes()) == len(long.nodes())
    assert {n.attrs["trips"] for n in loops_of(long)} == {5000}


# ---- Scan and Loop
def values(**shapes):
    return [helper.make_tensor_value_info(n, *(t if isinstance(t, tuple) else (TensorProto.FLOAT, t))) for n, t in shapes.items()]


def whole(nodes, ins, outs, weights=()):
    graph = helper.make_graph(nodes, "g", values(**ins), [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outs], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def scan(length, **axes):
    """s = tanh((s + x) k), y = s x; k is of the graph around it."""
    nodes = [helper.make_node(op, i.split(), [o]) for op, i, o in
             (("Add", "s x", "a"), ("Mul", "a k", "t"), ("Tanh", "t", "so"), ("Mul", "so x", "y"))]  # fmt: skip
    body = helper.make_graph(nodes, "body", values(s=[4], x=[4]), values(so=[4], y=[4]))
    shape = [4, length] if axes.get("scan_input_axes") == [1] else [length, 4]
    node = helper.make_node("Scan", ["s0", "xs"], ["last", "ys"], body=body, num_scan_inputs=1, **axes)
    return whole([node], {"s0": [4], "xs": shape, "k": [4]}, ["last", "ys"])


def counted(trips, ends=False, number="i"):
    """s = (s + i) k, y = s - k. `ends`: as soon as the step's number is 3. `number`: what stands for i."""
    nodes = [helper.make_node("Cast", [number], ["f"], to=TensorProto.FLOAT), helper.make_node("Add", ["s", "f"], ["a"]),
             helper.make_node("Mul", ["a", "k"], ["so"]), helper.make_node("Sub", ["so", "k"], ["y"]),
             helper.make_node("Less", ["i", "three"], ["on"]) if ends else helper.make_node("Identity", ["c"], ["on"])]  # fmt: skip
    inner = values(i=(TensorProto.INT64, []), c=(TensorProto.BOOL, []), s=[4])
    body = helper.make_graph(nodes, "body", inner, values(on=(TensorProto.BOOL, []), so=[4], y=[4]))
    weights = [numpy_helper.from_array(np.asarray(v, np.int64), n) for n, v in (("n", trips), ("three", 3))]
    return whole([helper.make_node("Loop", ["n", "", "s0"], ["last", "ys"], body=body)], {"s0": [4], "k": [4]}, ["last", "ys"], weights)


def against_onnxruntime(program, m, **shapes):
    ort = pytest.importorskip("onnxruntime")
    feed = {n: RNG.uniform(-0.5, 0.5, s).astype("f4") for n, s in shapes.items()}
    want = ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feed)
    for got, w in zip(program.run(feed).values(), want, strict=True):
        np.testing.assert_allclose(got, w, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axes", [{}, {"scan_input_axes": [1], "scan_output_axes": [-1]}, {"scan_input_directions": [1]},
                                  {"scan_output_axes": [1], "scan_output_directions": [1]}])  # fmt: skip
def test_scan_is_a_loop(axes):
    m = scan(6, **axes)
    program = autocomp.optimize(m, target="cpu")
    assert [x.trips for x in program.calls.loops.values()] == [6]
    against_onnxruntime(program, m, s0=(4,), xs=(4, 6) if axes.get("scan_input_axes") == [1] else (6, 4), k=(4,))


def test_scan_over_an_open_length():
    m = scan("steps")
    program = autocomp.optimize(m, target="cpu")
    for steps in (1, 5, 40):
        against_onnxruntime(program, m, s0=(4,), xs=(steps, 4), k=(4,))


@pytest.mark.parametrize(("trips", "ends", "loops"), [(1, False, 0), (9, False, 1), (9, True, 0), (2000, False, 1)])
def test_a_counted_loop_is_a_loop_where_it_runs_to_its_end(trips, ends, loops):
    m = counted(trips, ends)
    program = autocomp.optimize(m, target="cpu")
    assert len(program.calls.loops) == loops
    against_onnxruntime(program, m, s0=(4,), k=(4,))


def by_data(most=None, go=False, ends=False, size=False, stacks=False):
    """s = (s + i) k. `most`: steps, "" those of an input; `size`: as many as a dimension says; `go`: an input says whether it begins;
    `ends`: once the sum of s is `lim`."""
    nodes = [helper.make_node(op, i.split(), [o]) for op, i, o in (("Add", "s f", "a"), ("Mul", "a k", "so"), ("Sub", "so k", "y"))]
    nodes[:0] = [helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT)]
    nodes += [helper.make_node("ReduceSum", ["so"], ["r"], keepdims=0), helper.make_node("Less", ["r", "lim"], ["on"])] if ends else [
        helper.make_node("Identity", ["c"], ["on"])]  # fmt: skip
    scalar = lambda t: (getattr(TensorProto, t), [])
    body = helper.make_graph(nodes, "body", values(i=scalar("INT64"), c=scalar("BOOL"), s=[4]),
                             values(on=scalar("BOOL"), so=[4], **({"y": [4]} if stacks else {})))  # fmt: skip
    ins = {"s0": [4], "k": [4], "lim": []}
    ins |= {"n": scalar("INT64")} if most == "" else {}
    ins |= {"go": scalar("BOOL")} if go else {}
    ins |= {"xs": ["rows", 2]} if size else {}
    outs = ["last", *(["ys"] if stacks else [])]
    before = [helper.make_node("Shape", ["xs"], ["sh"]), helper.make_node("Gather", ["sh", "z"], ["n"])] if size else []
    weights = [numpy_helper.from_array(np.asarray(v, np.int64), n) for n, v, there in (("n", most, most), ("z", 0, size)) if there]
    loop = helper.make_node("Loop", ["n" if most is not None or size else "", "go" if go else "", "s0"], outs, body=body)
    return whole([*before, loop], ins, outs, weights)


@pytest.mark.parametrize(("how", "steps"), [
    ({"most": ""}, "any number of"), ({"ends": True}, "any number of"), ({"most": "", "go": True, "ends": True}, "any number of"),
    ({"most": 7, "ends": True}, "up to 7"), ({"most": 7, "go": True}, "up to 7"), ({"size": True, "ends": True}, "up to rows"),
    ({"size": True, "stacks": True}, "rows"), ({"most": 3000, "ends": True}, "up to 3000")])  # fmt: skip
def test_data_say_how_many_steps_run(how, steps):
    ort = pytest.importorskip("onnxruntime")
    m = by_data(**how)
    program = autocomp.optimize(m, target="cpu")
    assert [x.steps for x in program.calls.loops.values()] == [steps]
    session = ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"])
    for n, go, lim in ((0, True, 1e4), (1, True, 1e4), (2, False, 50.0), (9, True, -1e4), (5, True, 20.0), (12, True, 1e4)):
        feed = {"s0": RNG.random(4), "k": 1.1 + RNG.random(4), "lim": lim, "xs": np.zeros((max(1, n), 2))}
        feed = {k: np.asarray(v, np.float32) for k, v in feed.items()} | {"n": np.asarray(n), "go": np.asarray(go)}
        feed = {k: v for k, v in feed.items() if k in {i.name for i in session.get_inputs()}}
        want = session.run(None, feed)
        for got, w in zip(program.run(feed | {"lim": np.float32(lim)}).values(), want, strict=True):
            np.testing.assert_allclose(got, w, rtol=1e-4, err_msg=f"{n} {go} {lim}")


@pytest.mark.parametrize("how", [{"most": ""}, {"ends": True}])
def test_as_many_rows_as_data_say_are_refused_by_name(how):
    with pytest.raises(UnsupportedOp, match="the number of its steps, of which its output 'ys' has a row each"):
        load_onnx(by_data(stacks=True, **how))


def test_both_branches_of_an_if():
    branch = lambda op: helper.make_graph([helper.make_node(op, ["x"], [op])], op, [], [helper.make_tensor_value_info(op, 1, [4])])
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch("Sqrt"), else_branch=branch("Neg"))
    program = autocomp.optimize(whole([node], {"c": (TensorProto.BOOL, []), "x": [4]}, ["y"]), target="cpu")
    x = np.float32([1, 4, -9, 16])
    np.testing.assert_allclose(program.run({"c": np.array(True), "x": x})["y"], [1, 2, np.nan, 4])
    np.testing.assert_array_equal(program.run({"c": np.array(False), "x": x})["y"], -x)


def test_a_body_need_not_ask_which_step_it_is():
    m = counted(5, number="three")
    program = autocomp.optimize(m, target="cpu")
    assert len(program.calls.loops) == 1
    against_onnxruntime(program, m, s0=(4,), k=(4,))
