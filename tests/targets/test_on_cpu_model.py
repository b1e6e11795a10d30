"""Printed GPU kernels, run without a GPU on the CPU model, against the float64 reference: fresh inputs, odd sizes, poisoned outputs."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import autocomp
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import dtype_of
from autocomp.simulate.simt_model import COMPILER, ModelExecutor, ModelFailure
from tests.helpers import fresh
from tests.helpers.device_graphs import GRAPHS, HOMES, WAVES, WAVES_SCHEDULE, gemm, graph, prepared, printed
from tests.helpers.repeats import GPUS, repeats
from tests.helpers.schedules import by_hand

pytestmark = pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
TARGETS = ["cuda:a100", "cuda:h200", "maca:c500"]


def check(program, model, folder):
    """Verify with asynchronous work late, then early."""
    executor = ModelExecutor(program, folder, model)
    program.executor = executor
    for late in (True, False):
        executor.late = late
        seed = fresh.seed()
        try:
            program.verify(seed=seed)
        except autocomp.VerificationError as e:
            raise ModelFailure(f"seed {seed}, late {late}: {e}") from None


def statements(program) -> list[str]:
    """Kernels without their comments."""
    return [s.text.partition("*/")[2] for s in program.printed.values()]


SAME = {  # graphs of which another one prints the same lines, for another type or size
    "chain_f32": "chain", "channels_last": "transpose_three", "softmax_wide_odd": "softmax_wide", "layer_norm": "layer_norm_odd",
    "max_columns": "sum_columns", "gemm_bf16": "gemm_odd", "gemm_tn": "gemm_tt", "gemm_i8_odd": "gemm_i8_pairs",
    "vector_matrix_f32": "vector_matrix", "dot_f16": "dot", "attention_bf16": "attention_f16", "attention_128": "attention_causal_128",
    "off_depthwise": "depthwise_stride", "off_conv_groups": "conv_groups", "off_f32": "gemm_f32", "off_odd_depth": "gemm_odd",
    "off_transpose": "transpose", "off_gather": "gathered", "gemm_of_same_columns": "gemm_of_same_rows", "conv_1x1": "conv_groups",
    "conv_first": "conv_stride", "attention_step": "attention_step_groups", "gemm_nt_f32": "gemm_f32", "latent_wide": "latent_step",
    "gemm_prologue_f32": "gemm_prologue", "attention_of_scores_f16": "attention_of_scores", "softmax_of_same": "sum_of_same",
}  # fmt: skip


def once(n: str, t: str):
    """A graph on a chip, on its own one unless it repeats another."""
    if HOMES[n] != t:
        return repeats(n, t, of="the same graph on another chip")
    return repeats(n, t, of=SAME[n]) if n in SAME else (n, t)


@pytest.mark.parametrize(("name", "target"), [once(n, t) for n in GRAPHS for t in TARGETS])
def test_kernels_compute_their_graph(name, target, model, tmp_path):
    check(printed(name, target), model, tmp_path)


@pytest.mark.parametrize("target", GPUS)
@pytest.mark.parametrize("columns", [1, 2, 40])
def test_logarithms_of_sums_keep_no_rounding_of_the_maximum(columns, target, model, tmp_path):
    """Halves up to 65504, whose product with log2(e) float does not hold: 0.004 in the exponent would be 0.003 in the logarithm."""
    body = "%0 = log_softmax(x, axes=[1])\n%1 = sub(x, y)\n%2 = exp(%1)"
    text = graph({"x": f"f16[64, {columns}]", "y": f"f16[64, {columns}]"}, body) + "output log = %0\n"
    program = autocomp.optimize(text, target=target)
    program.executor = ModelExecutor(program, tmp_path, model)
    x = fresh.rng().uniform(3e4, 6e4, (64, columns)).astype("f2")
    got = program.run({"x": x, "y": x})
    below = x.astype("f8") - x.astype("f8").max(1, keepdims=True)
    want = below - np.log(np.exp(below).sum(1, keepdims=True))
    np.testing.assert_allclose(got["log"].astype("f8"), want, rtol=1e-3, atol=1e-5)
    np.testing.assert_array_equal(got["out"], np.ones_like(x))


@pytest.mark.parametrize("target", ["cuda:a100", "maca:c500"])
@pytest.mark.parametrize("kind", ["f8e4m3", "f8e5m2"])
def test_eight_bit_floats_widen_and_round_bit_by_bit(kind, target, model, tmp_path):
    """Every code widens to its value; halves between neighbours go to the even one, what is too large as the type says."""
    program = autocomp.optimize(graph({"x": f"{kind}[256]"}, '%0 = cast(x, to="f32")'), target=target)
    program.executor = ModelExecutor(program, tmp_path, model)
    codes = np.arange(256, dtype=np.uint8).view(dtype_of(kind).numpy)
    np.testing.assert_array_equal(program.run({"x": codes})["out"], codes.astype("f4"))

    values = np.sort(codes.astype("f4")[np.isfinite(codes.astype("f4"))])
    middle = (values[1:] + values[:-1]) / 2
    x = np.concatenate([values, middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf), np.array([1e6, -1e6, np.inf, np.nan])])
    x = np.concatenate([x, [464.0, 464.1, 61439.0, 61440.0, 1e-9, -0.0]]).astype("f4")
    program = autocomp.optimize(graph({"x": f"f32[{x.size}]"}, f'%0 = cast(x, to="{kind}")'), target=target)
    (tmp_path / "back").mkdir()
    program.executor = ModelExecutor(program, tmp_path / "back", model)
    with np.errstate(over="ignore"):
        want = x.astype(dtype_of(kind).numpy).astype("f4")
    np.testing.assert_array_equal(program.run({"x": x})["out"].astype("f4"), want)


@pytest.mark.parametrize("target", TARGETS)
def test_tf32_is_used_only_where_it_is_allowed(target, model, tmp_path):
    large = gemm(2048, 2048, 2048, "f32")
    assert "tf32" not in autocomp.optimize(large, target=target).source()
    allowed = autocomp.optimize(large, target=target, allow_tf32=True)
    assert re.search(r"ac_(mma|wgmma_n\d+)_tf32", allowed.source()) and "instruction tf32" in allowed.kernels[-1].schedule
    assert "tf32" not in autocomp.optimize(GRAPHS["gemm"], target=target, allow_tf32=True).source()  # f16 has its own

    small = autocomp.optimize(GRAPHS["gemm_f32"], target=target, allow_tf32=True)
    kernel = small.calls.calls[0].kernel
    schedule = by_hand({"i0": 32, "i1": 32, "r0": 32}, stages=2, threads=64, instruction="tf32")
    small.printed[kernel.name] = small.target.emit(kernel, schedule)
    small.kernels[:] = [replace(k, schedule="tf32") for k in small.kernels]  # what the tolerance goes by
    check(small, model, tmp_path)


# ---- named dimensions: one kernel for every value
def named(inputs: dict[str, str], body: str) -> str:
    return graph(inputs, body).replace("graph g\n", "graph g\ndim N in 1..2000\n")


NAMED = {
    "chain": named({"x": "f16[N, 77]", "y": "f16[77]"}, "%0 = mul(x, y)\n%1 = gelu(%0)"),
    "inner": named({"x": "f16[5, N]"}, "%0 = gelu(x)"),
    "turned": named({"x": "f16[N, 77]"}, "%0 = transpose(x, perm=[1, 0])"),
    "rows": named({"x": "f16[N, 333]"}, "%0 = softmax(x, axes=[1])"),
    "short_rows": named({"x": "f32[N, 3]"}, "%0 = softmax(x, axes=[1])"),
    "long_rows": named({"x": "f32[3, N]"}, "%0 = softmax(x, axes=[1])"),
    "columns": named({"x": "f32[N, 70]"}, "%0 = exp(x)\n%1 = reduce_sum(%0, axes=[0])"),
    "gemm_rows": named({"x": "f16[N, 72]", "w": "f16[72, 90]"}, "%0 = matmul(x, w)\n%1 = relu(%0)"),
    "gemm_depth": named({"x": "f16[40, N]", "w": "f16[N, 90]"}, "%0 = sigmoid(x)\n%1 = matmul(%0, w)"),
    "gemm_batch": named({"x": "f16[N, 4, 72]", "w": "f16[N, 72, 9]"}, "%0 = matmul(x, w)"),
    "attention": named({a: "f16[2, N, 64]" for a in "qkv"},
                       "%0 = transpose(k, perm=[0, 2, 1])\n%1 = matmul(q, %0)\n%2 = mul(%1, const(0.125, f16))\n"
                       "%3 = softmax(%2, axes=[2])\n%4 = matmul(%3, v)"),
}  # fmt: skip


def feed_at(program, n: int):
    """Random inputs with N = n."""
    rng = np.random.default_rng(n)
    return {
        x.attrs["name"]: rng.standard_normal([d if isinstance(d, int) else n for d in x.type.shape]).astype(x.type.dtype.numpy)
        for x in program.graph.inputs
    }


@pytest.mark.parametrize(("name", "target"), [(n, t) if i % 2 == k else repeats(n, t, of="the same graph on the other target")
                                              for i, n in enumerate(NAMED) for k, t in enumerate(("cuda", "maca"))])  # fmt: skip
def test_named_dimensions_at_any_value(name, target, model, tmp_path):
    """On every chip of the target whose kernels differ."""
    seen: list[list[str]] = []
    for chip in (t for t in TARGETS if t.startswith(target)):
        program = autocomp.optimize(NAMED[name], target=chip)
        if statements(program) not in seen:
            seen.append(statements(program))
            (folder := tmp_path / chip.replace(":", "_")).mkdir()
            program.executor = ModelExecutor(program, folder, model)
            for n in (1, 33, 130):
                program.verify(feed_at(program, n))


# ---- warpgroups with roles, under schedules that small graphs do not choose by themselves
ROLES = by_hand({"i0": 128, "i1": 128, "r0": 64}, stages=3, roles="warp_specialise", workers=2)
STAY = replace(ROLES, persistent=True, grouped=8)
BOTH_TURNED = graph({"a": "f16[304, 200]", "b": "f16[136, 304]"},
                    "%0 = transpose(a, perm=[1, 0])\n%1 = transpose(b, perm=[1, 0])\n%2 = matmul(%0, %1)")  # fmt: skip
EPILOGUE = graph({"x": "f16[172, 328]", "w": "f16[328, 136]", "b": "f16[136]"}, "%0 = matmul(x, w)\n%1 = add(%0, b)\n%2 = gelu(%1)")
SMALL_BATCHED = replace(by_hand({"i0": 1, "i1": 128, "i2": 64, "r0": 64}), stages=4, roles="warp_specialise", workers=2, persistent=True)
WARPGROUPS = {  # tiles with tails in each direction, turns that go round the ring of three twice, more tiles than the blocks that stay
    "one_tile_a_block": (gemm(172, 136, 328), ROLES),
    "one_worker": (gemm(172, 136, 328), replace(ROLES, workers=1)),
    "blocks_stay": (gemm(444, 264, 328), STAY),
    "bf16": (gemm(172, 136, 328, "bf16"), STAY),
    "both_turned": (BOTH_TURNED, STAY),
    "epilogue": (EPILOGUE, STAY),
    "one_store_a_tile": (gemm(200, 136, 72, "f16", "5, "), SMALL_BATCHED),
    "wide_tile": (gemm(172, 264, 264), replace(STAY, tile=(("i0", 128), ("i1", 256), ("r0", 64)))),
}


def specialised(text: str, schedule: Schedule, edit=lambda text: text):
    """The program under this very schedule, its kernel's statements edited; blocks that stay are three."""
    program = prepared(text, target="cuda:h200")
    kernel = program.calls.calls[0].kernel
    source = program.target.emit(kernel, schedule)
    comment, end, code = source.text.partition("*/")
    launch = replace(source.launch, at_most=min(source.launch.at_most, 3))
    program.printed[kernel.name] = replace(source, text=comment + end + edit(code), launch=launch)
    return program


