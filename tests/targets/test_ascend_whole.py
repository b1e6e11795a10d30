"""Vector cores of Ascend hold whole numbers and truth values in single precision, where that is exact, others of i32 as words; what needs a
quotient of integers or 64 bits is the scalar unit's."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest

import autocomp
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor, ModelFailure
from tests.helpers import fresh
from tests.helpers.device_graphs import graph

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no g++")
FALL_BACK = "tiling/npu-scalar-*"


def outputs(inputs, lines):
    text = graph(inputs, "\n".join(f"%{n} = {e}" for n, e in lines.items()))
    return text[: text.index("output")] + "".join(f"output {n} = %{n}\n" for n in lines if not n.startswith("_"))


WRAPS = outputs({"x": "i8[37, 65]", "y": "i8[65]", "u": "u8[37, 65]", "v": "u8[37, 65]"},
                {"sum": "add(x, y)", "product": "mul(x, y)", "negative": "neg(x)", "usum": "add(u, v)", "udifference": "sub(u, v)",
                 "as_u8": 'cast(x, to="u8")', "as_i8": 'cast(u, to="i8")', "larger": "max(x, y)", "_chain": "mul(x, x)",
                 "twice": "add(%_chain, y)"})  # fmt: skip
TRUTHS = outputs({"m": "bool[37, 65]", "n": "bool[65]", "x": "f32[37, 65]", "y": "f32[65]", "b": "f32[37, 1]"},
                 {"both": "and(m, n)", "either": "or(m, n)", "none": "not(m)", "chosen": "where(m, x, y)", "as_f32": 'cast(m, to="f32")',
                  "as_i64": 'cast(m, to="i64")', "less": "lt(x, y)", "_p": "gt(x, b)", "_q": "and(%_p, m)",
                  "given": "where(%_q, x, const(-inf, f32))", "is_set": 'cast(x, to="bool")'})  # fmt: skip
CASTS = outputs({"x": "f32[3, 333]", "h": "f16[3, 333]", "i": "i32[3, 333]", "l": "i64[3, 333]", "c": "i8[3, 333]"},
                {"to_i32": 'cast(x, to="i32")', "to_i64": 'cast(x, to="i64")', "to_i8": 'cast(h, to="i8")', "to_u8": 'cast(x, to="u8")',
                 "of_i32": 'cast(i, to="f32")',
                 "of_i64": 'cast(l, to="f16")', "set": 'cast(l, to="bool")', "wide": 'cast(c, to="i64")'})  # fmt: skip


def on_vector_cores(text, folder, **options):
    program = autocomp.optimize(text, target="ascend:910b", without=[FALL_BACK])
    program.executor = AscendExecutor(program, folder, **options)
    return program


@needs_compiler
def test_sums_and_products_of_bytes_wrap(tmp_path):
    """Every pair of ends; products of two bytes and a sum of such."""
    program = on_vector_cores(WRAPS, tmp_path)
    ends = np.array([-128, -127, -1, 0, 1, 2, 64, 126, 127], "i1")
    x = np.resize(np.repeat(ends, 9), (37, 65))
    y = np.resize(ends, 65)
    u, v = (np.resize(np.array(e, "u1"), (37, 65)) for e in ([0, 1, 127, 128, 254, 255], [255, 0, 1, 128]))
    got = program.run({"x": x, "y": y, "u": u, "v": v})
    with np.errstate(all="ignore"):
        want = {"sum": x + y, "product": x * y, "negative": -x, "usum": u + v, "udifference": u - v, "as_u8": x.astype("u1"),
                "as_i8": u.astype("i1"), "larger": np.maximum(x, y), "twice": x * x + y}  # fmt: skip
    for name, w in want.items():
        np.testing.assert_array_equal(got[name], w, err_msg=name)


@needs_compiler
@pytest.mark.parametrize("text", [TRUTHS, CASTS], ids=["truths", "casts"])
def test_truth_values_and_casts(text, tmp_path):
    on_vector_cores(text, tmp_path).verify(seed=fresh.seed())


@needs_compiler
def test_no_number_is_true_and_large_integers_round_once(tmp_path):
    text = outputs({"x": "f32[1, 70]", "l": "i64[1, 70]"}, {"set": 'cast(x, to="bool")', "f": 'cast(l, to="f32")'})
    program = on_vector_cores(text, tmp_path)
    x = np.resize(np.array([np.nan, 0.0, -0.0, 1e-45, np.inf], "f4"), (1, 70))
    numbers = np.resize(np.array([2**24 + 1, 2**53 + 1, -(2**62) - 1, 3, 0], "i8"), (1, 70))
    got = program.run({"x": x, "l": numbers})
    np.testing.assert_array_equal(got["set"], x != 0)
    np.testing.assert_array_equal(got["f"], numbers.astype("f4"))


@needs_compiler
def test_functions_that_are_choices(tmp_path):
    program = on_vector_cores(outputs({"x": "f32[1, 70]"}, {"sign": "sign(x)", "log1p": "log1p(x)"}), tmp_path)
    x = np.resize(np.array([0.0, -0.0, 1e-30, -1e-9, 3e-8, 1e-4, -0.5, -1.0, 2.0, 1e30, np.inf, np.nan], "f4"), (1, 70))
    got = program.run({"x": x})
    with np.errstate(all="ignore"):
        want = np.log1p(x.astype("f8"))
    np.testing.assert_array_equal(got["sign"], np.sign(x))
    np.testing.assert_allclose(got["log1p"], want, rtol=1e-6)


ENDS = np.array([-2**31, -2**31 + 1, -2**30, -65537, -65536, -65535, -32769, -32768, -1, 0, 1, 2, 255, 256, 32767, 32768, 65535, 65536,
                 2**24 + 1, 2**30, 2**31 - 1], "i4")  # fmt: skip
X, Y = np.resize(np.repeat(ENDS, len(ENDS)), (21, 67)), np.resize(ENDS, 67)
B, Z = X[:, :1].copy(), np.random.default_rng(0).integers(-(2**31), 2**31, (5, 9, 33)).astype("i4")
C, L = np.resize(np.array([-128, 127, 3], "i1"), (21, 67)), np.resize(np.array([2**40 + 5, -(2**33) - 7, -1, 2**31, 2**62 + 129]), (21, 67))
F = np.resize(np.array([1.5, -2.7, 3e4, 0], "f4"), (21, 67))
M = np.random.default_rng(1).integers(-(2**15), 2**15, (21, 67)).astype("i4")
N = (M * np.random.default_rng(2).integers(-(2**15), 2**15, (21, 67)) + np.random.default_rng(3).integers(-2, 3, (21, 67))).astype("i4")


def divided(f, a, b):
    """By 0 the compiler says 0; the lowest number by -1 wraps."""
    return np.where(b == 0, 0, f(np.asarray(a, "i8"), np.where(b == 0, 1, b))).astype("i4")


WORDS = {  # what is asked of X, Y, B, C, F, L, M, N, Z, and numpy's answer
    "sums": ({"sum": "add(x, y)", "difference": "sub(x, b)", "product": "mul(x, y)", "negative": "neg(x)", "absolute": "abs(x)",
              "larger": "max(x, y)", "smaller": "min(x, b)", "_square": "mul(x, x)", "chain": "add(%_square, y)",
              "more": "add(x, const(2147483647, i32))"},
             lambda: [X + Y, X - B, X * Y, -X, np.abs(X), np.maximum(X, Y), np.minimum(X, B), X * X + Y, X + np.int32(2**31 - 1)]),
    "choices": ({"lt": "lt(x, y)", "le": "le(x, b)", "gt": "gt(x, y)", "ge": "ge(x, y)", "eq": "eq(x, y)", "ne": "ne(x, y)",
                 "chosen": "where(%lt, x, y)", "_more": "gt(x, const(-2147483648, i32))", "kept": "where(%_more, x, const(7, i32))"},
                lambda: [X < Y, X <= B, X > Y, X >= Y, X == Y, X != Y, np.where(X < Y, X, Y), np.where(X > -(2**31), X, 7)]),
    "casts": ({"byte": 'cast(x, to="i8")', "unsigned": 'cast(x, to="u8")', "long": 'cast(x, to="i64")', "low": 'cast(l, to="i32")',
               "low_byte": 'cast(l, to="i8")', "_whole": 'cast(f, to="i32")', "of_float": "add(%_whole, x)", "_wide": 'cast(c, to="i32")',
               "of_byte": "mul(%_wide, %_wide)", "_twice": "add(x, x)", "single": 'cast(%_twice, to="f32")', "_f": 'cast(x, to="f32")',
               "rounded": 'cast(%_f, to="i64")'},
              lambda: [X.astype("i1"), X.astype("u1"), X.astype("i8"), L.astype("i4"), L.astype("i1"), F.astype("i4") + X,
                       C.astype("i4") ** 2, (X + X).astype("f4"), X.astype("f4").astype("i8")]),
    "divisions": ({"quotient": "floordiv(x, y)", "rest": "mod(x, y)", "by_row": "floordiv(x, b)", "left": "mod(b, x)",
                   "sevenths": "floordiv(x, const(-7, i32))", "digits": "mod(x, const(1000, i32))",
                   "near": "floordiv(n, m)", "little": "mod(n, m)"},
                  lambda: [divided(np.remainder if rest else np.floor_divide, a, b) for a, b, rest in (
                      (X, Y, 0), (X, Y, 1), (X, B, 0), (B, X, 1), (X, np.int32(-7), 0), (X, np.int32(1000), 1), (N, M, 0), (N, M, 1))]),
    "rows": ({f"{op}_{axis}": f"reduce_{op}(z, axes=[{axis}])" for axis in (1, 2) for op in ("sum", "max", "min")},
             lambda: [f(axis=axis) for axis in (1, 2) for f in (partial(Z.sum, dtype="i4"), Z.max, Z.min)]),
    "copies": ({"turned": "transpose(z, perm=[2, 0, 1])", "joined": "concat(x, x, axis=1)",
                "padded": "pad(x, lo=[0, 3], hi=[1, 2], value=-9)",
                "part": "slice(x, starts=[3, 1], limits=[20, 50], steps=[2, 3])", "twice": "add(%turned, %turned)"},
               lambda: [Z.transpose(2, 0, 1), np.concatenate([X, X], 1), np.pad(X, ((0, 1), (3, 2)), constant_values=-9),
                        X[3:20:2, 1:50:3], 2 * Z.transpose(2, 0, 1)])}  # fmt: skip


def words(name, folder, **options):
    """(what vector cores make of the ends of i32, numpy's answers by name)."""
    lines, want = WORDS[name]
    feeds = {"x": X, "y": Y, "b": B, "c": C, "f": F, "l": L, "m": M, "n": N, "z": Z}
    asked = " ".join(lines.values())
    used = {n: v for n, v in feeds.items() if re.search(rf"\b{n}\b", asked)}
    names = {"int8": "i8", "int32": "i32", "int64": "i64", "float32": "f32"}
    inputs = {n: f"{names[v.dtype.name]}[{', '.join(map(str, v.shape))}]" for n, v in used.items()}
    program = on_vector_cores(outputs(inputs, lines), folder, **options)
    with np.errstate(all="ignore"):
        return program.run(used), dict(zip([n for n in lines if n[0] != "_"], want(), strict=True))


@needs_compiler
@pytest.mark.parametrize("name", WORDS)
def test_integers_of_32_bits_on_vector_cores(name, tmp_path):
    got, want = words(name, tmp_path)
    for n, w in want.items():
        np.testing.assert_array_equal(got[n], w, err_msg=n)


@needs_compiler
def test_a_sum_that_leaves_its_type_is_seen(tmp_path):
    """Nobody says whether the unit's integers wrap: halves alone are added."""
    with pytest.raises(ModelFailure, match="an integer leaves its type"):
        words("sums", tmp_path, edit_header=lambda t: t.replace("ac_up(t, b, n);", "Add(t, a, b, n);"))


@needs_compiler
@pytest.mark.parametrize("was", ["  ac_quotient(q, e, b, y, f, d, s, t, v, w, AC_THESE n);\n  Cast(f, e",
                                 "Mins(f, f, 1.0f, n);\n  AC_V;\n  Cast(d", "Add(y, y, f, n);"])  # fmt: skip
def test_a_division_that_is_a_step_short_is_seen(was, tmp_path):
    """One quotient alone, one that is more than 1 less, one by 0."""
    cut = lambda t: t.replace(was, "  Cast(f, e" if was.endswith("f, e") else "  Cast(d" if was.endswith("(d") else "")
    try:
        got, want = words("divisions", tmp_path, edit_header=cut)
    except ModelFailure:
        return
    assert any((got[n] != w).any() for n, w in want.items())


def test_large_quotients_of_words_are_cheaper_than_the_scalar_units():
    program = autocomp.optimize(graph({"x": "i32[4096, 1024]", "y": "i32[1024]"}, "%0 = floordiv(x, y)"), target="ascend:910b")
    assert "ac_floordiv_i32(" in next(iter(program.printed.values())).text and program.predicted < 300e-6  # 3968 us by the scalar units


@pytest.mark.parametrize("lines", ['%a = cast(i, to="i64")\n%0 = floordiv(%a, %a)', "%0 = pow(i, i)"])
def test_what_vector_cores_do_not_hold_stays_with_the_scalar_unit(lines):
    """Quotients of integers of 64 bits have no form in words."""
    program = autocomp.optimize(graph({"i": "i32[37, 65]"}, lines), target="ascend:910b")
    assert any("ac_run<" in s.text for s in program.printed.values())


@needs_compiler
@pytest.mark.parametrize(("was", "by"), [("128.0f, ", "0.0f, "), ("-256.0f", "-255.0f")])
def test_another_wrap_is_seen(was, by, tmp_path):
    program = on_vector_cores(WRAPS, tmp_path, edit=lambda t: t.replace(was, by), edit_header=lambda t: t.replace(was, by))
    with pytest.raises((ModelFailure, autocomp.VerificationError)):
        program.verify(seed=1)
