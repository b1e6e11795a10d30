"""Schedules as text: what is printed is read back, and what is no schedule is refused by its clause."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocomp.errors import AutocompError
from autocomp.ir.directives import DIRECTIVES, complete
from autocomp.ir.schedule import Schedule
from autocomp.ir.schedule_text import parse, show

axes = st.sampled_from(["i0", "i1", "i2", "r0", "r1_part"])
sizes = st.integers(1, 4096)
pairs = st.dictionaries(axes, sizes, max_size=4).map(lambda d: tuple(sorted(d.items())))
names = st.lists(axes, max_size=3, unique=True).map(tuple)
schedules = st.builds(
    Schedule,
    tile=pairs,
    vector=st.none() | st.tuples(axes, sizes),
    order=names,
    grouped=st.integers(0, 16),
    parallel=names,
    skew=st.sampled_from([(), ((1, 0), (1, 1)), ((1, 0), (-2, 1))]),
    stages=st.integers(1, 8),
    resident=st.integers(1, 3),
    threads=sizes,
    cluster=st.sampled_from([1, 2, 4]),
    cluster_split_k=st.sampled_from([1, 2, 4]),
    persistent=st.booleans(),
    ping_pong=st.booleans(),
    stream_k=st.booleans(),
    softmax_overlap=st.integers(0, 2),
    rescale_threshold=st.sampled_from([0, 14]),
    split=st.none() | st.tuples(axes, st.integers(2, 64)),
    join=pairs,
    instruction=st.sampled_from(["", "direct", "tf32"]),
    directives=st.sets(st.sampled_from(sorted(DIRECTIVES))).map(complete),
)


@given(schedules, st.integers(1, 4))
def test_what_is_printed_is_read_back(s, workers):
    assert parse(show(s)) == s
    team = Schedule(**{**vars(s), "roles": "warp_specialise", "workers": workers})
    assert parse(show(team)) == team


def test_the_text_is_what_the_documentation_shows():
    text = "tile i0 128, i1 256, r0 64 | stages 4 | warp_specialise 2 | persistent | ping_pong | tma_store | load_c"
    s = parse(text)
    assert show(s) == text and (s.roles, s.workers, s.stages) == ("warp_specialise", 2, 4)
    assert show(Schedule()) == "one tile" and parse("one tile") == Schedule()


@pytest.mark.parametrize(("text", "said"), [
    ("tile i0", "'tile i0' wants an axis and a size"),
    ("tile i0 0", "wants a whole number of 1 or more"),
    ("tile i0 16, i0 8", "names an axis twice"),
    ("tile i0 16 | stags 4", "'stags 4' is no clause of a schedule"),
    ("stages 4 | stages 5", "stands there twice"),
    ("stages many", "wants a whole number"),
    ("ping_pong 2", "is no clause"),
    ("tma_stroe", "did you mean 'tma_store'?"),
    ("load_c", "'load_c' is nothing without tma_store"),
    ("split_k r0 1", "wants a whole number of 2 or more"),
    ("order 3", "wants axes"),
    ("instruction a b", "wants one word"),
    ("stages " + "9" * 5000, "characters are no schedule"),
])  # fmt: skip
def test_what_is_no_schedule_is_refused_by_its_clause(text, said):
    with pytest.raises(AutocompError) as e:
        parse(text)
    assert said in str(e.value)


@given(st.text(max_size=60))
def test_any_text_is_a_schedule_or_an_error_of_ours(text):
    with suppress(AutocompError):
        schedule = parse(text)
        assert parse(show(schedule)) == schedule