@pytest.mark.parametrize("name", WARPGROUPS)
def test_warpgroups_with_roles(name, model, tmp_path):
    check(specialised(*WARPGROUPS[name]), model, tmp_path)


REPEATED = {"f16": gemm(200, 136, 136), "bias": GRAPHS["gemm_bias_gelu"], "f32": gemm(100, 136, 72, "f32"), "i8": GRAPHS["gemm_i8_pairs"],
            "turned": GRAPHS["gemm_tt"]}  # fmt: skip
TALL = by_hand({"i0": 64, "i1": 64, "r0": 32}, stages=2, threads=64)
WIDE = by_hand({"i0": 32, "i1": 128, "r0": 16}, stages=2, threads=64)  # products thread by thread have 32 columns


@pytest.mark.parametrize("name", REPEATED)
def test_a_wave_repeats_its_instruction_along_rows_and_columns(name, model, tmp_path):
    """Graphs of these sizes choose tiles in which a wave has one row of instructions; large ones do not."""
    program = autocomp.optimize(REPEATED[name], target="cuda:a100", without=["layout/pad-factors"])
    kernel = program.calls.calls[0].kernel
    program.printed[kernel.name] = source = program.target.emit(kernel, TALL if name != "f32" else WIDE)
    rows, columns = re.search(r" \* \w+: (?:mma|fma)\S*, (\d+) x (\d+) a wave", source.text).groups()
    assert int(rows) > 1 and int(columns) > 1
    check(program, model, tmp_path)


