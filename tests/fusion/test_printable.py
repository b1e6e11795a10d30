"""Kernels that the target cannot print: the cover does without them, and says so; where nothing else is left, the first refusal."""

from __future__ import annotations

import pytest
from autocomp.targets import load_target

import autocomp
from autocomp.egraph import printable, saturate
from autocomp.errors import UnsupportedOp
from autocomp.frontends.text import parse
from autocomp.ir.body import Contract, postorder
from autocomp.ir.decompose import decompose
from autocomp.options import Options
from autocomp.rewrite import load_rules
from autocomp.simulate.simt_model import COMPILER
from autocomp.trace import Trace
from benchmarks.random_graphs import check
from tests.helpers.device_graphs import GRAPHS, graph

ONE_NUMBER_A_HEAD = graph({"q": "bf16[1, 4, 1, 1]", "k": "bf16[1, 4, 72, 1]", "b": "bf16[72]"},
                          "%t = transpose(k, perm=[0, 1, 3, 2])\n%0 = matmul(q, %t)\n%1 = add(%0, b)\n%2 = softmax(%1, axes=[3])\n"
                          "%3 = matmul(%2, k)")  # fmt: skip


def kernels_without(text: str, refuses):
    """(kernels, trace) of a GPU that prints no schedule of a kernel for which `refuses` holds."""
    machine, options, trace = load_target("cuda:h200"), Options(), Trace()
    rules = load_rules(options.rules, without=options.without, options=options)

    def admit(kernel, schedule):
        if refuses(kernel):
            raise UnsupportedOp("no such thing", where=f"kernel {kernel.name}")
        machine.admit(kernel, schedule)

    frozen = saturate.saturate(decompose(parse(text)), rules, options, trace, machine.chip.features)
    calls, schedules = printable.cover(frozen, rules, machine.chip, options, trace, admit)
    assert {c.kernel.signature for c in calls.calls} == set(schedules)
    return [c.kernel for c in calls.calls], trace


def contractions(kernel) -> int:
    return sum(isinstance(e, Contract) for e in postorder(*(s.value for s in kernel.stores)))


def test_attention_comes_apart_where_one_kernel_of_it_cannot_be_printed():
    fused, _ = kernels_without(GRAPHS["attention_f16"], lambda k: False)
    assert len(fused) == 1
    apart, trace = kernels_without(GRAPHS["attention_f16"], lambda k: "weighted_sum" in k.name)
    assert len(apart) > 1
    assert sum(map(contractions, apart)) == 2
    assert next(e.data["reason"] for e in trace.of("reject") if e.name == "target" and e.data["phase"] == "cover") == "no such thing"


