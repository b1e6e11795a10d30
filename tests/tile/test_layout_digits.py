"""Layouts as digits: every element of a tile lies with exactly one worker, or is replicated as the layout says."""

from __future__ import annotations

from collections import Counter
from itertools import product
from math import prod
from random import Random

import pytest
from autocomp.targets.cuda.target import instructions
from hypothesis import given, settings
from hypothesis import strategies as st

from autocomp.tile.layout import Digit, Layout, free_layout, split, weights


def points(layout: Layout, axes: tuple[str, ...]) -> list[tuple[int, ...]]:
    """Index of every (register, lane, wave) along the axes."""
    out = []
    for r, l, w in product(range(layout.registers), range(layout.lanes), range(layout.waves)):
        at = dict.fromkeys(axes, 0)
        for number, level in ((r, layout.reg), (l, layout.lane), (w, layout.wave)):
            for d, below in weights(level):
                if d.axis:
                    at[d.axis] += number // below % d.count * d.stride
        out.append(tuple(at[a] for a in axes))
    return out


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from([1, 2, 4, 16]), st.integers(1, 300), st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4, 8]), st.booleans()
)
def test_a_free_layout_covers_its_tile_evenly(rows, row, vector, waves, whole):
    layout = free_layout({"i": rows, "j": row}, "j", vector, 32, waves, frozenset("j") if whole else frozenset())
    found = points(layout, ("i", "j"))
    count = Counter(found)
    assert {(i, j) for i in range(rows) for j in range(row)} <= set(count)
    assert len(set(count.values())) == 1
    copies = next(iter(count.values()))
    replicas = [d.count for level in (layout.lane, layout.wave) for d in level if not d.axis]
    assert copies == prod(replicas)


@pytest.mark.parametrize("i", [*instructions()[0], *instructions()[1], instructions()[2]], ids=lambda i: i.name)
def test_an_accumulator_holds_each_element_once(i):
    found = points(Layout(i.c[0], i.c[1], i.wave), ("m", "n"))
    assert sorted(found) == [(m, n) for m in range(i.m) for n in range(i.n)]


def test_a_projection_forgets_registers_and_replicates_threads():
    c = Layout((Digit("n", 1, 2), Digit("m", 8, 2)), (Digit("n", 2, 4), Digit("m", 1, 8)), (Digit("m", 16, 2),))
    row = c.project(["m"])
    assert row.registers == 2
    assert row.lane == (Digit("", 0, 4), Digit("m", 1, 8))
    assert set(points(row, ("m",))) == {(m,) for m in range(32)}


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 70), st.sampled_from([1, 3, 5]), st.sampled_from([1, 2, 3, 4]))
def test_a_value_with_one_more_axis_lies_as_the_first_does_along_what_both_have(keys, more, waves):
    """Copies of a row share its keys, registers hold the rest; each element is held as often as every other."""
    rows = Layout((Digit("m", 8, 2),), (Digit("", 0, 4), Digit("m", 1, 8)), (Digit("m", 16, 2), Digit("", 0, waves)))
    wide = rows.extend({"k": keys, "j": more})
    count = Counter(points(wide, ("m", "j", "k")))
    assert (wide.lanes, wide.waves) == (rows.lanes, rows.waves)
    assert set(product(range(32), range(more), range(keys))) <= set(count)
    assert len(set(count.values())) == 1
    along = lambda level: [d for d in level if d.axis == "m"]
    assert [along(x) for x in (wide.reg, wide.lane, wide.wave)] == [along(x) for x in (rows.reg, rows.lane, rows.wave)]


def test_a_digit_of_a_combined_axis_is_split_at_its_parts():
    assert split(Digit("m", 4, 32), [("b", 16), ("a", 8)]) == (Digit("b", 4, 4), Digit("a", 1, 8))
    with pytest.raises(ValueError, match="cuts"):
        split(Digit("m", 8, 4), [("b", 12), ("a", 8)])


@pytest.mark.parametrize("seed", range(60))
def test_registers_that_no_end_cuts_lie_inside_on_every_worker(seed):
    r = Random(seed)
    digit = lambda: Digit(r.choice(["m", "n", ""]), r.choice([1, 2, 4, 8]), r.choice([1, 2, 3, 4]))
    level = lambda: tuple(digit() for _ in range(r.randint(0, 3)))
    layout, extent = Layout(level(), level(), level()), r.randint(1, 40)
    value = lambda digits, number: sum(number // w % d.count * d.stride for d, w in weights(digits) if d.axis == "n")
    inside = [all(value(layout.reg, i) + value(layout.lane, lane) + value(layout.wave, wave) < extent
                  for lane in range(layout.lanes) for wave in range(layout.waves)) for i in range(layout.registers)]  # fmt: skip
    n = layout.uncut("n", extent)
    assert all(inside[:n]) and (n == len(inside) or not inside[n])
