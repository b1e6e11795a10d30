"""Progress with and without a terminal, and the rows below the table."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from autocomp.cost.chip import load_chip
from autocomp.frontends.text import parse
from autocomp.options import Options
from autocomp.report.tuning import TuneProgress, remarks, result_rows, verdict
from autocomp.tune.kernel import KernelResult
from autocomp.tune.ranks import spearman
from autocomp.tune.tuner import Progress
from tests.helpers.covers import cover_of


def told(terminal):
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=120)
    with TuneProgress(console) as progress:
        progress(Progress("matmul", 1, 2, 3, 100, 0.0, 0.0, 1, 1.5))
        progress(Progress("matmul", 1, 2, 4, 100, 2e-5, 3e-5, 1, 2.0))
        progress(Progress("softmax", 2, 2, 1, 7, 1e-5, 1e-5, 0, 9.0))
    return text.getvalue()


def test_without_a_terminal_there_are_plain_lines():
    assert told(False).splitlines() == [
        "matmul (1 of 2): 3 of 100 schedules, best none, untuned failed, 1 failed, 2 s",
        "matmul: 4 of 100 schedules tried, best 20 us, untuned 30 us, 1 failed, 2 s",
        "softmax: 1 of 7 schedules tried, best 10 us, untuned 10 us, 9 s",
    ]


def test_on_a_terminal_there_is_a_bar_and_a_line_a_kernel():
    text = told(True)
    assert "\x1b[" in text
    assert "matmul: 4 of 100 schedules tried, best 20 us" in text
    assert "softmax: 1 of 7 schedules tried" in text


def test_rank_correlation():
    assert spearman([(1, 10), (2, 20), (3, 15), (4, 40)]) == pytest.approx(0.8)
    assert spearman([(1, 3), (2, 2), (3, 1)]) == pytest.approx(-1)
    assert spearman([(1, 1), (1, 2), (2, 3)]) == pytest.approx(0.8660254)
    assert spearman([(1, 1), (2, 2)]) is None
    assert spearman([(1, 1), (1, 2), (1, 3)]) is None


def rows(*results):
    return result_rows(results, load_chip("cpu"), Options())


def test_the_verdict_is_about_the_program():
    a = KernelResult("a", 3, untuned_seconds=2e-5, tuned_seconds=1e-5)
    both = rows(a, KernelResult("b", 1, untuned_seconds=9e-5, tuned_seconds=9e-5))
    assert [(r["gain"], r["near"]) for r in both] == [(pytest.approx(2), 0.5), (1, 1)]
    assert verdict(both, 1.2) == "program: 150 us untuned, 120 us tuned, 1.25 times faster; `optimize` uses the measured schedules"
    assert "below min_speedup 1.3: `optimize` rolls back to the untuned schedules (--set min_speedup=1 uses them)" in verdict(both, 1.3)
    assert verdict(rows(KernelResult("c", 1, note="not begun: the time is over")), 1.2) == "nothing was tuned"


def test_times_that_were_never_undisturbed_are_doubted():
    kernel = cover_of(parse("graph g\ninput x: f32[64, 64]\n%0 = exp(x)\noutput y = %0\n"), "cpu").calls[0].kernel
    told = lambda share: remarks(rows(KernelResult("a", 1, tuned_seconds=1e-9, schedule="{}", kernel=kernel, figures={"disturbed": share})))
    assert told(1.0) == ["a: other processes disturbed every run: measure on a quiet machine"]
    assert told(0.9) == []


def test_failures_and_open_ends_are_told():
    note = "5 schedules are left: the time is over"
    data = rows(KernelResult("a", 1, failures={"run: killed by SIGSEGV": 2}, tuned="tile i0 4", note=note))
    assert remarks(data) == ["a: 2 schedules failed: run: killed by SIGSEGV", f"a: {note}"]
