"""What targets print: graphs of all kinds of operators and whole models, printed or refused, the reasons counted.

    python -m benchmarks.chip_coverage [--target ascend:910b] [--target maca:c500] [--only conv] [--models] [--plain] [--json out.json]

A graph counts as printed where every kernel has a printed source; "slow" are those of them with a kernel that only the fall-back
prints, "opaque" those with an operator that runs through its reference. --plain leaves the fall-back out, as it was before there was one.
--models adds the light ONNX models, BERT, a Llama block and a ViT. Nothing is compiled or run.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import models

import autocomp
from autocomp.errors import AutocompError
from benchmarks.onnx_light import LIGHT

FALL_BACK = "tiling/npu-scalar-*"
X = "x: f32[37, 65]"


def _graph(inputs: str, *lines: str, dims: str = "") -> str:
    given = [f"input {x}" for x in inputs.split("; ")]
    return "\n".join(["graph g", *([dims] if dims else []), *given, *lines, f"output out = {lines[-1].split(' ')[0]}", ""])


def _unary(fn: str, dtype: str = "f32") -> str:
    return _graph(f"x: {dtype}[37, 65]", f"%0 = {fn}(x)")


def _conv(x: str, w: str, stride: int = 1, pad: int = 0, groups: int = 1) -> str:
    return _graph(f"x: {x}; w: {w}", f"%0 = conv(x, w, strides=[{stride}, {stride}], lo=[{pad}, {pad}], hi=[{pad}, {pad}], "
                                     f"dilations=[1, 1], groups={groups})")  # fmt: skip


def graphs() -> dict[str, str]:
    """name -> text of a graph."""
    functions = "exp log sqrt rsqrt sin cos tan floor ceil round trunc abs neg sign relu tanh sigmoid silu gelu erf softplus log1p expm1"
    out = {f"{fn}_{d}": _unary(fn, d) for fn in functions.split() for d in ("f32", "f16")}
    out |= {f"{fn}_{d}": _graph(f"x: {d}[37, 65]; y: {d}[65]", f"%0 = {fn}(x, y)") for fn in ("add", "mul", "max", "floordiv", "mod", "pow")
            for d in ("f32", "i32", "i64", "i8")}  # fmt: skip
    types = ("f32", "f16", "bf16", "i8", "u8", "i32", "i64", "bool")
    out |= {f"cast_{a}_{b}": _graph(f"x: {a}[37, 65]", f'%0 = cast(x, to="{b}")') for a in types for b in types if a != b}
    out |= {f"transpose_{d}": _graph(f"x: {d}[6, 37, 65]", "%0 = transpose(x, perm=[2, 0, 1])") for d in types}
    out |= {f"concat_{d}": _graph(f"x: {d}[6, 37]; y: {d}[6, 12]", "%0 = concat(x, y, axis=1)") for d in ("f32", "f16", "i32")}
    out |= {f"pad_{d}": _graph(f"x: {d}[6, 37]", "%0 = pad(x, lo=[0, 3], hi=[1, 2], value=1)") for d in ("f32", "f16", "i32")}
    out |= {f"slice_{d}": _graph(f"x: {d}[90, 50]", "%0 = slice(x, starts=[3, 1], limits=[80, 50], steps=[2, 3])") for d in ("f32", "i64")}
    out |= {f"{op}_{axes}_{d}": _graph(f"x: {d}[6, 37, 65]", f"%0 = {op}(x, axes=[{axes}])") for op in ("reduce_sum", "reduce_max")
            for axes in ("0", "1", "2", "0, 2", "0, 1, 2") for d in ("f32", "f16", "i32")}  # fmt: skip
    out |= {
        "argmax": _graph(X, "%0 = reduce_argmax(x, axes=[1])"),
        "argmax_columns": _graph("x: f16[37, 65]", "%0 = reduce_argmax(x, axes=[0])"),
        "cumsum": _graph(X, "%0 = cumsum(x, axis=1, exclusive=False, reverse=False)"),
        "masked": _graph("x: f32[37, 65]; m: bool[37, 65]", "%0 = where(m, x, const(0.0, f32))"),
        "mask_and": _graph("m: bool[37, 65]; n: bool[65]", "%0 = and(m, n)"),
        "gather_rows": _graph("t: f16[90, 48]; i: i64[7, 3]", "%0 = gather(t, i, axis=0)"),
        "gather_columns": _graph("t: f32[90, 48]; i: i32[7]", "%0 = gather(t, i, axis=1)"),
        "gemm_i8": _graph("x: i8[37, 65]; w: i8[65, 48]", '%0 = cast(x, to="i32")', '%1 = cast(w, to="i32")', "%2 = matmul(%0, %1)"),
        "gemm_requantised": _graph("x: i8[37, 65]; w: i8[65, 48]; s: f32[48]", '%0 = cast(x, to="i32")', '%1 = cast(w, to="i32")',
                                   "%2 = matmul(%0, %1)", '%3 = cast(%2, to="f32")', "%4 = mul(%3, s)", "%5 = round(%4)",
                                   '%6 = cast(%5, to="i8")'),
        "w8a16": _graph("x: f16[37, 64]; w: i8[64, 48]; s: f16[48]", '%0 = cast(w, to="f16")', "%1 = mul(%0, s)", "%2 = matmul(x, %1)"),
        "w4a16": _graph("x: f16[37, 64]; q: u8[32, 48]; s: f16[48]", "%0 = bitand(q, const(15, u8))", "%1 = shr(q, const(4, u8))",
                        "%2 = concat(%0, %1, axis=0)", '%3 = cast(%2, to="f16")', "%4 = sub(%3, const(8, f16))", "%5 = mul(%4, s)",
                        "%6 = matmul(x, %5)"),
        "far_rows": _graph("x: f16[3, 70001]; w: f16[70001, 16]", "%0 = matmul(x, w)"),
        "far_columns": _graph("x: f16[32, 48]; w: f16[48, 70001]", "%0 = matmul(x, w)"),
        "rope": _graph("x: f16[4, 20, 64]; c: f16[20, 64]; s: f16[20, 64]",
                       "%0 = slice(x, starts=[0, 0, 0], limits=[4, 20, 32], steps=[1, 1, 1])",
                       "%1 = slice(x, starts=[0, 0, 32], limits=[4, 20, 64], steps=[1, 1, 1])", "%2 = neg(%1)",
                       "%3 = concat(%2, %0, axis=2)",
                       "%4 = mul(x, c)", "%5 = mul(%3, s)", "%6 = add(%4, %5)"),
        "maxpool": _graph("x: f16[2, 8, 30, 30]", "%0 = maxpool(x, window=[3, 3], strides=[2, 2], lo=[1, 1], hi=[1, 1], dilations=[1, 1])"),
        "conv": _conv("f16[2, 16, 20, 20]", "f16[24, 16, 3, 3]", 1, 1), "conv_strided": _conv("f32[2, 7, 19, 23]", "f32[13, 7, 3, 3]", 2),
        "conv_groups": _conv("f16[1, 32, 17, 17]", "f16[48, 16, 3, 3]", 1, 1, 2),
        "depthwise": _conv("f16[2, 12, 19, 23]", "f16[12, 1, 3, 3]", 1, 1, 12),
        "open_rows": _graph("x: f16[n, 64]", "%0 = softmax(x, axes=[1])", dims="dim n in 1..512"),
        "open_product": _graph("x: f16[n, 64]; w: f16[64, 48]", "%0 = matmul(x, w)", dims="dim n in 1..512"),
        "open_depth": _graph("x: f32[n, 64]", "%0 = reduce_sum(x, axes=[0])", dims="dim n in 1..512"),
        "f64": _graph("x: f64[37, 65]", "%0 = exp(x)"),
    }  # fmt: skip
    return out


def whole_models() -> dict[str, Callable[[], Any]]:
    """name -> what makes a model's text, file or graph."""
    out: dict[str, Callable[[], Any]] = {f"light_{n}": partial(models.light_model, f"light_{n}") for n in LIGHT}
    return out | {"bert": lambda: models.bert(layers=1, seq=40, hidden=64, heads=2, inner=96, vocab=30, dtype="f16")}


