"""Vector cores of Ascend round to whole numbers, compute softplus and read integers of a byte: by conversions that the interface has."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from autocomp.targets.ascend.api import rows

import autocomp
from autocomp.errors import BuildError
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor, ModelFailure
from tests.helpers import fresh
from tests.helpers.device_graphs import graph
from tests.helpers.edits import Edit

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no g++")
ROUNDINGS = ("floor", "ceil", "round", "trunc")


def outputs(inputs, lines):
    text = graph(inputs, "\n".join(f"%{n} = {e}" for n, e in lines.items()))
    return text[: text.index("output")] + "".join(f"output {n} = %{n}\n" for n in lines if not n.startswith("_"))


WHOLE = outputs({"x": "f32[3, 70]"}, {fn: f"{fn}(x)" for fn in (*ROUNDINGS, "softplus")})
BYTES = outputs({"x": "i8[37, 65]", "y": "u8[65]", "z": "i8[37, 1]", "a": "i8[5, 40]", "s": "f16[40]"},
                {**{f"_{n}": f'cast({n}, to="f32")' for n in "xyz"}, "_p": "mul(%_x, %_y)", "sum": "add(%_p, %_z)",
                 "_rows": 'cast(x, to="f32")', "folded": "reduce_sum(%_rows, axes=[1])",
                 "_h": 'cast(a, to="f16")', "scaled": "mul(%_h, s)"})  # fmt: skip


def scalar(program):
    return [n for n, s in program.printed.items() if "ac_run<" in s.text]


@needs_compiler
def test_whole_numbers_and_softplus_at_the_ends(tmp_path):
    """Halves, numbers that are whole already, and tails of softplus that 1 + exp(x) does not hold."""
    program = autocomp.optimize(WHOLE, target="ascend:910b")
    assert not scalar(program)
    program.executor = AscendExecutor(program, tmp_path)
    given = [0.5, -0.5, 1.5, -1.5, 2.5, 0.0, 8388607.5, -8388609.0, 3e9, 1e30, -1e30, 0.49999997, -1e-30, 20.0, -20.0, -80.0, 88.0]
    x = np.concatenate([given, fresh.rng().uniform(-90, 90, 210 - len(given))]).astype("f4").reshape(3, 70)
    got = program.run({"x": x})
    for fn, of in zip(ROUNDINGS, (np.floor, np.ceil, np.rint, np.trunc), strict=True):
        np.testing.assert_array_equal(got[fn], of(x), err_msg=fn)
    np.testing.assert_allclose(got["softplus"], np.logaddexp(0, x.astype("f8")), rtol=1e-6)


@needs_compiler
def test_integers_of_a_byte_are_read_as_numbers(tmp_path):
    """Tiles, vectors along rows, a value a row; every number of the types. Rows are padded to whole blocks of bytes."""
    program = autocomp.optimize(BYTES, target="ascend:910b")
    assert not scalar(program)
    program.executor = AscendExecutor(program, tmp_path)
    program.verify(seed=fresh.seed())


@needs_compiler
@pytest.mark.parametrize("fn", ["floor", "relu"])
def test_a_float_of_eight_bits_between_is_not_left_out(fn, tmp_path):
    """17 is no f8e4m3: it rounds to 16, in a chain that vector cores compute otherwise."""
    text = graph({"x": "bf16[96]"}, f'%0 = {fn}(x)\n%1 = cast(%0, to="f8e4m3")\n%2 = cast(%1, to="bf16")')
    program = autocomp.optimize(text, target="ascend")
    program.executor = AscendExecutor(program, tmp_path)
    got = program.run({"x": np.full(96, 17).astype(ml_dtypes.bfloat16)})
    np.testing.assert_array_equal(got["out"].astype("f4"), 16)


@needs_compiler
@pytest.mark.parametrize(
    ("was", "by", "complaint"),
    [
        ("RoundMode::CAST_FLOOR", "RoundMode::CAST_CEIL", "float64 reference"),
        ("RoundMode::CAST_FLOOR", "RoundMode::CAST_ODD", "a wrong rounding mode"),
        ("for (int k = 15;", "for (int k = 3;", "float64 reference"),
    ],
)
def test_another_rounding_or_series_is_seen(was, by, complaint, tmp_path):
    edit = Edit(was, by)
    program = autocomp.optimize(graph({"x": "f32[3, 70]"}, "%0 = floor(x)\n%1 = softplus(x)\n%2 = add(%0, %1)"), target="ascend")
    program.executor = AscendExecutor(program, tmp_path, blocks=1, edit_header=edit)
    with pytest.raises((ModelFailure, autocomp.VerificationError), match=complaint):
        program.verify(seed=1)
    assert edit.found


@needs_compiler
def test_a_pair_of_types_that_cast_does_not_have_is_no_program(tmp_path):
    """Bytes to single precision in one step."""
    conversions = next(f for f in rows()["functions"] if f["names"] == ["Cast"])["conversions"]
    assert "float" not in conversions["int8_t"]
    program = autocomp.optimize(graph({"x": "i8[3, 70]"}, '%0 = cast(x, to="f32")'), target="ascend")
    program.executor = AscendExecutor(program, tmp_path, edit=lambda text: text.replace("<half>", "<float>"))
    with pytest.raises(BuildError, match="Cast has no form between these types"):
        program.verify(seed=1)
