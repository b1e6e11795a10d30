"""Vector cores of Ascend hold whole numbers and truth values in single precision, where that is exact; other integers are the scalar
unit's."""

from __future__ import annotations

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


@pytest.mark.parametrize("lines", ["%0 = add(i, i)", "%0 = mul(i, i)", '%0 = cast(i, to="i8")', '%0 = cast(i, to="i64")',
                                   "%0 = floordiv(i, i)", '%a = cast(c, to="i32")\n%0 = mul(%a, %a)'])  # fmt: skip
def test_what_single_precision_does_not_hold_stays_with_the_scalar_unit(lines):
    """Vector instructions saturate where numpy wraps, and round above 2^24."""
    program = autocomp.optimize(graph({"i": "i32[37, 65]", "c": "i8[37, 65]"}, lines), target="ascend:910b")
    assert any("ac_run<" in s.text for s in program.printed.values())


@needs_compiler
@pytest.mark.parametrize(("was", "by"), [("128.0f, ", "0.0f, "), ("-256.0f", "-255.0f")])
def test_another_wrap_is_seen(was, by, tmp_path):
    program = on_vector_cores(WRAPS, tmp_path, edit=lambda t: t.replace(was, by), edit_header=lambda t: t.replace(was, by))
    with pytest.raises((ModelFailure, autocomp.VerificationError)):
        program.verify(seed=1)
