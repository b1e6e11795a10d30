"""Products of 8-bit numbers: instructions by type and chip, scales and zero points outside of the product, run on the CPU model."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from autocomp.targets.cuda.toolchain import Toolchain
from onnx import TensorProto, helper

import autocomp
from autocomp.cost.demand import demand_of
from autocomp.cost.estimate import pricer
from autocomp.egraph import printable
from autocomp.errors import UnsupportedOp
from autocomp.ir.body import Contract, postorder
from autocomp.simulate.simt_model import COMPILER
from tests.helpers.device_graphs import four_bits, graph, widened
from tests.helpers.repeats import repeating
from tests.helpers.schedules import by_hand
from tests.targets.test_cuda import needs_nvrtc
from tests.targets.test_on_cpu_model import check, specialised

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
ROLES = by_hand({"i0": 128, "i1": 128, "r0": 128}, stages=3, roles="warp_specialise", workers=2, persistent=True, grouped=8)
SCALED = '%f = cast(%p, to="f32")\n%s = mul(%f, s)\n%r = relu(%s)'
TEAMS = {
    "f8e4m3": (widened(200, 264, 528, "f8e4m3", "f16", nt=True), "f32.e4m3.e4m3"),
    "f8e5m2": (widened(300, 136, 272, "f8e5m2", "f32", "%s = mul(%p, s)", nt=True), "f32.e5m2.e5m2"),
    "i8": (widened(200, 136, 272, "i8", "i32", nt=True), "s32.s8.s8"),
    "u8": (widened(200, 136, 144, "u8", "i32", SCALED, nt=True), "s32.u8.u8"),
}


def mixed(a: str, b: str, to: str, m: int = 70, n: int = 72, k: int = 96) -> str:
    """A product of two types, the second factor as [n, k]."""
    return graph({"a": f"{a}[{m}, {k}]", "b": f"{b}[{n}, {k}]"},
                 f'%0 = cast(a, to="{to}")\n%1 = cast(b, to="{to}")\n%2 = transpose(%1, perm=[1, 0])\n%3 = matmul(%0, %2)')  # fmt: skip


def factors(program) -> set[tuple[str, str]]:
    """The types that the program's contractions multiply."""
    values = [s.value for c in program.calls.calls for s in c.kernel.stores]
    return {(e.a.dtype.name, e.b.dtype.name) for e in postorder(*values) if isinstance(e, Contract)}


# ---- warpgroup products
@needs_compiler
@pytest.mark.parametrize("name", TEAMS)
def test_a_team_multiplies_bytes(name, model, tmp_path):
    text, opcode = TEAMS[name]
    program = specialised(text, ROLES)
    assert len(program.calls.calls) == 1
    assert f"k32.{opcode} " in next(iter(program.printed.values())).prelude
    check(program, model, tmp_path)


@needs_nvrtc
@pytest.mark.parametrize(("a", "b", "to", "opcode"), [
    ("f8e4m3", "f8e4m3", "f16", "f32.e4m3.e4m3"), ("f8e5m2", "f8e5m2", "f32", "f32.e5m2.e5m2"),
    ("f8e4m3", "f8e5m2", "f32", "f32.e4m3.e5m2"),
    ("f8e5m2", "f8e4m3", "f32", "f32.e5m2.e4m3"), ("i8", "i8", "i32", "s32.s8.s8"), ("u8", "u8", "i32", "s32.u8.u8"),
    ("i8", "u8", "i32", "s32.s8.u8"), ("u8", "i8", "i32", "s32.u8.s8"),
])  # fmt: skip
def test_every_pair_of_types_has_its_instruction(a, b, to, opcode):
    """Chosen unasked where the product is large, and accepted by the compiler."""
    program = autocomp.optimize(mixed(a, b, to, 2048, 2048, 2048), target="cuda:h200")
    assert factors(program) == {(a, b)}
    assert f"k32.{opcode} " in program.source()
    for file, text in program.sources.items():
        assert program.target.toolchain.compile_object(Path(file).stem, text)[:4] == b"\x7fELF"


def test_widths_of_integer_products_are_those_that_exist():
    program = autocomp.optimize(widened(256, 296, 256, "i8", "i32", nt=True), target="cuda:h200")
    kernel = program.calls.calls[0].kernel
    source = program.target.emit(kernel, replace(ROLES, tile=(("i0", 128), ("i1", 40), ("r0", 128))))
    assert re.findall(r"m64n(\d+)k32", source.prelude) == ["8"]  # 40 is no multiple of 16


