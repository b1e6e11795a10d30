"""The fall-back of Ascend: element after element on scalar units. Right on the model, priced, named, left out by a switch."""

from __future__ import annotations

import ctypes
import re
import subprocess
from itertools import permutations

import numpy as np
import pytest
from autocomp.targets.ascend.toolchain import headers
from autocomp.targets.simt.expressions import function

import autocomp
from autocomp.errors import UnsupportedOp
from autocomp.ir.scalar import SCALAR
from autocomp.ir.types import F16, F32
from autocomp.simulate.ascend_model import APART, COMPILER, FLAGS, INCLUDE, AscendExecutor, ModelFailure
from autocomp.simulate.compiler import found
from tests.helpers import fresh
from tests.helpers.device_graphs import GRAPHS, graph

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no g++")
OWN = {
    "functions": graph({"x": "f32[7, 13]", "y": "f32[13]"},
                       "%0 = sin(x)\n%1 = cos(x)\n%2 = floor(x)\n%3 = pow(%1, y)\n%4 = mul(%0, %2)\n%5 = add(%4, %3)\n%6 = mod(x, y)\n"
                       "%7 = where(isnan_(%5), %6, %5)".replace("isnan_(%5)", "%8")).replace("%7 =", "%8 = isnan(%5)\n%7 ="),
    "integers_of_all_sizes": graph({"a": "i8[5, 21]", "b": "u16[21]", "c": "i64[5, 1]"},
                                   '%0 = cast(a, to="i64")\n%1 = cast(b, to="i64")\n%2 = add(%0, %1)\n%3 = mul(%2, c)\n'
                                   "%4 = floordiv(%3, const(7, i64))\n%5 = mod(%3, const(-5, i64))\n%6 = sub(%4, %5)"),
    "masks": graph({"m": "bool[6, 11]", "n": "bool[11]", "x": "f16[6, 11]"},
                   "%0 = and(m, n)\n%1 = not(%0)\n%2 = where(%1, x, const(-2, f16))"),
    "requantised": graph({"x": "i8[9, 33]", "w": "i8[33, 14]", "s": "f32[14]"},
                         '%0 = cast(x, to="i32")\n%1 = cast(w, to="i32")\n%2 = matmul(%0, %1)\n%3 = cast(%2, to="f32")\n'
                         '%4 = mul(%3, s)\n%5 = round(%4)\n%6 = min(%5, const(127, f32))\n%7 = max(%6, const(-128, f32))\n'
                         '%8 = cast(%7, to="i8")'),
    "integer_products": graph({"x": "i64[5, 40]"}, "%0 = reduce_prod(x, axes=[1])"),
    "short_floats": graph({"x": "bf16[5, 19]"}, '%0 = floor(x)\n%1 = cast(%0, to="f8e4m3")\n%2 = cast(%1, to="bf16")'),
}  # fmt: skip
GIVEN = [
    "integers", "unpack", "transpose_three", "slice", "gathered", "filled", "to_f8e4m3", "argmax", "maxpool",
    "mean_of_two_axes", "off_cumsum", "attention_of_one_row", "gemm_i8_odd", "gemm_u8", "row_int4", "conv_stride", "depthwise_stride",
]  # fmt: skip
# Of these, what vector and cube cores have forms for by now.
VECTOR = {"transpose_three", "off_cumsum", "masks", "conv_stride", "gemm_u8", "gemm_i8_odd", "maxpool",
          "mean_of_two_axes", "argmax", "slice", "integers", "unpack", "row_int4", "depthwise_stride", "filled"}  # fmt: skip
ALL = GRAPHS | OWN


def program_of(name, **options):
    return autocomp.optimize(ALL[name], target="ascend:910b", **options)


def scalar_kernels(program):
    return [n for n, s in program.printed.items() if "ac_run<" in s.text]


def merged(names):
    """One graph of several, so that they are built at once; what fails names its output."""
    inputs, lines, outputs = [], [], []
    for k in names:
        text = ALL[k].splitlines()[1:]
        own = [x[len("input ") :].split(": ") for x in text if x.startswith("input ")]
        inputs += [f"input {k}_{name}: {kind}" for name, kind in own]
        for line in text[len(own) :]:
            line = re.sub(r"%(\w+)", rf"%{k}_\1", line)
            line = re.sub(rf"(?<=[(\s])({'|'.join(n for n, _ in own)})(?=[,)])", rf"{k}_\1", line)
            (outputs if line.startswith("output") else lines).append(line.replace("output out", f"output {k}"))
    return "\n".join(["graph g", *inputs, *lines, *outputs, ""])


@needs_compiler
def test_scalar_units_compute_what_has_no_other_form(tmp_path):
    program = autocomp.optimize(merged([*GIVEN, *OWN]), target="ascend:910b")
    assert {n for n in (*GIVEN, *OWN) if not scalar_kernels(program_of(n))} == VECTOR
    assert len(scalar_kernels(program)) >= len(GIVEN) + len(OWN) - len(VECTOR) - 1  # two graphs have one kernel
    program.executor = AscendExecutor(program, tmp_path)
    program.verify(seed=fresh.seed())