# ---- the model sees what a device would sometimes forgive
def without(pattern: str, by: str = ";"):
    def edit(code: str) -> str:
        out, count = re.subn(pattern, by, code)
        assert count, f"nothing in the kernel matches {pattern}"
        return out

    return edit


def broken(name: str, edit):
    program = prepared(GRAPHS[name], "cuda:a100")
    for k, s in program.printed.items():
        comment, end, code = s.text.partition("*/")
        program.printed[k] = replace(s, text=comment + end + edit(code))
    return program


@pytest.mark.parametrize(
    ("name", "edit", "said"),
    [
        ("gemm", without(r"ac_sync\(\);"), "unordered accesses of shared memory: byte .* was written by a copy of thread"),
        ("gemm", without(r"ac_wait<\d+>\(\);"), "was written by a copy of thread 0 and is read by thread 0"),
        ("gemm_odd", without(r" < 200", " < 100000"), "an access outside of every buffer"),
        ("softmax", without(r"ac_sync\(\);"), "unordered accesses of shared memory: .* by thread"),
        ("sum_columns", without(r"ac_sync\(\);"), "unordered accesses of shared memory: .* by thread"),
        ("gemm", without(r"ac_swizzle<(\d+)>\(([^,]*), (\(.*?\) \* 2)\)\)", r"(\2) * \1 + \3)"), "rows of a matrix lie in the same banks"),
        ("softmax_odd", without(r"\n  const int lane", "\n  if (threadIdx.x == 5) return;\n  const int lane"), "the block hangs"),
        ("softmax_odd", without(r"(float \w+)\[\d+\];", r"\1[1];"), "an index outside its array"),
        ("softmax_odd", without(r"\n  const int lane", "\n  volatile int large[1 << 15];\n  large[threadIdx.x] = 1;\n  const int lane"),
         "has more local arrays than a stack of 131072 bytes holds"),
    ],
)
def test_the_model_sees_a_broken_kernel(name, edit, said, model, tmp_path):
    with pytest.raises(ModelFailure, match=said):
        check(broken(name, edit), model, tmp_path)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (without(r"ac_team_wait<0>\(\);"), "the float64 reference says"),
        (without(r"ac_barrier_wait\([^;]*1 \^[^;]*;"), "more threads arrive"),
        (without(r"if \([^;]*lane == 0\) ac_barrier_arrive[^;]*;"), "the block hangs"),
        (without(r"ac_bulk_drain\(\);"), "a block ends while its shared memory is in use: .* was read by a bulk store"),
        (without(r"ac_async_fence\(\);"), "read in bulk without a fence between"),
        repeats(without(r"ac_bulk_wait<\d+>\(\);"), "was read by a bulk store of thread 128 and is written by thread",
                of="the store that a block does not wait for"),
        repeats(without(r"ac_stmatrix4\((.*?) \+ lane / 16 \* 16\)", r"ac_stmatrix4(\1)"),
                "unordered accesses|the float64 reference says", of="the product that is not waited for: a wrong number"),
    ],
)
def test_the_model_sees_broken_roles(edit, said, model, tmp_path):
    with pytest.raises(ModelFailure, match=said):
        check(specialised(*WARPGROUPS["blocks_stay"], edit), model, tmp_path)