def test_bytes_that_lie_along_the_columns_are_refused_with_a_reason():
    program = autocomp.optimize(widened(256, 256, 256, "f8e4m3", "f16"), target="cuda:h200")
    said = "in1_t lies along i1, wgmma.m64n128k32.e4m3.e4m3 reads f8e4m3 along the reduced axis only"
    with pytest.raises(UnsupportedOp, match=said) as e:
        program.target.emit(program.calls.calls[0].kernel, ROLES)
    assert e.value.hint == "store it so, or take a schedule without roles"


# ---- products of a warp, of signed by unsigned bytes
@needs_compiler
@pytest.mark.parametrize("target", ["cuda:a100", "maca:c500"])
@pytest.mark.parametrize(("a", "b"), [("u8", "i8"), ("i8", "u8")])
def test_signed_and_unsigned_bytes_are_multiplied(a, b, target, model, tmp_path):
    program = autocomp.optimize(mixed(a, b, "i32"), target=target)
    assert factors(program) == {(a, b)}
    assert ("ac_mma_u8_s8(" if a == "u8" else "ac_mma_s8_u8(") in program.source() or target.startswith("maca")
    check(program, model, tmp_path)


# ---- products thread by thread
@needs_compiler
@pytest.mark.parametrize("kind", ["i8", "u8"])
def test_threads_fold_four_bytes_at_once(kind, model, tmp_path):
    program = autocomp.optimize(widened(5, 37, 102, kind, "i32", SCALED, nt=True), target="cuda:a100")
    kernel = program.calls.calls[0].kernel
    source = program.target.emit(kernel, by_hand({"i0": 5, "i1": 32, "r0": 32}, stages=2, threads=64, instruction="dp4a"))
    assert f"ac_dp4a_{kind.replace('i', 's')}(" in source.text
    program.printed[kernel.name] = source
    check(program, model, tmp_path)


def test_bytes_along_the_columns_are_not_folded():
    program = autocomp.optimize(widened(64, 64, 64, "i8", "i32"), target="cuda:a100")
    with pytest.raises(UnsupportedOp, match=r"dp4a.s8 folds 4 neighbours in depth, a factor lies otherwise"):
        program.target.emit(program.calls.calls[0].kernel, by_hand({"i0": 32, "i1": 32, "r0": 32}, threads=64, instruction="dp4a"))


# ---- scales and zero points
QUANTISED = graph({"x": "u8[128, 8192]", "w": "i8[128, 8192]", "zx": "i32[]", "zw": "i32[128]"}, """%0 = cast(x, to="i32")
    %1 = sub(%0, zx)
    %2 = cast(w, to="i32")
    %3 = transpose(%2, perm=[1, 0])
    %4 = sub(%3, zw)
    %5 = matmul(%1, %4)""")  # fmt: skip
STORED_F8 = graph({"x": "f8e4m3[256, 512]", "w": "f8e4m3[256, 512]", "sx": "f32[]", "sw": "f32[256, 1]"}, """%0 = cast(x, to="f32")
    %1 = mul(%0, sx)
    %2 = cast(w, to="f32")
    %3 = mul(%2, sw)
    %4 = transpose(%3, perm=[1, 0])
    %5 = matmul(%1, %4)
    %6 = cast(%5, to="bf16")""")
STORED_I8 = STORED_F8.replace("f8e4m3", "i8")


@needs_compiler
@pytest.mark.parametrize("target", ["cuda:a100", "cuda:h200"])
@pytest.mark.parametrize(("text", "types"), [(QUANTISED, ("u8", "i8")), (STORED_F8, ("f8e4m3", "f8e4m3")), (STORED_I8, ("i8", "i8"))],
                         ids=["zero_points", "scaled_f8", "scaled_i8"])  # fmt: skip
def test_what_is_stored_is_multiplied(text, types, target, model, tmp_path):
    """Zero points leave the product where it is deep enough: on an A100 half as deep as on an H200."""
    program = autocomp.optimize(text.replace("8192", "4096") if target == "cuda:a100" else text, target=target)
    assert factors(program) == {types}
    check(program, model, tmp_path)