def test_a_sum_over_no_elements_of_rows_counted_at_run_time_is_refused():
    """What is read past L2 is decided by a number to price with; a scalar unit that has no loop over the elements would read one."""
    text = "graph g\ndim n in 1..64\ninput x: f32[n, 0]\n%0 = reduce_sum(x, axes=[1])\noutput y = %0"
    with pytest.raises(UnsupportedOp, match="axis r0 is reduced over no elements"):
        autocomp.optimize(text, target="ascend:910b")


@needs_compiler
def test_sizes_that_are_known_at_run_time_are_arguments(tmp_path):
    text = graph({"x": "f16[n, 7]", "w": "f16[7, 5]"}, "%0 = matmul(x, w)\n%1 = softmax(%0, axes=[0])")
    program = autocomp.optimize(text.replace("graph g", "graph g\ndim n in 1..64"), target="ascend")
    assert all("int64_t dim_n)" in s.text and s.sizes == ("n",) for s in program.printed.values())
    program.executor = AscendExecutor(program, tmp_path)
    program.verify(seed=2)
    (folder := tmp_path / "out").mkdir()
    program.save(folder)
    assert "int64_t(" in (folder / "launcher.cpp").read_text()


@needs_compiler
@pytest.mark.parametrize(
    ("was", "by", "complaint"),
    [
        (r"S_MTE3", "S_MTE2", "S writes, MTE3 reads the same bytes unordered"),
        (r"MTE3_S>", "MTE3_MTE2>", "MTE3 reads, S writes the same bytes unordered"),
        (r"  r.room = (bytes - ac_spare_bytes) / sizeof(T);", "  r.room = bytes;", "behind the end of a tensor"),
        (r"r.first = at;", "r.first = at + 1;", "float64 reference|outside of its tensor"),  # the last run leaves the tensor
    ],
)
def test_the_model_sees_faults_in_how_results_leave(was, by, complaint, tmp_path):
    """The run's flags, its room, its place."""
    program = autocomp.optimize(graph({"x": "i64[60, 300]"}, "%0 = floordiv(x, const(3, i64))"), target="ascend")
    assert was in headers()["autocomp_ascend_scalar.h"]
    program.executor = AscendExecutor(program, tmp_path, blocks=2, edit_header=lambda t: t.replace(was, by))
    with pytest.raises((ModelFailure, autocomp.VerificationError), match=complaint):
        program.verify(seed=3)


def test_the_fall_back_is_named_and_may_be_left_out():
    program = program_of("integer_products")
    assert "bound by scalar unit, the fall-back" in program.explain()
    assert "rule: tiling/npu-scalar-reduce" in program.source()
    with pytest.raises(UnsupportedOp, match="elements of type i64"):
        program_of("integer_products", without=["tiling/npu-scalar-*"])


def test_a_body_with_one_slow_operation_is_taken_apart():
    """What fast forms take is left to them: a product does not become a loop because a factor is padded."""
    program = program_of("gemm_padded")
    texts = [s.text for s in program.printed.values()]
    assert len(texts) == 2 and not scalar_kernels(program) and sum("mma" in t for t in texts) == 1  # the pad is vector code


WINDOW = "lo=[1, 1], hi=[1, 1], dilations=[1, 1]"
CONVOLUTIONS = {
    "odd": graph({"x": "f16[2, 20, 13, 19]", "w": "f16[21, 20, 3, 3]"},
                 f"%0 = conv(x, w, strides=[1, 1], groups=1, {WINDOW})\n%1 = relu(%0)"),
    "groups": graph({"x": "f16[1, 32, 7, 9]", "w": "f16[24, 16, 3, 3]"}, f"%0 = conv(x, w, strides=[2, 1], groups=2, {WINDOW})"),
}  # fmt: skip


@needs_compiler
def test_convolutions_whose_channels_come_first_are_the_cube_units(tmp_path):
    """Their channels do not lie side by side; turned they do, and a step is the channels of one place of the window."""
    for name, text in CONVOLUTIONS.items():
        program = autocomp.optimize(text, target="ascend:910b")
        assert not scalar_kernels(program), name
    program.executor = AscendExecutor(program, tmp_path)  # of the last
    program.verify(seed=fresh.seed())


@needs_compiler
@pytest.mark.parametrize("side", [10, 7])
def test_rows_of_a_small_image_are_the_cube_units(side, tmp_path):
    """A tile is part of one row of the image, which has fewer places than a fractal has rows."""
    inputs = {"x": f"f16[2, 16, {side}, {side}]", "w": "f16[20, 16, 3, 3]"}
    text = graph(inputs, "%0 = conv(x, w, strides=[2, 2], lo=[1, 1], hi=[1, 1], dilations=[1, 1], groups=1)")
    program = autocomp.optimize(text, target="ascend:910b")
    assert not scalar_kernels(program)
    program.executor = AscendExecutor(program, tmp_path)
    program.verify(seed=fresh.seed())


