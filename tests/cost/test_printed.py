"""What is counted of a printed kernel, and its price: exact where it can be worked out by hand, beside PTX where a compiler says it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from math import isfinite
from random import Random

import numpy as np
import pytest
from autocomp.targets import load_target
from autocomp.targets.simt.function_costs import written
from autocomp.targets.simt.phases import Phases

import autocomp
from autocomp import pipeline
from autocomp.cost.chip import shipped
from autocomp.cost.demand import demand_of
from autocomp.cost.estimate import estimate
from autocomp.cost.issue import Issued, Phase
from autocomp.cost.printed import COUNTED, corrected, resident, time
from autocomp.cost.reductions import meetings
from autocomp.cost.tiles import tile_of
from autocomp.cost.work import Cost
from autocomp.egraph.choose import candidates, choose_schedule
from autocomp.errors import DoesNotFit, UnsupportedOp
from autocomp.ir.body import Map
from autocomp.ir.decompose import decompose
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import F32
from autocomp.options import Options
from autocomp.rewrite import load_rules
from autocomp.tile.program import Value
from autocomp.trace import Trace
from tests.helpers.device_graphs import graph
from tests.helpers.families import FAMILIES

H200 = shipped("h200")
CUDA = load_target("cuda:h200")


def kernels(text: str) -> list[tuple[Kernel, Schedule]]:
    """Kernels of a graph with the schedules that are chosen."""
    trace = Trace()
    calls, schedules = pipeline.extract(decompose(pipeline.import_model(text, trace)), CUDA, load_rules(),
                                        Options(cache=False, tuned=False), trace)  # fmt: skip
    return [(k, schedules[s][0]) for s, k in {c.kernel.signature: c.kernel for c in calls.calls}.items()]


def count(text: str, schedule: Schedule) -> Issued:
    (kernel, _), *_ = kernels(text)
    found = CUDA.issued(kernel, schedule)
    assert found is not None
    return found


def scale(n: int, dtype: str = "f32") -> str:
    return graph({"x": f"{dtype}[{n}]"}, f"%0 = mul(x, const(3, {dtype}))")


# ---- exact counts
def test_requests_sectors_and_blocks_of_a_map():
    """1024 floats by 128 threads: two loads and two stores of 16 bytes a thread, each wave's request names 16 sectors in 4 lines."""
    w = count(scale(65536), Schedule.make({"i0": 1024}, threads=128))
    assert (w.blocks, w.threads) == (64, 128) and len(w.phases) == 1
    assert w.total("memory") == 4 * (2 + 2) and w.phases[0].slots == 4 * 4 * (2 + 2)
    assert w.asked == w.fetched == w.stored == 4096 and w.again == 0
    assert w.read == w.written == 65536 * 4 and w.total("fma") == 4 * 8


def test_odd_rows_are_read_element_by_element():
    rows = lambda n: graph({"x": f"f32[4096, {n}]"}, "%0 = reduce_sum(x, axes=[1], keepdims=False)")
    even, odd = (count(rows(n), Schedule.make({"i0": 1}, threads=128)) for n in (1024, 1023))
    assert odd.total("memory") - even.total("memory") == pytest.approx(4 * 6, rel=0.1)  # eight loads a thread for two
    assert even.asked == even.fetched < odd.asked < 1.3 * even.asked  # rows begin within a sector


def test_a_guard_that_differs_by_element_holds_no_load_back():
    conv = "%0 = conv(x, w, lo=[1, 1], hi=[1, 1], strides=[1, 1], dilations=[1, 1], groups=32)"
    schedule = Schedule.make({"i0": 1, "i1": 1, "i2": 4, "r0": 3, "r1": 3}, threads=128)
    half, single = (count(graph({"x": f"{t}[8, 32, 28, 28]", "w": f"{t}[32, 1, 3, 3]"}, conv), schedule) for t in ("f16", "f32"))
    assert half.total("branch") == single.total("branch") < 80  # both are loaded under predicates
    waits = [sum(p.waits.get("load", 0.0) for p in w.phases) for w in (half, single)]
    assert waits[0] == waits[1]  # and halves are converted behind all of the loads
    assert half.asked < 2 * 4 * 9 * 28 * 32  # not all taps lie inside


