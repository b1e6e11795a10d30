"""What the CPU model says of tiles, each by the effect that it stands for; and the benchmark's rank correlation."""

from __future__ import annotations

from dataclasses import replace

import pytest
from autocomp.targets import load_target

import autocomp
from autocomp import pipeline
from autocomp.cost.chip import Chip, load_chip, shipped
from autocomp.cost.cores import CoreModel, register_tile
from autocomp.cost.demand import demand_of
from autocomp.cost.estimate import estimate
from autocomp.cost.reference import own_seconds
from autocomp.ir.builder import Builder
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import F32, Sym, TensorType
from autocomp.options import Options
from autocomp.rewrite import load_rules
from autocomp.trace import Trace
from benchmarks.cost_kernels import attention, chain, columns, conv, graph, matmul, turned
from benchmarks.cost_table import ranks, spearman
from tests.helpers.hosts import cpu_chip, price_for
from tests.helpers.repeats import repeats


def kernel(text):
    calls, _ = pipeline.extract(pipeline.import_model(text, Trace()), load_target("cpu"), load_rules(), Options(cache=False), Trace())
    (call,) = calls.calls
    return call.kernel


def scheduled(tile):
    """What the rules of products give a tile."""
    return Schedule.make(tile, directives=("pack_constants", "read_in_place"))


def seconds(k, chip=None, **tile):
    return estimate(k, scheduled(tile), chip or load_chip("cpu").with_cores(1)).seconds


def part(k, name, **tile):
    return dict(estimate(k, scheduled(tile), load_chip("cpu").with_cores(1)).parts)[name]


@pytest.fixture(scope="module")
def product():
    return kernel(matmul("f32", 512, 768, 512))


def test_every_tile_of_rows_packs_the_other_factor_again(product):
    assert part(product, "packing", i0=8) == pytest.approx(4 * part(product, "packing", i0=32), rel=0.01)
    assert part(product, "packing", i0=64, i1=64) == pytest.approx(part(product, "packing", i0=64), rel=0.3)  # each panel once all the same


def test_a_constant_factor_is_packed_before_the_first_run(product):
    weights = replace(product, inputs=(product.inputs[0], replace(product.inputs[1], constant=True)))
    assert part(weights, "packing", i0=512, i1=768) < part(product, "packing", i0=512, i1=768) / 2
    assert part(weights, "packing", i0=128, i1=768) < part(product, "packing", i0=128, i1=768) / 4
    assert 0 < part(weights, "packing", i0=64) < part(product, "packing", i0=64) / 4  # too large to stay near: every tile reads it again


def test_a_factor_that_is_read_where_it_lies_is_not_packed():
    packing = lambda n: part(kernel(matmul("f32", 512, n, 256)), "packing", i0=64)
    assert packing(64) == 0 < packing(72) and packing(1024) > 0


def test_functions_cost_the_instructions_of_their_polynomials():
    """On a Xeon with AVX-512 a power by 1.7 takes nine times an exponential, a logarithm three: 0.14, 0.48, 2.2 ns an element of 32,768."""
    of = lambda f: seconds(kernel(graph({"x": "f32[65536]"}, f"%0 = abs(x); %1 = {f}", "%1")))
    exp, log, power, cube = map(of, ("exp(%0)", "log(%0)", "pow(%0, const(1.7, f32))", "pow(%0, const(3.0, f32))"))
    assert 1.5 * exp < log < power / 2 and power < 12 * exp and cube == exp


def test_schedules_are_chosen_for_the_cores_that_run(monkeypatch):
    text = matmul("f32", 1024, 1024, 64)
    tile = lambda **options: next(iter(autocomp.optimize(text, target="cpu", cache=False, **options).kernels)).schedule
    with_one, machine = tile(threads=1), load_chip("cpu")
    monkeypatch.setenv("OMP_NUM_THREADS", "1,4")
    assert tile() == with_one and load_target("cpu").chip.cores == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "no number")
    assert load_target("cpu").chip.cores == machine.cores
    assert load_target("cpu", Options(threads=1)).chip.cores == 1
    assert machine.cores == 1 or tile() != with_one


