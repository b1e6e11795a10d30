"""What functions cost on chips of SIMT cores (`targets/simt/functions.yaml`) beside what NVRTC's assembler makes of the device header, by
pipe: a thread computes six elements and two, a quarter of the difference is one element's. No disassembler: an instruction's code is its
first nine bits."""

from __future__ import annotations

import struct
from collections import Counter
from functools import lru_cache

import pytest
from autocomp.targets import load_target
from autocomp.targets.simt.expressions import function
from autocomp.targets.simt.function_costs import function_cost, table

from autocomp.ir.types import F16, F32
from tests.helpers.device_graphs import graph, prepared
from tests.helpers.schedules import by_hand

CUDA = load_target("cuda:h200")
FULL = ("exp", "expm1", "log", "log1p", "tanh", "erf", "sigmoid", "silu", "gelu", "gelu_tanh", "softplus", "mish", "rsqrt", "sqrt",
        "div", "atan", "asin")  # fmt: skip
HALF = ("exp", "expm1", "tanh", "sigmoid", "silu", "gelu", "gelu_tanh", "softplus", "mish", "div")
PRODUCTS = {
    "a b": graph({"a": "f32[512, 512]", "b": "f32[512, 512]"}, "%0 = matmul(a, b)"),
    "a^T b": graph({"a": "f32[512, 512]", "b": "f32[512, 512]"}, "%t = transpose(a, perm=[1, 0])\n%0 = matmul(%t, b)"),
}
OPCODES = {0x20: "fma", 0x21: "fma", 0x23: "fma", 0x24: "fma", 0x25: "fma", 0x35: "fma", 0x45: "special", 0x105: "special",
           0x107: "special", 0x108: "special", 0x141: "branch", 0x144: "branch", 0x145: "branch", 0x147: "branch"}  # fmt: skip
NOT_COUNTED = {0x118, 0x119, 0x14D, 0x150, 0x181, 0x182, 0x186, 0xB9}  # NOP, S2R, EXIT, RET, and what moves


def test_functions_cost_what_the_assembler_makes_of_them():
    apart = {}
    for name, (wanted, there) in both().items():
        whole, all_there = sum(wanted.values()), sum(there.values())
        if not 1 / 1.2 <= whole / all_there <= 1.2 or abs(wanted.get("special", 0) - there["special"]) > 0.5:
            apart[name] = (wanted, dict(there))
    assert not apart


@pytest.mark.parametrize("name", ["sigmoid", "silu", "gelu_tanh", "softplus", "mish", "tanh", "exp"])
def test_no_branch_stands_in_an_activation(name: str):
    """Lanes of a warp would wait for each other, and no two elements be computed side by side."""
    assert both()[f"{name} f32"][1]["branch"] == 0


def test_no_branch_stands_in_a_quotient_by_what_is_shared():
    assert both()["shared quotient f32"][1]["branch"] == 0