def test_what_a_block_reads_in_two_loops_is_read_again():
    body = "%0 = reduce_mean(x, axes=[1], keepdims=True)\n%1 = sub(x, %0)\n%2 = mul(%1, %1)\n%3 = reduce_mean(%2, axes=[1], keepdims=False)"
    text = graph({"x": "f16[64, 4096, 1024]"}, body)
    schedule = Schedule.make({"i0": 1, "i1": 128, "r0": 256, "r1": 256}, threads=512)
    kernel = kernels(text)[0][0]
    wide, narrow = (CUDA.issued(kernel, s) for s in (schedule, schedule.tiled((("i0", 1), ("i1", 16), ("r0", 512), ("r1", 512)))))
    assert wide.again == wide.fetched == 4096 * 128 * 2
    dram = dict(time(wide, H200).parts)["dram"]
    assert dram == pytest.approx(2 * 64 * 4096 * 1024 * 2 / H200.memories[0].bandwidth, rel=0.01)  # 132 blocks have 138 MB
    assert dict(time(narrow, H200).parts)["dram"] < 0.6 * dram, "fewer columns a block, which L2 holds between the two"


def test_passes_over_banks():
    from autocomp.targets.simt.samples import WAVES, Samples

    at = np.arange(32).reshape(1, 32, 1)
    passes = lambda step, bytes_=4: Samples.passes(None, np.broadcast_to(at * step, (WAVES, 32, 1)), bytes_)  # type: ignore[arg-type]
    assert [passes(step) for step in (0, 4, 8, 32, 128)] == [1, 1, 2, 8, 32]
    assert passes(16, 16) == 4


def test_accesses_that_are_told_once_count_as_each_by_itself():
    """Lanes that lie apart alike, or as drawn; made by all of them, by some, by others in each access; from before the buffer on."""
    from autocomp.targets.simt.samples import WAVES, accesses

    draw, lane = np.random.default_rng(0), np.arange(32).reshape(1, 32, 1)
    folded = 0
    for n in range(60):
        begin = draw.integers(0, 99, (WAVES, 1, 1)) * draw.choice([1, 4, 16, 128]) + draw.integers(0, 9, (1, 1, 4)) * draw.choice([4, 32])
        apart = (
            lane * 4,
            lane * 16,
            lane // 2 * 8,
            124 - lane * 4,
            draw.integers(0, 500, (1, 32, 1)),
            draw.integers(0, 500, (WAVES, 32, 4)),
        )
        place = np.broadcast_to(begin + apart[n % 6] - (200 if n % 7 == 0 else 0), (WAVES, 32, 4))
        there = np.broadcast_to((place < np.inf, lane < 9, place >= 0, (begin + lane) % 3 > 0, place < 0)[n % 5], place.shape)
        told = accesses(place, there)
        each = [accesses(place[s : s + 1, :, r : r + 1], there[s : s + 1, :, r : r + 1]) for s in range(WAVES) for r in range(4)]
        for grain in (32, 128):
            assert told.distinct(grain) == sum(x.distinct(grain) for x in each)
        for bytes_ in (2, 4, 8, 16) if n % 6 != 5 else (2, 4):  # pairs that agree are asked of all accesses together
            assert told.passes(bytes_) == sum(x.passes(bytes_) for x in each)
        folded += len(told.times) < len(each)
    assert folded > 30


def test_a_schedule_is_counted_once():
    from autocomp.targets.simt.counted import CountedOnce

    (kernel, _), asked = kernels(FAMILIES[min(FAMILIES)](Random(0)))[0], []
    once = CountedOnce()
    for _ in range(2):
        for threads in range(32, 32 * (2 * once.MOST), 32):
            assert once.issued(kernel, Schedule(threads=threads), 0.0, asked.append) is None
    assert len(asked) == 2 * once.MOST - 1


def test_residents_by_what_runs_out_first():
    made = lambda threads, registers, shared: Issued(1e4, threads, registers, shared, (), 1, 1, 1, 1, 1)
    assert resident(made(128, 32, 0), H200) == 16
    assert resident(made(128, 117, 0), H200) == 4
    assert resident(made(128, 32, 100000), H200) == 2
    assert resident(made(1024, 64, 0), H200) == 1


# ---- the price
def test_prices_scale_with_the_chip():
    """Also of what is counted: a chip with all rates four times as high takes a quarter."""
    fast, seen = H200.faster(4.0), 0
    for family in FAMILIES:
        for kernel, schedule in kernels(FAMILIES[family](Random(f"{family} 1"))):
            work = CUDA.issued(kernel, schedule)
            if work is None:
                continue
            now, then = time(work, H200), time(work, fast)
            assert 4 * then.seconds == pytest.approx(now.seconds, rel=1e-9) and then.bound == now.bound
            seen += 1
    assert seen >= 8


