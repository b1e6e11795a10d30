"""A kernel is planned when its target is asked whether it admits a schedule, and not once more when it is built; on CUDA chips nothing is
printed for the question."""

from __future__ import annotations

import pickle
from dataclasses import replace
from importlib import import_module

import pytest
from autocomp.targets import load_target
from autocomp.targets.ascend.tables import table
from autocomp.targets.simt import printer

import autocomp
from autocomp.ir.directives import DIRECTIVES, complete
from autocomp.ir.schedule_text import parse
from autocomp.tile.plan import spell
from tests.helpers.device_graphs import GRAPHS, attention, gemm, graph

SUMS = graph({"x": "f32[48, 80]"}, """%0 = reduce_sum(x, axes=[1])
                                           %1 = exp(%0)
                                           %2 = reduce_sum(%1, axes=[0])""")  # fmt: skip


@pytest.mark.parametrize("name", ["cuda:h200", "maca:c500", "ascend:910b"])
def test_what_was_admitted_is_built(name, monkeypatch):
    module, kinds = import_module(f"autocomp.targets.{name.partition(':')[0]}.target"), []
    asks = "planned" if name.startswith("cuda") else "emit"
    plain = getattr(module, asks)
    monkeypatch.setattr(module, asks, lambda program, *rest, **also: kinds.append(program.name) or plain(program, *rest, **also))
    program = autocomp.optimize(SUMS, target=name, cache=False)
    assert len(program.kernels) == 2 and sorted(kinds) == sorted(k.name for k in program.kernels)
    target = load_target(name)
    for call in program.calls.calls:
        (info,) = (k for k in program.kernels if k.name == call.kernel.name)
        text, again = info.source, target.emit(call.kernel, parse(info.schedule)).text
        assert text.startswith(f"/*\n * {call.kernel.name}: ") and text.endswith(again.removeprefix("/*\n"))


def test_another_kernel_schedule_or_process_gets_a_text_of_its_own():
    program = autocomp.optimize(SUMS, target="cuda:h200", cache=False)
    kernel, schedule = program.calls.calls[0].kernel, parse(program.kernels[0].schedule)
    target, other = load_target("cuda:h200"), replace(schedule, threads=2 * schedule.threads)
    for asked in ((kernel, other), (replace(kernel), schedule)):
        target.admit(kernel, schedule)
        assert target.admitted.take(*asked, ()) is None
    target.admit(kernel, schedule)
    assert pickle.loads(pickle.dumps(target)).admitted.take(kernel, schedule, ()) is None
    assert target.admitted.take(kernel, schedule, ("a */ b",)).text.startswith("/*\n * a * / b\n *\n")
    assert target.admitted.take(kernel, schedule, ()) is None  # it was handed out


def test_directives_without_effect_ask_for_no_text_of_their_own():
    """A join has those of its whole; the chosen schedule of another kernel has none of them."""
    program = autocomp.optimize(SUMS, target="cuda:h200", cache=False)
    kernel, schedule = program.calls.calls[0].kernel, parse(program.kernels[0].schedule)
    target, more = load_target("cuda:h200"), replace(schedule, directives=complete({*schedule.directives, "cache_windows"}))
    assert "cache_windows" not in target.emit(kernel, more).applied and schedule.directives
    for admitted, asked, kept in ((more, more, True), (more, schedule, True), (schedule, more, False),
                                  (more, replace(schedule, directives=()), False)):  # fmt: skip
        target.admit(kernel, admitted)
        taken = target.admitted.take(kernel, asked, ())
        assert (taken is not None) == kept
        assert taken is None or taken == target.emit(kernel, asked)


@pytest.mark.parametrize("text", [SUMS, gemm(4096, 4096, 4096)])
def test_a_schedule_is_admitted_without_a_text_and_the_chosen_ones_have_one(text, monkeypatch):
    spelt = []
    monkeypatch.setattr(printer, "spell", lambda *a: spelt.append(a) or spell(*a))
    program = autocomp.optimize(text, target="cuda:h200", cache=False)
    assert len(spelt) == len(program.kernels)
    target, call = load_target("cuda:h200"), program.calls.calls[0]
    target.admit(call.kernel, parse(program.kernels[0].schedule))
    assert len(spelt) == len(program.kernels)


def test_what_took_effect_on_an_npu_is_what_its_text_calls():
    """Directives whose work is one call of the header: said where it is done, and kept in the schedule that is chosen."""
    calls = {"fused_scale": "scaled_less", "thread_partials": "lane_sums", "mma_row_sums": "ones", "handed_fractals": "to_fractals",
             "half_scores": "scores_exp"}  # fmt: skip
    target, seen = load_target("ascend:910b"), set()
    kernel = autocomp.optimize(attention(1, 2, 256, 64), target=target, cache=False).calls.calls[0].kernel
    for some in ((), ("half_scores",), ("fused_scale", "handed_fractals"), ("thread_partials",), ("mma_row_sums",)):
        how = " | ".join(("tile i0 1, i1 32, i2 64, r1 128", "stages 2", "softmax_overlap 1", *some))
        out = target.emit(kernel, parse(how))
        assert set(out.applied) == {d for d, row in calls.items() if f"{table()[row]}(" in out.text}
        seen.update(out.applied)
    assert seen == {*calls}


@pytest.mark.parametrize("name", ["depthwise_stride", "depthwise", "layer_norm_odd", "softmax_wide"])
def test_a_directive_that_takes_no_effect_changes_nothing(name):
    """A chosen schedule lacks those, and another process prints its kernel from what it has."""
    target = load_target("cuda:h200")
    program = autocomp.optimize(GRAPHS[name], target="cuda:h200", cache=False)
    for call in program.calls.calls:
        schedule = parse(next(k.schedule for k in program.kernels if k.name == call.kernel.name))
        every = target.emit(call.kernel, replace(schedule, directives=type(schedule.directives)(DIRECTIVES)))
        used = target.emit(call.kernel, replace(schedule, directives=type(schedule.directives)(every.applied)))
        assert every.text.partition("*/")[2] == used.text.partition("*/")[2]
