"""Schedules that differ in what no tile program says have one, and none of them has another's."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from autocomp.targets import load_target

from autocomp import rewrite
from autocomp.egraph.choose import candidates
from autocomp.ir.parts import pieces
from autocomp.options import Options
from autocomp.pipeline import extract, import_model
from autocomp.tile import derive as module
from autocomp.tile.derive import derive
from autocomp.trace import Trace

OPTIONS = Options(cache=False, deadline=0)
GRAPHS = {
    "variance of columns": "graph g\ninput x: f16[2048, 480]\n"
    "%0 = cast(x, to=\"f32\")\n%1 = welford(%0, axes=[0], keepdims=True, part=\"var\")\n"
    "output y = %1\n",
    "softmax": "graph g\ninput x: f32[300, 4000]\n%0 = softmax(x, axes=[1])\noutput y = %0\n",
    "product": "graph g\ninput a: f16[512, 768]\ninput b: f16[768, 640]\n%0 = matmul(a, b)\n%1 = gelu(%0)\noutput y = %1\n",
    "attention": "graph g\ninput q: f16[4, 256, 64]\ninput k: f16[4, 64, 256]\ninput v: f16[4, 256, 64]\n%0 = matmul(q, k)\n"
    "%1 = softmax(%0, axes=[2])\n%2 = matmul(%1, v)\noutput y = %2\n",
    "sum in order": "graph g\ninput x: f32[64, 4096]\n%0 = cumsum(x, axis=1, exclusive=False, reverse=False)\noutput y = %0\n",
}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_program_is_made_of_all_that_a_schedule_says(name):
    machine, rules, rng = load_target("cuda:h200", OPTIONS), rewrite.load_rules(options=OPTIONS), random.Random(name)
    calls, _ = extract(import_model(GRAPHS[name], Trace()), machine, rules, OPTIONS, Trace())
    for kernel in {c.kernel for c in calls.calls}:
        every = [c.schedule for c in candidates(kernel, rules, machine.chip, OPTIONS)]
        for s in rng.sample(every, min(12, len(every))):
            (k, own), *_ = pieces(kernel, s)
            few = replace(own, directives=tuple(d for d in own.directives if rng.random() < 0.5))
            for x in (own, few):
                program = derive(k, x, short=True)
                assert program == module._derived.__wrapped__(k, x, True, True)
                assert program is derive(k, replace(x, threads=2 * x.threads, resident=3), short=True)
