"""Every kernel names the model's own nodes that it computes, through rewriting and fusion."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.ir.builder import Builder
from autocomp.ir.node import Graph
from autocomp.ir.places import places_of, short
from autocomp.ir.types import F32, I64, TensorType
from autocomp.report.layers import Run, folded, layer_lines, runs
from examples.models import llama_block


def named(graph: Graph, **options) -> dict[str, list[str]]:
    """A kernel's name -> the short places that it computes, by call."""
    p = autocomp.optimize(graph, **options)
    return {c.kernel.name: [short(x) for x in places_of(p.calls.source, c.computes, views=False)] for c in p.calls.calls}


class Model:
    """A builder whose nodes have places: m("add", "sum", x, y) is called 'sum'."""

    def __init__(self) -> None:
        self.b = Builder("model")

    def __call__(self, op, name, *inputs, **attrs):
        n = self.b.op(op, *inputs, **attrs)
        self.b.locations[n] = f"node {len(self.b.locations)} '{name}' ({op})"
        return n

    def x(self, name, *shape):
        return self.b.input(name, TensorType(F32, shape))

    def w(self, name, *shape):
        return self.b.param(name, np.random.default_rng(0).standard_normal(shape).astype("f4"))


def test_a_product_made_of_several_computes_each_of_them():
    m = Model()
    x = m.x("x", 64, 64)
    q, k, v = (m("matmul", f"{n}_proj", x, m.w(n, 64, 64)) for n in "qkv")
    weighted = m("matmul", "scores", q, m("transpose", "turned", k, perm=(1, 0)))
    m.b.output("y", m("matmul", "mixed", weighted, v))
    found = named(m.b.graph())
    (merged,) = [places for places in found.values() if "q_proj" in places]
    assert merged == ["q_proj", "k_proj", "v_proj"], found
    assert sorted(x for places in found.values() for x in places).count("q_proj") == 1


def test_a_norm_folded_into_weights_is_computed_with_its_product():
    m = Model()
    y = m("matmul", "fc", m.x("x", 32, 48), m.w("w", 48, 40))
    y = m("mul", "scaled", y, m.w("g", 40))
    m.b.output("y", m("max", "relu", m("add", "shifted", y, m.w("s", 40)), m.b.const(0.0, F32)))
    assert list(named(m.b.graph()).values()) == [["fc", "scaled", "shifted", "relu"]]


def test_what_is_stored_before_a_norm_folded_into_weights_is_not_computed_again():
    m = Model()
    first = m("tanh", "before", m("matmul", "first", m.x("x", 32, 48), m.w("v", 48, 48)))
    y = m("mul", "scaled", m("matmul", "fc", first, m.w("w", 48, 40)), m.w("g", 40))
    m.b.output("y", m("add", "shifted", y, m.w("s", 40)))
    assert list(named(m.b.graph()).values()) == [["first", "before"], ["fc", "scaled", "shifted"]]


def test_a_node_evaluated_twice_is_in_both_kernels():
    m = Model()
    both = m("gather", "both", m.w("table", 100, 64), m.b.input("ids", TensorType(I64, (32,))), axis=0)
    m.b.output("a", m("matmul", "product", both, m.w("w", 64, 64)))
    m.b.output("b", m("reduce_sum", "columns", m("exp", "e", both), axes=(0,), keepdims=False))
    found = named(m.b.graph())
    assert sum("both" in places for places in found.values()) == 2, found


@pytest.mark.parametrize(("kernels", "found"), [
    ("", []),
    ("abc", [Run(0, 1, 1), Run(1, 1, 1), Run(2, 1, 1)]),
    ("aaa", [Run(0, 1, 3)]),
    ("eabababz", [Run(0, 1, 1), Run(1, 2, 3), Run(7, 1, 1)]),
    ("abbabbabb", [Run(0, 3, 3)]),
])  # fmt: skip
def test_runs_of_calls(kernels, found):
    assert runs(list(kernels)) == found


def deep(x, w):
    for _ in range(4):
        x = np.tanh(x @ w).sum(-1, keepdims=True) + x
    return x


def test_layers_that_repeat_are_folded(tmp_path):
    program = autocomp.optimize(deep, example_inputs=(np.zeros((64, 96), "f4"), np.zeros((96, 96), "f4")))
    assert any(layer.times > 1 for layer in folded(program)) and sum(x.times * len(x.calls) for x in folded(program)) == len(
        program.calls.calls)  # fmt: skip
    lines = layer_lines(program)
    assert any(" times" in x for x in lines) and all("test_provenance.py" in x for x in lines), lines
    assert "in the model's words, in order:" in program.explain()


def test_names_are_those_of_this_model_when_the_program_comes_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def model(name):
        m = Model()
        m.b.output("y", m("exp", name, m.x("x", 8)))
        return m.b.graph()

    assert [*named(model("first")).values()] == [["first"]]
    assert [*named(model("second")).values()] == [["second"]]


