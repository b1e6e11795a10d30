"""Passes over a plan, each by itself: the steps in front of it and behind it, as a diff."""

from __future__ import annotations

from difflib import unified_diff
from functools import lru_cache

import pytest
from autocomp.targets import load_target
from autocomp.targets.cuda.passes import PASSES
from autocomp.targets.simt.printer import Printer

import autocomp
from autocomp.errors import DoesNotFit
from autocomp.frontends.text import parse
from autocomp.ir.directives import DIRECTIVES, complete, required
from autocomp.ir.kernel import Kernel
from tests.cli.test_cli import run
from tests.helpers.covers import cover_of
from tests.helpers.device_graphs import attention, gemm, graph
from tests.helpers.schedules import by_hand

TEAM = {"roles": "warp_specialise", "workers": 2, "stages": 4, "persistent": True}
TILE, BOX = {"i0": 128, "i1": 64, "r0": 64}, {"i0": 128, "i1": 256, "r0": 64}
LONG = {"x": "f16[136, 520]", "w": "f16[520, 264]", "r": "f16[136, 264]"}
ADD = graph(LONG, "%0 = matmul(x, w)\n%1 = add(%0, r)")
ODD = graph(LONG | {"r": "f16[136, 266]"}, "%0 = matmul(x, w)\n%1 = slice(r, starts=[0, 0], limits=[136, 264], steps=[1, 1])\n"
            "%2 = add(%0, %1)")  # fmt: skip
GELU = graph({"x": "f16[264, 264]", "w": "f16[264, 264]"}, "%0 = matmul(x, w)\n%1 = gelu(%0)")
PLACE = {"i0": 8, "i1": 1, "i2": 8, "i3": 1, "i4": 24, "r0": 1, "r1": 1, "r2": 64}
PLACES = graph({"x": "f16[1, 9, 8, 64]", "w": "f16[24, 3, 3, 64]"}, "%0 = conv_spread(x, w, spread=[2, 2], lo=[1, 1], hi=[1, 1], "
               'dilations=[1, 1], layout="nhwc_ohwi")')  # fmt: skip
TURNED = graph({"x": "f16[72, 136]", "y": "f16[136, 72]"}, "%0 = transpose(x, perm=[1, 0])\n%1 = add(%0, y)")
NORM = graph({"x": "f16[3, 2048]", "g": "f16[2048]", "b": "f16[2048]"}, "%0 = layer_norm(x, g, b, axes=[1])")
SUMS = graph({"x": "f16[5, 3072]"}, "%0 = reduce_sum(x, axes=[1])")
MASKED = attention(1, 2, 256, 64, causal=True)
FEW = "graph g\ninput x: f16[128, 264]\nparam w: f16[264, 264] = random(3)\n%0 = matmul(x, w)\noutput out = %0"
HEADS = attention(1, 2, 256, 64), {"i0": 1, "i1": 128, "r1": 64}, {**TEAM, "stages": 2, "softmax_overlap": 2, "rescale_threshold": 14}
MAPPED = graph({"x": "f16[64, 256]", "w": "f16[256, 64]"}, "%0 = exp(x)\n%1 = matmul(%0, w)")
PAIR = graph({"x": "f16[4099]", "y": "f16[4099]"}, "%0 = add(x, y)")
SCATTERED = graph({"at": "i32[1, 65, 1]", "u": "f32[1, 65, 300]"},
                  "%0 = iota(shape=[7, 1, 1], axis=0, dtype=\"i32\")\n%1 = eq(at, %0)\n%2 = where(%1, u, const(0.0, f32))\n"
                  "%3 = reduce_sum(%2, axes=[1])")  # fmt: skip
TRIANGLE = graph({"x": "f32[200, 96]", "w": "f32[96, 200]"},
                 "%0 = matmul(x, w)\n%1 = iota(shape=[200, 200], axis=0)\n%2 = iota(shape=[200, 200], axis=1)\n%3 = sub(%2, %1)\n"
                 "%4 = ge(%3, const(1, i64))\n%5 = where(%4, %0, const(0.0, f32))")  # fmt: skip
