"""Joins of any number of tensors, sums and choices of many, many outputs: no limit of one body is a limit of a model."""

from __future__ import annotations

from time import process_time

import numpy as np
import pytest
from autocomp.targets import load_target
from onnx import helper

import autocomp
from autocomp.egraph.arity import is_wide
from autocomp.errors import RuleError, UnsupportedOp
from autocomp.ir.builder import Builder
from autocomp.ir.decompose import decompose
from autocomp.ir.node import Graph
from autocomp.ir.types import F32, TensorType
from autocomp.options import Options
from autocomp.pipeline import extract
from autocomp.rewrite import load_rules
from autocomp.trace import Trace


def join(many: int, widths: tuple[int, ...] = (2, 3, 4)) -> Graph:
    b = Builder("join")
    xs = [b.input(f"x{i}", TensorType(F32, (3, widths[i % len(widths)]))) for i in range(many)]
    c = b.op("concat", *xs, axis=1)
    b.locations[c] = "node 'Concat_3'"
    b.output("y", b.op("neg", c))
    return b.graph()


@pytest.mark.parametrize("many", [16, 17, 33, 100, 1000])
def test_a_join_of_any_number(many):
    trace = Trace()
    program = autocomp.optimize(join(many), cache=False, trace=trace)
    xs = [np.random.default_rng(i).standard_normal((3, 2 + i % 3), np.float32) for i in range(many)]
    np.testing.assert_array_equal(program(*xs), -np.concatenate(xs, axis=1))
    fired = [e for e in trace.of("rule") if e.name == "arity/concat"]
    assert [e.data for e in fired] == ([{"phase": "arity", "count": 1}] if many > 16 else [])
    assert all(len(c.kernel.inputs) <= 16 for c in program.calls.calls)


@pytest.mark.parametrize("target", ["cuda:h200", "maca:c500"])
def test_on_gpus_too(target):
    program = autocomp.optimize(join(40), target=target)
    assert all(len(c.kernel.inputs) <= 16 for c in program.calls.calls)


def test_what_is_copied_once_more_has_the_fewest_bytes():
    """17 tensors, of which the last two are small: they alone are joined first."""
    program = autocomp.optimize(join(17, (64,) * 15 + (1, 1)), cache=False)
    first = program.calls.calls[0].kernel
    assert [str(a.type) for a in first.inputs] == ["f32[3, 1]"] * 2


def test_slices_of_one_tensor_are_one_read():
    b = Builder("turned")
    x = b.input("x", TensorType(F32, (40, 5)))
    rows = [b.op("slice", x, starts=[i, 0], limits=[i + 1, 5], steps=[1, 1]) for i in reversed(range(40))]
    b.output("y", b.op("concat", *rows, axis=0))
    program = autocomp.optimize(b.graph(), cache=False)
    given = np.arange(200, dtype=np.float32).reshape(40, 5)
    np.testing.assert_array_equal(program(given), given[::-1])
    assert len(program.calls.calls) == 1


def test_the_message_names_node_operator_limit_and_switch():
    """`without` leaves the split out; the message says that, and is what any op shows that no kernel takes."""
    with pytest.raises(UnsupportedOp) as e:
        autocomp.optimize(join(17), cache=False, without=("arity/concat",))
    assert str(e.value) == ("node 'Concat_3': concat f32[3, 50], which output 'y' needs, reads 17 tensors, one kernel at most 16\n"
                            "  next: leave 'arity/concat' in, which splits it")  # fmt: skip
    with pytest.raises(RuleError, match="no rule is called 'arity/add'"):
        autocomp.optimize(join(17), cache=False, without=("arity/add",))


def test_wide_is_many_tensors_or_very_many_operands():
    assert not is_wide(range(16))
    assert is_wide(range(17))
    assert not is_wide([1] * 64)
    assert is_wide([1] * 65)


def tree(op: str, many: int) -> Graph:
    b = Builder(op)
    y = b.input("x0", TensorType(F32, (5, 7)))
    for i in range(1, many):
        x = b.input(f"x{i}", TensorType(F32, (5, 7)))
        y = b.op("where", b.op("gt", x, b.const(0.0, F32)), b.op("neg", x), y) if op == "where" else b.op(op, y, x)
    b.output("y", y)
    return b.graph()