def test_a_tile_that_is_turned_round_in_a_loop_is_not_overwritten_while_it_is_read(model, tmp_path):
    text = GRAPHS["row_int4"]
    for small, large in {"384": "2048", "192]": "1024]", "192,": "1024,", "[65, 3": "[130, 16", "65": "130"}.items():
        text = text.replace(small, large)
    program = autocomp.optimize(text, target="cuda:h200")
    kernel = program.calls.calls[0].kernel
    source = program.target.emit(kernel, by_hand({"i0": 32, "r0": 8, "r1": 64, "r2": 2}, threads=512))
    assert "ac_copy<16>" in source.text and "for (int it" in source.text
    program.printed[kernel.name] = source
    check(program, model, tmp_path)


CLUSTER = by_hand({"i0": 1}, threads=128, cluster=4)


def test_the_last_wave_of_a_tile_reads_no_other_slot(model, tmp_path):
    """Four waves of 40 columns in a tile of 136, of which shared memory holds 144: columns 144 to 159 of a slot's last row would be the
    next slot's first ones, which are being written."""
    program = specialised(WAVES, WAVES_SCHEDULE)
    (source,) = program.printed.values()
    assert "wave (i1,16,2)(i2,40,4)" in source.text
    assert [read for read in re.findall(r"ac_ldmatrix\d_t\(.*", source.text) if "ac_min(wave / 2 * 40" not in read] == []
    check(program, model, tmp_path)