def test_the_order_of_an_exact_program_is_kept():
    exact = autocomp.optimize(STORED_F8, target="cuda:h200", exact=True)
    assert factors(exact) == {("f32", "f32")}
    assert factors(autocomp.optimize(QUANTISED, target="cuda:h200", exact=True)) == {("u8", "i8")}  # integers lose nothing


# ---- ONNX
def onnx_model(op: str, inputs: dict[str, tuple[int, list[int]]], constants: dict[str, np.ndarray], names: list[str], out: int,
               shape: list[int]) -> bytes:  # fmt: skip
    node = helper.make_node(op, names, ["y"])
    given = [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()]
    fixed = [helper.make_tensor(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape, v.tobytes(), raw=True) for n, v in constants.items()]
    g = helper.make_graph([node], "g", given, [helper.make_tensor_value_info("y", out, shape)], fixed)
    return helper.make_model(g, opset_imports=[helper.make_opsetid("", 21)]).SerializeToString()


@needs_compiler
def test_onnx_matmul_integer_multiplies_bytes(model, tmp_path):
    rng = np.random.default_rng(1)
    w = rng.integers(-128, 128, (4096, 128)).astype(np.int8)
    text = onnx_model("MatMulInteger", {"x": (TensorProto.UINT8, [128, 4096])},
                      {"w": w, "zx": np.uint8(131), "zw": rng.integers(-9, 9, 128).astype(np.int8)}, ["x", "w", "zx", "zw"],
                      TensorProto.INT32, [128, 128])  # fmt: skip
    program = autocomp.optimize(text, target="cuda:a100")
    assert factors(program) == {("u8", "i8")}
    check(program, model, tmp_path)


