"""Graphs that every device target prints: each form of kernel, with odd sizes and tails."""

from __future__ import annotations


def graph(inputs: dict[str, str], body: str) -> str:
    """Text of a graph; `body` has one operation a line, its last one is the output."""
    lines = [x.strip() for x in body.strip().splitlines()]
    return "\n".join(["graph g", *(f"input {n}: {t}" for n, t in inputs.items()), *lines, f"output out = {lines[-1].split(' ')[0]}", ""])


def gemm(m: int, n: int, k: int, dtype: str = "f16", batch: str = "") -> str:
    return graph({"a": f"{dtype}[{batch}{m}, {k}]", "b": f"{dtype}[{batch}{k}, {n}]"}, "%0 = matmul(a, b)")


GRAPHS = {
    "chain": graph({a: "f16[1000, 777]" for a in "xyz"}, "%0 = mul(x, y)\n%1 = add(%0, z)\n%2 = gelu(%1)\n%3 = tanh(%2)"),
    "chain_f32": graph({a: "f32[1000, 777]" for a in "xyz"}, "%0 = mul(x, y)\n%1 = exp(%0)\n%2 = sub(%1, z)\n%3 = erf(%2)"),
    "broadcast": graph({"x": "f32[33, 1, 65]", "y": "f32[7, 1]"}, "%0 = add(x, y)"),
    "filled": graph({"x": "f32[]"}, "%0 = broadcast(x, shape=[33, 65])"),
    "transpose": graph({"x": "f16[300, 520]", "y": "f16[520, 300]"}, "%0 = transpose(x, perm=[1, 0])\n%1 = add(%0, y)"),
    "slice": graph({"x": "f32[100, 50]"}, "%0 = slice(x, starts=[3, 1], limits=[90, 50], steps=[2, 3])\n%1 = neg(%0)"),
    "softmax": graph({"x": "f16[100, 4096]"}, "%0 = softmax(x, axes=[1])"),
    "softmax_odd": graph({"x": "f32[123, 1001]"}, "%0 = softmax(x, axes=[1])"),
    "softmax_short": graph({"x": "f16[1000, 48]"}, "%0 = softmax(x, axes=[1])"),
    "softmax_wide": graph({"x": "f16[7, 131072]"}, "%0 = softmax(x, axes=[1])"),
    "softmax_wide_odd": graph({"x": "f16[7, 50257]"}, "%0 = softmax(x, axes=[1])"),
    "layer_norm": graph({"x": "f16[200, 768]", "g": "f16[768]", "b": "f16[768]"}, "%0 = layer_norm(x, g, b, axes=[1])"),
    "layer_norm_odd": graph({"x": "f32[77, 1023]", "g": "f32[1023]", "b": "f32[1023]"}, "%0 = layer_norm(x, g, b, axes=[1])"),
    "rms_norm": graph({"x": "f16[64, 4096]", "r": "f16[64, 4096]", "g": "f16[4096]"}, "%0 = add(x, r)\n%1 = rms_norm(%0, g, axes=[1])"),
    "sum_rows": graph({"x": "f32[300, 5000]"}, "%0 = reduce_sum(x, axes=[1])"),
    "sum_columns": graph({"x": "f32[3000, 500]"}, "%0 = reduce_sum(x, axes=[0])"),
    "max_middle": graph({"x": "f16[9, 130, 70]"}, "%0 = reduce_max(x, axes=[1])"),
    "argmax": graph({"x": "f32[50, 300]"}, "%0 = reduce_argmax(x, axes=[1])"),
    "gemm": gemm(512, 512, 512),
    "gemm_odd": gemm(1000, 777, 333),
    "gemm_bf16": gemm(300, 264, 520, "bf16"),
    "gemm_f32": gemm(200, 300, 100, "f32"),
    "gemm_batched": gemm(200, 136, 72, "f16", "5, "),
    "gemm_small": gemm(16, 1024, 1024),
    "matrix_vector": gemm(300, 1, 520),
    "vector_matrix": gemm(1, 300, 520),
    "vector_matrix_f32": gemm(1, 77, 130, "f32"),
    "dot": gemm(1, 1, 1000),
    "few_rows": gemm(5, 264, 136, "f16", "3, "),
    "depth_one": gemm(70, 90, 1),
    "unpack": graph({"q": "u8[40, 96]", "s": "f16[40, 1]"}, "%0 = bitand(q, const(15, u8))\n%1 = shr(q, const(4, u8))\n"
                    "%2 = cast(%0, to=\"f16\")\n%3 = cast(%1, to=\"f16\")\n%4 = sub(%2, %3)\n%5 = mul(%4, s)"),
    "row_int4": graph({"x": "f16[1, 384]", "q": "u8[65, 192]", "s": "f16[65, 3]"},
                      "%0 = bitand(q, const(15, u8))\n%1 = cast(%0, to=\"f16\")\n%2 = sub(%1, const(8, f16))\n"
                      "%3 = shr(q, const(4, u8))\n%4 = cast(%3, to=\"f16\")\n%5 = sub(%4, const(8, f16))\n"
                      "%6 = reshape(%2, shape=[65, 192, 1])\n%7 = reshape(%5, shape=[65, 192, 1])\n%8 = concat(%6, %7, axis=2)\n"
                      "%9 = reshape(%8, shape=[65, 384])\n%10 = reshape(s, shape=[65, 3, 1])\n%11 = broadcast(%10, shape=[65, 3, 128])\n"
                      "%12 = reshape(%11, shape=[65, 384])\n%13 = mul(%9, %12)\n%14 = transpose(%13, perm=[1, 0])\n%15 = matmul(x, %14)"),
    "signed_bytes": graph({"x": "i8[70, 96]", "s": "f32[70, 1]"}, "%0 = cast(x, to=\"f32\")\n%1 = add(%0, const(3, f32))\n%2 = mul(%1, s)"),
    "gemm_tn": graph({"a": "f16[300, 200]", "b": "f16[136, 300]"},
                     "%0 = transpose(a, perm=[1, 0])\n%1 = transpose(b, perm=[1, 0])\n%2 = matmul(%0, %1)"),
    "gemm_bias_gelu": graph({"x": "f16[1000, 333]", "w": "f16[333, 777]", "b": "f16[777]"},
                            "%0 = matmul(x, w)\n%1 = add(%0, b)\n%2 = gelu(%1)"),
    "swiglu": graph({"x": "f16[256, 512]", "a": "f16[512, 384]", "b": "f16[512, 384]"},
                    "%0 = matmul(x, a)\n%1 = silu(%0)\n%2 = matmul(x, b)\n%3 = mul(%1, %2)"),
    "norm_gemm": graph({"x": "f16[130, 72]", "g": "f16[72]", "w": "f16[72, 90]"}, "%0 = rms_norm(x, g, axes=[1])\n%1 = matmul(%0, w)"),
    "softmax_middle": graph({"x": "f16[5, 130, 70]"}, "%0 = softmax(x, axes=[1])"),
    "mean_of_two_axes": graph({"x": "f16[12, 33, 65]"}, "%0 = reduce_mean(x, axes=[0, 2])"),
    "gathered": graph({"x": "f32[50, 33]", "i": "i64[7, 3]", "y": "f32[7, 3, 10]"},
                      "%0 = gather(x, i, axis=0)\n%1 = concat(%0, y, axis=2)\n%2 = relu(%1)"),
    "depthwise": graph({"x": "f16[2, 24, 19, 23]", "w": "f16[24, 1, 3, 3]"},
                       "%0 = conv(x, w, strides=[1, 1], lo=[1, 1], hi=[1, 1], dilations=[1, 1], groups=24)"),
    "conv": graph({"x": "f16[2, 30, 30, 64]", "w": "f16[64, 3, 3, 64]"},
                  "%0 = transpose(x, perm=[0, 3, 1, 2])\n%1 = transpose(w, perm=[0, 3, 1, 2])\n"
                  "%2 = conv(%0, %1, lo=[1, 1], hi=[1, 1], strides=[1, 1], dilations=[1, 1])\n%3 = relu(%2)"),
    "conv_nchw": graph({"x": "f32[2, 7, 19, 23]", "w": "f32[13, 7, 3, 3]"},
                       "%0 = conv(x, w, strides=[2, 2], lo=[0, 0], hi=[0, 0], dilations=[1, 1])"),
    "maxpool": graph({"x": "f16[2, 16, 30, 30]"}, "%0 = maxpool(x, window=[3, 3], strides=[2, 2], lo=[0, 0], hi=[0, 0], dilations=[1, 1])"),
    "attention": graph({a: "f32[2, 4, 200, 64]" for a in "qkv"},
                       "%0 = transpose(k, perm=[0, 1, 3, 2])\n%1 = matmul(q, %0)\n%2 = mul(%1, const(0.125, f32))\n"
                       "%3 = softmax(%2, axes=[3])\n%4 = matmul(%3, v)"),
    "attention_causal": graph({a: "f16[2, 3, 300, 64]" for a in "qkv"},
                              "%0 = transpose(k, perm=[0, 1, 3, 2])\n%1 = matmul(q, %0)\n%2 = mul(%1, const(0.125, f16))\n"
                              "%r = iota(shape=[300, 300], axis=0)\n%c = iota(shape=[300, 300], axis=1)\n%m = ge(%r, %c)\n"
                              "%3 = where(%m, %2, const(-inf, f16))\n%4 = softmax(%3, axes=[3])\n%5 = matmul(%4, v)"),
    "attention_f16": graph({a: "f16[2, 4, 200, 64]" for a in "qkv"},
                           "%0 = transpose(k, perm=[0, 1, 3, 2])\n%1 = matmul(q, %0)\n%2 = mul(%1, const(0.125, f16))\n"
                           "%3 = softmax(%2, axes=[3])\n%4 = matmul(%3, v)"),
    "integers": graph({"x": "i32[100, 37]", "y": "i32[37]"}, "%0 = add(x, y)\n%1 = mul(%0, x)"),
}  # fmt: skip
