"""Programs are called from any thread, at any time, with any sizes: results are those of one thread, and memory stays bounded."""

from __future__ import annotations

import ctypes
import gc
import shutil
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import autocomp
from autocomp.runtime import frames, pages, plain

pytestmark = pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")

OPEN = """graph g
dim n in 1..4096
input x: f32[n, 24]
param w: f32[24, 24] = random(0)
%0 = matmul(x, w)
%1 = cumsum(%0, axis=0)
%2 = matmul(%1, w)
%3 = reduce_max(%2, axes=[0], keepdims=True)
%4 = sub(%2, %3)
output y = %4
output z = %1
"""


@pytest.fixture(autouse=True)
def threads_change_often():
    """Threads of Python change after 10 us, so that calls overlap wherever they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(scope="module")
def program():
    return autocomp.optimize(OPEN, threads=1)


def inputs(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, 24)).astype("f4")


def same(got: object, want: object) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(got, want, strict=True))


def together(work, count: int = 4) -> None:
    """`work(i)` in `count` threads that start at one time; the first exception of any."""
    start = threading.Barrier(count)

    def one(i: int) -> None:
        start.wait(30)
        work(i)

    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(one, i) for i in range(count)]:
            done.result(60)


@pytest.mark.parametrize("sizes", [(64,), (64, 3, 200)], ids=["one size", "several sizes"])
def test_calls_of_several_threads_give_what_one_gives(program, sizes):
    feeds = [inputs(n, 10 * i + n) for i in range(4) for n in sizes]
    want = [program(x) for x in feeds]
    wrong = []

    def work(i: int) -> None:
        for k in range(150):
            j = (i * 7 + k) % len(feeds)
            if not same(program(feeds[j]), want[j]):
                wrong.append((i, k, j))

    together(work)
    assert not wrong, f"{len(wrong)} of 600 calls: {wrong[:5]}"


def test_first_calls_of_several_threads_make_constants_and_panels_once():
    for seed in range(4):
        program = autocomp.optimize(OPEN.replace("random(0)", f"random({seed})"), threads=1)
        x = inputs(64, seed)
        got = [None] * 4
        together(lambda i: got.__setitem__(i, program(x)))  # noqa: B023
        want = program(x)
        assert all(same(g, want) for g in got)


def test_results_that_are_kept_stay(program):
    kept: list[tuple[object, list[bytes]]] = []

    def work(i: int) -> None:
        for k in range(20):
            y = program(inputs(900, 100 * i + k))  # results of more than pages.SMALL bytes come from a pool
            kept.append((y, [a.tobytes() for a in y]))

    together(work)
    assert pages.SMALL < 900 * 24 * 4
    assert all([a.tobytes() for a in y] == b for y, b in kept)


def test_profile_and_verify_run_beside_calls(program):
    x = inputs(64, 1)
    want = program(x)
    wrong = []

    def work(i: int) -> None:
        for _ in range(4):
            if i == 0:
                program.profile({"x": inputs(64, 2)}, repeat=3)
            elif i == 1:
                program.verify(seed=3)
            else:
                wrong.extend([i] * (not same(program(x), want)))

    together(work)
    assert not wrong


def test_a_call_within_a_call(program):
    """An input that itself calls the program while the outer call takes it."""
    inner, outer = inputs(64, 1), inputs(64, 2)

    class Computed:
        def __array__(self, dtype=None, copy=None):
            program(inner)
            return outer

    want = program(outer)
    assert same(program(Computed()), want)


def test_outputs_that_are_inputs_or_constants_are_the_callers_own():
    program = autocomp.optimize("graph g\ninput x: f32[4]\nparam w: f32[4] = random(0)\n%0 = add(x, w)\n"
                                "output a = x\noutput b = w\noutput c = %0\noutput d = %0\n")  # fmt: skip
    x = np.arange(4, dtype="f4")
    want = [y.copy() for y in program(x)]
    for y in program(x):
        y += 1
    assert x.tolist() == [0, 1, 2, 3]
    assert same(program(x), want)


def test_sizes_that_vary_keep_a_stated_number_of_bytes(program, monkeypatch):
    limit = 1 << 20
    monkeypatch.setattr(plain, "OWN", 0)  # beside those of small calls (test_plain_calls)
    monkeypatch.setattr(frames, "KEPT", limit)
    monkeypatch.setattr(pages, "KEPT_BYTES", limit)
    fresh = autocomp.optimize(OPEN, threads=1)
    for n in range(1, 1200, 3):
        fresh(inputs(n, 0)[:n])
    largest = 2 * 1200 * 24 * 4 + (1 << 12)
    assert fresh.executor.frames.kept <= max(limit, largest)
    assert fresh.executor.results.kept <= max(limit, largest)
    assert len(fresh.executor.layouts) <= frames.LAYOUTS


def test_two_large_sizes_in_turn_use_one_arena(monkeypatch):
    monkeypatch.setattr(plain, "OWN", 0)
    monkeypatch.setattr(frames, "KEPT", 0)
    program = autocomp.optimize(OPEN, threads=1)
    program(inputs(512, 0))
    (before,) = {id(f.room) for f in program.executor.frames.free()}
    for n in (300, 512, 10):
        program(inputs(n, 0))
        assert {id(f.room) for f in program.executor.frames.free()} == {before}


def test_as_many_large_arenas_are_kept_as_calls_were_under_way(monkeypatch):
    monkeypatch.setattr(plain, "OWN", 0)
    monkeypatch.setattr(frames, "KEPT", 0)
    program = autocomp.optimize(OPEN, threads=1)
    together(lambda i: [program(inputs(k + 60, i)) for k in range(20)], 8)
    kept = list(program.executor.frames.free())
    assert 1 <= len(kept) <= 8
    assert program.executor.frames.kept == sum(f.bytes for f in kept)


def test_one_programs_threads_do_not_change_anothers():
    """`threads=` is of a program: what OpenMP has for the thread that calls stays as it was."""
    program = autocomp.optimize(OPEN, threads=1)
    openmp = ctypes.CDLL(str(program.executor.library.path))  # the symbol of the runtime that it is linked with
    before = openmp.omp_get_max_threads()
    openmp.omp_set_num_threads(3)
    try:
        program(inputs(64, 0))
        assert openmp.omp_get_max_threads() == 3
    finally:
        openmp.omp_set_num_threads(before)


def test_memory_goes_with_the_program():
    """At once, not with Python's next look for cycles."""
    program = autocomp.optimize(OPEN, threads=1)
    program(inputs(64, 0))
    gc.disable()
    try:
        gone = [weakref.ref(x) for x in (program, program.executor, program.executor.frames)]
        del program
        assert [x() for x in gone] == [None] * 3
    finally:
        gc.enable()
