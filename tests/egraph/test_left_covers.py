"""A cover whose kernels take more than the cheapest one's, whatever the rest of them take, is not scheduled to its end."""

from __future__ import annotations

from random import Random

import pytest
from autocomp.targets import load_target

from autocomp.cost.floors import least_of
from autocomp.egraph import choose, printable
from autocomp.egraph.alike import form_of
from autocomp.frontends.text import parse
from autocomp.options import Options
from autocomp.rewrite import load_rules
from autocomp.trace import Trace
from benchmarks.drawn_graphs import random_graph
from tests.helpers.covers import cover_of
from tests.helpers.device_graphs import graph


def found_of(target: str, told: Trace) -> printable._Found:
    machine, options = load_target(target), Options(cache=False)
    return printable._Found(load_rules(), machine.chip, options, told, machine.admit, None, getattr(machine, "issued", None))


def maps(seed: int) -> str:
    """Some functions of tensors of drawn sizes, of which none is like another."""
    r = Random(seed)
    sizes = [(r.randrange(20, 4000), r.randrange(20, 4000)) for _ in range(6)]
    lines = [f"%e{k} = exp(x{k})\noutput y{k} = %e{k}\n" for k in range(5)]
    return graph({f"x{k}": f"f32[{m}, {n}]" for k, (m, n) in enumerate(sizes)}, "".join(lines) + "%e5 = exp(x5)")


@pytest.mark.parametrize("seed", range(2))
def test_a_cover_is_left_once_the_least_that_it_takes_is_more(seed, monkeypatch):
    calls, told, scheduled = cover_of(parse(maps(seed))), Trace(), []
    of = choose.choose_schedules
    monkeypatch.setattr(printable, "AT_ONCE", 1)
    monkeypatch.setattr(printable.choose, "choose_schedules", lambda new, *x: scheduled.append([k.name for k in new]) or of(new, *x))
    whole = found_of("cuda:h200", told)
    whole.take(calls)
    total, each = whole.best[0], {c.kernel.signature: whole.schedules[c.kernel.signature][1].seconds for c in calls.calls}
    assert len(scheduled) == 1 and total == sum(each.values())

    def taken(best: float, part: bool = True) -> tuple[printable._Found, int]:
        found = found_of("cuda:h200", told)
        found.best = best, None
        scheduled.clear()
        assert not found.take(calls, printable.GAIN, part=part)
        return found, len(scheduled)

    least = sum(least_of(c.kernel, whole.chip) for c in calls.calls)
    assert least < total
    cheaper, turns = taken(2 * total)
    assert turns == len(calls.calls) and cheaper.best[1] is calls and cheaper.best[0] == pytest.approx(total)
    cheap = least + 0.5 * (total - least)
    dearer, turns = taken(cheap)
    assert 0 < turns < len(calls.calls) and dearer.best[1] is None and len(dearer.known.roofs | dearer.known.seconds.keys()) >= turns
    assert told.of("stage")[-1].data["left"] == len(calls.calls) - turns
    first = max(calls.calls, key=lambda c: c.expected - least_of(c.kernel, whole.chip))
    assert scheduled[0] == [first.kernel.name]
    assert taken(0.9 * least)[1] == 0
    assert taken(cheap, part=False)[1] == 1  # all of them, at once


@pytest.mark.parametrize("target", ["cuda:h200", "maca:c500"])
def test_no_chosen_schedule_takes_less_than_the_least(target):
    """Of kernels of functions that are drawn by seed."""
    for seed in range(40, 45):
        found = found_of(target, Trace())
        calls = cover_of(random_graph(Random(seed), wide=True), found.chip.name)
        found.take(calls)
        for c in calls.calls:
            if c.kernel.signature in found.schedules:
                assert least_of(c.kernel, found.chip) <= found.schedules[c.kernel.signature][1].seconds, (seed, c.kernel.name)


def test_covers_for_a_cpu_are_scheduled_whole():
    """Small kernels are parts of one function there: none of them takes a launch."""
    calls, found = cover_of(parse(maps(0)), "cpu"), found_of("cpu", Trace())
    found.best = 1e-9, None
    found.take(calls, printable.GAIN, part=True)
    assert len(found.schedules) == len({c.kernel.signature for c in calls.calls})


def test_kernels_of_one_form_are_scheduled_together(monkeypatch):
    """One schedule is chosen for those that read another row of one tensor."""
    monkeypatch.setattr(printable, "AT_ONCE", 1)
    rows = "".join(f"%s{k} = slice(x, starts=[{k}, 0], limits=[{k + 1}, 4096], steps=[1, 1])\n%e{k} = exp(%s{k})\n" for k in range(3))
    text = graph({"x": "f32[8, 4096]"}, rows + "output a = %e0\noutput b = %e1\n%n = neg(x)\noutput c = %n\n%r = add(%e2, %e2)")
    calls = cover_of(parse(text))
    new = list({c.kernel.signature: c.kernel for c in calls.calls}.values())
    turns = printable._Rest(calls, new, load_target("cuda:h200").chip).turns()
    assert sorted(k.signature for some in turns for k in some) == sorted(k.signature for k in new)
    assert all(len({form_of(k) for k in some}) == 1 for some in turns) and len(turns) == len({form_of(k) for k in new}) < len(new)
