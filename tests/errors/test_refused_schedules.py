"""Where no schedule of a kernel is admitted, the error says which came nearest, its numbers, and what the others met."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from autocomp.targets import load_target

import autocomp
from autocomp.cost.chip import load_chip
from autocomp.egraph.choose import choose_schedule
from autocomp.egraph.cover import cover
from autocomp.egraph.saturate import freeze_graph
from autocomp.errors import DoesNotFit, UnsupportedOp
from autocomp.frontends.text import parse
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.options import Options
from autocomp.rewrite import load_rules
from autocomp.rewrite.rule import RuleSet
from autocomp.trace import Trace
from tests.helpers.device_graphs import gemm

H200 = load_chip("h200")


def kernel_of(text: str) -> Kernel:
    return cover(freeze_graph(parse(text)), load_rules(), H200, Options(), Trace()).calls[0].kernel


def choose(kernel, admit, rules=None):
    rules = load_rules() if rules is None else rules
    return choose_schedule(kernel, rules, H200, Options(), Trace(), admit)


def test_the_schedule_that_lacks_least_is_shown_with_both_numbers():
    small = replace(H200, memories=tuple(replace(m, capacity=3000) if m.name == "shared" else m for m in H200.memories))
    target = replace(load_target("cuda:h200"), chip=small)
    lacking = []

    def admit(kernel: Kernel, schedule: Schedule) -> None:
        try:
            target.admit(kernel, schedule)
        except DoesNotFit as e:
            lacking.append((e.needed / e.available, e.what))
            raise

    with pytest.raises(DoesNotFit) as e:
        choose(kernel_of(gemm(512, 256, 512)), admit)
    assert e.value.needed / e.value.available == min(lacking)[0] < max(lacking)[0]
    assert e.value.what in {what for least, what in lacking if least == min(lacking)[0]}
    text = str(e.value)
    assert re.search(r"needs \d+, has \d+\n  next: use .+; of \d+ schedules \d+ end so, the first is tile i0 \d+, i1 \d+", text)
    assert re.search(r"; the others: \d+ x shared memory of a block: needs \d+, has 3000, ", text)


def test_without_numbers_the_reason_that_most_schedules_met_is_shown():
    def admit(kernel: Kernel, schedule: Schedule) -> None:
        raise UnsupportedOp("four stages" if schedule.stages == 4 else "not four stages", where="kernel k", hint="none")

    said = r"^kernel k: not four stages\n  next: none; of \d+ schedules .* the others: \d+ x four stages$"
    with pytest.raises(UnsupportedOp, match=said):
        choose(kernel_of(gemm(64, 64, 128)), admit)


def test_a_kernel_that_no_rule_cuts_names_the_condition_that_refused_most():
    def admit(kernel: Kernel, schedule: Schedule) -> None:
        raise UnsupportedOp("no", where="kernel k")

    rules = load_rules()
    narrow = RuleSet(tuple(r for r in rules if r.name == "tiling/gpu-skinny"))
    said = r"^kernel k: no\n  next: no other schedule is left, tiling/gpu-skinny: \?M < 16 is false: \?M is 512 \(54 choices\)$"
    with pytest.raises(UnsupportedOp, match=said):
        choose(kernel_of(gemm(512, 256, 512)), admit, narrow)
    with pytest.raises(UnsupportedOp, match=r"no other schedule is left, no rule made one$"):
        choose(kernel_of(gemm(512, 256, 512)), admit, RuleSet())


@pytest.mark.parametrize("target", ["cuda", "maca"])
def test_a_recurrence_that_gpus_have_no_form_for_is_refused(target):
    text = "graph g\ninput a: f32[1000]\n%0 = stencil(a, offsets=[[0], [1]], weights=[0.5, 0.5], steps=9)\noutput o = %0\n"
    with pytest.raises(UnsupportedOp, match=r"a recurrence reads its last step.*no form on GPUs"):
        autocomp.optimize(text, target=target)
