"""Prices of functions that nobody had tuned for, beside what was measured (`benchmarks/held_out_prices.py`)."""

from __future__ import annotations

from math import log

from autocomp.targets import load_target

from benchmarks.held_out_prices import MEASURED, priced, summary


def test_no_measured_row_is_priced_far_off():
    found = list(priced(MEASURED, load_target("cuda:h200")))
    print(*summary(found), sep="\n")
    off = {p.row.name: abs(log(p.after / p.row.us)) for p in found}
    before = [abs(log(p.before / p.row.us)) for p in found]
    assert max(off.values()) < log(1.7), max(off, key=lambda n: off[n])
    assert sum(off.values()) / len(off) < 0.15 < 0.2 < sum(before) / len(before)
    assert not [p.row.name for p in found if p.chosen > 1.01 * p.after], "what is chosen now is never dearer"