def rotary(kind: str = "bf16", length: int = 512, size: int = 128) -> str:
    """Causal attention over queries and keys that are turned by their positions."""
    whole, half = [1, 32, length, size], [1, 32, length, size // 2]
    turn = lambda x, n: [
        f"%{x}a = slice({x}, starts=[0, 0, 0, 0], limits={half}, steps=[1, 1, 1, 1])",
        f"%{x}b = slice({x}, starts=[0, 0, 0, {size // 2}], limits={whole}, steps=[1, 1, 1, 1])",
        f"%{x}n = neg(%{x}b)", f"%{x}c = concat(%{x}n, %{x}a, axis=3)", f"%{x}d = mul(%{x}c, sin)", f"%{x}e = mul({x}, cos)",
        f"%{n} = add(%{x}e, %{x}d)"]  # fmt: skip
    body = [*turn("q", "tq"), *turn("k", "tk"), "%t = transpose(%tk, perm=[0, 1, 3, 2])", "%s = matmul(%tq, %t)",
            f"%i = iota(shape=[{length}, {length}], axis=0)", f"%j = iota(shape=[{length}, {length}], axis=1)", "%m = ge(%i, %j)",
            f"%w = where(%m, %s, const(-inf, {kind}))", "%p = softmax(%w, axes=[3])", "%y = matmul(%p, v)"]  # fmt: skip
    given = {"q": whole, "k": whole, "v": whole, "cos": [length, size], "sin": [length, size]}
    inputs = [f"input {n}: {kind}{shape}" for n, shape in given.items()]
    return "\n".join(["graph rotary", *inputs, *body, "output y = %y"])


def test_attention_stays_whole_where_queries_and_keys_are_turned_before():
    kernels, _ = kernels_without(rotary(), lambda k: False)
    assert len(kernels) == 3
    assert ["softmax_weighted_sum" in k.name for k in kernels if contractions(k)] == [True]
    check(parse(rotary("f32", 9, 8)), "cpu")


@pytest.mark.parametrize("length, size", [(1024, 64), (2048, 72)])
def test_turned_queries_and_keys_are_stored_where_attention_would_turn_them_for_each_tile(length, size):
    """Of many bodies of the scores, that which reads stored factors is kept beside those that compute them again."""
    kernels, _ = kernels_without(rotary("bf16", length, size), lambda k: False)
    (attention,) = (k for k in kernels if contractions(k))
    assert "softmax_weighted_sum" in attention.name and len(attention.inputs) <= 4
    assert len(kernels) in (2, 3)


def test_an_epilogue_is_left_out_before_the_product_is_given_up():
    apart, _ = kernels_without(GRAPHS["gemm_bias_gelu"], lambda k: contractions(k) and "gelu" in k.name)
    assert any(contractions(k) for k in apart)


def test_the_first_refusal_is_raised_where_no_cover_is_left():
    with pytest.raises(UnsupportedOp, match="kernel matmul_add_gelu: no such thing"):
        kernels_without(GRAPHS["gemm_bias_gelu"], contractions)


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("target", ["cuda:h200", "cuda:a100", "maca:c500"])
def test_attention_over_heads_of_one_number(target):
    check(parse(ONE_NUMBER_A_HEAD), target)


def test_more_covers_are_tried_where_the_best_computes_element_after_element(monkeypatch):
    """A stem whose channels come first: seven covers have it in forms that only the scalar unit has (62 us, 26 behind them)."""
    text = graph({"x": "f16[1, 3, 32, 32]", "w": "f16[16, 3, 3, 3]", "b": "f16[16, 1, 1]"}, """
%1 = conv(x, w, dilations=[1, 1], groups=1, hi=[1, 1], layout="nchw", lo=[1, 1], strides=[2, 2])
%2 = add(%1, b)
%0 = relu(%2)""")
    monkeypatch.setattr(printable, "COVERS", 2)
    by_elements = lambda: "instruction scalar" in str(autocomp.optimize(text, target="ascend:910b1", cache=False).kernels[0].schedule)
    assert not by_elements()
    monkeypatch.setattr(printable, "MORE", 0)
    assert by_elements()


def test_covers_of_one_graph_price_a_body_once(monkeypatch):
    """The second cover, without what the first one had in a kernel, asks for few bodies that the first did not."""
    from autocomp.egraph import cover as covers
    from autocomp.egraph import cut_prices, factors

    subjects, asked, worked = [], [], []
    subject_of, factors_of, work = covers.subject_of, factors.factors_of, cut_prices.Prices._work
    monkeypatch.setattr(covers, "subject_of", lambda *a: subjects.append(a) or subject_of(*a))
    monkeypatch.setattr(cut_prices, "factors_of", lambda *a: asked.append(a) or factors_of(*a))
    monkeypatch.setattr(cut_prices.Prices, "_work", lambda self, cut, extra: worked.append((cut, extra)) or work(self, cut, extra))
    _, trace = kernels_without(GRAPHS["attention_f16"], lambda k: False)
    once = len(asked), len(worked)
    assert len(subjects) == 1
    _, trace = kernels_without(GRAPHS["attention_f16"], lambda k: "weighted_sum" in k.name)
    assert len(trace.of("cut")) > 1
    assert len(subjects) == 2  # of two compilations
    assert len(asked) - once[0] <= 1.5 * once[0] and len(worked) - once[1] <= 1.5 * once[1]


def test_what_nobody_reads_takes_no_by_products():
    """A kernel whose readers had become by-products of another one was counted once more when it was offered one of its own."""
    inputs = "input a: f32[16, 40, 264]\ninput i: i64[1]\ninput b: f32[16, 264, 128]\ninput w: f32[16, 128, 72]\ninput x: f32[72, 1]"
    mask = "%1 = iota(axis=0, dtype=\"i64\", shape=[1, 128])\n%2 = iota(axis=1, dtype=\"i64\", shape=[1, 128])\n%3 = ge(%1, %2)"
    scores = "%0 = gather(a, i, axis=1)\n%4 = matmul(%0, b)\n%5 = mul(%4, const(0.06, f32))\n%6 = where(%3, %5, const(-inf, f32))"
    rest = "%7 = softmax(%6, axes=[2])\n%8 = matmul(%7, w)\n%9 = matmul(%8, x)\n%10 = gelu(%8)"
    text = f"graph g\n{inputs}\n{mask}\n{scores}\n{rest}\noutput y0 = %0\noutput y1 = %9\noutput y2 = %10\n"
    assert autocomp.optimize(text, target="ascend:950pr").kernels
