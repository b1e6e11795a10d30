"""Every rule about schedules of GPU kernels is worth something: without it some graph takes longer, by the model, or has no kernel."""

from __future__ import annotations

import pytest

import autocomp
from autocomp.errors import AutocompError
from autocomp.rewrite import load_rules
from tests.helpers.device_graphs import attention, conv, gemm, graph, latent, turned

SUM = "%0 = reduce_sum(x, axes=[{}])"
SOFTMAX = "%0 = softmax(x, axes=[1])"
POOL = '%0 = maxpool(x, window=[5, 5], layout="nchw", strides=[1, 1], lo=[2, 2], hi=[2, 2], dilations=[1, 1])'
OPEN = "graph g\ndim N in 20000..200000\ninput x: f32[64, N]\n%0 = softmax(x, axes=[1])\noutput out = %0\n"
SCATTERED = graph({"x": "f32[300, 96]", "at": "i32[64, 1]", "u": "f32[64, 96]"}, '%0 = scatter_nd(x, at, u, reduction="add")')
# rule -> (graph, chip, options)
LEFT_TRANSPOSED = "%0 = transpose(a, perm=[1, 0])\n%1 = matmul(%0, b)"
WORTH = {
    "tiling/gpu-contract": (gemm(300, 300, 300, "f32"), "l40s", {}),
    "tiling/gpu-short-steps": (conv("f32[64, 232, 28, 28]", "f32[232, 232, 5, 5]", pad=2), "h100", {}),
    "tiling/gpu-skinny": (gemm(8, 256, 4096, "bf16"), "h200", {}),
    "tiling/gpu-direct": (turned(1, 8192, 8192, False, True), "h200", {}),
    "tiling/gpu-narrow": (gemm(16384, 8, 2048), "a100", {}),
    "tiling/gpu-online": (attention(1, 16, 4096, 128), "a100", {}),
    "tiling/gpu-online-few-rows": (attention(1, 8, 32, 128, keys=4096), "a100", {}),
    "tiling/gpu-rows": (graph({"x": "f16[8192, 4096]"}, SOFTMAX), "h200", {}),
    "tiling/gpu-neighbouring-rows": (graph({"x": "f16[64, 128, 4096]"}, SOFTMAX), "h200", {}),
    "tiling/gpu-many-short-rows": (graph({"x": "f16[100000, 24]"}, SOFTMAX), "h200", {}),
    "tiling/gpu-long-rows": (graph({"x": "f16[512, 131072]"}, "%0 = reduce_max(x, axes=[1])"), "a100", {}),
    "tiling/gpu-cluster-rows": (graph({"x": "f32[8192, 65536]"}, SOFTMAX), "h200", {}),
    "tiling/gpu-persistent-rows": (graph({"x": "f16[512, 131072]"}, SOFTMAX), "h200", {}),
    "tiling/gpu-open-rows": (OPEN, "h200", {}),
    "tiling/gpu-columns": (graph({"x": "f32[16384, 8192]"}, SUM.format(0)), "h200", {}),
    "tiling/gpu-own-folds": (graph({"x": "f16[6, 1000000]"}, "%0 = reduce_max(x, axes=[0])"), "h200", {}),
    "tiling/gpu-chosen-turns": (SCATTERED, "h200", {}),
    "tiling/gpu-window-strips": (graph({"x": "bf16[64, 216, 28, 28]"}, POOL), "h200", {}),
    "tiling/gpu-folded-alike": (graph({"x": "f16[1, 1048576]"}, SOFTMAX), "h200", {}),
    "tiling/gpu-elements": (graph({"x": "f16[8192, 8192]"}, "%0 = gelu(x)"), "h200", {}),
    "tiling/gpu-short-rows": (graph({"x": "f16[100000, 3]", "y": "f16[3]"}, "%0 = add(x, y)"), "h200", {}),
    "tiling/gpu-warp-specialise": (gemm(4096, 4096, 4096), "h200", {}),
    "tiling/gpu-implicit-gemm": (conv("f16[32, 256, 56, 56]", "f16[256, 256, 3, 3]", pad=1), "h200", {}),
    "tiling/gpu-small-products": (gemm(14, 1024, 256, "f32"), "h200", {}),
    "tiling/gpu-tensor-memory": (gemm(4096, 4096, 4096), "b200", {}),
    "tiling/gpu-one-wave": (gemm(1024, 1024, 1024), "h200", {}),
    "tiling/gpu-cluster-split-k": (gemm(328, 2432, 4240), "h200", {}),
    "tiling/gpu-few-rows": (gemm(16, 4096, 4096), "h200", {}),
    "tiling/gpu-online-warpgroups": (attention(1, 16, 4096, 128), "h200", {}),
    "tiling/gpu-online-four-warpgroups": (attention(16, 12, 512, 64), "h200", {}),
    "tiling/gpu-online-shared-rows": (latent(64, 128, 4096, 512, 512), "h200", {}),
    "scheduling/gpu-stream-k": (gemm(8192, 8192, 8192), "h200", {}),
    "scheduling/gpu-ping-pong": (conv("f16[64, 64, 56, 56]", "f16[64, 64, 3, 3]", pad=1, after="%r = relu(%c)"), "h200", {}),
    "scheduling/gpu-tf32": (gemm(2048, 2048, 2048, "f32"), "h200", {"allow_tf32": True}),
    "scheduling/gpu-square-pieces": (graph({"a": "f32[2048, 2048]", "b": "f32[2048, 2048]"}, LEFT_TRANSPOSED), "l40s", {}),
    "scheduling/gpu-narrow-pieces": (conv("f32[8, 64, 28, 28]", "f32[40, 64, 7, 7]", pad=3), "l40s", {}),
    "scheduling/gpu-f64-sums": (gemm(2048, 2048, 2048, "f32"), "h200", {}),
    "tiling/gpu-scan": (graph({"x": "f32[20000, 400]"}, "%r = cumsum(x, axis=1)"), "h200", {}),
    "tiling/gpu-scan-in-turns": (graph({"x": "f32[2906, 5504]"}, "%r = cumsum(x, axis=0)"), "h200", {}),
    "scheduling/gpu-split-k": (graph({"x": "f32[4, 1048576]"}, SUM.format(1)), "h200", {}),
    "scheduling/gpu-split-depth": (gemm(24, 40, 65536, batch="2, "), "a100", {}),
    "scheduling/gpu-split-product": (gemm(1024, 640, 12288), "h200", {}),
    "scheduling/gpu-split-kv": (attention(1, 8, 1, 128, keys=65536), "h200", {}),
}
UNPRICED = "scheduling/grouped"  # the model does not see in which order plain tiles are walked: it is for measured tuning


def seconds(text: str, chip: str, options: dict) -> float:
    try:
        return autocomp.optimize(text, target=f"cuda:{chip}", tuned=False, **options).predicted
    except AutocompError:
        return float("inf")


@pytest.mark.parametrize("rule", WORTH)
def test_without_the_rule_it_takes_longer(rule):
    text, chip, options = WORTH[rule]
    assert seconds(text, chip, options) < seconds(text, chip, {**options, "without": (rule,)})


def test_every_rule_is_here():
    rules = [r for phase in ("tiling", "scheduling") for r in load_rules().of(phase, "cuda") if "cuda" in r.targets]
    assert {r.name for r in rules} == WORTH.keys() | {UNPRICED}