@needs_compiler
def test_onnx_qlinear_matmul_multiplies_bytes(model, tmp_path):
    rng = np.random.default_rng(2)
    w = rng.integers(-128, 128, (4096, 128)).astype(np.int8)
    one = lambda x: np.float32(x)
    constants = {"sx": one(0.02), "zx": np.uint8(120), "w": w, "sw": one(0.01), "zw": np.int8(0), "sy": one(0.1), "zy": np.uint8(117)}
    text = onnx_model("QLinearMatMul", {"x": (TensorProto.UINT8, [128, 4096])}, constants,
                      ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy"], TensorProto.UINT8, [128, 128])  # fmt: skip
    program = autocomp.optimize(text, target="cuda:a100")
    assert factors(program) == {("u8", "i8")}
    check(program, model, tmp_path)


# ---- factors straight to registers
def deep_bits(rows: int, cols: int, depth: int, dtype: str = "f16", zero: int = 8) -> str:
    """x @ W^T, W as [cols, depth / 2] bytes of two 4-bit numbers, a scale for each 128 of depth."""
    half, groups = depth // 2, depth // 128
    return graph({"x": f"{dtype}[{rows}, {depth}]", "q": f"u8[{cols}, {half}]", "s": f"{dtype}[{cols}, {groups}]"}, f"""
        %0 = bitand(q, const(15, u8))
        %1 = cast(%0, to="{dtype}")
        %2 = sub(%1, const({zero}, {dtype}))
        %3 = shr(q, const(4, u8))
        %4 = cast(%3, to="{dtype}")
        %5 = sub(%4, const({zero}, {dtype}))
        %6 = reshape(%2, shape=[{cols}, {half}, 1])
        %7 = reshape(%5, shape=[{cols}, {half}, 1])
        %8 = concat(%6, %7, axis=2)
        %9 = reshape(%8, shape=[{cols}, {depth}])
        %a = reshape(s, shape=[{cols}, {groups}, 1])
        %b = broadcast(%a, shape=[{cols}, {groups}, 128])
        %c = reshape(%b, shape=[{cols}, {depth}])
        %d = mul(%9, %c)
        %e = transpose(%d, perm=[1, 0])
        %f = matmul(x, %e)""")


TURNED_ROWS = graph({"x": "f16[5, 512]", "w": "f16[72, 512]"}, "%0 = transpose(w, perm=[1, 0])\n%1 = matmul(x, %0)\n%2 = silu(%1)")
BYTES_OFF = graph({"x": "f16[5, 512]", "w": "u8[72, 512]", "z": "f16[72, 1]"},
                  '%0 = cast(w, to="f16")\n%1 = sub(%0, z)\n%2 = transpose(%1, perm=[1, 0])\n%3 = matmul(x, %2)')
DIRECT = {
    "one_row": (deep_bits(1, 1030, 1024), {"i0": 32, "r0": 4}, 128),
    "few_rows": (deep_bits(5, 1030, 1024), {"i0": 16, "i1": 32, "r0": 8}, 256),
    "many_rows": (deep_bits(40, 1024, 512), {"i0": 64, "i1": 16, "r0": 4}, 64),
    "waves_share_columns": (deep_bits(3, 1024, 256), {"i0": 16, "i1": 64, "r0": 1}, 64),
    "bf16": (deep_bits(2, 1024, 512, "bf16"), {"i0": 16, "i1": 32, "r0": 2}, 64),
    "another_zero": (deep_bits(2, 1024, 512, zero=-3), {"i0": 16, "i1": 32, "r0": 2}, 64),
    "both_copied": (TURNED_ROWS, {"i0": 16, "i1": 16, "r0": 128}, 64),
    "whole_bytes": (BYTES_OFF, {"i0": 16, "i1": 16, "r0": 256}, 64),
    "bytes": (widened(5, 72, 512, "u8", "i32", SCALED, nt=True), {"i0": 16, "i1": 16, "r0": 256}, 64),
    "bytes_of_two_kinds": (mixed("u8", "i8", "i32", 3, 72, 512), {"i0": 16, "i1": 16, "r0": 512}, 128),
    "ring": (deep_bits(5, 1030, 1024), {"i0": 16, "i1": 16, "r0": 2}, 64, 3),
    "last_turn_short": (deep_bits(5, 1030, 11 * 128), {"i0": 16, "i1": 32, "r0": 8}, 256),
    "last_turn_short_ring": (deep_bits(1, 1030, 7 * 128), {"i0": 16, "r0": 2}, 64, 3),
    "last_turn_short_halves": (TURNED_ROWS.replace("512", "520"), {"i0": 16, "i1": 16, "r0": 128}, 64, 2),
    "last_turn_masked": (BYTES_OFF.replace("512", "528"), {"i0": 16, "i1": 16, "r0": 256}, 64),
    "ring_of_halves": (TURNED_ROWS, {"i0": 16, "i1": 16, "r0": 128}, 64, 2),
    "deep_ring_of_halves": (TURNED_ROWS.replace("512", "1048").replace("72", "1030"), {"i0": 16, "i1": 16, "r0": 256}, 128, 4),
    "no_pair_form": (BYTES_OFF.replace("%2 =", "%a = abs(%1)\n%2 =").replace("transpose(%1", "transpose(%a"),
                     {"i0": 16, "i1": 16, "r0": 256}, 64),
}


WITHOUT_FIELDS = ("bf16", "both_copied", "bytes", "bytes_of_two_kinds", "ring_of_halves", "deep_ring_of_halves", "no_pair_form",
                  "last_turn_short_halves", "last_turn_masked")


def direct(name: str):
    """The graph's product under its schedule, factors in registers."""
    text, tile, threads, *stages = DIRECT[name]
    program = autocomp.optimize(text, target="cuda:h200", without=["algebra/row-times-matrix"])
    kernel = program.calls.calls[-1].kernel
    schedule = by_hand(tile, threads=threads, stages=(stages or [1])[0], instruction="direct")
    program.printed[kernel.name] = program.target.emit(kernel, schedule)
    return program


@needs_compiler
@pytest.mark.parametrize("name", repeating(DIRECT, {"few_rows": "last_turn_short", "bytes": "bytes_of_two_kinds",
                                                    "ring": "last_turn_short_ring", "ring_of_halves": "deep_ring_of_halves"}))  # fmt: skip
def test_factors_go_straight_to_registers(name, model, tmp_path):
    program = direct(name)
    assert len(program.calls.calls) == 1
    code = next(iter(program.printed.values())).text.partition("*/")[2]
    assert "ldmatrix" not in code and "ac_mma" in code
    assert ("ac_pair_fields(" in code or "ac_pair_apart(" in code) == (name not in WITHOUT_FIELDS)
    check(program, model, tmp_path)


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_direct_products_compile(arch):
    for name in ("few_rows", "ring", "bytes_of_two_kinds"):
        program = direct(name)
        source = next(iter(program.printed.values()))
        text = f"{program.target.preamble([source])}\n{source.text}"
        assert Toolchain(arch).compile_object(name, text)[:4] == b"\x7fELF"


def test_one_row_of_four_bit_weights_is_chosen_so():
    """By its price: two instructions an element instead of five."""
    for rows in (1, 16):
        program = autocomp.optimize(deep_bits(rows, 8192, 8192), target="cuda:h200")
        assert ["instruction direct" in k.schedule for k in program.kernels] == [True]
        threads, blocks = map(int, program.source().partition("__launch_bounds__(")[2].partition(")")[0].split(","))
        assert threads * blocks == 1024, "the compiler knows how many blocks share a core's registers"
    short = autocomp.optimize(deep_bits(8, 4096, 86 * 128), target="cuda:h200")  # 86 groups are shared by no four waves
    assert ["instruction direct" in k.schedule for k in short.kernels] == [True]
    many = autocomp.optimize(deep_bits(4096, 8192, 8192), target="cuda:h200")  # unpacked once, then multiplied by warpgroups
    assert len(many.kernels) > 1 and "warp_specialise" in many.kernels[-1].schedule


def test_the_ring_brings_what_a_block_reads_alone():
    """Of two copied factors the weights: the few rows are near, and a ring of them would leave memory waiting."""
    code = next(iter(direct("deep_ring_of_halves").printed.values())).text.partition("*/")[2]
    first = code.partition("ac_copy<16>")[2].partition(";")[0]
    assert "in1 + (" in first and "in0" not in first


def test_few_blocks_are_not_held_to_the_registers_of_many():
    """132 blocks of a product of one row are one a core: a limit of 64 registers would have its loads come one after another. As many as
    registers hold are under way, so that more threads wait less often."""
    program = autocomp.optimize(TURNED_ROWS.replace("512", "9600").replace("72", "2112").replace("f16[5", "f16[1"), target="cuda:h200",
                                without=["algebra/row-times-matrix"])  # fmt: skip
    kernel, emit = program.calls.calls[-1].kernel, program.target.emit
    one = lambda **more: by_hand({"i0": 16, "r0": 2048}, threads=128, instruction="direct", **more)
    assert "__launch_bounds__(128, 1)" in emit(kernel, one()).text
    waiting = lambda s: dict(pricer(demand_of(kernel), program.target.chip)(s).parts)["latency"]
    more = by_hand({"i0": 16, "r0": 2048}, threads=512, instruction="direct")
    assert waiting(one()) > 2 * waiting(more), "a thread's loads into registers are not as many as a turn has"


def test_weights_that_lie_along_the_columns_are_refused_with_a_reason(monkeypatch):
    monkeypatch.setattr(printable, "DEAR", 1e9)  # else they are unpacked by a kernel of their own
    program = autocomp.optimize(four_bits(16, 512, 1024, 128), target="cuda:h200", without=["scheduling/gpu-split-depth"])
    with pytest.raises(UnsupportedOp, match="in1 lies along i1, not along the depth"):
        program.target.emit(program.calls.calls[0].kernel, by_hand({"i0": 16, "i1": 32, "r0": 4}, threads=64, instruction="direct"))


@needs_nvrtc
def test_a_copy_of_two_bytes_writes_both():
    """Rows of 130 bytes move two by two, in one access of the element's type (the CPU model has a copy of its own)."""
    from autocomp.targets.cuda import nvrtc as ours
    from cuda.bindings import nvrtc

    text = """#include "autocomp_cuda.cuh"
extern "C" __global__ void k(const signed char *p) {
  extern __shared__ unsigned char to[];
  ac_copy<2>(to + 2 * threadIdx.x, p + 2 * threadIdx.x, threadIdx.x < 7);
}
"""
    known = ours.headers()
    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"k.cu", len(known), [t.encode() for t in known.values()],
                                          [n.encode() for n in known])  # fmt: skip
    options = ["--gpu-architecture=compute_90a", "--std=c++17", f"--include-path={ours._toolkit_include()}"]
    assert nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])[0] == nvrtc.nvrtcResult.NVRTC_SUCCESS
    ptx = b" " * nvrtc.nvrtcGetPTXSize(program)[1]
    nvrtc.nvrtcGetPTX(program, ptx)
    written = re.findall(r"st\.(?:shared\.)?(v2\.)?[bus](\d+)", ptx.decode())
    assert sum((2 if v else 1) * int(bits) for v, bits in written) == 16
