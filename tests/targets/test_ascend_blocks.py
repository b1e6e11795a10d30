"""A chip whose copies are whole blocks of 32 bytes and that has one kind of cores (310P): what is printed for it, run on the model."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from autocomp.targets import load_target
from autocomp.targets.ascend.api import api, check
from autocomp.targets.ascend.blocks import least_run, unusable
from autocomp.targets.ascend.target import own_names
from autocomp.targets.ascend.toolchain import headers

import autocomp
from autocomp.cost.estimate import estimate
from autocomp.errors import UnsupportedOp
from autocomp.ir.affine import Aff
from autocomp.ir.body import Axis, Load, rewrite
from autocomp.ir.reference import evaluate
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import BF16
from autocomp.runtime.inputs import random_inputs
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor, ModelFailure
from autocomp.tile.derive import derive
from tests.helpers import fresh
from tests.helpers.device_graphs import graph

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no g++")
# Rows that end within a block, of results and of a line beside them; a statistic; values below a diagonal.
MANY = """graph g
input a: f16[67, 333]
input b: f16[333]
input c: f32[67, 260]
input d: f32[3, 33]
input e: f16[130, 3]
%0 = softmax(a, axes=[1])
%1 = add(%0, b)
%2 = reduce_max(c, axes=[1])
%r = iota(shape=[67, 260], axis=0)
%c = iota(shape=[67, 260], axis=1)
%g = ge(%r, %c)
%3 = where(%g, c, const(-1.0, f32))
%4 = reduce_sum(d, axes=[1])
%5 = tanh(e)
output x = %1
output y = %2
output z = %3
output v = %4
output w = %5
"""
CUT = graph({"a": "f32[20, 33]"}, "%0 = relu(a)\n%1 = reduce_sum(%0, axes=[1], keepdims=True)\n%2 = sub(%0, %1)")


def ran(text, folder, edit_header=None):
    program = autocomp.optimize(text, target="ascend:310p")
    feed = random_inputs(program.graph, 3)
    got = AscendExecutor(program, folder, blocks=3, edit_header=edit_header).run(feed)
    want = evaluate(program.graph, feed)
    return program, {n: float(np.max(np.abs(got[n].astype("f8") - want[n]))) for n in want}


@needs_compiler
def test_kernels_of_vector_cores_are_right_on_a_chip_without_copies_of_any_length(tmp_path):
    program, errors = ran(MANY, tmp_path)
    assert errors["x"] < 2e-3 and errors["y"] == errors["z"] == 0 and errors["v"] < 1e-5 and errors["w"] < 1e-3
    for source in program.printed.values():
        assert "KERNEL_TYPE_AICORE" in source.text and "ac_blocks(ac_spare" in source.text
        assert source.headers == ("autocomp_ascend.h", "autocomp_ascend_blocks.h")
        assert not re.search(r"DataCopyPad|CAST_RINT", source.text)


@needs_compiler
@pytest.mark.parametrize("flag", ["MTE3_S", "S_MTE3"])
def test_each_flag_of_a_row_that_ends_within_a_block_is_missed(flag, tmp_path):
    with pytest.raises(ModelFailure, match="unordered"):
        ran(CUT, tmp_path, partial(re.sub, rf" +(Set|Wait)Flag<HardEvent::{flag}>\(0\);\n", ""))


def test_what_the_chip_does_not_have_is_neither_printed_nor_in_its_header():
    check(headers()["autocomp_ascend_blocks.h"], api("2002"), own_names())
    assert {"ac_scores_exp", "ac_to_fractals"} <= unusable()  # conversions
    assert not {"ac_exp2", "ac_gelu", "ac_row_max", "ac_floor", "ac_sin", "ac_wrapped", "ac_offsets", "ac_halves_max",
                "ac_turn", "ac_Add_i32", "ac_floordiv_i32", "ac_halves_add", "ac_byte"} & unusable()  # of macros, too  # fmt: skip
    for text, refusal in ((graph({"a": "i64[64, 64]"}, "%0 = floordiv(a, a)"), "elements of type i64"),
                          (graph({"a": "f32[64, 64]"}, '%0 = cast(a, to="i64")\n%1 = mod(%0, %0)'), "f32 is converted to i64"),
                          (graph({"a": "f8e4m3[64, 64]"}, '%0 = cast(a, to="f32")'), "elements of type f8e4m3")):  # fmt: skip
        with pytest.raises(UnsupportedOp, match=refusal):
            autocomp.optimize(text, target="ascend:310p", without=["tiling/npu-scalar-*"])


ENDS = [0, 1, -1, 2**31 - 1, -(2**31), 1 - 2**31, 65535, 65536, -65536, -65535, 32767, 32768, -32768, -32769, 0x7FFF8000, -0x7FFF8000,
        127, 128, -129, 255]  # fmt: skip
WORDS = ("add(x, y)", "sub(x, y)", "mul(x, y)", "neg(x)", "abs(x)", "floordiv(x, y)", "mod(x, y)", 'cast(x, to="f32")', 'cast(x, to="i8")',
         'cast(x, to="u8")', "where(%g, x, y)", "max(x, y)")  # fmt: skip


@needs_compiler
def test_words_wrap_where_no_unit_shifts_them(tmp_path):
    lines = ["%g = gt(x, y)", *(f"%{i} = {fn}" for i, fn in enumerate(WORDS))]
    outputs = [f"output o{i} = %{i}" for i in range(len(WORDS))]
    text = "\n".join(["graph g", "input x: i32[9, 300]", "input y: i32[9, 300]", *lines, *outputs, ""])
    draw = np.random.default_rng(fresh.seed())
    x, y = (draw.integers(-(2**31), 2**31, 2700).astype("i4") for _ in range(2))
    x[:400], y[:400] = (p.ravel() for p in np.meshgrid(ENDS, ENDS))
    y[400:1200], x[1000:1400] = draw.integers(-300, 300, 800), draw.integers(-70000, 70000, 400)
    feed = {"x": x.reshape(9, 300), "y": y.reshape(9, 300)}
    program = autocomp.optimize(text, target="ascend:310p", without=["tiling/npu-scalar-*"])
    got, want = AscendExecutor(program, tmp_path, blocks=2).run(feed), evaluate(program.graph, feed)
    for i, fn in enumerate(WORDS):
        np.testing.assert_array_equal(got[f"o{i}"], want[f"o{i}"], err_msg=fn)


@needs_compiler
def test_words_are_compared_where_no_instruction_compares_them(tmp_path):
    """Equal, one apart, far apart and at the ends of their type: no difference of two may leave it."""
    modes = ("lt", "le", "gt", "ge", "eq", "ne")
    lines = [f"%{i} = {fn}(x, y)" for i, fn in enumerate(modes)]
    text = "\n".join(["graph g", "input x: i32[23, 83]", "input y: i32[23, 83]", *lines, *(f"output o{i} = %{i}" for i in range(6)), ""])
    draw = np.random.default_rng(fresh.seed())
    x, y = (draw.integers(-(2**31), 2**31, 1909).astype("i4") for _ in range(2))
    y[:900] = x[:900] ^ draw.integers(0, 2, 900)
    x[900:1300], y[900:1300] = (p.ravel() for p in np.meshgrid(ENDS, ENDS))
    feed = {"x": x.reshape(23, 83), "y": y.reshape(23, 83)}
    program = autocomp.optimize(text, target="ascend:310p", without=["tiling/npu-scalar-*"])
    got, want = AscendExecutor(program, tmp_path, blocks=2).run(feed), evaluate(program.graph, feed)
    for i, fn in enumerate(modes):
        np.testing.assert_array_equal(got[f"o{i}"], want[f"o{i}"], err_msg=fn)


SHIFTS = (0, 1, 7, 15, 16, 23, 31)
BITS = ("bitand(x, y)", "bitor(x, y)", "bitxor(x, y)", "bitnot(x)", *(f"{fn}(x, const({k}, i32))" for fn in ("shl", "shr") for k in SHIFTS))


@needs_compiler
@pytest.mark.parametrize("chip", ["310p", "910b1", "950pr"])
def test_bits_of_words_are_the_vector_units(chip, tmp_path):
    lines = [*(f"%{i} = {fn}" for i, fn in enumerate(BITS)), *(f"output o{i} = %{i}" for i in range(len(BITS)))]
    text = "\n".join(["graph g", "input x: i32[9, 300]", "input y: i32[9, 300]", *lines, ""])
    draw = np.random.default_rng(fresh.seed())
    x, y = (draw.integers(-(2**31), 2**31, 2700).astype("i4") for _ in range(2))
    x[: len(ENDS)] = ENDS
    feed = {"x": x.reshape(9, 300), "y": y.reshape(9, 300)}
    program = autocomp.optimize(text, target=f"ascend:{chip}", without=["tiling/npu-scalar-*"])
    got, want = AscendExecutor(program, tmp_path, blocks=2).run(feed), evaluate(program.graph, feed)
    for i, fn in enumerate(BITS):
        np.testing.assert_array_equal(got[f"o{i}"], want[f"o{i}"], err_msg=fn)


@needs_compiler
def test_bf16_is_widened_and_rounded_to_even_by_words(tmp_path):
    """All numbers of the type, and bits around ties, the largest, infinities, no numbers and what has no leading one."""
    text = """graph g
