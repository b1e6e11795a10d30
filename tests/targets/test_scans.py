"""Running reductions as scans: what runs and what does not, their tile programs, and C++ on the CPU model at odd sizes."""

from __future__ import annotations

import re
from random import Random

import numpy as np
import pytest

import autocomp
from autocomp.errors import AutocompError, ModelError, UnsupportedOp
from autocomp.ir.scans import as_statistic, is_running
from autocomp.ir.schedule import Schedule
from autocomp.ir.schedule_text import parse as parse_schedule
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from autocomp.tile.check_once import problems
from autocomp.tile.derive import derive
from autocomp.tile.meaning import run
from autocomp.tile.text import parse, show
from tests.helpers import fresh
from tests.helpers.device_graphs import graph
from tests.helpers.repeats import repeating

KINDS = ("", ", exclusive=1", ", reverse=1", ", exclusive=1, reverse=1")


def text(op: str, type_: str, axis: int, kind: str = "", before: str = "", after: str = "") -> str:
    return graph({"x": type_}, f"{before or '%a = relu(x)'}\n%s = {op}(%a, axis={axis}{kind})\n{after or '%y = neg(%s)'}")


def kernel_of(source: str):
    (call,) = autocomp.optimize(source, target="cuda:h200").calls.calls
    return call.kernel


def scheduled(source: str, target: str, schedule: str):
    (kernel,) = autocomp.optimize(source, target=target, without=["running/*"]).kernels
    return autocomp.optimize(source, target=target, without=["running/*"], schedule={kernel.name: schedule})


