"""Products into tensor memory (sm_100a): compiled by NVRTC, run on the CPU model against float64, and plans with a statement left out.
No device has run these kernels."""

from __future__ import annotations

import os
import re
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from autocomp.targets import load_target
from autocomp.targets.cuda import nvrtc

import autocomp
from autocomp.check.rules import check_kernel_rule
from autocomp.cost.blocks import BlockModel
from autocomp.cost.demand import demand_of
from autocomp.errors import DoesNotFit, UnsupportedOp
from autocomp.rewrite import load_rules
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from autocomp.tile.check_plan import problems
from autocomp.tile.plan import Barrier, Block, Done, Fence, Node, Signal, TensorMemory
from autocomp.tile.synchronise import synchronise
from tests.helpers.device_graphs import attention, gemm, graph, turned
from tests.helpers.schedules import by_hand
from tests.helpers.tensor_memory import CASES, GOLDEN, STAY, made, product
from tests.targets.test_sass_counts import sections

B200 = load_target("cuda:b200")
needs_model = pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
needs_nvrtc = pytest.mark.skipif(bool(missing := B200.toolchain.missing()), reason=missing)
PRODUCT, COMMIT, LOAD = 0x1EA, 0x1E9, 0x1EE  # UTCHMMA, UTCBAR, LDTM: what nvdisasm 13 calls the codes of tcgen05.mma, .commit and .ld
FOLDER = Path(__file__).parents[1] / "golden" / "cuda"


@needs_model
@pytest.mark.parametrize("name", CASES)
def test_a_product_is_that_of_float64(name, model, tmp_path):
    """Copies, products and arrivals late, then early; the model reads both descriptors by the bits of PTX ISA."""
    program = made(name)
    executor = program.executor = ModelExecutor(program, tmp_path, model)
    for late in (True, False):
        executor.late = late
        program.verify(seed=1)


@needs_model
def test_tf32_reads_words_as_they_lie(model, tmp_path):
    how = replace(STAY, tile=(("i0", 128), ("i1", 80), ("r0", 32)), instruction="tf32")
    program = product(turned(200, 80, 96, False, True, "f32"), how, allow_tf32=True)
    program.kernels[:] = [replace(k, schedule="tf32") for k in program.kernels]  # what the tolerance goes by
    program.executor = ModelExecutor(program, tmp_path, model)
    program.verify(seed=1)


@pytest.mark.parametrize("name", GOLDEN)
def test_the_text_is_as_it_was(name):
    """AUTOCOMP_GOLDEN=write pytest tests/targets/test_tensor_memory.py  writes the files anew."""
    (source,) = made(GOLDEN[name]).printed.values()
    path = FOLDER / f"tensor_memory_{name}.b200.cu"
    if os.environ.get("AUTOCOMP_GOLDEN") == "write":
        path.write_text(source.text)
    assert source.text == path.read_text()


@needs_nvrtc
@pytest.mark.parametrize("name", ["tiles_by_turns", "bf16", "bias_and_gelu", "rows_of_two_warpgroups", "i8", "f8"])
def test_the_assembler_makes_the_instructions(name):
    (source,) = made(name).printed.values()
    code = B200.toolchain.compile_object(source.name, B200.preamble([source]) + source.text)
    (text,) = (x for n, x in sections(code).items() if n == f".text.{source.entry}")
    codes = Counter(struct.unpack_from("<Q", text, at)[0] & 0x1FF for at in range(0, len(text), 16))
    steps, pieces = source.text.count("ac_tensor_mma_"), source.text.count("ac_tensor_load<")
    assert steps == pieces == 1  # in loops that the compiler writes out
    assert codes[PRODUCT] >= 4 and codes[COMMIT] >= 2 and codes[LOAD] >= 2


