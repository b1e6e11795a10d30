"""The net of concurrent calls holds: some seeds are right, and an arena that calls share is caught."""

from __future__ import annotations

import shutil
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

import pytest

import autocomp
from benchmarks.fuzz import threads

pytestmark = pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")


@pytest.mark.parametrize("seed", range(5))
def test_some_seeds(seed):
    case = threads.draw(seed)
    assert case.text() == threads.draw(seed).text()
    print(case.text())
    verdict = threads.check(case)
    assert verdict.kind in ("right", "refused"), verdict.detail


def test_one_arena_for_all_calls_is_caught():
    """In a process of its own: calls that write each other's memory may also end it."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        try:
            kind, detail = pool.submit(_in_one_arena).result()
        except BrokenProcessPool:
            return
    assert kind == "wrong"
    assert "callers: caller" in detail


def _in_one_arena() -> tuple[str, str]:
    """Verdict on a program whose calls of equal sizes share a frame."""
    drawn = (c for c in map(threads.draw, range(100)) if "dim n" in c.text() and c.text().count("cumsum") > 1)
    case = next(c for c in drawn if c.callers > 5 and len(c.graph.nodes()) > 9)
    program = autocomp.optimize(case.graph, threads=1)
    assert program.slots.temporary
    frames, one = program.executor.frames, {}
    take, part = frames.take, program.executor.library.part

    def later(*args):
        time.sleep(0.002)  # another call is sure to have begun
        return part(*args)

    program.executor.plain, program.executor.library.part = None, later
    frames.take = lambda key, *how: one[key] if key in one else one.setdefault(key, take(key, *how))
    frames.give = lambda frame: None
    verdict = threads.judged(program, case)
    return verdict.kind, verdict.detail


def test_results_that_are_written_again_are_caught(monkeypatch):
    case = next(c for c in map(threads.draw, range(100)) if "dim n" not in c.text() and all(n.type.elements for _, n in c.graph.outputs))
    program = autocomp.optimize(case.graph, threads=1)
    program.executor.plain, one = None, {}
    made = type(program.executor.results).array
    monkeypatch.setattr(type(program.executor.results), "array",
                        lambda self, shape, dtype: one.setdefault((shape, dtype), made(self, shape, dtype)))  # fmt: skip
    assert threads.judged(program, case).kind == "wrong"


def test_smaller_cases_are_smaller():
    case = threads.draw(3)
    size = lambda c: (len(c.graph.nodes()), len(c.graph.outputs), c.callers, c.team, len(c.sizes))
    less = list(threads.smaller(case))
    assert less
    assert all(any(a < b for a, b in zip(size(c), size(case))) for c in less)
