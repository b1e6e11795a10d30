"""Depth of a product shared out among blocks: of a cluster, which add up through each other's shared memory, and of the last tiles
among all blocks, which add up through memory."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from autocomp.targets import load_target

import autocomp
from autocomp.errors import DoesNotFit, UnsupportedOp
from autocomp.simulate.simt_model import COMPILER, ModelExecutor, ModelFailure
from tests.helpers.device_graphs import gemm
from tests.helpers.repeats import repeating, repeats
from tests.helpers.schedules import by_hand
from tests.helpers.split_depth import CASES, FEW, FEW_ROWS, STREAM, STREAMS, TWO, split, stream

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
missing = load_target("cuda").toolchain.missing()
needs_nvrtc = pytest.mark.skipif(bool(missing), reason=missing)


FOLDER = Path(__file__).parents[1] / "golden" / "cuda"


def check(program, model, folder):
    """Right, and byte for byte the same, whichever block is early."""
    executor = program.executor = ModelExecutor(program, folder, model)
    run, results = executor.run, []

    def kept(feed):
        results.append(run(feed))
        return results[-1]

    executor.run = kept
    for executor.late in (True, False):
        program.verify()
    late, early = ({n: x.tobytes() for n, x in r.items()} for r in results)
    assert late == early


@needs_compiler
@pytest.mark.parametrize("name", repeating(CASES, {"wide_results": "epilogue"}))
def test_blocks_of_a_cluster_share_a_tiles_depth(name, model, tmp_path):
    check(split(*CASES[name]), model, tmp_path)


@needs_compiler
@pytest.mark.parametrize("name", repeating(FEW_ROWS, {"eight": "odd"}))
def test_columns_take_the_place_of_few_rows(name, model, tmp_path):
    program = split(*FEW_ROWS[name])
    assert all("wgmma.m64n" in s.text for s in program.printed.values())
    check(program, model, tmp_path)


@needs_compiler
@pytest.mark.parametrize("name", STREAMS)
def test_blocks_share_out_the_steps_of_the_last_tiles(name, model, tmp_path):
    """Twice over the same workspace: a launch leaves its flags cleared."""
    program = stream(name)
    check(program, model, tmp_path)
    (flags,) = (x[-x.ctypes.data % 16 :][:512] for x in program.executor.scratch.values())
    assert not flags.any()


def without(pattern: str, by: str = ";"):
    def edit(code: str) -> str:
        out, count = re.subn(pattern, by, code)
        assert count, f"nothing in the kernel matches {pattern}"
        return out

    return edit


@needs_compiler
@pytest.mark.parametrize(
    ("make", "edit", "said"),
    [
        (lambda e: split(*CASES["two"], e), without(r"ac_barrier_wait_far[^;]*;"), "is written by what is sent to the barrier"),
        (lambda e: split(*CASES["two"], e),
         without(r"(ac_barrier_expect\(own \+ \d+), 32768\);\n +ac_barrier_fence", r"\1, 16384); ac_barrier_fence"),
         "the float64 reference says|hangs"),
        repeats(lambda e: split(*CASES["two"], e), without(r"rank \* \(\(5 \+ 1\) / 2\)", "rank * 2"), "the float64 reference says",
                of="half_expected: a wrong number"),
        (lambda e: split(*CASES["four"], e), without(r"\(rank - \(piece < rank\)\)", "rank"),
         "the float64 reference says|is written|hangs|not have initialised"),
        (lambda e: stream("whole_waves_then_pieces", e), without(r"if \([^;]*ac_flag_set[^;]*;"), "waits for one that is started later"),
        repeats(lambda e: stream("fewer_tiles_than_blocks", e), without(r"gridDim.x - 1 - blockIdx.x", "blockIdx.x"),
                "waits for one that is started later", of="no_flag: what is waited for comes later"),
        repeats(lambda e: stream("whole_waves_then_pieces", e), without(r"ac_add_left[^;]*;"), "the float64 reference says",
                of="half_expected: a wrong number"),
        (lambda e: stream("whole_waves_then_pieces", e), without(r"__threadfence\(\);\s*ac_barrier_sync\([^;]*;"),
         "unordered accesses of global memory"),
        repeats(lambda e: stream("whole_waves_then_pieces", e), without(r"(?<=ac_flag_take)([^;]*;)\s*ac_barrier_sync\([^;]*;", r"\1"),
                "unordered accesses of global memory", of="set_too_early: the same pair of accesses"),
    ],
    ids=["no_wait", "half_expected", "turns_twice", "another_slot", "no_flag", "wrong_order", "not_added", "set_too_early",
         "read_too_early"],
)  # fmt: skip
def test_the_model_sees_a_broken_sum(make, edit, said, model, tmp_path):
    with pytest.raises((ModelFailure, autocomp.VerificationError), match=said):
        check(make(edit), model, tmp_path)


@needs_nvrtc
@pytest.mark.parametrize("make", [lambda: split(*CASES["epilogue"]), lambda: split(*FEW_ROWS["split"]), lambda: stream("epilogue")],
                         ids=["cluster", "few_rows", "stream"])  # fmt: skip
def test_they_compile(make):
    program = make()
    for k, s in program.printed.items():
        assert program.target.toolchain.compile_object(k, program.target.preamble([s]) + s.text)[:4] == b"\x7fELF"


@pytest.mark.parametrize(("name", "make"), [("split_cluster", lambda: split(*CASES["epilogue"])),
                                            ("split_few_rows", lambda: split(*FEW_ROWS["split"])),
                                            ("split_stream", lambda: stream("epilogue"))])  # fmt: skip
def test_the_text_is_as_it_was(name, make):
    """AUTOCOMP_GOLDEN=write pytest tests/targets/test_split_depth.py  writes the files anew."""
    (text,) = (s.text for s in make().printed.values())
    path = FOLDER / f"{name}.h200.cu"
    if os.environ.get("AUTOCOMP_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize(
    ("text", "schedule", "reason"),
    [
        (gemm(256, 256, 256), replace(TWO, cluster=4), "a depth in 2 parts needs clusters of as many blocks, not of 4"),
        (gemm(256, 256, 256), replace(TWO, persistent=True), "in blocks that do not stay for another"),
        (gemm(256, 256, 256), replace(TWO, tile=(("i0", 128), ("i1", 72), ("r0", 64))), "no boxes of 64"),
        (gemm(16, 256, 256), replace(FEW, tile=(("i0", 16), ("i1", 64), ("r0", 64)), workers=1, cluster=4, cluster_split_k=4),
         "8 registers of acc are not shared evenly by 4 blocks in chunks of 4"),
        (gemm(256, 256, 256), replace(STREAM, cluster=2), "in blocks that stay and share nothing else"),
        (gemm(256, 256, 256), by_hand({"i0": 64, "i1": 64, "r0": 64}, stages=3, threads=128, cluster=2, cluster_split_k=2),
         "blocks of one role do not share out a tile's depth"),
    ],
)  # fmt: skip
def test_what_cannot_be_shared_is_refused_with_its_reason(text, schedule, reason):
    with pytest.raises(UnsupportedOp, match=reason):
        split(text, schedule)


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ((512, 512, 8192), {"cluster_split_k 2"}),  # 64 tiles of 64 x 64 on 132 cores: measured 18.5 us, 25.4 without
        ((1024, 1024, 1024), {"stages 8", "warp_specialise 1"}),  # what blocks send each other costs more: 9.1 us, 10.9 with
        ((8192, 8192, 8192), {"stream_k"}),  # the last of 16 waves is half empty: 1656 us, 1692 without
        ((4096, 4096, 4096), {"stages 4", "warp_specialise 2", "persistent"}),  # 116 of 132 tiles in it: 179 us, 188 with
    ],
)
def test_the_cost_model_says_where_depth_is_shared_out(sizes, said):
    """Of one kernel's schedules: two kernels are priced as long for the first (18.4 us)."""
    (kernel,) = autocomp.optimize(gemm(*sizes), target="cuda:h200", without=["scheduling/gpu-split-product"]).kernels
    clauses = set(kernel.schedule.split(" | "))
    assert said <= clauses
    assert ("cluster_split_k" in kernel.schedule, "stream_k" in clauses) == (said == {"cluster_split_k 2"}, said == {"stream_k"})


def test_a_last_tile_in_many_parts_is_added_up_by_one_block():
    """2560 cubed in tiles of 128 x 128 leaves 4 for 132 blocks, 33 parts each: 94 us; in tiles of 128 x 256 it leaves 68: 57 us."""
    (kernel,) = autocomp.optimize(gemm(2560, 2560, 2560), target="cuda:h200").kernels
    assert "256" in kernel.schedule and "stream_k" in kernel.schedule


def test_exact_programs_share_out_no_depth():
    (kernel,) = autocomp.optimize(gemm(512, 512, 8192), target="cuda:h200", exact=True).kernels
    assert "cluster" not in kernel.schedule and "stream_k" not in kernel.schedule


def test_an_instruction_that_a_blocks_first_registers_cannot_hold_is_refused_with_both_numbers():
    schedule = replace(TWO, tile=(("i0", 192), ("i1", 256), ("r0", 64)), workers=3, cluster=1, cluster_split_k=1)
    with pytest.raises(DoesNotFit, match="registers of a thread when its block starts: needs 154, has 128"):
        split(gemm(384, 512, 256), schedule)