@pytest.mark.parametrize("kind", repeating(KINDS, {KINDS[1]: "exclusive from the other end"}))
@pytest.mark.parametrize(("op", "numpy"), [("cumsum", np.cumsum), ("cumprod", np.cumprod)])
def test_the_tile_program_means_what_the_fold_does(op, numpy, kind):
    kernel = kernel_of(text(op, "f64[5, 37]", 1, kind, "%a = sub(x, const(0.5, f64))"))
    assert is_running(kernel)
    program = derive(kernel, Schedule.make({"i0": 2}, scan=True))
    assert parse(show(program)) == program
    (scan,) = (line.split(" = ")[1] for line in show(program).splitlines() if " = scan " in line)
    assert scan.startswith(f"scan {'add' if op == 'cumsum' else 'mul'} {'-' * ('reverse' in kind)}i1 ")
    in_turns = derive(kernel, Schedule.make({"i0": 2, "i1": 16}, scan=True))
    assert parse(show(in_turns)) == in_turns and f"serial i1{' from=end' * ('reverse' in kind)}\n" in show(in_turns)
    assert not problems(in_turns)
    x = np.random.default_rng(0).standard_normal((5, 37))
    want = run(derive(kernel, Schedule.make({"i0": 2})), {"in0": x})["out0"]
    for p in (program, in_turns):
        got = run(p, {"in0": x})["out0"]
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    if not kind:
        np.testing.assert_allclose(got, -numpy(x - 0.5, axis=1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("source", "runs"), [
    ("%y = cumsum(x, axis=1)", True), ("%y = cumprod(x, axis=0)", True), ("%y = reduce_sum(x, axes=[1])", False),
    ("%y = softmax(x, axes=[1])", False), ("%a = cumsum(x, axis=1)\n%b = cumsum(x, axis=0)\n%y = add(%a, %b)", False),
])  # fmt: skip
def test_what_runs(source, runs):
    calls = autocomp.optimize(graph({"x": "f32[9, 9]"}, source), target="cuda:h200").calls.calls
    assert all(is_running(c.kernel) for c in calls if "cumsum" in c.ops) or not runs
    assert [is_running(c.kernel) for c in calls].count(True) >= runs
    for c in calls:
        if is_running(c.kernel):
            assert not is_running(as_statistic(c.kernel))
        elif not c.kernel.opaque:
            with pytest.raises(UnsupportedOp, match="has no reduction that runs along"):
                derive(c.kernel, Schedule(scan=True))


def test_what_a_scan_carries_is_checked():
    kernel = kernel_of(text("cumsum", "f32[5, 64]", 1))
    good = show(derive(kernel, Schedule.make({"i0": 2, "i1": 16}, scan=True)))
    for old, new, why in (
        ("serial i1", "serial i1 from=end", "in turns that do not follow each other from its beginning"),
        ("scan add i1", "scan add -i1", "in turns that do not follow each other from its end"),
        ("serial i1", "parallel i1", "in turns that do not follow each other"),
        (", carried\n", "\n", "without what the turns before came to"),
        ("  serial i1\n", "  serial i1\n    carried = fill 1.0\n", "a statement beside it reads or writes it"),
        ("carried: f32[i0]", "carried: f32[]", "what s carries"),
    ):  # fmt: skip
        with pytest.raises(ModelError, match=why):
            parse(good.replace(old, new))
        assert good.count(old) == 1, old


def test_a_part_of_the_row_is_refused():
    kernel = kernel_of(text("cumsum", "f32[5, 64]", 1))
    good = show(derive(kernel, Schedule.make({"i0": 2}, scan=True)))
    with pytest.raises(ModelError, match="of which a tile has 8 of 64"):
        parse(good.replace("tile i0=2", "tile i0=2 i1=8"))
    with pytest.raises(ModelError, match="there is no scan 'sub'"):
        parse(good.replace("scan add", "scan sub"))


def test_other_targets_say_that_they_have_none():
    with pytest.raises(AutocompError, match="scan"):
        scheduled(text("cumsum", "f32[5, 64]", 1), "ascend:910b", "tile i0 1 | scan")


def test_a_long_row_is_scanned_in_parts_side_by_side():
    program = autocomp.optimize(graph({"x": "f32[2, 300000]"}, "%y = cumsum(x, axis=1)"), target="cuda:h200")
    scans = [k for k in program.kernels if "scan" in k.schedule]
    assert len(scans) == 2 and len(program.kernels) == 3
    one = autocomp.optimize(graph({"x": "f32[500, 6000]"}, "%y = cumsum(x, axis=1)"), target="cuda:h200")
    assert ["scan" in k.schedule for k in one.kernels] == [True]
    turns = autocomp.optimize(graph({"x": "f32[414, 38632]"}, "%y = cumsum(x, axis=1)"), target="cuda:h200")  # rows for every core
    assert [dict(parse_schedule(k.schedule).tile)["i1"] < 38632 for k in turns.kernels] == [True]


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler")
def test_long_rows_from_the_end_and_one_row(model, tmp_path):
    """Layouts of values that no tensor has in memory's order: there was no width to take for them."""
    flip = "starts=[0, 36607], limits=[2, -1], steps=[1, -1]"
    for n, source in enumerate((graph({"x": "f16[2, 36608]"}, f"%a = slice(x, {flip})\n%s = cumsum(%a, axis=1)\n%y = slice(%s, {flip})"),
                                graph({"x": "f32[1, 300000]"}, "%y = cumsum(x, axis=1)"))):
        program = autocomp.optimize(source, target="cuda:h200")
        (folder := tmp_path / str(n)).mkdir()
        program.executor = ModelExecutor(program, folder, model)
        assert program.verify().ratio <= 1


def test_sums_of_what_is_copied_ask_no_condition():
    """A condition at each element would hold a predicate until its load is there; copies are zero outside of the extents."""
    of = lambda body: autocomp.optimize(graph({"x": "f32[408, 9796]"}, body), target="cuda:h200").source()
    guarded = lambda text: re.search(r"< 408\)+ sum", text)
    assert not guarded(of("%y = cumsum(x, axis=0)"))
    assert guarded(of("%y = cumprod(x, axis=0)")) and guarded(of("%a = exp(x)\n%y = cumsum(%a, axis=0)"))


def test_columns_are_scanned_in_turns_by_whole_lines_of_memory():
    """Blocks go down columns side by side: no thread exchanges more than a sum for each of its columns."""
    program = autocomp.optimize(graph({"x": "f32[2906, 5503]"}, "%y = cumsum(x, axis=0)"), target="cuda:h200")
    (kernel,) = program.kernels
    tile = dict(parse_schedule(kernel.schedule).tile)
    assert tile["i0"] < 2906 and tile["i1"] * 4 >= 64 and "scan" in kernel.schedule
    assert "ac_shuffle_xor" not in program.source().split("__global__")[1]


@pytest.mark.parametrize(("columns", "lying"), [(9960, "lane (i1,4,32)"), (9958, "lane (i1,2,32)"), (9959, "lane (i1,1,32)")])
def test_lanes_hold_what_one_access_moves(columns, lying):
    """Of rows that begin anywhere lanes with several elements would store parts of sectors several times."""
    program = autocomp.optimize(graph({"x": f"f32[4000, {columns}]"}, "%y = cumsum(x, axis=1)"), target="cuda:h200")
    assert lying in next(line for line in program.source().splitlines() if line.startswith(" * s:"))


def drawn(seed: int) -> tuple[str, str]:
    """A graph, and a schedule of its one kernel."""
    r = Random(seed)
    op, axis = r.choice(("cumsum", "cumprod")), r.choice((0, 1, 1))
    long, others = r.choice((2, 3, 31, 33, 64, 100, 127, 250, 513, 1000)), r.choice((2, 5, 33, 40))
    shape = (long, others) if axis == 0 else (others, long)
    dtype = r.choice(("f32", "f16", "i32", "f64"))
    sums = "%a = relu(x)" if dtype == "i32" else f"%a = mul(x, const(0.5, {dtype}))"
    products = "%a = mul(x, const(1, i32))" if dtype == "i32" else f"%t = mul(x, const(0.01, {dtype}))\n%a = add(%t, const(1.0, {dtype}))"
    threads = r.choice((32, 64, 128, 256))
    part = r.choice([long, *(n for n in (8, 16, 32, 64, 128, 256) if n < long)])
    rows = r.choice([n for n in (1, 2, 4, 8, 16, 32) if n == 1 or n * part <= 32 * threads])
    source = text(op, f"{dtype}[{shape[0]}, {shape[1]}]", axis, r.choice(KINDS), sums if op == "cumsum" else products)
    return source, f"tile i{axis} {part}, i{1 - axis} {rows} | threads {threads} | scan"


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
def test_drawn_scans_on_the_cpu_model(model, tmp_path):
    tried = 0
    for seed in range(14):
        source, schedule = drawn(seed)
        target = ("cuda:h200", "cuda:a100")[seed % 2]
        program = scheduled(source, target, schedule)
        assert all("scan" in k.schedule for k in program.kernels), (seed, source)
        (folder := tmp_path / str(seed)).mkdir()
        program.executor = ModelExecutor(program, folder, model)
        assert program.verify(seed=fresh.seed()).ratio <= 1, (seed, source, schedule)
        tried += 1
    assert tried


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.skipif(not COMPILER, reason="no C++ compiler")
def test_a_scan_of_what_is_flipped_runs_backwards(kind, model, tmp_path):
    """torch's idiom for a scan from the end: between two flips."""
    flip = "starts=[0, 44], limits=[7, -1], steps=[1, -1]"
    source = graph({"x": "f32[7, 45]"}, f"%a = slice(x, {flip})\n%s = cumsum(%a, axis=1{kind})\n%y = slice(%s, {flip})")
    program = autocomp.optimize(source, target="cuda:h200", without=["running/*"])
    (call,) = program.calls.calls
    assert is_running(call.kernel) and "scan" in program.kernels[0].schedule
    program.executor = ModelExecutor(program, tmp_path, model)
    assert program.verify().ratio <= 1
