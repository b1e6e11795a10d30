"""Kernels that read rows at other places are scheduled as one, and as each of them alone would be."""

import pytest
from autocomp.targets import load_target

from autocomp import Options, pipeline
from autocomp.egraph import choose
from autocomp.egraph.alike import form_of
from autocomp.frontends.text import parse
from autocomp.rewrite import load_rules
from autocomp.trace import Trace
from tests.helpers.covers import cover_of
from tests.helpers.device_graphs import graph


def steps(places, width, more=""):
    """tanh(row @ w) of some rows of x, one kernel each."""
    lines, outputs = [], []
    for k, at in enumerate(places):
        lines += [f"%s{k} = slice(x, starts=[{at}, 0, 0], limits=[{at + 1}, 8, {width}], steps=[1, 1, 1])",
                  f"%r{k} = reshape(%s{k}, shape=[8, {width}])", f"%m{k} = matmul(%r{k}, w)", f"%{k} = tanh(%m{k})"]  # fmt: skip
        outputs.append(f"output y{k} = %{k}")
    head = f"graph g\ninput x: f32[16, 8, {width}]\ninput w: f32[{width}, 32]\n"
    return parse(head + "\n".join([*lines, more, *outputs]) + "\n")


def test_rows_of_whole_lines_are_of_one_form():
    kernels = [c.kernel for c in cover_of(steps((0, 5, 9), 64)).calls]
    assert len({k.signature for k in kernels}) == 3 and len({form_of(k) for k in kernels}) == 1
    assert form_of(kernels[0]) == kernels[0].signature


def test_rows_that_begin_within_lines_are_not():
    kernels = [c.kernel for c in cover_of(steps((0, 1, 2), 9)).calls]  # 288 bytes a row
    assert len({form_of(k) for k in kernels}) == 3


def test_two_rows_of_one_tensor_stay_apart():
    body = "\n".join(f"%a{k} = slice(x, starts=[{a}, 0], limits=[{a + 1}, 64], steps=[1, 1])\n"
                     f"%b{k} = slice(x, starts=[{b}, 0], limits=[{b + 1}, 64], steps=[1, 1])\n%{k} = mul(%a{k}, %b{k})"
                     for k, (a, b) in enumerate(((1, 1), (1, 2))))  # fmt: skip
    (k1,) = (c.kernel for c in cover_of(parse(graph({"x": "f32[8, 64]"}, body.partition("\n%a1")[0]))).calls)
    (k2,) = (c.kernel for c in cover_of(parse(graph({"x": "f32[8, 64]"}, "%a1" + body.partition("%a1")[2]))).calls)
    assert form_of(k1) != form_of(k2) and form_of(k2) == k2.signature


@pytest.mark.parametrize("target", ["cpu", "cuda:h200"])
def test_they_are_chosen_once_and_as_alone(target, monkeypatch):
    machine, rules, options = load_target(target, Options()), load_rules(), Options(cache=False, tuned=False)
    rules = load_rules(without=("fusion/siblings", "fusion/sibling-products"))
    asked = []
    own = choose._choose
    monkeypatch.setattr(choose, "_choose", lambda k, *rest: asked.append(k) or own(k, *rest))
    extracted = lambda g: pipeline.extract(g, machine, rules, options, Trace())
    together, schedules = extracted(steps((0, 5, 9), 64))
    assert len(together.calls) == 3 and len(asked) == 1
    for call, at in zip(together.calls, (0, 5, 9), strict=True):
        alone, chosen = extracted(steps((at,), 64))
        assert chosen[alone.calls[0].kernel.signature] == schedules[call.kernel.signature]
        assert machine.emit(call.kernel, schedules[call.kernel.signature][0]).text