def outcome(model: Any, target: str, plain: bool) -> tuple[str, str]:
    """(printed | slow | opaque | refused, the reason without numbers)."""
    try:
        program = autocomp.optimize(model, target=target, without=[FALL_BACK] if plain else [])
    except AutocompError as e:
        return "refused", re.sub(r"\b(?:in|out|i|r)\d+\w*|(?<!\w)\d[\d.e+]*", "#", e.what)[:110]
    kernels = [c.kernel for c in program.calls.calls]
    if opaque := sorted({k.opaque for k in kernels if k.opaque}):
        return "opaque", ", ".join(opaque)
    slow = [k.name for k in kernels if "instruction scalar" in program.printed[k.name].text]
    return ("slow", f"{len(slow)} of {len(kernels)} kernels") if slow else ("printed", "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", action="append", help="default: ascend:910b and maca:c500")
    parser.add_argument("--only", default="", help="graphs whose name contains this")
    parser.add_argument("--models", action="store_true", help="whole models too")
    parser.add_argument("--plain", action="store_true", help="without the fall-back")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    tried: dict[str, Callable[[], Any]] = {n: partial(str, g) for n, g in graphs().items()} | (whole_models() if args.models else {})
    rows: list[dict[str, str]] = []
    for target in args.target or ["ascend:910b", "maca:c500"]:
        mine = []
        for name, make in tried.items():
            if args.only in name:
                what, why = outcome(make(), target, args.plain)
                mine.append({"target": target, "graph": name, "outcome": what, "reason": why})
                if name in whole_models():
                    print(f"  {name}: {what} {why}", flush=True)
        count = Counter(r["outcome"] for r in mine)
        print(f"{target}: {count['printed'] + count['slow']} of {len(mine)} printed, {count['slow']} of them with a kernel of "
              f"the fall-back; {count['opaque']} with an operator through its reference, "
              f"{count['refused']} refused", flush=True)  # fmt: skip
        for (what, why), n in Counter((r["outcome"], r["reason"]) for r in mine if r["outcome"] in ("opaque", "refused")).most_common():
            print(f"  {n:4} {what}: {why}")
        rows += mine
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