def test_every_shipped_gpu_prices_by_the_same_formulas():
    w = count(scale(1 << 24), Schedule.make({"i0": 1024}, threads=128))
    for name in ("h200", "h100", "a100", "a10", "l40s", "rtx4090", "c500"):
        cost = time(w, shipped(name))
        memory = (w.read + w.written) / shipped(name).memories[0].bandwidth
        assert isfinite(cost.seconds) and memory < cost.seconds < 3 * memory, name


def test_a_lone_block_is_bound_by_its_waits():
    phase = Phase(100.0, {"fma": 800.0}, 0.0, 0.0, {"load": 1.0, "barrier": 1.0})
    w = Issued(1, 256, 32, 0, (phase,), 4096, 4096, 4096, 4096, 4096)
    cost = time(w, H200)
    assert cost.bound == "latency" and cost.seconds > 100 * H200.latency


def test_blocks_of_few_elements_are_bound_by_their_starts():
    """An outer product of 12288 x 12288 f32: 183 us by 4 elements a thread, 134 by 8, 149 by 4 in blocks twice as large
    (benchmarks/cost_rank.py, H200, 2026-11-29)."""
    text = graph({"x": "f32[12288, 1]", "y": "f32[12288]"}, "%0 = mul(x, y)")
    four, eight, larger = (
        time(count(text, Schedule.make(tile, threads=threads)), H200)
        for tile, threads in (({"i0": 8, "i1": 64}, 128), ({"i0": 8, "i1": 128}, 128), ({"i0": 8, "i1": 128}, 256))
    )
    assert four.bound == "block starts" and eight.bound == "dram"
    assert eight.seconds < larger.seconds < 0.95 * four.seconds


def test_a_count_raises_a_price_and_never_lowers_it():
    w = count(scale(1 << 24), Schedule.make({"i0": 1024}, threads=128))
    by_count = time(w, H200).seconds
    higher, lower = Cost(by_count * 1.01, "dram"), Cost(by_count / 2, "dram")
    assert corrected(higher, w, H200) is higher
    assert corrected(lower, w, H200).seconds == pytest.approx(by_count * 0.5 ** (1 - COUNTED))


def test_l2_brings_again_what_the_cache_of_a_core_holds_in_part():
    """A block asks four times for 64 KB: with one a core the cache has it all, with eight of 512 KB half of what is asked again."""
    phase = Phase(1.0, {"fma": 4096.0}, 1024.0, 0.0, {"load": 1.0})
    blocks = lambda n, threads: Issued(132 * n, threads, 32, 0, (phase,), 1e6, 0, 4 * 65536, 65536, 0)
    near = lambda w: dict(time(w, H200).parts)["l2"] * H200.numbers["l2_reads"] / w.blocks / 65536
    assert near(blocks(1, 2048)) == pytest.approx(1)
    assert resident(blocks(64, 256), H200) == 8 and near(blocks(64, 256)) == pytest.approx(1 + 3 / 2)


def test_a_block_that_has_a_core_alone_overlaps_nothing():
    """tanh of 1299 x 3848 floats by tiles of 32 and of 4 elements a thread: 26.0 and 21.1 us, of which the overwritten cache takes 7;
    a product without roles of 128 x 256 results a block: 53.7 us, with roles 34 (benchmarks/cost_rank.py, H200, 2026-11-27)."""
    phase = Phase(1.0, {"fma": 4096.0}, 1024.0, 0.0, {"load": 1.0})
    blocks = lambda registers: Issued(396, 512, registers, 0, (phase,), 26e6, 26e6, 65536, 65536, 65536)
    alone, several = time(blocks(90), H200), time(blocks(32), H200)
    assert resident(blocks(90), H200) == 1 and resident(blocks(32), H200) == 4
    assert dict(alone.parts)["not overlapped"] > 2.5 * dict(several.parts)["not overlapped"] and alone.seconds > 1.05 * several.seconds