@pytest.mark.parametrize(("swizzle", "code"), [(128, 2), (64, 4), (32, 6)])
def test_the_device_header_packs_a_descriptor_as_ptx_has_it(swizzle, code):
    """PTX ISA, tcgen05 shared memory descriptor: address, leading and stride offsets by 16 bytes at bits 0, 16 and 32, 1 in bits 46 to 48,
    the swizzle in 61 to 63. The model has a function of its own, so the expression of the device's is read here."""
    text = (Path(nvrtc.__file__).parent / "include" / "autocomp_cuda.cuh").read_text()
    body = re.search(r"ac_tensor_descriptor_of\(const unsigned char \*p, int lead, int stride\) \{\n(.*?)\n\}", text, re.S)
    kind, packed = re.fullmatch(r".*? kind = (.*?);\n +return (.*?);", body[1], re.S).groups()
    chosen = {int(n): int(c) for n, c in re.findall(r"SWIZZLE == (\d+) \? (\d)", kind)}.get(swizzle, int(kind.split(": ")[-1]))
    packed = packed.replace("(unsigned long long)", "").replace("ac_address(p)", "p").replace("1ull", "1")
    for p, lead, stride in ((0, 0, 1024), (0x31C00, 8192, 1024), (0x400, 1, 8 * swizzle)):
        fields = {0: p >> 4, 16: lead >> 4, 32: stride >> 4, 46: 1, 61: code}
        got = eval(packed, {"p": p, "lead": lead, "stride": stride, "kind": chosen})
        assert got == sum(x << at for at, x in fields.items())


def test_results_of_two_bytes_leave_by_tma_where_the_schedule_says_so():
    """Where a column axis is the tensor's last and shared memory has a box of 128 x 64 beside the ring."""
    text, how = CASES["tiles_by_turns"]
    stored = lambda text, how: "ac_bulk_store" in next(iter(product(text, how).printed.values())).text
    assert stored(text, how) and not stored(text, replace(how, directives=()))
    assert not stored(text, replace(how, stages=7))  # 229 KB of ring
    assert not stored(*CASES["f8"]) and not stored(*CASES["columns_of_one_load_of_16"])
    assert "tma_store" in next(iter(product(text, how).printed.values())).applied


# ---- the plan
@cache
def plan(name: str) -> tuple[Node, ...]:
    """What is checked before a case is printed."""
    text, schedule = CASES[name]
    (call,) = autocomp.optimize(text, target="cuda:b200", tuned=False).calls.calls
    printer = B200._planned(call.kernel, schedule).printer
    return synchronise(printer.whole.done(), printer.agents)


def without(body: tuple[Node, ...]) -> Iterator[tuple[Node, tuple[Node, ...]]]:
    """Each statement that orders something or is a role's work, and the plan without it."""
    for k, n in enumerate(body):
        if isinstance(n, Signal | Barrier | Fence | Done | TensorMemory):
            yield n, body[:k] + body[k + 1 :]
        elif isinstance(n, Block):
            yield from ((x, (*body[:k], replace(n, body=rest), *body[k + 1 :])) for x, rest in without(n.body))


@pytest.mark.parametrize("name", ["one_tile_a_block", "tiles_by_turns", "sums_of_256_columns", "rows_of_two_warpgroups"])
def test_a_plan_without_one_of_its_statements_is_refused(name):
    body = plan(name)
    assert problems(body) == []
    assert len(list(without(body))) >= 20
    assert [n for n, rest in without(body) if not problems(rest)] == []


