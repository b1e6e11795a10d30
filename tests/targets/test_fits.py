"""Whether a schedule fits is answered by all that its plan places: nothing is printed, and printing says the same."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from random import Random

import pytest
from autocomp.targets import load_target

from autocomp.egraph.choose import candidates
from autocomp.egraph.room import is_room
from autocomp.errors import DoesNotFit
from autocomp.frontends.text import parse
from autocomp.ir.schedule import Schedule
from autocomp.options import Options
from autocomp.rewrite import load_rules
from autocomp.rewrite.rule import RuleSet
from benchmarks.fits import FORM, drawn, said
from tests.helpers.covers import cover_of
from tests.helpers.device_graphs import gemm
from tests.helpers.families import FAMILIES
from tests.helpers.repeats import repeats

FORMS = ("product", "attention", "row_reduction", "column_reduction", "scan")
TARGETS = ("cuda:h200", "cuda:a10", "maca:c500")
SEED = 20261124  # the schedules that are drawn, the same in every run
load_rules = cache(load_rules)


@pytest.mark.parametrize("spec", ("cuda:h200", repeats("cuda:a10", of="cuda:h200 and maca:c500"), "maca:c500", "ascend:910b"))
def test_fits_agrees_with_printing_and_prints_nothing(spec, monkeypatch):
    """Of schedules that rules make and of others around them, to the number: `fits` refuses what printing refuses, and nothing else."""
    print(f"seed {SEED}")
    target = load_target(spec)
    forms = FORMS if spec == "cuda:h200" else FORMS[:1] + FORMS[2:4] if spec == "ascend:910b" else FORMS[::2]
    each = 8 if spec == "ascend:910b" else 4  # whose rules bound rows by the bytes of their tiles: few are too large
    cases = [x for form in forms for x in drawn(spec, form, SEED, each)]
    texts = [said(target.emit, k, s) for k, s in cases]
    for text_is_made in ("simt.printer.synchronise", "simt.printer.require", "simt.printer.spell", "simt.emit.source", "cuda.emit.source",
                         "cuda.persistent_rows.source", "ascend.emit.source", "ascend.emit.printed"):  # fmt: skip
        monkeypatch.setattr(f"autocomp.targets.{text_is_made}", lambda *_, **__: pytest.fail("a kernel is printed"))
    mine = [said(target.fits, k, s) for k, s in cases]
    assert mine == texts, [(s, m, x) for (_, s), m, x in zip(cases, mine, texts) if m != x]
    short = [x for x in mine if x not in ("", FORM)]
    assert len(cases) > 40 and len(short) >= 3, (len(cases), short)


RINGED = Schedule.make({"i0": 128, "i1": 192, "r0": 64}, grouped=8, stages=5, roles="warp_specialise", workers=2, persistent=True)


@pytest.mark.parametrize("how, what", [
    (dict(directives=("tma_store",)), "shared memory of a block: needs 238592, has 232448"),  # two boxes of each warpgroup behind the ring
    (dict(directives=()), ""),
    (dict(stages=4, workers=3, ping_pong=True, tile=(("i0", 192), ("i1", 128), ("r0", 64))), "registers of a thread: needs 192, has 132"),
    (dict(stages=4, workers=3, ping_pong=True, tile=(("i0", 64), ("i1", 128), ("r0", 64))), ""),
])  # fmt: skip
def test_what_an_epilogue_stages_and_registers_of_consumers_are_part_of_the_answer(how, what):
    target = load_target("cuda:h200")
    kernel = cover_of(parse(gemm(4096, 4096, 4096)), "h200").calls[0].kernel
    assert said(target.fits, kernel, replace(RINGED, **how)) == what == said(target.emit, kernel, replace(RINGED, **how))


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
    target, rng = load_target(spec), Random(f"{SEED} {spec}")
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


def test_columns_that_are_all_may_be_a_few_more():
    """Of 136 and 160 columns a tile of 256 rows has all; of 168 a thread would hold too many, and of 320 they would not be all."""
    target, tiles = load_target("cuda:h200"), {}
    for columns in (136, 160, 168, 320):
        kernel = cover_of(parse(gemm(8192, columns, 1024)), target.chip.name).calls[0].kernel
        made = [c.schedule for c in candidates(kernel, load_rules(), target.chip, Options()) if c.schedule.roles == "warp_specialise"]
        tiles[columns] = {dict(s.tile)["i1"] for s in made if dict(s.tile)["i0"] == 256 and s.workers == 2 and not s.ping_pong}
    assert 136 in tiles[136] and 160 in tiles[160] and max(tiles[168]) == max(tiles[320]) == 128, tiles


def test_a_tile_that_does_not_fit_is_refused_with_its_numbers():
    target, refused = load_target("cuda:h200"), dict[str, int]()
    kernel = cover_of(parse(gemm(1024, 2048, 1024)), target.chip.name).calls[0].kernel
    candidates(kernel, load_rules(), target.chip, Options(), refused=refused)
    said_so = [x for x in refused if x.startswith("tiling/gpu-one-wave: fits(tile)")]
    numbers = re.compile(r".* is false: (results of a thread|bytes of shared memory): needs \d+, has \d+")
    assert said_so and all(numbers.fullmatch(x) for x in said_so)