def test_quotients_with_a_slow_path_wait_for_each_other():
    """Compilers overlap no two divisions whose slow path is a call, and compute one twice that stands twice in the text: the quotients of
    Welford's step, 64 elements a thread, took 64 us where 26 were counted (var of 13020 x 768 f16, H100, 2026-11-27)."""
    x = {"x": f"f32[{1 << 20}]", "y": f"f32[{1 << 20}]"}
    once, cheap = (count(graph(x, f"%0 = {fn}(x, y)\n%1 = add(%0, x)"), Schedule.make({"i0": 4096}, threads=128)) for fn in ("div", "mul"))
    assert [sum(p.waits.get("special", 0.0) for p in w.phases) for w in (cheap, once)] == [0, 32]
    a = Value(F32, "a")
    quotient = Map(F32, "div", (a, Value(F32, "b")))
    assert written(Map(F32, "mul", (Map(F32, "sub", (a, quotient)), quotient)))[quotient] == 2


def test_sines_with_a_slow_path_wait_for_each_other():
    """where(x > y, sin x, cos y) of 12 million bf16 by 8, 16 and 32 elements a thread: 31.9, 33.0 and 38.2 us; sin x * cos x + exp x of 16
    million f32 by 16 and 32 40.5 and 47.4 (H200, 2026-12-01). Every element's path ends before the next one's begins."""
    body = "%c = gt(x, y)\n%0 = sin(x)\n%1 = cos(y)\n%out = where(%c, %0, %1)"
    text = graph({"x": "bf16[12033501]", "y": "bf16[12033501]"}, body)
    found = {n: count(text, Schedule.make({"i0": 128 * n}, threads=128)) for n in (16, 32)}
    assert [w.phases[0].waits["branch"] for w in found.values()] == [32, 64]
    assert time(found[32], H200).seconds > 1.05 * time(found[16], H200).seconds


def test_sectors_that_two_blocks_write_are_read_before():
    schedule = Schedule.make({"i0": 32, "i1": 64}, threads=256)
    odd, whole = (count(graph({"x": f"bf16[{rows}, {columns}]"}, "%0 = transpose(x, perm=[1, 0])"), schedule)
                  for rows, columns in ((4060, 4926), (4096, 4928)))  # fmt: skip
    assert whole.partial == 0 and odd.partial == 32 * 2 * 0.75 * 32  # 32 runs of 128 bytes that begin at multiples of 8
    assert time(odd, H200).seconds > 1.15 * time(whole, H200).seconds


def test_parts_of_sectors_take_a_line_of_the_cache_each():
    """Eight halves of a row by four lanes: 94 MB took 105 us, as whole lines 23 (H200, 2026-11-28)."""
    text = graph({"a": "f16[512, 64]", "b": "f16[64, 512]"}, "%0 = matmul(a, b)")
    schedule = Schedule.make({"i0": 64, "i1": 64, "r0": 32}, threads=128, stages=2)
    pieces, whole = count(text, schedule), count(text, replace(schedule, directives=("turned_store",)))
    assert pieces.parts == pieces.lines == 64 * 64 / 8
    assert (whole.parts, whole.lines) == (0, 64 * 64 * 2 / 128)
    assert dict(time(pieces, H200).parts)["stores"] > 9 * dict(time(whole, H200).parts)["stores"]


def test_what_registers_do_not_hold_waits_in_local_memory():
    phases = Phases(4)
    phases.found = [Phase(8.0, {"memory": 2.0}, 10.0, 0.0, {})]
    phases.spill(3)
    assert phases.found == [Phase(8.0, {"memory": 2.0 + 2 * 3 * 4}, 10.0 + 2 * 3 * 4, 0.0, {"shared": 3.0})]


# ---- the choice
DEPTHWISE = graph({"x": "f16[32, 96, 56, 56]", "w": "f16[96, 1, 7, 7]"},
                  "%0 = conv(x, w, lo=[3, 3], hi=[3, 3], strides=[1, 1], dilations=[1, 1], groups=96)")  # fmt: skip


def test_a_counted_choice_is_the_cheaper_one():
    """A 7 x 7 depthwise convolution, whose roofline is a quarter of what its printed code takes under any of its schedules."""
    (kernel, chosen), *_ = kernels(DEPTHWISE)
    before, cost = choose_schedule(kernel, load_rules(), H200, Options(cache=False), Trace(), CUDA.admit)
    counted = lambda s: time(CUDA.issued(kernel, s), H200).seconds
    assert before != chosen and counted(before) > 3 * cost.seconds
    assert counted(chosen) <= counted(before)
    assert counted(chosen) < counted(Schedule.make({"i0": 1, "i1": 1, "i2": 2, "i3": 56, "r0": 7, "r1": 7}, threads=128))