@lru_cache(maxsize=1)
def both() -> dict[str, tuple[dict[str, float], Counter[str]]]:
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC's bindings are not installed")
    if missing := CUDA.toolchain.missing():
        pytest.skip(missing)
    from autocomp.targets.cuda.nvrtc import compiled

    cases = [(f, d) for d, names in ((F32, FULL), (F16, HALF)) for f in names]
    text = '#include "autocomp_cuda.cuh"\n'
    for f, d in cases:
        value = function(f, ["v", "w"][: 2 if f == "div" else 1], d)
        for n in (2, 6):
            body = "".join(f"{{ const float v = x[{i * 4096}], w = x[{i * 4096 + 128}]; y[{i * 4096}] = {value}; }}\n" for i in range(n))
            text += f'extern "C" __global__ void {f}_{d.name}_{n}(const float *__restrict__ x, float *__restrict__ y) {{\n'
            text += f"  x += threadIdx.x; y += threadIdx.x;\n{body}}}\n"
    for n in (2, 6):  # by what they share (shared_divisors)
        body = "".join(f"y[{i * 4096}] = ac_divide(x[{i * 4096}], w); " for i in range(n))
        text += f'extern "C" __global__ void shared_{n}(const float *__restrict__ x, float *__restrict__ y) {{\n'
        text += f"  const float w = x[blockIdx.x]; x += threadIdx.x; y += threadIdx.x;\n  {body}\n}}\n"
    code = compiled("sm_90a", "functions", text)
    assert isinstance(code, bytes), code
    of = sections(code)
    out = {}
    for f, d in cases:
        few, many = (pipes(of[f".text.{f}_{d.name}_{n}"]) for n in (2, 6))
        out[f"{f} {d.name}"] = (dict(function_cost(f, d, d == F16)), Counter({p: (many[p] - few[p]) / 4 for p in {*few, *many}}))
    few, many = (pipes(of[f".text.shared_{n}"]) for n in (2, 6))
    out["shared quotient f32"] = (dict(table()["shared"]), Counter({p: (many[p] - few[p]) / 4 for p in {*few, *many}}))
    return out


def pipes(code: bytes) -> Counter[str]:
    codes = (struct.unpack_from("<Q", code, at)[0] & 0x1FF for at in range(0, len(code), 16))
    return Counter(OPCODES.get(c, "integer") for c in codes if c not in NOT_COUNTED)


def sections(elf: bytes) -> dict[str, bytes]:
    """An ELF file's sections by name."""
    at, size, count, names = struct.unpack_from("<Q", elf, 0x28)[0], *struct.unpack_from("<HHH", elf, 0x3A)
    heads = [struct.unpack_from("<IIQQQQ", elf, at + i * size) for i in range(count)]
    text = elf[heads[names][4] : heads[names][4] + heads[names][5]]
    return {text[h[0] : text.index(b"\0", h[0])].decode(): elf[h[4] : h[4] + h[5]] for h in heads}


@pytest.mark.parametrize("form", ["a b", "a^T b"])
def test_sums_that_leave_by_other_registers_are_held_in_other_banks_than_factors(form: str):
    """Clocks in which two banks bring the operands of a product's multiply-adds (`untied_accumulators`)."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC's bindings are not installed")
    if missing := CUDA.toolchain.missing():
        pytest.skip(missing)
    kernel = prepared(PRODUCTS[form], "cuda:h200", without=("scheduling/gpu-f64-sums",)).calls.calls[0].kernel
    of = {}
    for names in ((), ("untied_accumulators",)):
        schedule = by_hand({"i0": 128, "i1": 128, "r0": 16}, stages=4, threads=128, instruction="square", directives=names)
        source = CUDA.emit(kernel, schedule)
        assert source.applied == names
        code = CUDA.toolchain.compile_object("product", f'#include "autocomp_cuda.cuh"\n{source.text}')
        clocks, sums = bank_clocks(sections(code)[f".text.{source.entry}"])
        of[names] = clocks / sums
    assert of["untied_accumulators",] < 1.25 < 1.5 < of[()]


def bank_clocks(code: bytes) -> tuple[int, int]:
    """Clocks for which multiply-adds of registers take operands from two banks that are read once a clock each, and their number. What the
    instruction before had at the same place and kept (bits 122 to 124) is not read again."""
    clocks = sums = 0
    kept: dict[int, int] = {}
    for low, high in struct.iter_unpack("<QQ", code):
        places = {0: low >> 24 & 255, 1: low >> 32 & 255, 2: high & 255}
        if low & 0xFFF == 0x223:
            read = {r for at, r in places.items() if r != 255 and kept.get(at) != r}
            clocks, sums = clocks + max(1, sum(r % 2 for r in read), sum(not r % 2 for r in read)), sums + 1
        kept = {at: r for at, r in places.items() if high >> 58 + at & 1}
    return clocks, sums