@pytest.mark.parametrize(("op", "many"), [("add", 17), ("add", 100), ("max", 40), ("mul", 33), ("where", 40)])
def test_chains_of_many_operands(op, many):
    calls = autocomp.optimize(tree(op, many), cache=False, verify=True).calls.calls
    assert len(calls) <= many // 8 and max(len(c.kernel.inputs) for c in calls) < many  # some operands at a time, not two


def test_a_stack_of_many_and_its_reduction():
    b = Builder("stack")
    xs = [b.op("reshape", b.input(f"x{i}", TensorType(F32, (5, 7))), shape=[1, 5, 7]) for i in range(60)]
    b.output("y", b.op("reduce_sum", b.op("concat", *xs, axis=0), axes=[0]))
    program = autocomp.optimize(b.graph(), cache=False, verify=True)
    assert max(len(c.kernel.inputs) for c in program.calls.calls) < 60


def test_many_outputs_of_a_split():
    b = Builder("split")
    x = b.input("x", TensorType(F32, (60, 4)))
    for i in range(20):
        b.output(f"y{i}", b.op("exp", b.op("slice", x, starts=[i * 3, 0], limits=[i * 3 + 3, 4], steps=[1, 1])))
    program = autocomp.optimize(b.graph(), cache=False, verify=True)
    assert len(program.calls.outputs) == 20


def test_an_lstm_of_many_steps():
    """Unrolled, its hidden states are joined."""
    x, w, r = (helper.make_tensor_value_info(n, 1, s) for n, s in (("x", [18, 2, 3]), ("w", [1, 16, 3]), ("r", [1, 16, 4])))
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=4)
    graph = helper.make_graph([node], "g", [x, w, r], [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    program = autocomp.optimize(model, cache=False)
    rng = np.random.default_rng(0)
    feed = [rng.standard_normal(s).astype(np.float32) for s in ((18, 2, 3), (1, 16, 3), (1, 16, 4))]
    onnxruntime = pytest.importorskip("onnxruntime")
    want = onnxruntime.InferenceSession(model.SerializeToString()).run(None, dict(zip("xwr", feed, strict=True)))[0]
    np.testing.assert_allclose(program(*feed), want, rtol=1e-4, atol=1e-5)


def dense(layers: int, grow: int = 8) -> Graph:
    """A block whose layers read the join of all before them: norm, max, convolution, twice."""
    b = Builder("dense")
    weights = iter(range(10**6))

    def weight(*shape: int):
        n = next(weights)
        return b.param(f"p{n}", np.random.default_rng(n).standard_normal(shape, np.float32))

    def layer(x, channels: int, out: int, taps: int):
        for op in ("sub", "mul", "mul", "add"):
            x = b.op(op, x, weight(1, channels, 1, 1))
        x, pad = b.op("max", x, b.const(0.0, F32)), [taps // 2] * 2
        return b.op("conv", x, weight(out, channels, taps, taps), strides=[1, 1], lo=pad, hi=pad, dilations=[1, 1], groups=1)

    xs = [b.input("x", TensorType(F32, (1, grow, 14, 14)))]
    for _ in range(layers):
        joined = b.op("concat", *xs, axis=1) if len(xs) > 1 else xs[0]
        xs.append(layer(layer(joined, grow * len(xs), 4 * grow, 1), 4 * grow, grow, 3))
    b.output("y", b.op("concat", *xs, axis=1))
    return b.graph()


def test_the_work_for_joins_of_many_grows_with_what_is_read():
    """Seconds of the processor, twice what it takes alone. Each choice of operands once summed all leaves anew: 16 s where this took 4."""
    target, rules, options = load_target("cpu"), load_rules(), Options(cache=False)
    start = process_time()
    calls, _ = extract(decompose(dense(24)), target, rules, options, Trace())
    took = process_time() - start
    assert len(calls.calls) >= 48
    assert took < 13, f"{took:.1f} s"