input x: bf16[64, 1024]
input y: f32[64, 1024]
%0 = cast(x, to="f32")
%1 = cast(y, to="bf16")
output wide = %0
output short = %1
"""
    program = autocomp.optimize(text, target="ascend:310p", without=["tiling/npu-scalar-*"])
    bits = np.random.default_rng(fresh.seed()).integers(0, 2**32, 65536).astype("u4")
    bits[:8192] = (bits[:8192] & 0x8000FFFF) | np.repeat(np.arange(0x7F60, 0x7FE0, dtype="u4") << 16, 64)
    bits[:20000:2] = (bits[:20000:2] & 0xFFFF0000) | np.tile(np.array([0, 1, 0x7FFF, 0x8000, 0x8001], "u4"), 2000)
    bits[20000:21000] &= 0x807FFFFF
    bits[-2:] = 0x7FFFFFFF, 0xFFFFFFFF
    x, y = np.arange(65536).astype("u2").view(BF16.numpy).reshape(64, 1024), bits.view("f4").reshape(64, 1024)
    got = AscendExecutor(program, tmp_path, blocks=3).run({"x": x, "y": y})
    np.testing.assert_array_equal(got["wide"], x.astype("f4"))
    with np.errstate(invalid="ignore"):
        want = y.astype(BF16.numpy)
    np.testing.assert_array_equal(got["short"].astype("f4"), want.astype("f4"))  # of 0 the sign, too
    assert (np.signbit(got["short"].astype("f4")) == np.signbit(want.astype("f4")))[~np.isnan(y)].all()


# Rows, statistics that are stored, what is rounded between, windows, a turned tile, a product, of which bf16 is the type.
SHORT = """graph g
input a: bf16[{m}, {n}]
input b: bf16[{n}]
input w: bf16[{n}, 37]
%0 = softmax(a, axes=[1])
%1 = add(%0, b)
%2 = reduce_max(a, axes=[1])
%3 = transpose(a, perm=[1, 0])
%4 = matmul(a, w)
%5 = pad(a, lo=[1, 3], hi=[0, 5], value=1)
%t = tanh(a)
%6 = mul(%t, a)
output o1 = %1
output o2 = %2
output o3 = %3
output o4 = %4
output o5 = %5
output o6 = %6
"""


@needs_compiler
def test_kernels_of_bf16_are_the_vector_units(tmp_path):
    draw = random.Random(fresh.seed())
    text = SHORT.format(m=draw.randint(17, 90), n=draw.randint(20, 200))
    program = autocomp.optimize(text, target="ascend:310p", without=["tiling/npu-scalar-*"])
    assert any("ac_to_bf16" in s.text and "ac_of_bf16" in s.text for s in program.printed.values())
    assert not any("bfloat16_t" in s.text for s in program.printed.values())
    program.executor = AscendExecutor(program, tmp_path, blocks=3)
    program.verify(seed=draw.randint(0, 99))


# Sums of words along rows and down columns, indices of 64 bits, tiles that are turned, columns that integers name, steps along a row.
MADE = ("reduce_sum(w, axes=[{axis}])", "reduce_prod(w, axes=[0])", "reduce_argmax(x, axes=[1])", "transpose(x, perm=[1, 0])",
        "transpose(b, perm=[1, 0])", "cumsum(w, axis=0)", "slice(x, starts=[0, 1], limits=[{m}, {n}], steps=[1, 3])")  # fmt: skip


@needs_compiler
def test_turned_tiles_sums_of_words_and_long_indices_are_right(tmp_path):
    draw = np.random.default_rng(fresh.seed())
    m, n, axis = int(draw.integers(9, 40)), int(draw.integers(20, 90)), int(draw.integers(0, 2))
    lines = [f"%{i} = {fn.format(m=m, n=n, axis=axis)}" for i, fn in enumerate(MADE)]
    text = "\n".join(["graph g", f"input x: f32[{m}, {n}]", f"input w: i32[{m}, {n}]", f"input b: i8[{m}, {n}]", *lines,
                      *(f"output o{i} = %{i}" for i in range(len(MADE))), ""])  # fmt: skip
    program = autocomp.optimize(text, target="ascend:310p", without=["tiling/npu-scalar-*"])
    program.executor = AscendExecutor(program, tmp_path, blocks=3)
    program.verify(seed=fresh.seed())
    assert any("ac_turn(" in s.text for s in program.printed.values()) and any("ac_longs(" in s.text for s in program.printed.values())


# Rounding to whole numbers, of which 2002 has no conversion: halves, ends of what has fractions, what has none, what is no number.
EDGES = [0.5, 1.5, 2.5, 0.49999997, 0.50000006, 1 - 2.0**-24, 2.0**22 + 0.5, 2.0**22 - 0.25, 2.0**23 - 0.5, 2.0**23 + 1, 2.0**24 + 2, 1e-30,
         1e-44, 3e38, np.inf, 0.0, 7.0, 123456.7]  # fmt: skip


@needs_compiler
def test_numbers_are_rounded_by_sums(tmp_path):
    lines = [f"%{i} = {fn}(x)" for i, fn in enumerate(("floor", "ceil", "round", "trunc"))]
    text = "\n".join(["graph g", "input x: f32[4, 128]", *lines, *(f"output o{i} = %{i}" for i in range(4)), ""])
    program = autocomp.optimize(text, target="ascend:310p", without=["tiling/npu-scalar-*"])
    drawn = np.random.default_rng(fresh.seed()).normal(size=512 - 2 * len(EDGES) - 1) * 10 ** np.random.default_rng(5).uniform(-2, 8, 475)
    x = np.array([*EDGES, *(-e for e in EDGES), np.nan, *drawn], "f4").reshape(4, 128)
    got = AscendExecutor(program, tmp_path, blocks=2).run({"x": x})
    for i, fn in enumerate((np.floor, np.ceil, np.rint, np.trunc)):
        np.testing.assert_array_equal(got[f"o{i}"], fn(x))


# Rows that begin within a block: at a tensor's first elements, where nothing lies in front of them, and behind those.
@needs_compiler
@pytest.mark.parametrize("dtype", ["f32", "f16", "i8", "i32", "bool"])
def test_tiles_with_borders_come_by_whole_blocks(dtype, tmp_path):
    draw = np.random.default_rng(fresh.seed())
    for i, (m, n) in enumerate(((9, 37), (40, 5))):
        lo, hi = draw.integers(0, 40, 2), draw.integers(0, 40, 2)
        text = graph({"a": f"{dtype}[{m}, {n}]", "b": f"{dtype}[{m}, {m + 30}]"}, "%c = concat(b, a, axis=1)\n"
                     f"%0 = pad(a, lo=[{lo[0]}, {lo[1]}], hi=[{hi[0]}, {hi[1] + 64}], value=1)")  # fmt: skip
        text = text.replace("output", "output c = %c\noutput", 1)
        program = autocomp.optimize(text, target="ascend:310p", without=["tiling/npu-scalar-*"])
        assert all("ac_border(ac_spare" in s.text for s in program.printed.values())
        (folder := tmp_path / str(i)).mkdir()
        program.executor = AscendExecutor(program, folder, blocks=3)
        program.verify(seed=fresh.seed())


@needs_compiler
def test_parameters_that_nobody_may_write_are_read(tmp_path):
    program = autocomp.optimize(graph({"a": "f32[6, 37]"}, "%0 = exp(a)"), target="ascend:310p")
    a = np.zeros((6, 37), "f4")
    a.setflags(write=False)
    assert np.all(AscendExecutor(program, tmp_path, blocks=2).run({"a": a})["out"] == 1)


BORDER = graph({"a": "f32[20, 2]"}, "%0 = pad(a, lo=[0, 7], hi=[0, 40], value=1)")


@needs_compiler
@pytest.mark.parametrize("flag", ["MTE2_S", "S_MTE2"])
def test_each_flag_of_a_row_that_begins_within_a_block_is_missed(flag, tmp_path):
    with pytest.raises(ModelFailure, match="unordered"):
        ran(BORDER, tmp_path, partial(re.sub, rf" +(Set|Wait)Flag<HardEvent::{flag}>\(0\);\n", ""))


def test_roundings_by_sums_have_a_price():
    def priced(line):
        program = autocomp.optimize(graph({"a": "f32[512, 512]"}, line), target="ascend:310p", without=["tiling/npu-scalar-*"])
        return program.kernels[0].predicted - dict(program.kernels[0].terms)["launch"]

    assert priced("%0 = floor(a)") > 3 * priced("%0 = neg(a)") and priced("%0 = floor(a)") > 1.3 * priced("%0 = round(a)")


def test_comparisons_of_bits_have_a_price():
    text = graph({"a": "i32[512, 512]", "b": "i32[512, 512]"}, "%0 = gt(a, b)")
    program = autocomp.optimize(text, target="ascend:310p", without=["tiling/npu-scalar-*"])
    (call,), chip = program.calls.calls, program.target.chip
    other = replace(chip, features=tuple(f for f in chip.features if f != "words_by_masks"))
    by_bits, by_words = (dict(estimate(call.kernel, Schedule.make({"i0": 512}), c).parts)["vector unit"] for c in (chip, other))
    assert by_bits > 1.5 * by_words


def test_conversions_of_bf16_by_words_have_a_price():
    def priced(dtype):
        text = graph({"a": f"{dtype}[512, 512]"}, "%0 = abs(a)")
        program = autocomp.optimize(text, target="ascend:310p", without=["tiling/npu-scalar-*"])
        return dict(program.kernels[0].terms)["vector unit"]

    assert priced("bf16") > 5 * priced("f32")


# Results that cores share by whole blocks: integers, floats of 16 bits, turned tiles, running sums.
ELEMENTS = """graph g
input a: i64[7, 13]
input b: f32[9, 37]
input c: i64[5, 19]
input d: i32[6, 37]
input e: f16[6, 12]
%0 = add(a, a)
%1 = transpose(b, perm=[1, 0])
%2 = transpose(c, perm=[1, 0])
%3 = floordiv(d, const(3, i32))
%4 = cumsum(e, axis=1, exclusive=False, reverse=False)
output x = %0
output y = %1
output z = %2
output v = %3
output w = %4
"""


@needs_compiler
def test_what_has_no_other_form_is_computed_element_by_element(tmp_path):
    program = autocomp.optimize(ELEMENTS, target="ascend:310p", without=["directives/joined-rows"])
    assert all("ac_read_anew" in s.text and "KERNEL_TYPE_AICORE" in s.text for s in program.printed.values())
    program.executor = AscendExecutor(program, tmp_path, blocks=3)
    program.verify(seed=fresh.seed())


def turned(n, m):
    """A kernel that stores row by row what it computes column by column."""
    text = graph({"x": f"i32[{n}, {m}]"}, "%0 = floordiv(x, const(3, i32))")
    kernel = autocomp.optimize(text, target="ascend:310p").calls.calls[0].kernel
    (x,), (y,), (s,) = kernel.inputs, kernel.outputs, kernel.stores
    axes = tuple(Axis(f"i{k}", e) for k, e in enumerate((n, m)))
    index = tuple(Aff.of(a.name) for a in axes)
    value = rewrite(s.value, lambda e: replace(e, index=index) if isinstance(e, Load) else e)
    args = [replace(a, type=replace(a.type, shape=shape)) for a, shape in ((x, (n, m)), (y, (m, n)))]
    store = replace(s, index=index[::-1], value=value)
    return replace(kernel, name="turned", axes=axes, inputs=(args[0],), outputs=(args[1],), stores=(store,))


@needs_compiler
@pytest.mark.parametrize(
    ("was", "by"),
    [("", ""), ("if (r.count) ac_fetch(r, 0, 0);", ""), ("if (last < r.count) ac_fetch(r, last, r.room);", ""),
     ("(r.count + unit - 1) / unit * 32", "r.count / unit * 32"), ("HardEvent::MTE2_S", "HardEvent::MTE2_V"),
     ("r.first = at - r.count;", "r.first = at;")],
)  # fmt: skip
def test_results_in_another_order_leave_by_one_core_in_blocks_with_their_neighbours(was, by, tmp_path):
    kernel, program = turned(13, 21), autocomp.optimize(graph({"x": "i64[3]"}, "%0 = add(x, x)"), target="ascend:310p")
    source = program.target.emit(kernel, Schedule.make({}, instruction="scalar"))
    assert not kernel.in_order and source.launch.at_most == 1 and was in headers()["autocomp_ascend_scalar.h"]
    program.printed = {"turned": source}
    x, y = np.random.default_rng(fresh.seed()).integers(-99, 99, (13, 21), "i4"), np.zeros((21, 13), "i4")
    executor = AscendExecutor(program, tmp_path, edit_header=lambda t: t.replace(was, by) if was else t)
    if not was:
        executor.start(source, [x, y], {})
        assert np.array_equal(y, (x // 3).T)
        return
    with pytest.raises((ModelFailure, AssertionError)):
        executor.start(source, [x, y], {})
        assert np.array_equal(y, (x // 3).T)


def test_one_core_alone_has_its_price():
    chip = load_target("ascend:310p").chip
    kernel, one = turned(64, 128), Schedule.make({}, instruction="scalar")
    store, out = kernel.stores[0], replace(kernel.outputs[0], type=kernel.inputs[0].type)
    flat = replace(kernel, outputs=(out,), stores=(replace(store, index=store.index[::-1]),))
    alone, shared = (dict(estimate(k, one, chip).parts)["scalar unit"] for k in (kernel, flat))
    assert alone == pytest.approx(8 * shared)


@pytest.mark.parametrize(("shape", "tile", "least"), [((64, 65), (8, 64), 1), ((64, 65), (8, 65), 65), ((130, 3), (64, 3), 6),
                                                      ((130, 3), (64, 2), 1), ((3, 2), (3, 2), 8), ((6, 2), (3, 2), 6)])  # fmt: skip
def test_the_shortest_part_of_a_result_is_found(shape, tile, least):
    kernel = autocomp.optimize(graph({"a": f"f32[{shape[0]}, {shape[1]}]", "b": f"f32[{shape[1]}]"}, "%0 = add(a, b)"),
                               target="ascend:910b").calls.calls[0].kernel  # fmt: skip
    p = derive(kernel, Schedule.make(dict(zip(("i0", "i1"), tile))))
    assert least_run(p, p.outputs[0]) == least


def test_rows_that_end_within_a_block_have_a_price():
    def parts(n):
        program = autocomp.optimize(graph({"a": f"f32[4096, {n}]"}, "%0 = softmax(a, axes=[1])"), target="ascend:310p")
        return dict(estimate(program.calls.calls[0].kernel, Schedule.make({"i0": 64}), program.target.chip).parts)

    assert parts(129)["ends of rows"] > 0 and "ends of rows" not in parts(128)