def clustered(edit=lambda text: text):
    """A softmax whose rows four blocks share."""
    program = prepared(graph({"x": "f16[5, 20001]"}, "%0 = softmax(x, axes=[1])"), target="cuda:h200")
    kernel = program.calls.calls[0].kernel
    source = program.target.emit(kernel, CLUSTER)
    comment, end, code = source.text.partition("*/")
    program.printed[kernel.name] = replace(source, text=comment + end + edit(code))
    return program


def test_blocks_of_a_cluster_share_a_row(model, tmp_path):
    check(clustered(), model, tmp_path)


def test_a_cluster_without_its_barriers_is_seen(model, tmp_path):
    with pytest.raises(ModelFailure):
        check(clustered(lambda text: text.replace("ac_cluster_sync();", "")), model, tmp_path)


SHARING = replace(STAY, cluster=2)


TURNED = graph({"a": "f16[304, 200]", "b": "f16[136, 304]"},
               "%0 = transpose(a, perm=[1, 0])\n%1 = transpose(b, perm=[1, 0])\n%2 = matmul(%0, %1)")  # fmt: skip


@pytest.mark.parametrize("text", [gemm(300, 136, 328), gemm(512, 256, 200), TURNED, gemm(130, 136, 72, "f16", "3, ")],
                         ids=["odd_rows_of_tiles", "even", "both_turned", "batched"])  # fmt: skip
def test_blocks_of_a_cluster_share_a_factor(text, model, tmp_path):
    program = autocomp.optimize(text, target="cuda:h200")
    kernel = program.calls.calls[0].kernel
    batched = len(kernel.axes) > 2
    schedule = replace(SHARING, tile=replace(SMALL_BATCHED).tile) if batched else SHARING
    source = program.target.emit(kernel, schedule)
    assert "ac_bulk_load_all<2>" in source.text
    program.printed[kernel.name] = replace(source, launch=replace(source.launch, at_most=4))
    check(program, model, tmp_path)