def test_weights_that_do_not_stay_near_a_core_cost_time():
    k = kernel(attention("f32", "1, 16, 256, 64"))
    assert part(k, "packing") > 1.5 * part(k, "packing", i0=1)
    few = kernel(attention("f32", "1, 2, 64, 64"))
    assert part(few, "packing") == pytest.approx(part(few, "packing", i0=1), rel=0.3)


def test_later_passes_over_columns_cost_time_where_a_tile_does_not_stay_near():
    over = lambda axis: kernel(graph({"x": "f32[2048, 256]"}, f"%0 = softmax(x, axes=[{axis}])", "%0"))
    columns, rows = over(0), over(1)
    assert part(columns, "strided reads", i1=64) == 0 < part(columns, "strided reads", i1=256)
    assert part(rows, "strided reads") == 0


def test_packed_constants_cost_time_where_they_come_slower_than_products_take_them():
    """Each tile of rows reads all of them again: beyond what the first cache can have under way, the products wait."""
    k = kernel(matmul("f32", 128, 768, 3072))
    k = replace(k, inputs=(k.inputs[0], replace(k.inputs[1], constant=True)))
    few, some, all_ = (part(k, "packing", i0=n, i1=768) for n in (8, 32, 128))
    assert few > 4 * some > 4 * all_


def test_slices_of_one_tensor_are_priced_as_the_factors_that_they_are():
    """Keys are packed again for every tile of queries, also where queries, keys and values lie in one tensor."""
    lines = []
    for n in range(3):
        lines.append(f"%{n + 7} = slice(x, starts=[{n}, 0, 0], limits=[{n + 1}, 128, 64], steps=[1, 1, 1])")
        lines.append(f"%{n} = reshape(%{n + 7}, shape=[128, 64])")
    lines += ["%3 = transpose(%1, perm=[1, 0])", "%4 = matmul(%0, %3)", "%5 = softmax(%4, axes=[1])", "%6 = matmul(%5, %2)"]
    k = kernel("\n".join(["graph g", "input x: f32[3, 128, 64]", *lines, "output y = %6", ""]))
    assert part(k, "packing", i0=4) > 4 * part(k, "packing", i0=128)


def test_long_rows_against_packed_constants_stay_near_part_by_part():
    short, long_ = (kernel(matmul("f32", 128, 768, k)) for k in (1920, 2064))  # from 2048 on sums are put aside
    short, long_ = (replace(k, inputs=(k.inputs[0], replace(k.inputs[1], constant=True))) for k in (short, long_))
    assert 0 < part(long_, "packing", i0=128, i1=768) < part(short, "packing", i0=128, i1=768)


def test_columns_that_lie_apart_are_gathered(product):
    """Rows of a panel are copied, turned in registers where they lie along the depth, or gathered."""
    text = "graph g\ninput w: f32[48, 64]\ninput x: f32[64, 16, 64]\n%0 = transpose(x, perm=[1, 0, 2])\n%1 = matmul(w, %0)\noutput y = %1\n"
    k, apart = kernel(text), kernel(text.replace("[64, 16, 64]", "[64, 64, 16]").replace("[1, 0, 2]", "[2, 0, 1]"))
    assert part(apart, "packing") > 2 * part(k, "packing")
    assert part(apart, "packing", i0=1) > 1.5 * part(apart, "packing")  # of each line that is read, a tile wants one element
    text = conv("f32", 1, 32, 32, 32)
    one, two = kernel(text.replace("32, 32, 32]", "32, 16, 16]")), kernel(text.replace("strides=[1, 1]", "strides=[2, 2]"))
    assert part(two, "packing") > 1.5 * part(one, "packing")