def test_without_the_rules_few_channels_are_left_to_the_scalar_unit():
    text = CONVOLUTIONS["groups"]
    assert scalar_kernels(autocomp.optimize(text, target="ascend:910b", without=["layout/conv-channels-last"]))
    program = autocomp.optimize(text, target="ascend:910b")
    assert any("npu-window" in s.text for s in program.printed.values())


def test_only_a_type_that_no_unit_computes_is_refused_with_both_widths():
    with pytest.raises(UnsupportedOp, match=r"elements of type f64 have 64 bits, Ascend .* computes floats of at most 32"):
        program_of("gemm_f64")


FUNCTIONS = {
    "exp": (-100, 88), "exp2": (-120, 127), "expm1": (-20, 80), "log": (1e-30, 1e30), "log2": (1e-3, 1e3), "log1p": (-0.9, 10),
    "sqrt": (1e-30, 1e30), "sin": (-1e6, 1e6), "cos": (-1e6, 1e6), "tan": (-10, 10), "arcsin": (-1, 1), "arccos": (-1, 1),
    "arctan": (-50, 50), "sinh": (-80, 80), "cosh": (-80, 80), "tanh": (-9, 9), "arcsinh": (-1e4, 1e4), "arccosh": (1, 1e4),
    "arctanh": (-0.99, 0.99), "mish": (-80, 80), "floor": (-1e4, 1e4), "ceil": (-1e4, 1e4), "rint": (-1e4, 1e4), "trunc": (-1e9, 1e9),
}  # fmt: skip


@needs_compiler
def test_functions_of_the_scalar_unit_are_within_six_units_in_the_last_place(tmp_path):
    names = {n: re.sub("^arc", "a", n).replace("rint", "round") for n in FUNCTIONS}
    text = '#include "autocomp_ascend_scalar.h"\nextern "C" {\n' + "".join(
        f"void {n}_all(float *x, int n) {{ for (int i = 0; i < n; ++i) x[i] = ac_{c}(x[i]); }}\n" for n, c in names.items())  # fmt: skip
    text += "void half_all(float *x, int n) { for (int i = 0; i < n; ++i) x[i] = ac_held(ac_stored<ac_f16>(x[i])); }\n}\n"
    (tmp_path / "f.cpp").write_text(text)
    subprocess.run([COMPILER, *FLAGS, *INCLUDE, str(tmp_path / "f.cpp"), "-o", str(tmp_path / "f.so")], check=True, capture_output=True)
    library, rng = ctypes.CDLL(str(tmp_path / "f.so")), np.random.default_rng(5)

    def through(name, x):
        out = x.copy()
        getattr(library, f"{name}_all")(out.ctypes.data_as(ctypes.c_void_p), out.size)
        return out

    for name, (low, high) in FUNCTIONS.items():
        x = rng.uniform(low, high, 4000).astype("f4") if low <= 0 or high / low < 1e5 else np.geomspace(low, high, 4000).astype("f4")
        x[:8] = low
        if low < 0:
            x[8:1000] *= 10.0 ** rng.uniform(-6, 0, 992).astype("f4")
        want = getattr(np, name, SCALAR.get(name, SCALAR["exp"]).numpy)(x.astype("f8"))
        assert np.max(np.abs(through(name, x) - want) / np.spacing(np.abs(want).astype("f4"))) < 6, name
    ends = [65504, 65519.99, 65520, 6e-8, 2.9e-8]
    x = np.concatenate([rng.standard_normal(20000) * 10.0 ** rng.uniform(-9, 6, 20000), ends]).astype("f4")
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(through("half", x), x.astype("f2").astype("f4"))


@pytest.mark.parametrize("halves", [False, True], ids=["f32", "f16"])
def test_each_function_of_floats_has_a_form_in_the_header(halves):
    dtype, text = F16 if halves else F32, headers()["autocomp_ascend_scalar.h"]
    called = {f"{n}({', '.join('x' * f.arity)})": re.findall(r"\bac_\w+", function(n, ["x"] * f.arity, dtype))
              for n, f in SCALAR.items() if "f" in f.kinds and n not in ("cast", "as_stored")}  # fmt: skip
    missing = {k: v for k, v in called.items() if any(not re.search(rf"\b{n}\(|AC_SAME\({n[3:-5]}\)", text) for n in v)}
    assert not missing and sum(map(len, called.values())) > 30


@needs_compiler
def test_headers_are_included_in_any_order(tmp_path):
    """A program has kernels with each; a macro of one name in two of them made those of the second void of a type."""
    for order in permutations(("autocomp_ascend_scalar.h", "autocomp_ascend_words.h")):
        (tmp_path / "all.cpp").write_text("".join(f'#include "{n}"\n' for n in order))
        done = subprocess.run([*found(), *APART, "-fsyntax-only", *INCLUDE, str(tmp_path / "all.cpp")],
                              capture_output=True, text=True, check=False)  # fmt: skip
        assert not done.returncode, done.stderr
