"""Every element-wise function over the ends of every type, on every target, against NumPy in float64: zeros of both signs, infinities, NaN,
subnormal and largest numbers, all pairs of them; integers and truth values exactly. What may differ stands in docs/differences.md."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import autocomp
from autocomp.ir.scalar import SCALAR, apply
from autocomp.ir.types import BOOL, DTYPES, F64, I32, DType
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers.repeats import repeating

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
TYPES = ["f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u32", "u64", "bool"]
OF_ONE = {"cast", "as_stored", "where"}  # tests/targets/test_casts.py; a choice is none of values
EITHER_ZERO = {"max", "min", "relu", "gelu"}
MAY_VANISH = {"exp", "exp2", "sigmoid", "silu", "softplus", "mish"}  # below the least normal number
CANCELS = {"gelu": 1e-7, "gelu_tanh": 1e-7}  # 0.5 x (1 + erf): so much of x
BY_TABLE = {("cpu", "f32", "gelu"): 4e-7}  # what the vectors' own function states
TOGETHER = 12  # functions a kernel


def ends(d: DType) -> np.ndarray:
    if d.kind == "b":
        return np.array([False, True])
    if d.is_int:
        i = np.iinfo(d.numpy)
        n = [0, 1, 2, 3, 7, 100, d.bits - 1, d.bits, i.max, i.max - 1, i.max // 2 + 1, i.min, i.min + 1]
        return np.array(n + [-1, -2, -7, -100] * bool(i.min), object).astype(d.numpy)
    f = ml_dtypes.finfo(d.numpy)
    n = [0.0, 0.5, 1, 1.5, 2, 2.5, 3, 10, 80, 88, 100, 709, 1e4, 0.9999, 0.06, 1e-3, 1e-6, np.inf,
         *(float(x) for x in (f.max, f.max / 2, f.tiny, f.eps, f.smallest_subnormal, f.smallest_subnormal * 3))]  # fmt: skip
    with np.errstate(all="ignore"):
        codes = np.array([*n, *(-x for x in n), np.nan]).astype(d.numpy).view(f"u{d.bytes}")
    return np.unique(codes).view(d.numpy)


def differing(fn: str, d: DType, args: list[np.ndarray], got: np.ndarray, target: str) -> np.ndarray:
    out = {"bool": BOOL, "i32": I32}.get(SCALAR[fn].result, d)
    if not d.is_float or out != d:
        return got != apply(fn, args, out)
    with np.errstate(all="ignore"):
        want = apply(fn, [a.astype("f8") for a in args], F64).astype(d.numpy).astype("f8")
        f, g = ml_dtypes.finfo(d.numpy), got.astype("f8")
        times = np.maximum(1, np.abs(args[0].astype("f8"))) if fn in ("silu", "mish") else 1  # x times what may vanish
        near = np.abs(g - want) <= (8 if d.bits > 16 else 1) * float(f.eps) * np.abs(want) + 2 * float(f.smallest_subnormal) * times
        near |= np.abs(g - want) <= CANCELS.get(fn, 0) * np.abs(args[0].astype("f8"))
        near |= np.abs(g - want) <= BY_TABLE.get((target, d.name, fn), 0)
        near |= (fn in MAY_VANISH) & (g == 0) & (np.abs(want) < float(f.tiny) * times)
    zeros = (fn in EITHER_ZERO) | (np.signbit(g) == np.signbit(want)) | (np.abs(want) <= 2 * float(f.smallest_subnormal)) & (want != 0)
    alike = (np.isnan(g) & np.isnan(want)) | ((g == want) & ((g != 0) | zeros))
    alike |= (fn == "gelu") & (g == 0) & np.isnan(want)  # of -inf its limit
    return ~(alike | (np.isfinite(g) & np.isfinite(want) & near & ((g != 0) | zeros)))


def checked(target: str, dtype: str, model=None, folder=None) -> list[str]:
    """What a target computes otherwise; on the CPU model of GPUs where that is given."""
    d = DTYPES[dtype]
    one = ends(d)
    x, y = (np.ascontiguousarray(a.ravel()) for a in np.meshgrid(one, one))
    lines, outputs, rows = [], [], {}
    for arity, of, n in ((1, "u", one.size), (2, "x, y", x.size)):
        for result in ("same", "bool", "i32"):
            taking = [f for f in SCALAR.values() if d.kind in f.kinds and d.bits <= f.bits and f.name not in OF_ONE]
            fns = [f.name for f in taking if (f.arity, f.result) == (arity, result)]
            for k in range(0, len(fns), TOGETHER):
                some, name = fns[k : k + TOGETHER], f"{result}{arity}{k}"
                lines += [f"%{f}0 = {f}({of})" for f in some] + [f"%{f} = reshape(%{f}0, shape=[1, {n}])" for f in some]
                lines.append(f"%{name} = concat({', '.join(f'%{f}' for f in some)}, axis=0)")
                outputs.append(f"output {name} = %{name}")
                rows |= {f: (name, i) for i, f in enumerate(some)}
    inputs = [f"input u: {dtype}[{one.size}]", f"input x: {dtype}[{x.size}]", f"input y: {dtype}[{x.size}]"]
    program = autocomp.optimize("\n".join(["graph g", *inputs, *lines, *outputs, ""]), target=target)
    if model is not None:
        program.executor = ModelExecutor(program, folder, model)
    got = program.run({"u": one, "x": x, "y": y})
    found = []
    for f, (name, row) in rows.items():
        args = [one] if SCALAR[f].arity == 1 else [x, y]
        for i in np.flatnonzero(differing(f, d, args, got[name][row], target))[:2]:
            found.append(f"{f}({', '.join(repr(a[i].item()) for a in args)}) is {got[name][row][i].item()!r}")
    return found


@needs_compiler
@pytest.mark.parametrize(("target", "dtype"), repeating(
    [*(("cuda:h200", t) for t in TYPES), *(("maca:c500", t) for t in ("f16", "f32", "u8"))],
    {("maca:c500", "f16"): "cuda:h200", ("maca:c500", "u8"): "cuda:h200", ("cuda:h200", "i16"): "i8", ("cuda:h200", "u32"): "u64"}))
def test_functions_at_the_ends_of_types_on_gpus(target, dtype, model, tmp_path):
    assert checked(target, dtype, model, tmp_path) == []


@pytest.mark.parametrize("dtype", TYPES)
def test_functions_at_the_ends_of_types_on_cpus(dtype):
    """Alone too, where whole vectors are computed at once."""
    assert checked("cpu", dtype) == []