def test_few_rows_and_half_vectors_leave_the_units_idle(product):
    assert seconds(product, i1=24) > 1.2 * seconds(product, i1=32)
    assert seconds(product, i0=4) > 1.5 * seconds(product, i0=12)
    full = register_tile(512, 768, 16, 32)
    assert full[0] * full[1] >= 10 and full[2] > 0.9  # sums enough for two units of four cycles
    assert register_tile(1, 16, 16, 32)[2] == pytest.approx(0.1)
    for rows, cols in ((1, 5), (7, 33), (14, 64), (100, 100)):
        mr, nv, share = register_tile(rows, cols, 16, 32)
        assert mr * nv + nv + 1 <= 32 and 0 < share <= 1


def test_a_last_panel_takes_the_vectors_that_it_needs():
    """169 columns are eleven vectors, not four panels of three."""
    assert 0.9 < register_tile(512, 169, 16, 32)[2] < register_tile(512, 192, 16, 32)[2]
    k = kernel(matmul("f32", 512, 169, 512))
    assert seconds(k, i0=128, i1=48) < 1.05 * seconds(k, i0=128)


def test_units_of_half_a_vector_take_twice_as_long():
    full, half = (cpu_chip(x).matrix for x in ("zen5", "zen4"))
    assert half["f32"] == pytest.approx(0.74 * full["f32"]) and half["i8"] == pytest.approx(4 * full["f32"])


def test_columns_that_do_not_lie_side_by_side_fill_no_vectors():
    k = kernel(conv("f32", 1, 64, 40, 64))
    whole, lines, part_of_a_line = (seconds(k, i0=64, i1=y, i2=x) for y, x in ((8, 40), (8, 32), (8, 4)))
    assert whole < lines < part_of_a_line and part_of_a_line > 2 * whole  # 8 x 4 columns are not 32 in a row


def test_too_few_tiles_idle_cores(product):
    chip = replace(load_chip("cpu").with_cores(1), cores=1)
    two = replace(chip, cores=2, matrix={k: 2 * v for k, v in chip.matrix.items()})
    assert seconds(product, two, i0=256) < 0.6 * seconds(product, two)
    assert seconds(product, two, i0=176) > 1.1 * seconds(product, two, i0=256)  # three tiles take as long as four


def test_strided_reads_and_short_runs_cost():
    k = kernel(turned("f32", 1000, 1536))
    assert seconds(k, i0=64, i1=64) < 0.9 * seconds(k)  # lines wait in the first cache for the next row
    k = kernel(columns("f32", 2048, 1024))
    assert seconds(k, i0=8) > 4 * seconds(k, i0=32)  # fewer columns than lanes
    k = kernel(chain("f32", 768, 1000))
    assert seconds(k, i0=256, i1=16) > 1.2 * seconds(k, i0=256, i1=1000) > seconds(k, i0=1, i1=1000)


def test_demand_knows_factors_from_other_operands():
    text = "graph g\ninput x: f32[64, 96]\ninput w: f32[96, 80]\ninput r: f32[64, 80]\n%0 = matmul(x, w)\n%1 = add(%0, r)\noutput y = %1\n"
    facts = {tuple(sorted(a.axes)): (a.factor, a.contiguous) for a in demand_of(kernel(text)).operands}
    assert facts == {("i0", "r0"): (True, False), ("i1", "r0"): (True, True), ("i0", "i1"): (False, True)}