def test_a_commit_in_front_of_its_product_is_refused():
    body = plan("tiles_by_turns")

    def swapped(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        at = next((k for k, n in enumerate(nodes) if isinstance(n, TensorMemory) and n.do == "multiply"), None)
        if at is not None:
            last = next(k for k, n in enumerate(nodes) if isinstance(n, Signal) and n.do == "fill")
            return (*nodes[:at], nodes[last], *nodes[at:last], *nodes[last + 1 :])
        return tuple(replace(n, body=swapped(n.body)) if isinstance(n, Block) else n for n in nodes)

    assert "the producer writes a slot of q0 which products read, and it is under way" in problems(swapped(body))


# ---- who is offered it
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_the_rule_makes_large_products_where_a_chip_has_tensor_memory(dtype):
    """And nothing of the kind elsewhere, for few rows, or without the rule."""
    large, rule = gemm(4096, 4096, 4096, dtype), "tiling/gpu-tensor-memory"
    assert "ac_tensor_mma_f16" in autocomp.optimize(large, target="cuda:b200", tuned=False).source()
    assert "ac_tensor_mma" not in autocomp.optimize(large, target="cuda:b200", tuned=False, without=[rule]).source()
    assert "ac_tensor_mma" not in autocomp.optimize(gemm(8, 4096, 4096, dtype), target="cuda:b200", tuned=False).source()
    for chip in ("h200", "a100"):
        assert "ac_tensor_mma" not in autocomp.optimize(large, target=f"cuda:{chip}", tuned=False).source()


def test_blocks_that_stay_store_a_tile_beside_the_next_ones_products():
    """Where tensor memory has the sums of two: 256 columns a warpgroup, or 128 of two warpgroups, and not 256 of two."""
    demand = demand_of(autocomp.optimize(gemm(8192, 8192, 512), target="cuda:b200", tuned=False).calls.calls[0].kernel)
    start = lambda how: dict(BlockModel(demand, B200.chip).time(how).parts)["start"]
    for rows, columns, workers, two in ((128, 256, 1, True), (256, 128, 2, True), (256, 256, 2, False)):
        stay = replace(STAY, tile=(("i0", rows), ("i1", columns), ("r0", 64)), workers=workers, directives=())
        assert (start(stay) < 0.6 * start(replace(stay, persistent=False))) == two


def test_the_rule_is_checked_on_a_chip_that_has_it():
    rules = load_rules()
    found = check_kernel_rule(next(r for r in rules if r.name == "tiling/gpu-tensor-memory"), rules, 2)
    assert found.status == "checked-2", found.detail


# ---- what is refused
@pytest.mark.parametrize(("text", "how", "error", "said"), [
    (gemm(256, 256, 256), replace(STAY, tile=(("i0", 64), ("i1", 128), ("r0", 64))), UnsupportedOp, "64 rows are not shared evenly"),
    (gemm(256, 256, 256), replace(STAY, stream_k=True), UnsupportedOp, "not shared out among blocks"),
    (gemm(256, 512, 256), replace(STAY, tile=(("i0", 128), ("i1", 512), ("r0", 64)), stages=2), UnsupportedOp, "at most 256 columns"),
    (gemm(256, 256, 256), replace(STAY, stages=30), DoesNotFit, "shared memory of a block"),
    (gemm(256, 264, 256, "bf16"), replace(STAY, tile=(("i0", 128), ("i1", 24), ("r0", 64))), UnsupportedOp, "no multiple of 16"),
    (gemm(256, 256, 256, "f32"), STAY, UnsupportedOp, "no warpgroup instruction multiplies f32 by f32"),
])  # fmt: skip
def test_what_is_no_such_product_is_refused(text, how, error, said):
    kernel = autocomp.optimize(text, target="cuda:b200", tuned=False).calls.calls[0].kernel
    with pytest.raises(error, match=said):
        B200.fits(kernel, how)


def test_a_kernel_without_a_product_is_refused():
    kernel = autocomp.optimize(graph({"x": "f16[256, 256]"}, "%0 = gelu(x)"), target="cuda:b200", tuned=False).calls.calls[0].kernel
    with pytest.raises(UnsupportedOp, match="one product, and this one has 0"):
        B200.fits(kernel, by_hand({a.name: 64 for a in kernel.axes}, stages=2, roles="warp_specialise", workers=1))


def test_two_products_of_a_kernel_are_refused():
    kernel = autocomp.optimize(attention(1, 1, 256, 64), target="cuda:b200", tuned=False).calls.calls[0].kernel
    how = by_hand({a.name: 128 if a.extent == 256 else a.extent if a.extent == 64 else 1 for a in kernel.axes} | {"r1": 64}, stages=2,
                  roles="warp_specialise", workers=1)  # fmt: skip
    with pytest.raises(UnsupportedOp):
        B200.fits(kernel, how)