CASES = {  # of each pass: graph, tile, the schedule's other fields, what is asked for beside it; the diff
    "load_c": (ADD, TILE, TEAM, (), """
   in0_t = copy in0
+    | of in0_t, by TMA through 2 slots of 16384 bytes
   add_t = map in0_t + cast(f16, acc)
   store out0 = add_t
+    | of in0_t, by TMA through 2 slots of 16384 bytes
"""),
    "load_c_halves": (ADD, BOX, TEAM, ("interleave_epilogue",), """
   pipelined r0 stages=4
+    | asks for the first half before turn 2
+    | takes its first half and asks for the second before turn 4
     in1_t = copy in1
   in0_t = copy in0
+    | of in0_t, by TMA through half a slot of 65536 bytes
   add_t = map in0_t + cast(f16, acc)
   store out0 = add_t
+    | of in0_t, by TMA through half a slot of 65536 bytes
"""),
    "warp_specialise": (GELU, TILE, TEAM, (), """
-grid i0, i1 persistent=yes
-  acc = fill 0.0
-  pipelined r0 stages=4
-    in0_t = copy in0
-    in1_t = copy in1
-    acc += mma in0_t, in1_t
-  gelu_t = map gelu(cast(f16, acc))
-  store out0 = gelu_t
+producer
+  grid i0, i1 persistent=yes
+    pipelined r0 stages=4
+      send q0: in0_t, in1_t
+consumers
+  grid i0, i1 persistent=yes
+    acc = fill 0.0
+    pipelined r0 stages=4
+      acc += mma in0_t, in1_t
+    gelu_t = map gelu(cast(f16, acc))
+    store out0 = gelu_t
"""),
    "multicast": (GELU, TILE, TEAM | {"cluster": 2}, (), """
     pipelined r0 stages=4
-      send q0: in0_t, in1_t
+      send q0: in0_t, in1_t (in1_t for all blocks of the cluster)
 consumers
"""),
    "pdl": (FEW, TILE, TEAM, (), """
 producer
+  await earlier launches, let the next one start
   grid i1 persistent=yes
 consumers
+  await earlier launches, let the next one start
   grid i1 persistent=yes
"""),
    "late_launch": (SUMS, {"i0": 1, "r0": 512}, {}, (), """
-await earlier launches, let the next one start
+await earlier launches
 s = fill 0
   s += reduce add r0 cast_t
+let the next launch start
 cast_t2 = map cast(f16, s)
"""),
    "prefetch_constants": (FEW, TILE, TEAM, (), """
 producer
-  await earlier launches, let the next one start
+  no turn of q0 is ahead
   grid i1 persistent=yes
+    first of all tiles: send in1_t into all slots of q0, await earlier launches
     pipelined r0 stages=4
"""),
    "cluster_split_k": (GELU, TILE, TEAM | {"persistent": False, "cluster": 2, "cluster_split_k": 2}, (), """
     acc += mma in0_t, in1_t
+  send the 2 blocks their shares of the sums, add up the own one; what follows is done for this share
   gelu_t = map gelu(cast(f16, acc))
"""),
    "tma_store": (ADD, TILE, TEAM, (), """
     store out0 = add_t
+      | by TMA in boxes of 64 x 64, 1 a warpgroup
"""),
    "interleave_epilogue": (GELU, BOX, TEAM, (), """
       acc += mma in0_t, in1_t
-    gelu_t = map gelu(cast(f16, acc))
-    store out0 = gelu_t
-      | by TMA in boxes of 64 x 64, 4 a warpgroup
+    each box of 64 x 64, 4 a warpgroup
+      gelu_t = map gelu(cast(f16, acc))
+      store out0 = gelu_t
+        | by TMA in boxes of 64 x 64, 4 a warpgroup
"""),
    "third_epilogue_stage": (GELU, BOX, TEAM, (), """
     pipelined r0 stages=4
+      | the slot of q0 that its last turn read is a third place for boxes
       acc += mma in0_t, in1_t
     each box of 64 x 64, 4 a warpgroup
+      | the slot of q0 that its last turn read is a third place for boxes
       gelu_t = map gelu(cast(f16, acc))
"""),
    "prefetch_epilogue": (ODD, TILE, TEAM, (), """
     acc = fill 0.0
+    loads of in2_t start, packed
     pipelined r0 stages=4
"""),
    "mma_zero_init": (GELU, TILE, TEAM, (), """
   grid i0, i1 persistent=yes
-    acc = fill 0.0
     pipelined r0 stages=4
       acc += mma in0_t, in1_t
+        | its first turn overwrites
     gelu_t = map gelu(cast(f16, acc))
"""),
    "short_last_step": (GELU, TILE, TEAM, (), """
     pipelined r0 stages=4
+      | steps in depth of its last turn: 1
       acc += mma in0_t, in1_t
"""),
    "skip_dead_steps": (PLACES, PLACE, TEAM | {"workers": 1}, (), """
     pipelined r0, r1 stages=4
+      | r0 while i1 + -2*r0 + 1 >= 0, r1 while i3 + -2*r1 + 1 >= 0
       send q0: in0_t, in1_t
     pipelined r0, r1 stages=4
+      | r0 while i1 + -2*r0 + 1 >= 0, r1 while i3 + -2*r1 + 1 >= 0
       acc += mma in0_t, in1_t
"""),
    "ping_pong": (GELU, TILE, TEAM | {"ping_pong": True}, (), """
 grid i0, i1 persistent=yes
+  await this warpgroup's turn
   acc = fill 0.0
"""),
    "stream_k": (GELU, TILE, TEAM | {"stream_k": True}, (), """
     acc += mma in0_t, in1_t
-  gelu_t = map gelu(cast(f16, acc))
-  store out0 = gelu_t
+  where this block begins the tile, behind the sums of the others
+    gelu_t = map gelu(cast(f16, acc))
+    store out0 = gelu_t
"""),
    "software_pipeline": (GELU, {"i0": 64, "i1": 64, "r0": 32}, {"threads": 128, "stages": 3}, (), """
 acc = fill 0.0
-pipelined r0 stages=3
-  in0_t = copy in0
-  in1_t = copy in1
-  acc += mma in0_t, in1_t
+a ring of 3 slots
+  pipelined r0 stages=3
+    | its turns before 2
+    start in0_t, in1_t
+  pipelined r0 stages=3
+    await in0_t, in1_t
+    start in0_t, in1_t, 2 turns ahead
+    acc += mma in0_t, in1_t
 gelu_t = map gelu(cast(f16, acc))
"""),
    "prefetch_behind_reduction": (NORM, {"i0": 1}, {"threads": 64}, (), """
 s_t = reduce add i1 cast_t
+loads of in1_t start, as they are stored
+loads of in2_t start, as they are stored
 mul_t = map s_t * 0.00048828125
"""),
    "prefetch_factors": (MAPPED, {"i0": 32, "i1": 32, "r0": 64}, {"threads": 64, "stages": 3}, (), """
   exp_t = map exp(in0_t)
+  loads of in0_t start, of the next turn
   in1_t = copy in1
"""),
    "thread_partials": (SUMS, {"i0": 1, "r0": 512}, {"threads": 64}, (), """
 serial r0
+  | each thread keeps its own s; threads meet behind the loop
   in0_t = copy in0
"""),
    "skip_masks": (MASKED, {"i0": 1, "i1": 64, "r1": 32}, {"threads": 128, "stages": 2}, (), """
     where_t = map where(idx(i1, i64) >= idx(r1, i64), acc, -inf)
+      | not masked in tiles that lie inside
     m_t = reduce max r1 where_t
"""),
    "skip_masked_sums": (TRIANGLE, {"i0": 64, "i1": 64, "r0": 32}, {"threads": 128, "stages": 2}, (), """
 pipelined r0 stages=2
+  | run in tiles where -1*i0 + i1 + -1 >= 0 somewhere
   in0_t = copy in0
"""),
    "skip_neutral": (SCATTERED, {"i0": 1, "i1": 256, "r0": 1}, {"threads": 64}, (), """
 serial r0
+  | turns are looked at side by side, and run where eq_t holds
   in0_t = copy in0
"""),
    "batch_copies": (TURNED, {"i0": 32, "i1": 32}, {"threads": 128}, (), """
-in0_t = copy in0
-in1_t = copy in1
+side by side
+  in0_t = copy in0
+  in1_t = copy in1
 add_t = map in0_t + in1_t
"""),
    "softmax_overlap": (*HEADS, (), """
   pipelined r1 stages=2 overlap=2
+    | o += mma p_n, in2_t runs a turn late, beside the maps of the next
     in1_t = copy in1
"""),
    "unroll_ring": (*HEADS, (), """
     | o += mma p_n, in2_t runs a turn late, beside the maps of the next
+    | unrolled 2 times, so that slots are constants
     in1_t = copy in1
"""),
    "warpgroup_order": (*HEADS, (), """
     | o += mma p_n, in2_t runs a turn late, beside the maps of the next
+    | warpgroups start its products one behind the other
     in1_t = copy in1
"""),
    "mma_row_sums": (*HEADS, (), """
     | o += mma p_n, in2_t runs a turn late, beside the maps of the next
+    | l += the same product by columns of ones
     in1_t = copy in1
"""),
    "exp2_scores": (*HEADS, (), """
     | l += the same product by columns of ones
+    | in0_t is scaled by 0.1803 before, weights are powers of two
     in1_t = copy in1
"""),
    "peel_tail": (PAIR, {"i0": 2048}, {}, (), """
-in0_t = copy in0
-in1_t = copy in1
+peeled
+  in0_t = copy in0
+  in1_t = copy in1
 add_t = map in0_t + in1_t
-store out0 = add_t
+peeled
+  store out0 = add_t
"""),
}  # fmt: skip