def test_spearman_against_known_values():
    assert list(ranks([3.0, 1.0, 1.0, 7.0])) == [2, 0.5, 0.5, 3]
    assert spearman([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert spearman([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)
    assert spearman([1, 2, 3, 4, 5], [2, 1, 4, 3, 5]) == pytest.approx(0.8)  # 1 - 6 * 4 / (5 * 24)
    stats = pytest.importorskip("scipy.stats")
    a, b = [1, 1, 2, 5, 5, 9], [3, 4, 4, 1, 8, 9]
    assert spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)


@pytest.mark.parametrize(("sizes", "threads", "region"), [((128,), 2, False), ((1 << 20,), 2, True), ((Sym("n", 1, 9),), 2, True)])
def test_a_kernel_below_the_price_of_a_parallel_region_runs_on_one_thread(sizes, threads, region):
    """One tile is priced with a call, not with a fork and join, and printed without a region; tiles of open sizes have one."""
    b = Builder("small")
    x = b.input("x", TensorType(F32, sizes))
    b.output("y", b.op("tanh", b.op("mul", x, x)))
    program = autocomp.optimize(b.graph(), target="cpu", threads=threads, cache=False)
    (text,) = [k.text for k in program.printed.values()]
    assert ("ac_share_out(" in text) == region
    (event,) = program.trace.of("schedule")
    chip = program.target.chip
    assert (event.seconds < chip.launch) == (not region)
    if not region:
        assert event.seconds > chip.numbers["plan_call"] / chip.clock
        assert len(event.data["runners_up"]) > 0  # schedules of two tiles, dearer by the region


def test_results_that_lanes_store_apart_have_a_price() -> None:
    """Lanes run along the rows of a product with two columns: every lane stores into another line, some of which stay near."""

    def apart(rows: int, columns: int) -> float:
        d = demand_of(kernel(f"graph g\ninput a: f32[{rows}, 64]\ninput b: f32[64, {columns}]\n%0 = matmul(a, b)\noutput y = %0\n"))
        return CoreModel(d, load_chip("cpu"))._scattered(d.extent)

    limits = load_chip("cpu").limits
    assert apart(512, 64) == apart(512, 4) == 0
    assert apart(512, 2) == pytest.approx(1024 * limits["gather"]) and apart(2**16, 2) == pytest.approx(2**17 * limits["run"])


@pytest.mark.parametrize(("images", "element", "apart"), [(1, "f32", True), (4, "f32", True), (1, "u8", False), (4, "u8", False)])
def test_lanes_run_along_channels_where_the_printer_lets_them(images: int, element: str, apart: bool) -> None:
    """49 of 64 lanes of an image of 7 x 7, and no others beside them; channels of pixels in bytes are not read four at a time."""
    x, w = (f"{d}[{s}]" for d, s in ((element, f"{images}, 512, 7, 7"), (element.replace("u", "i"), "512, 512, 1, 1")))
    casts = '%a = cast(x, to="i32")\n%b = cast(w, to="i32")\n' if element == "u8" else ""
    conv = f"%0 = conv({'%a, %b' if casts else 'x, w'}, lo=[0, 0], hi=[0, 0], strides=[1, 1], dilations=[1, 1], groups=1)"
    d = demand_of(kernel(f"graph g\ninput x: {x}\nparam w: {w} = random(1)\n{casts}{conv}\noutput y = %0\n"))
    model = CoreModel(d, cpu_chip("zen4"))
    assert (model._apart, len(model.cols)) == (apart, 2 if images > 1 and not apart else 1)


@pytest.mark.parametrize(("make", "side", "apart"), [("zen3", 7, False), ("zen3", 5, True), ("zen4", 7, True), ("skylake", 7, False)])
def test_lanes_along_channels_have_to_win_more_than_their_walk_loses(make: str, side: int, apart: bool) -> None:
    """Each step of depth is a line of its own then: 576 > 480 at 7 x 7 401 us, 363 with lanes along 49 places of 56 (Zen 3)."""
    x, w = f"f32[1, 576, {side}, {side}]", "f32[480, 576, 1, 1]"
    conv = "%0 = conv(x, w, lo=[0, 0], hi=[0, 0], strides=[1, 1], dilations=[1, 1], groups=1)"
    d = demand_of(kernel(f"graph g\ninput x: {x}\nparam w: {w} = random(1)\n{conv}\noutput y = %0\n"))
    assert CoreModel(d, cpu_chip(make))._apart is apart


@pytest.mark.parametrize(("rows", "length", "k", "took"), [
    (800, 179, 1, 155), (500, 213, 10, 1116), (300, 67, 10, 528), (50, 991, 5, 584), (44, 2455, 10, 1474), (200, 1000, 50, 4381),
    (400, 60, 30, 785), (300, 200, 150, 1727), (50, 4000, 100, 14531),
])  # fmt: skip
def test_the_first_of_rows_cost_what_was_measured(rows, length, k, took):
    """`took`: nanoseconds a row on a Xeon with AVX-512. The price was a tenth of it: elements of the result at 12 ns each."""
    x, made = TensorType(F32, (rows, length)), TensorType(F32, (rows, k))
    said = own_seconds("topk", {"axis": 1, "k": k}, [x], made, shipped("cpu"))
    assert 0.6 < said / (took * 1e-9 * rows) < 1.6


@pytest.mark.parametrize("make, times", [("zen3", 1.95), ("skylake", 1.95), ("xeon", 1.0)])
def test_products_of_bytes_are_pairs_of_shorts_on_avx2(make: str, times: float) -> None:
    """Two of their four instructions are additions, which do not wait for the units that multiply."""
    chip = cpu_chip(make)
    assert chip.matrix["i8"] == chip.matrix["u8"] == pytest.approx(times * chip.matrix["f32"])


def short(element: str, channels: int, size: int) -> str:
    """A 3 x 3 convolution in f32 of an image of `element`."""
    x, cast = ("x", "") if element == "f32" else ("%a", '%a = cast(x, to="f32")\n')
    conv = f"%0 = conv({x}, w, lo=[1, 1], hi=[1, 1], strides=[1, 1], dilations=[1, 1], groups=1)"
    image, weights = f"1, {channels}, {size}, {size}", f"{channels}, {channels}, 3, 3"
    return f"graph g\ninput x: {element}[{image}]\nparam w: f32[{weights}] = random(1)\n{cast}{conv}\noutput y = %0\n"


HALVES = """graph g
input x: f16[64, 12]
param a: f16[12, 130] = random(1)
param b: f16[130, 64] = random(2)
%0 = matmul(x, a)
%1 = matmul(%0, b)
output y = %1
"""


def chained(text: str, chip: Chip, monkeypatch: pytest.MonkeyPatch) -> tuple[list[tuple[str, ...]], float]:
    """(ops of the kernels, predicted seconds) on a chip, one thread."""
    price_for(monkeypatch, chip)
    program = autocomp.optimize(text, target="cpu", threads=1, cache=False)
    return [k.ops for k in program.kernels], program.predicted


@pytest.mark.parametrize("channels, size", [(128, 28), repeats(96, 40, of="the first"), repeats(160, 20, of="the first")])
def test_windows_of_bytes_are_converted_before_a_chain_where_lanes_would_store_them_apart(channels, size, monkeypatch):
    """Without a price of those stores the conversion is part of a chain of a short convolution's products."""
    chip = cpu_chip("zen3")
    free = replace(chip, limits={**chip.limits, "lane_apart": 0.0})
    within = lambda c: [k for k in chained(short("u8", channels, size), c, monkeypatch)[0] if "cast" in k and k.count("einsum") > 0]
    assert within(free)
    assert not within(chip)


@pytest.mark.parametrize("text", [short("f32", 64, 28), HALVES, matmul("i8", 64, 256, 512)], ids=["floats", "halves", "bytes"])
def test_only_converted_windows_have_the_price_of_lanes_stored_apart(text, monkeypatch):
    chip = cpu_chip("zen3")
    dear = replace(chip, limits={**chip.limits, "lane_apart": 1e9})
    assert chained(text, dear, monkeypatch) == chained(text, chip, monkeypatch)
