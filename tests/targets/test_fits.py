"""Whether a schedule fits is answered by the places of its values: nothing is printed, and printing says the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import pytest
from autocomp.targets import load_target
from autocomp.targets.simt.printer import Printer

from autocomp.egraph.choose import candidates
from autocomp.egraph.room import is_room
from autocomp.errors import DoesNotFit, UnsupportedOp
from autocomp.frontends.text import parse
from autocomp.ir.kernel import Kernel
from autocomp.ir.parts import pieces
from autocomp.ir.schedule import Schedule
from autocomp.options import Options
from autocomp.rewrite import load_rules
from autocomp.rewrite.rule import RuleSet
from tests.helpers import fresh
from tests.helpers.covers import cover_of
from tests.helpers.device_graphs import gemm
from tests.helpers.families import FAMILIES

FORMS = ("product", "attention", "row_reduction", "column_reduction", "convolution")
TARGETS = ("cuda:h200", "cuda:a10", "maca:c500")
EACH = 8  # schedules of each kernel, drawn, and their neighbours
load_rules = cache(load_rules)


def said(ask: Callable[[Kernel, Schedule], Any], kernel: Kernel, schedule: Schedule) -> str:
    """The refusal of a schedule that does not fit, "" where nothing is refused or its form is."""
    try:
        ask(kernel, schedule)
    except DoesNotFit as e:
        return e.what
    except UnsupportedOp:
        pass
    return ""


def drawn(spec: str, form: str) -> Iterator[tuple[Kernel, Schedule]]:
    """Schedules that rules make, and others around them: deeper rings, more blocks on a core, larger tiles, fewer threads."""
    rng = Random(f"{fresh.seed()} {form}")
    chip = load_target(spec).chip
    kernel = cover_of(parse(FAMILIES[form](rng)), chip.name).calls[0].kernel
    found = candidates(kernel, load_rules(), chip, Options())
    for c in rng.sample(found, min(EACH, len(found))):
        k, s = pieces(kernel, c.schedule)[0] if c.schedule.split else (kernel, c.schedule)
        yield k, s
        yield k, replace(s, stages=2 * s.stages)
        yield k, replace(s, resident=s.resident + 1)
        yield k, replace(s, tile=tuple((a, 2 * n) for a, n in s.tile))
        yield k, replace(s, threads=s.threads // 2)


@pytest.mark.parametrize("spec", TARGETS)
def test_fits_agrees_with_printing_and_prints_nothing(spec, monkeypatch):
    target, refused, later = load_target(spec), 0, 0
    cases = [x for form in FORMS for x in drawn(spec, form)]
    texts = [said(target.emit, k, s) for k, s in cases]
    monkeypatch.setattr(Printer, "__init__", lambda *_, **__: pytest.fail("a kernel is printed"))
    for (k, s), text in zip(cases, texts):
        mine = said(target.fits, k, s)
        staged = not mine and text.startswith("shared memory")  # by an epilogue or a reduction, which printing places
        assert mine == text or staged, (s, mine, text)
        assert not mine or said(target.emit, k, s) == mine  # and printing asks it first
        refused, later = refused + bool(mine), later + staged
    assert refused > 10 * later, (refused, later)


def test_numbers_say_what_is_needed_and_what_there_is():
    target = load_target("cuda:h200")
    kernel = cover_of(parse(FAMILIES["row_reduction"](Random(0))), "h200").calls[0].kernel
    with pytest.raises(DoesNotFit) as refused:
        target.fits(kernel, Schedule.make({a.name: 64 for a in kernel.axes[:1]}, threads=32))
    assert refused.value.needed > refused.value.available == 255 and "registers of a thread" in refused.value.what


def unbounded(rules: RuleSet) -> RuleSet:
    """The rules without `fits(tile)`."""
    return replace(rules, rules=tuple(replace(r, where=tuple(c for c in r.where if not is_room(c))) for r in rules.rules))


@pytest.mark.parametrize("spec", TARGETS)
def test_what_rules_bound_is_what_placement_refuses(spec):
    """Of plain products, whose tiles are as large as rules say: no target prints a schedule that `fits(tile)` leaves out, but for results
    beyond half of a thread's registers; and what is left in does not lack shared memory when it is placed."""
    target, rng = load_target(spec), Random(f"{fresh.seed()} {spec}")
    kernel = cover_of(parse(gemm(1024, 2048, 1024)), target.chip.name).calls[0].kernel
    mine = {c.schedule for c in candidates(kernel, load_rules(), target.chip, Options())}
    more = [c.schedule for c in candidates(kernel, unbounded(load_rules()), target.chip, Options()) if c.schedule not in mine]
    printed = [s for s in rng.sample(more, 25) if not said(target.emit, kernel, s)]
    assert len(more) > 300 and not [s for s in printed if results(s) <= 128], printed
    kept = [said(target.fits, kernel, s) for s in rng.sample(sorted(mine, key=str), 50)]
    assert not any("shared" in x for x in kept), kept


def results(s: Schedule) -> float:
    """Of a product of matrices, that a thread holds."""
    rows, columns, _ = (n for _, n in s.tile)
    return rows * columns / (128 * (1 if s.ping_pong else s.workers) if s.roles == "warp_specialise" else s.threads)


def test_a_tile_that_does_not_fit_is_refused_with_its_numbers():
    target, refused = load_target("cuda:h200"), dict[str, int]()
    kernel = cover_of(parse(gemm(1024, 2048, 1024)), target.chip.name).calls[0].kernel
    candidates(kernel, load_rules(), target.chip, Options(), refused=refused)
    said_so = [x for x in refused if x.startswith("tiling/gpu-one-wave: fits(tile)")]
    numbers = re.compile(r".* is false: (results of a thread|bytes of shared memory): needs \d+, has \d+")
    assert said_so and all(numbers.fullmatch(x) for x in said_so)