def test_layers_that_are_alike_have_the_same_kernels():
    def decoder(x, cos, sin, *weights):
        for w, v in zip(weights[::2], weights[1::2]):
            h = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
            q = h @ w
            turned = q * cos + np.concatenate([-q[:, 32:], q[:, :32]], -1) * sin
            x = x + np.tanh(turned) @ v
        return x

    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype("f4") for s in ((48, 64), (48, 64), (48, 64), *[(64, 64)] * 12)]
    program = autocomp.optimize(decoder, example_inputs=arrays, cache=False)
    kernels = [c.kernel.name for c in program.calls.calls]
    times = max(x.times for x in folded(program))
    assert times >= 4 and len(set(kernels)) <= 7, kernels


def test_why_not_says_alike_refusals_once_and_the_nearest_first():
    m = Model()
    x = m.x("x", 32, 64)
    for k in range(48):
        x = m("add", f"layer{k}/add", x, m.w(f"w{k}", 64) if k % 3 else m.b.const(0.5 + k, F32))
    m.b.output("y", x)
    program = autocomp.optimize(m.b.graph(), cache=False)
    text = program.explain(why_not="algebra/add-exact-zero")
    head, *lines = text.splitlines()
    assert "was refused 96 times" in head, text
    assert len(lines) == 2 and "'value(?c) is 0', not so 16 times: value(?c) is 0.5 to 45.5;" in lines[0], text
    assert "'?c is uniform (all elements are one known number)' (44 times)" in lines[1], text
    assert "for example at layer" in lines[0] and "36 more of this rule are not in the trace" in lines[1], text
    at = program.explain(why_not="algebra/add-exact-zero", at="layer3/")
    assert "was refused 1 time at layer3/" in at and "value(?c) is 3.5" in at, at
    with pytest.raises(autocomp.AutocompError, match=r"no node that is called 'layr3/add'\n  next: nearest: .*layer3/add"):
        program.explain(why_not="algebra/add-exact-zero", at="layr3/add")


def test_a_run_begins_where_the_layers_of_the_model_begin():
    """The first layer has another kernel in front, so that what repeats is found one kernel early, or late."""
    kernels = [*"xbc", *"abc" * 4, "a"]
    places = [[f"layers.{i // 3}.part{i % 3}"] for i in range(len(kernels))]
    assert [r for r in runs(kernels) if r.times > 1] == [Run(1, 3, 5)]
    assert [r for r in runs(kernels, places) if r.times > 1] == [Run(3, 3, 4)]
    assert sum(r.length * r.times for r in runs(kernels, places)) == len(kernels)


def test_layers_of_a_graph_as_text_are_named_by_their_parameters():
    program = autocomp.optimize(llama_block(4, seq=32, hidden=64, heads=2, kv_heads=1, inner=64), verify=False)
    repeated = [x for x in folded(program) if x.times > 1]
    assert [x.name for x in repeated] == ["b0 to b3"] and repeated[0].names == ("b0", "b1", "b2", "b3")
    assert layer_lines(program)[0].startswith("b0 to b3: the same ")


def test_kernels_of_a_program_in_another_order_of_dimensions_compute_their_own_nodes_alone():
    """A GPU's convolutions have channels last: no tensor that is stored between them is one of the model's."""
    m = Model()

    def block(x, name, i, o):
        y = m("conv", f"{name}/conv", x, m.w(f"{name}.w", o, i, 3, 3), strides=(1, 1), lo=(1, 1), hi=(1, 1), dilations=(1, 1))
        return m("max", f"{name}/relu", y, m.b.const(0.0, F32))

    x = block(m.x("x", 1, 16, 16, 16), "a", 16, 32)
    y = block(block(x, "b", 32, 32), "c", 32, 32)
    m.b.output("y", block(m("add", "sum", x, y), "d", 32, 48))
    p = autocomp.optimize(m.b.graph(), target="cuda:h200", cache=False, verify=False)
    assert any("channels-last" in r for c in p.calls.calls for r in c.rules)
    found = [{short(x) for x in places_of(p.calls.source, c.computes, views=False)} for c in p.calls.calls]
    parts = [{f"{n}/conv", f"{n}/relu"} for n in "abd"] + [{"c/conv", "c/relu", "sum"}]
    parts += [{"a/relu", *parts[1]}, {"a/relu", "b/relu", *parts[3]}]  # a kernel may do the step before on what it reads
    assert all(any(f <= part for part in parts) for f in found), found
    assert set().union(*found) == set().union(*parts)


def test_layers_that_are_called_without_numbers_have_a_name_each():
    from autocomp.report.layers import _names

    assert _names([[["inc.pool (conv)"]], [["inc.b (conv_1)"]]]) == ("inc.pool: conv", "inc.b: conv_1")
    of = lambda i: f"block.norm (layer_norm_{i})"  # one module, called twice
    assert _names([[[of(1)]], [[of(3)]]]) == (of(1), of(3))