def test_counting_ends_where_a_counted_one_is_cheapest():
    (kernel, _), *_ = kernels(scale(1 << 22))
    seen: list[Schedule] = []

    def issued(k: Kernel, s: Schedule) -> Issued | None:
        seen.append(s)
        return CUDA.issued(k, s)

    trace = Trace()
    schedule, cost = choose_schedule(kernel, load_rules(), H200, Options(cache=False), trace, CUDA.admit, issued=issued)
    assert len(seen) == 1 and len(trace.of("schedule")[-1].data["runners_up"]) == 3  # what only the trace shows is not counted
    assert cost.seconds == estimate(kernel, schedule, H200).seconds


# ---- beside what a compiler makes
FAMILY = ("pointwise", "row_reduction", "transposed", "depthwise", "column_reduction", "lookup")
PTX = {"ld.global": "memory", "st.global": "memory", "shfl": "memory", "ld.shared": "memory", "st.shared": "memory", "cp.async.c": "memory",
       "ex2": "special", "rcp": "special", "rsqrt": "special", "sqrt": "special", "lg2": "special", "tanh": "special",
       "fma.rn.f32": "fma", "add.f32": "fma", "sub.f32": "fma", "mul.f32": "fma", "cvt.f32.f16": "fma", "cvt.rn.f16": "fma"}  # fmt: skip


def ptx(text: str) -> str:
    """Straight from NVRTC; the test is skipped where it is not installed."""
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC's bindings are not installed")
    from autocomp.targets.cuda.nvrtc import _toolkit_include, headers

    if missing := CUDA.toolchain.missing():
        pytest.skip(missing)
    known = headers()
    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"k.cu", len(known), [t.encode() for t in known.values()],
                                          [n.encode() for n in known])  # fmt: skip
    options = ["--gpu-architecture=compute_90a", "--std=c++17", "--device-as-default-execution-space"]
    options += [f"--include-path={x}" for x in [_toolkit_include()] if x]
    assert nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])[0] == nvrtc.nvrtcResult.NVRTC_SUCCESS
    code = b" " * nvrtc.nvrtcGetPTXSize(program)[1]
    nvrtc.nvrtcGetPTX(program, code)
    nvrtc.nvrtcDestroyProgram(program)
    return code.decode(errors="replace")


def straight() -> Iterator[tuple[str, Kernel, Schedule]]:
    """Kernels of drawn shapes under schedules whose text has no loop that stays one: what stands in it runs once."""
    for family in FAMILY:
        found = 0
        for seed in range(6):
            for kernel, _ in kernels(FAMILIES[family](Random(f"{family} {seed}"))):
                for c in candidates(kernel, load_rules(), H200, Options(cache=False)):
                    s = c.schedule
                    if s.roles != "single" or s.persistent or s.split or s.cluster > 1 or found >= 2:
                        continue
                    try:
                        body = CUDA.emit(kernel, s).text
                    except (UnsupportedOp, DoesNotFit):
                        continue
                    if "for (int it" in body or "for (int kk" in body:
                        continue
                    found += 1
                    yield f"{family} {seed}", kernel, s
                    break
            if found >= 2:
                break


def test_counts_beside_ptx():
    """Median and 90th percentile of count over PTX, by pipe. Memory and special functions are one to one; PTX has
    multiplications and additions that the assembler joins, and packs halves two at a time."""
    ratios: dict[str, list[float]] = {"memory": [], "special": [], "fma": []}
    rows = []
    for name, kernel, s in straight():
        work = CUDA.issued(kernel, s)
        assert work is not None
        source = CUDA.emit(kernel, s)
        there: Counter[str] = Counter()
        for line in ptx(CUDA.preamble([source]) + source.text).splitlines():
            op = re.sub(r"^[{\s]*(@!?%p\d+\s+)?", "", line)
            pipe = next((pipe for word, pipe in PTX.items() if op.startswith(word)), None)
            if pipe:
                there[pipe] += 1
        warps = work.threads / 32
        row = {pipe: (work.total(pipe) / warps, there[pipe]) for pipe in ratios}
        rows.append(f"{name:20} {row}")
        for pipe, (mine, its) in row.items():
            if its >= 4:
                ratios[pipe].append(mine / its)
    print(*rows, sep="\n")
    table = {pipe: (float(np.median(x)), float(np.quantile(np.abs(np.log(x)), 0.9))) for pipe, x in ratios.items() if x}
    for pipe, (middle, apart) in table.items():
        print(f"{pipe:8} n {len(ratios[pipe]):2}  median {middle:.2f}  90 % within a factor of {np.exp(apart):.2f}")
    assert 0.8 < table["memory"][0] < 1.25 and np.exp(table["memory"][1]) < 2
    assert 0.7 < table["fma"][0] < 1.5


