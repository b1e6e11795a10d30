"""The graphs that GPU targets must print: every form of kernel, odd sizes and tails. Tests compile them, run them on a CPU model
of a block and on devices; sizes are the smallest that still have several tiles."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import pytest

import autocomp
from autocomp.runtime.cache import load_program, store_program
from autocomp.runtime.program import Program
from tests.helpers.schedules import by_hand


def graph(inputs: dict[str, str], body: str) -> str:
    """Text of a graph; `body` has one operation a line, its last one is the output."""
    lines = [x.strip() for x in body.strip().splitlines()]
    return "\n".join(["graph g", *(f"input {n}: {t}" for n, t in inputs.items()), *lines, f"output out = {lines[-1].split(' ')[0]}", ""])


def gemm(m: int, n: int, k: int, dtype: str = "f16", batch: str = "") -> str:
    return graph({"a": f"{dtype}[{batch}{m}, {k}]", "b": f"{dtype}[{batch}{k}, {n}]"}, "%0 = matmul(a, b)")


def turned(m: int, n: int, k: int, a: bool, b: bool, dtype: str = "f16") -> str:
    """A product whose factors lie as [k, m] (a) and [n, k] (b)."""
    inputs = {"a": f"{dtype}[{k}, {m}]" if a else f"{dtype}[{m}, {k}]", "b": f"{dtype}[{n}, {k}]" if b else f"{dtype}[{k}, {n}]"}
    lines = [f"%{x} = transpose({x}, perm=[1, 0])" for x, t in (("a", a), ("b", b)) if t]
    return graph(inputs, "\n".join([*lines, f"%o = matmul({'%a' if a else 'a'}, {'%b' if b else 'b'})"]))


def widened(m: int, n: int, k: int, dtype: str, to: str, after: str = "", nt: bool = False) -> str:
    """A product of factors that are cast from `dtype` to `to`; `after` are further lines over %p and s, f32[n]."""
    inputs = {"a": f"{dtype}[{m}, {k}]", "b": f"{dtype}[{n}, {k}]" if nt else f"{dtype}[{k}, {n}]"} | ({"s": f"f32[{n}]"} if after else {})
    lines = [f'%0 = cast(a, to="{to}")', f'%1 = cast(b, to="{to}")', *(["%t = transpose(%1, perm=[1, 0])"] if nt else [])]
    return graph(inputs, "\n".join([*lines, f"%p = matmul(%0, {'%t' if nt else '%1'})", *after.splitlines()]))


def conv(x: str, w: str, stride: int = 1, pad: int = 0, dilation: int = 1, groups: int = 1, after: str = "",
         more: dict[str, str] | None = None) -> str:  # fmt: skip
    """A convolution over two dimensions; `after` are further lines over %c, whose inputs are `more`."""
    both = lambda n: f"[{n}, {n}]"
    line = f"%c = conv(x, w, strides={both(stride)}, lo={both(pad)}, hi={both(pad)}, dilations={both(dilation)}, groups={groups})"
    return graph({"x": x, "w": w, **(more or {})}, "\n".join([line, after]) if after else line)


def attention(batch: int, heads: int, rows: int, width: int, dtype: str = "f16", keys: int = 0, shared: int = 1, causal: bool = False,
              mask: bool = False) -> str:  # fmt: skip
    """softmax(q k^T / 8 + mask) v as a plain graph; `shared` heads of q read one head of k and v."""
    keys, own = keys or rows, heads // shared
    inputs = {"q": f"{dtype}[{batch}, {heads}, {rows}, {width}]"} | {x: f"{dtype}[{batch}, {own}, {keys}, {width}]" for x in "kv"}
    lines, names = [], {"k": "k", "v": "v"}
    if shared > 1:
        for x in "kv":
            names[x] = f"%{x}3"
            lines += [
                f"%{x}1 = reshape({x}, shape=[{batch}, {own}, 1, {keys}, {width}])",
                f"%{x}2 = broadcast(%{x}1, shape=[{batch}, {own}, {shared}, {keys}, {width}])",
                f"%{x}3 = reshape(%{x}2, shape=[{batch}, {heads}, {keys}, {width}])",
            ]
    lines += [f"%t = transpose({names['k']}, perm=[0, 1, 3, 2])", "%s0 = matmul(q, %t)", f"%s = mul(%s0, const(0.125, {dtype}))"]
    scores = "%s"
    if causal:
        lines += [f"%r = iota(shape=[{rows}, {keys}], axis=0)", f"%c = iota(shape=[{rows}, {keys}], axis=1)", "%g = ge(%r, %c)",
                  f"%m = where(%g, %s, const(-inf, {dtype}))"]  # fmt: skip
        scores = "%m"
    if mask:
        inputs["mask"] = f"{dtype}[{batch}, 1, {rows}, {keys}]"
        lines.append("%m = add(%s, mask)")
        scores = "%m"
    return graph(inputs, "\n".join([*lines, f"%p = softmax({scores}, axes=[3])", f"%o = matmul(%p, {names['v']})"]))


def latent(batch: int, heads: int, keys: int, width: int, value: int) -> str:
    """A decode step over one latent cache that is keys and, its first `value` columns, values too."""
    body = f"""%0 = transpose(c, perm=[0, 2, 1])
    %1 = matmul(q, %0)
    %2 = mul(%1, const(0.07, f16))
    %3 = softmax(%2, axes=[2])
    %4 = slice(c, starts=[0, 0, 0], limits=[{batch}, {keys}, {value}], steps=[1, 1, 1])
    %5 = matmul(%3, %4)"""
    return graph({"q": f"f16[{batch}, {heads}, {width}]", "c": f"f16[{batch}, {keys}, {width}]"}, body)


def four_bits(rows: int, cols: int, depth: int, group: int) -> str:
    """x @ W, W unpacked from two 4-bit numbers a byte along depth, minus 8, times a scale a group."""
    body = f"""%l = bitand(q, const(15, u8))
    %h = shr(q, const(4, u8))
    %l1 = reshape(%l, shape=[{depth // 2}, 1, {cols}])
    %h1 = reshape(%h, shape=[{depth // 2}, 1, {cols}])
    %u = concat(%l1, %h1, axis=1)
    %u1 = reshape(%u, shape=[{depth // group}, {group}, {cols}])
    %c = cast(%u1, to="f16")
    %z = sub(%c, const(8, f16))
    %s1 = reshape(s, shape=[{depth // group}, 1, {cols}])
    %w = mul(%z, %s1)
    %w1 = reshape(%w, shape=[{depth}, {cols}])
    %o = matmul(x, %w1)"""
    return graph({"x": f"f16[{rows}, {depth}]", "q": f"u8[{depth // 2}, {cols}]", "s": f"f16[{depth // group}, {cols}]"}, body)


ELEMENTS = {
    "chain": graph({a: "f16[200, 777]" for a in "xyz"}, "%0 = mul(x, y)\n%1 = add(%0, z)\n%2 = gelu(%1)\n%3 = tanh(%2)"),
    "chain_f32": graph({a: "f32[200, 777]" for a in "xyz"}, "%0 = mul(x, y)\n%1 = exp(%0)\n%2 = sub(%1, z)\n%3 = erf(%2)"),
    "filled": graph({"x": "f32[]"}, "%0 = broadcast(x, shape=[33, 65])"),
    "broadcast": graph({"x": "f32[33, 1, 65]", "y": "f32[7, 1]"}, "%0 = add(x, y)"),
    "transpose": graph({"x": "f16[150, 264]", "y": "f16[264, 150]"}, "%0 = transpose(x, perm=[1, 0])\n%1 = add(%0, y)"),
    "transpose_three": graph({"x": "f32[6, 70, 90]"}, "%0 = transpose(x, perm=[2, 0, 1])"),
    "channels_last": graph({"x": "f16[2, 30, 13, 15]"}, "%0 = transpose(x, perm=[0, 2, 3, 1])"),
    "slice": graph({"x": "f32[100, 50]"}, "%0 = slice(x, starts=[3, 1], limits=[90, 50], steps=[2, 3])\n%1 = neg(%0)"),
    "integers": graph({"x": "i32[100, 37]", "y": "i32[37]"}, "%0 = add(x, y)\n%1 = mul(%0, x)"),
    "unpack": graph({"q": "u8[40, 96]", "s": "f16[40, 1]"}, "%0 = bitand(q, const(15, u8))\n%1 = shr(q, const(4, u8))\n"
                    "%2 = cast(%0, to=\"f16\")\n%3 = cast(%1, to=\"f16\")\n%4 = sub(%2, %3)\n%5 = mul(%4, s)"),
    "signed_bytes": graph({"x": "i8[70, 96]", "s": "f32[70, 1]"}, "%0 = cast(x, to=\"f32\")\n%1 = add(%0, const(3, f32))\n%2 = mul(%1, s)"),
    "to_f8e4m3": graph({"x": "f32[30, 77]"}, '%0 = mul(x, const(3, f32))\n%1 = cast(%0, to="f8e4m3")'),
    "through_f8e5m2": graph({"x": "f16[30, 77]"}, '%0 = mul(x, const(3, f16))\n%1 = cast(%0, to="f8e5m2")\n%2 = cast(%1, to="f16")'),
    "gathered": graph({"x": "f32[50, 33]", "i": "i64[7, 3]", "y": "f32[7, 3, 10]"},
                      "%0 = gather(x, i, axis=0)\n%1 = concat(%0, y, axis=2)\n%2 = relu(%1)"),
    "embedding": graph({"t": "f16[1000, 72]", "i": "i64[4, 9]", "p": "f16[9, 72]", "g": "f16[72]"},
                       "%0 = gather(t, i, axis=0)\n%1 = add(%0, p)\n%2 = rms_norm(%1, g, axes=[2])"),
}  # fmt: skip
ROWS = {
    "softmax": graph({"x": "f16[20, 4096]"}, "%0 = softmax(x, axes=[1])"),
    "softmax_odd": graph({"x": "f32[23, 1001]"}, "%0 = softmax(x, axes=[1])"),
    "softmax_short": graph({"x": "f16[300, 48]"}, "%0 = softmax(x, axes=[1])"),
    "softmax_middle": graph({"x": "f16[5, 130, 70]"}, "%0 = softmax(x, axes=[1])"),
    "softmax_wide": graph({"x": "f16[2, 131072]"}, "%0 = softmax(x, axes=[1])"),
    "softmax_wide_odd": graph({"x": "f16[3, 50257]"}, "%0 = softmax(x, axes=[1])"),
    "log_softmax": graph({"x": "f16[33, 1000]"}, "%0 = log_softmax(x, axes=[1])"),
    "layer_norm": graph({"x": "f16[50, 768]", "g": "f16[768]", "b": "f16[768]"}, "%0 = layer_norm(x, g, b, axes=[1])"),
    "layer_norm_odd": graph({"x": "f32[27, 1023]", "g": "f32[1023]", "b": "f32[1023]"}, "%0 = layer_norm(x, g, b, axes=[1])"),
    "rms_norm": graph({"x": "f16[20, 4096]", "r": "f16[20, 4096]", "g": "f16[4096]"}, "%0 = add(x, r)\n%1 = rms_norm(%0, g, axes=[1])"),
    "sum_rows": graph({"x": "f32[60, 5000]"}, "%0 = reduce_sum(x, axes=[1])"),
    "sum_columns": graph({"x": "f32[1500, 200]"}, "%0 = reduce_sum(x, axes=[0])"),
    "sum_all": graph({"x": "f32[300, 77]"}, "%0 = reduce_sum(x, axes=[0, 1])"),
    "max_middle": graph({"x": "f16[9, 130, 70]"}, "%0 = reduce_max(x, axes=[1])"),
    "max_columns": graph({"x": "f16[770, 65]"}, "%0 = reduce_max(x, axes=[0])"),
    "mean_of_two_axes": graph({"x": "f16[12, 33, 65]"}, "%0 = reduce_mean(x, axes=[0, 2])"),
    "argmax": graph({"x": "f32[50, 300]"}, "%0 = reduce_argmax(x, axes=[1])"),
    "maxpool": graph({"x": "f16[2, 8, 30, 30]"}, "%0 = maxpool(x, window=[3, 3], strides=[2, 2], lo=[0, 0], hi=[0, 0], dilations=[1, 1])"),
}  # fmt: skip
PRODUCTS = {
    "gemm": gemm(256, 256, 256),
    "gemm_odd": gemm(200, 177, 133),
    "gemm_bf16": gemm(150, 136, 264, "bf16"),
    "gemm_f32": gemm(100, 150, 100, "f32"),
    "gemm_f64": gemm(50, 60, 70, "f64"),
    "gemm_tt": turned(120, 136, 152, True, True),
    "gemm_tn": turned(120, 136, 152, True, False),
    "gemm_nt": turned(120, 136, 152, False, True),
    "gemm_nt_f32": turned(50, 60, 70, False, True, "f32"),
    "gemm_i8": widened(100, 72, 96, "i8", "i32"),
    "gemm_i8_pairs": widened(51, 65, 130, "i8", "i32"),
    "gemm_i8_odd": widened(37, 33, 45, "i8", "i32", nt=True),
    "gemm_i8_scaled": widened(100, 72, 96, "i8", "i32", '%f = cast(%p, to="f32")\n%s = mul(%f, s)\n%r = relu(%s)', nt=True),
    "gemm_u8": widened(70, 72, 96, "u8", "i32", nt=True),
    "gemm_f8e4m3": widened(100, 75, 99, "f8e4m3", "f16", nt=True),
    "gemm_f8e5m2": widened(70, 72, 96, "f8e5m2", "f32", "%s = mul(%p, s)"),
    "gemm_batched": gemm(100, 136, 72, "f16", "3, "),
    "gemm_small": gemm(16, 256, 512),
    "matrix_vector": gemm(150, 1, 520),
    "vector_matrix": gemm(1, 150, 520),
    "vector_matrix_f32": gemm(1, 77, 130, "f32"),
    "dot": gemm(1, 1, 1000),
    "few_rows": gemm(5, 136, 136, "f16", "3, "),
    "depth_one": gemm(70, 90, 1),
    "gemm_bias_gelu": graph({"x": "f16[200, 333]", "w": "f16[333, 177]", "b": "f16[177]"},
                            "%0 = matmul(x, w)\n%1 = add(%0, b)\n%2 = gelu(%1)"),
    "gemm_residual": graph({"x": "f16[100, 96]", "w": "f16[96, 72]", "b": "f16[72]", "r": "f16[100, 72]"},
                           "%0 = matmul(x, w)\n%1 = add(%0, b)\n%2 = add(%1, r)\n%3 = relu(%2)"),
    "gemm_prologue": graph({"x": "f16[101, 99]", "s": "f16[99]", "w": "f16[99, 75]"}, "%0 = mul(x, s)\n%1 = silu(%0)\n%2 = matmul(%1, w)"),
    "gemm_prologue_f32": graph({"x": "f32[101, 99]", "w": "f32[99, 75]"}, "%0 = sigmoid(x)\n%1 = abs(w)\n%2 = matmul(%0, %1)"),
    "gemm_padded": graph({"x": "f16[40, 64]", "w": "f16[66, 72]"}, "%0 = pad(x, lo=[0, 1], hi=[0, 1], value=1.0)\n%1 = matmul(%0, w)"),
    "swiglu": graph({"x": "f16[64, 192]", "a": "f16[192, 136]", "b": "f16[192, 136]"},
                    "%0 = matmul(x, a)\n%1 = silu(%0)\n%2 = matmul(x, b)\n%3 = mul(%1, %2)"),
    "norm_gemm": graph({"x": "f16[130, 72]", "g": "f16[72]", "w": "f16[72, 90]"}, "%0 = rms_norm(x, g, axes=[1])\n%1 = matmul(%0, w)"),
    "gather_gemm": graph({"t": "f16[100, 72]", "i": "i64[33]", "w": "f16[72, 40]"}, "%0 = gather(t, i, axis=0)\n%1 = matmul(%0, w)"),
    "row_int4": graph({"x": "f16[1, 384]", "q": "u8[65, 192]", "s": "f16[65, 3]"},
                      "%0 = bitand(q, const(15, u8))\n%1 = cast(%0, to=\"f16\")\n%2 = sub(%1, const(8, f16))\n"
                      "%3 = shr(q, const(4, u8))\n%4 = cast(%3, to=\"f16\")\n%5 = sub(%4, const(8, f16))\n"
                      "%6 = reshape(%2, shape=[65, 192, 1])\n%7 = reshape(%5, shape=[65, 192, 1])\n%8 = concat(%6, %7, axis=2)\n"
                      "%9 = reshape(%8, shape=[65, 384])\n%10 = reshape(s, shape=[65, 3, 1])\n%11 = broadcast(%10, shape=[65, 3, 128])\n"
                      "%12 = reshape(%11, shape=[65, 384])\n%13 = mul(%9, %12)\n%14 = transpose(%13, perm=[1, 0])\n%15 = matmul(x, %14)"),
    "four_bits_one_row": four_bits(1, 96, 256, 64),
    "four_bits": four_bits(40, 72, 256, 64),
}  # fmt: skip
CONVOLUTIONS = {
    "conv": graph({"x": "f16[2, 20, 20, 64]", "w": "f16[64, 3, 3, 64]"},
                  "%0 = transpose(x, perm=[0, 3, 1, 2])\n%1 = transpose(w, perm=[0, 3, 1, 2])\n"
                  "%2 = conv(%0, %1, lo=[1, 1], hi=[1, 1], strides=[1, 1], dilations=[1, 1])\n%3 = relu(%2)"),
    "conv_stride": conv("f32[2, 7, 19, 23]", "f32[13, 7, 3, 3]", stride=2),
    "conv_first": conv("f16[1, 3, 30, 30]", "f16[16, 3, 7, 7]", stride=2, pad=3, after="%r = relu(%c)"),
    "conv_dilated": conv("f16[2, 16, 20, 20]", "f16[24, 16, 3, 3]", stride=2, pad=2, dilation=2),
    "conv_groups": conv("f16[1, 32, 17, 17]", "f16[48, 16, 3, 3]", pad=1, groups=2),
    "conv_1x1": conv("f16[2, 32, 17, 17]", "f16[48, 32, 1, 1]"),
    "conv_norm_add": conv("f16[2, 32, 14, 14]", "f16[32, 32, 3, 3]", pad=1,
                          more={a: "f16[32]" for a in "gbmv"} | {"r": "f16[2, 32, 14, 14]"},
                          after="%n = batch_norm(%c, g, b, m, v)\n%a = add(%n, r)\n%o = relu(%a)"),
    "depthwise": conv("f16[2, 12, 19, 23]", "f16[12, 1, 3, 3]", pad=1, groups=12),
    "depthwise_stride": conv("f32[1, 12, 19, 23]", "f32[12, 1, 5, 5]", stride=2, pad=2, groups=12, after="%s = silu(%c)"),
}  # fmt: skip
ATTENTION = {
    "attention": attention(1, 3, 200, 64, "f32"),
    "attention_f16": attention(1, 3, 200, 64),
    "attention_bf16": attention(1, 2, 70, 64, "bf16"),
    "attention_causal": attention(1, 2, 200, 64, causal=True),
    "attention_causal_128": attention(1, 2, 130, 128, causal=True),
    "attention_128": attention(1, 2, 70, 128),
    "attention_mask": attention(2, 2, 70, 64, mask=True),
    "attention_groups": attention(2, 4, 70, 64, shared=2),
    "attention_cross": attention(1, 2, 33, 64, keys=90),
    # fewer copies than threads
    "gemm_few_chunks": graph({"x": "f16[1, 24]", "w": "f16[24, 16]"}, "%0 = broadcast(x, shape=[40, 24])\n%1 = matmul(%0, w)"),
    "dot": graph({"x": "f32[1, 2]", "y": "f32[2, 1]"}, "%0 = matmul(x, y)"),
    "dot_f16": graph({"x": "f16[1, 70]", "y": "f16[70, 1]"}, "%0 = matmul(x, y)"),
    # what is reduced does not vary along the axis
    "sum_of_same": graph({"x": "f32[40, 1]"}, "%0 = broadcast(x, shape=[40, 300])\n%1 = exp(%0)\n%2 = reduce_sum(%1, axes=[1])"),
    "softmax_of_same": graph({"x": "f32[]"}, "%0 = broadcast(x, shape=[40, 30])\n%1 = softmax(%0, axes=[1])"),
    "gemm_of_same_rows": graph({"x": "f16[1, 64]", "w": "f16[1, 72]"}, "%0 = broadcast(w, shape=[64, 72])\n%1 = matmul(x, %0)"),
    "gemm_of_same_columns": graph({"x": "f16[40, 1]", "w": "f16[64, 72]"}, "%0 = broadcast(x, shape=[40, 64])\n%1 = matmul(%0, w)"),
    "attention_few_keys": attention(1, 2, 5, 64, "f32", keys=16),
    "attention_of_scores": graph({"s": "f32[2, 130, 16]", "v": "f32[2, 16, 128]"}, "%p = softmax(s, axes=[2])\n%o = matmul(%p, v)"),
    "attention_of_scores_f16": graph({"s": "f16[2, 130, 24]", "v": "f16[2, 24, 64]"}, "%p = softmax(s, axes=[2])\n%o = matmul(%p, v)"),
    "attention_of_one_row": graph({"x": "f32[1, 1]", "s": "f32[1, 24]", "v": "f32[24, 264]"},
                                  "%s = matmul(x, s)\n%p = softmax(%s, axes=[1])\n%o = matmul(%p, v)"),
    "attention_step": attention(2, 4, 1, 128, keys=300),
    "attention_step_groups": attention(2, 8, 1, 128, keys=300, shared=4),
    "attention_256": attention(1, 1, 40, 256),
    "latent_step": latent(2, 16, 300, 192, 128),
    "latent_wide": latent(1, 8, 40, 576, 512),
}
OFF_GRID = {  # shapes that no benchmark has: between its sizes, odd ones, strides and groups
    "off_attention_96": attention(1, 1, 100, 96),
    "off_attention_80": attention(1, 1, 130, 80, causal=True),
    "off_conv_stride": conv("f16[2, 24, 29, 31]", "f16[40, 24, 3, 3]", stride=2, pad=1),
    "off_conv_groups": conv("f16[2, 24, 21, 23]", "f16[48, 6, 3, 3]", dilation=2, pad=2, groups=4),
    "off_depthwise": conv("f16[2, 72, 29, 31]", "f16[72, 1, 3, 3]", stride=2, pad=1, groups=72),
    "off_variance": graph({"x": "f32[3, 250, 77]"}, "%0 = reduce_mean(x, axes=[1], keepdims=True)\n%1 = sub(x, %0)\n%2 = mul(%1, %1)\n"
                          "%3 = reduce_mean(%2, axes=[1], keepdims=False)"),
    "off_five_rows": gemm(5, 1208, 520),
    "off_odd_depth": gemm(100, 136, 141, "bf16"),
    "off_f32": gemm(200, 136, 77, "f32"),
    "off_cumsum": graph({"x": "f32[9, 301]"}, "%0 = cumsum(x, axis=1, exclusive=False, reverse=False)"),
    "off_gather": graph({"t": "f16[517, 77]", "i": "i64[205]"}, "%0 = gather(t, i, axis=0)"),
    "off_transpose": graph({"x": "f16[321, 333]"}, "%0 = transpose(x, perm=[1, 0])"),
}  # fmt: skip
GRAPHS = ELEMENTS | ROWS | PRODUCTS | CONVOLUTIONS | ATTENTION | OFF_GRID
# the chip on which each is always compiled and run, by turns: printers share most of what they print
HOMES = {name: ("cuda:a100", "cuda:h200", "maca:c500")[i % 3] for i, name in enumerate(GRAPHS)}


@cache
def printed(name: str, target: str) -> Program:
    """The program of one of GRAPHS for a GPU, which several files of tests look at: nobody changes more of it than its executor."""
    return prepared(GRAPHS[name], target)


def prepared(model: str, target: str, **options: Any) -> Program:
    """A program that several tests begin with, where what they change comes behind `optimize`. Each gets one of its own, but processes of
    one run of the suite keep it for each other ($AUTOCOMP_TEST_RUN, a folder of the run)."""
    with pytest.MonkeyPatch.context() as patch:
        if run := os.environ.get("AUTOCOMP_TEST_RUN"):
            patch.setenv("AUTOCOMP_CACHE", run)
            patch.setattr("autocomp.pipeline.load_program", load_program)
            patch.setattr("autocomp.pipeline.store_program", store_program)
        return autocomp.optimize(model, target=target, **options)


# graphs whose printed text is kept in tests/golden, chip by chip
KEPT = (
    "chain", "transpose", "embedding", "to_f8e4m3", "softmax", "softmax_wide", "layer_norm_odd", "rms_norm", "sum_columns", "argmax",
    "gemm_odd", "gemm_tt", "gemm_f32", "gemm_i8_scaled", "gemm_f8e4m3", "gemm_bias_gelu", "gemm_prologue", "swiglu", "four_bits_one_row",
    "conv", "conv_norm_add", "depthwise", "attention_f16", "attention_causal_128", "attention_step_groups", "latent_step",
)  # fmt: skip
GOLDEN = {
    "a100": KEPT,
    "c500": (*KEPT, "off_conv_stride", "off_variance", "off_five_rows", "off_cumsum"),
    "h200": ("softmax", "gemm_odd", "gemm_bias_gelu", "swiglu", "conv", "attention_f16", "attention_causal_128", *OFF_GRID),
}

# a product whose waves have more columns than its tile
WAVES, WAVES_SCHEDULE = GRAPHS["gemm_batched"], by_hand({"i0": 1, "i1": 32, "r0": 32}, stages=2)