@lru_cache
def kernel_of(text: str) -> Kernel:
    if text in (HEADS[0], MASKED):  # its online softmax is made by rules that a cover alone has not
        return autocomp.optimize(text, target="cuda:h200", cache=False).calls.calls[0].kernel
    return cover_of(parse(text)).calls[0].kernel


def changes(name: str, without: bool = False) -> str:
    """What a pass changes in its case, as a diff; `without`: where its directive is not asked for."""
    text, tile, fields, beside, _ = CASES[name]
    asked = complete({name, *required(name), *beside} & DIRECTIVES.keys()) if name in DIRECTIVES else ()
    schedule = by_hand(tile, **fields, directives=complete(set(asked) - {name}) if without else asked)
    try:
        forms = load_target("cuda:h200").passes(kernel_of(text), schedule)
    except DoesNotFit:  # an operand that comes neither in halves nor whole
        return ""
    k = next((k for k, (by, _) in enumerate(forms) if by == name), 0)
    if k == 0:
        return ""
    lines = list(unified_diff(forms[k - 1][1].splitlines(), forms[k][1].splitlines(), lineterm="", n=1))[2:]
    return "".join(f"{line}\n" for line in lines if not line.startswith("@@"))


@pytest.mark.parametrize("name", CASES)
def test_a_pass_changes_these_steps(name):
    assert changes(name) == CASES[name][-1].lstrip("\n")