@pytest.mark.parametrize("op", ["cumsum(x, axis=0, exclusive=True, reverse=True)", "pad(x, lo=[1], hi=[2])", "reduce_sum(x, axes=[0])",
                                "slice(x, starts=[0], limits=[-1], steps=[-1])"])  # fmt: skip
def test_one_element_is_counted(op):
    for target in ("cuda:h200", "maca:c500"):
        program = autocomp.optimize(f"graph g\ninput x: f32[1]\n%0 = {op}\noutput y = %0\n", target=target, cache=False)
        assert all(k.predicted > 0 for k in program.kernels)


def test_sectors_that_two_warps_write_in_part_cost_more_the_more_a_thread_stores():
    """4640 rows of 77841 f32 took 711 us by 4 stores of a thread, 866 by 32 (H200, 2026-12-01); rows of whole sectors no longer so."""

    def memory(width: int, tile: int) -> float:
        w = count(graph({"x": f"f32[58, 80, {width}]", "y": "f32[80, 1]"}, "%out = mul(x, y)"),
                  Schedule(tile=(("i0", 1), ("i1", 1), ("i2", tile)), threads=128))  # fmt: skip
        return dict(time(w, H200).parts)["dram"] / (8 * 58 * 80 * width / H200.memories[0].bandwidth)

    assert memory(77824, 4096) == pytest.approx(memory(77824, 512), rel=0.01) == pytest.approx(1, rel=0.01)
    assert memory(77841, 4096) > 1.05 * memory(77841, 1024) > 1.1


def test_a_map_whose_elements_are_compared_one_by_one_waits_for_seven_at_a_time():
    text = graph({"x": "f32[58, 80, 77841]", "y": "f32[80, 1]"}, "%out = mul(x, y)")
    waits = {}
    for tile, more in ((4096, ()), (4096, ("peel_tail",)), (512, ())):
        w = count(text, Schedule(tile=(("i0", 1), ("i1", 1), ("i2", tile)), threads=128, directives=more))
        waits[tile, bool(more)] = sum(p.turns * p.waits.get("load", 0.0) for p in w.phases)
    assert waits[4096, False] == waits[4096, True] + 4 and waits[512, False] == waits[4096, True]


def test_blocks_of_larger_clusters_begin_further_apart():
    """206 rows of 24192 f32: their sums took 11.3 us by a block each, 12.4, 12.7 and 13.9 by 2, 4 and 8 (H200, 2026-12-01)."""
    ((kernel, _),) = kernels(graph({"x": "f32[206, 24192]"}, "%0 = abs(x)\n%out = reduce_sum(%0, axes=[1], keepdims=False)"))
    d = demand_of(kernel)

    def meet(cluster: int) -> float:
        s = Schedule(tile=(("i0", 1),), threads=128, cluster=cluster)
        return meetings(s, H200, d, tile_of(d, dict(s.tile), H200, False, False, 128))

    apart = H200.numbers["further_apart"]
    assert meet(1) == 0 and 2 * apart < meet(4) and meet(8) >= meet(4) + apart >= meet(2) + 2 * apart


def test_maps_with_few_loads_under_way_take_less_of_memory():
    """Leaky ReLU of 97 million floats: 185.5 us by one load of a thread, 196 by eight; sums, which store little, take the same (H200,
    2026-12-01)."""

    def memory(body: str, tile: int, threads: int) -> float:
        (k, _), *_ = kernels(graph({"x": "f32[2464, 39416]"}, body))
        w = CUDA.issued(k, Schedule(tile=((k.axes[0].name, tile),), threads=threads))
        assert w is not None
        return dict(time(w, H200).parts)["dram"] / ((w.read + w.written) / H200.memories[0].bandwidth)

    one, eight_warps, two, eight = (memory("%out = relu(x)", *x) for x in ((512, 128), (1024, 256), (1024, 128), (4096, 128)))
    assert one == pytest.approx(eight_warps) and one < two < eight < 1 and eight > 1.03 * one
    sums = [memory("%out = reduce_sum(x, axes=[1])", 1, n) for n in (512, 1024)]
    assert sums == pytest.approx([1, 1], rel=1e-3)