@pytest.mark.parametrize("name", sorted(CASES.keys() & DIRECTIVES.keys()))
def test_what_is_not_asked_for_is_not_done(name):
    assert changes(name, without=True) == ""


def test_each_pass_has_its_case_its_name_and_a_docstring_that_shows_it():
    passes = (*PASSES, *Printer.PASSES)
    assert {p.__name__ for p in passes} == CASES.keys()
    for p in passes:
        assert p.__module__.endswith(f".{p.__name__}") and p.__doc__
        doc = __import__(p.__module__, fromlist=["_"]).__doc__
        assert "before" in doc and "after" in doc, p.__name__


def test_explain_shows_each_as_a_diff(tmp_path):
    (tmp_path / "m.txt").write_text(gemm(4096, 4096, 4096))
    out = run("explain", str(tmp_path / "m.txt"), "--target", "cuda:h200", "--passes", "matmul")[0]
    assert out.index("-- tile program") < out.index("-- warp_specialise") < out.index("-- tma_store") < out.index("-- synchronise")
    assert "+      send q0: in0_t, in1_t" in out and "-  acc = fill 0.0" in out
    assert "no kernel 'matmal'" in run("explain", str(tmp_path / "m.txt"), "--target", "cuda:h200", "--passes", "matmal", code=1)[1]
    small = run("explain", str(tmp_path / "m.txt"), "--passes", "matmul", code=1)[1]
    assert "prints 'matmul' without passes over a plan" in small
