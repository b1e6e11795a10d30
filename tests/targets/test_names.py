"""Names of ops and of dimensions that would be words of a target's language or variables of a kernel's."""

from __future__ import annotations

import random
import re
from importlib.resources import files

import numpy as np
import pytest
from autocomp.targets import load_target
from autocomp.targets.cpu import names as reserved
from autocomp.targets.symbols import renamed

import autocomp
from autocomp.errors import AutocompError, ModelError
from autocomp.frontends.text import parse
from autocomp.ir.affine import Aff
from autocomp.ir.builder import Builder
from autocomp.ir.ops import OPS
from autocomp.ir.types import F32, Sym, TensorType
from autocomp.simulate.simt_model import COMPILER
from benchmarks.random_graphs import check
from tests.helpers.repeats import GPUS

TWO = ("graph g\ndim {0} in 1..400\ninput x: f32[{0}, 40]\ninput w: f32[40, 24]\n"
       "%0 = matmul(x, w)\n%1 = softmax(%0, axes=[0])\noutput y = %1\n")  # fmt: skip
HEAD = "graph g\ninput x: f32[37]\ninput z: f32[37]\n"
VARIABLES = ("q", "r", "n", "acc", "c", "block", "class", "in0", "min")


@pytest.mark.skipif(bool(load_target("cuda").toolchain.missing()), reason="NVRTC is not installed")
def test_a_kernel_of_any_single_op_compiles_for_cuda():
    """Kernels are called after their ops: and, or, not, min, max and rsqrt are words of the language or functions of its headers."""
    texts: dict[str, str] = {}
    for op in OPS:
        for dtype, arguments in (("f32", "x"), ("f32", "x, z"), ("bool", "x"), ("bool", "x, z"), ("i32", "x, z")):
            body = f"graph g\ninput x: {dtype}[37]\ninput z: {dtype}[37]\n%0 = {op}({arguments})\noutput y = %0\n"
            try:
                program = autocomp.optimize(body, target="cuda:h200")
            except AutocompError:  # not an op of these operands
                continue
            texts |= {s.entry: s.text for s in program.printed.values()}
            break
    assert {"k_and", "k_or", "k_not", "k_max", "k_min", "k_rsqrt", "k_relu"} <= set(texts)
    load_target("cuda:h200").toolchain.compile_object("all", '#include "autocomp_cuda.cuh"\n' + "\n".join(texts.values()))


def test_a_kernel_of_any_single_op_and_of_two_compiles_for_cpus():
    """floor(a) / b and floor(a) % b were called as two functions of the header."""
    for second in ("div", "mod", "max"):
        text, n = HEAD, 0
        for op in OPS:
            for arguments in ("x", "x, z"):
                try:
                    parse(f"{HEAD}%0 = {op}({arguments})\n%1 = {second}(%0, z)\noutput y = %1\n")
                except AutocompError:  # not an op of these operands
                    continue
                text += f"%{n} = {op}({arguments})\n%{n + 1} = {second}(%{n}, z)\noutput y{n} = %{n + 1}\n"
                n += 2
                break
        program = autocomp.optimize(text, cache=False, inline_threshold=1, without=["fusion/siblings"])
        assert any(k.startswith(f"floor_{second}") for k in program.printed), sorted(program.printed)


@pytest.mark.parametrize("target", ["cpu", "cuda", "maca", "simt", "ascend"])
def test_what_a_header_defines_begins_with_a_prefix(target):
    """Printed functions begin with k_, so no function, type or macro of a header is declared twice or hidden."""
    own = re.compile(r"(ac|AC|AUTOCOMP|vf|vi|vm|s)(_|$)|b?f16$|f8e[0-9]m[0-9]$")
    for header in files("autocomp.targets").joinpath(target, "include").iterdir():
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", header.read_text(), flags=re.DOTALL)
        found = re.findall(r"^#define (\w+)", text, re.M)
        found += re.findall(r"^(?:AC_\w+|static|typedef|template)\b[^={;]*?(\w+)\s*[({;\[]", text, re.M)
        assert found or not text.strip()
        wrong = [x for x in found if not own.match(x) and not x.startswith(("__", "alignas"))]  # words of compilers
        assert not wrong, f"{header.name}: {wrong}"


ODD = ("a_b", "a/b", "a b", "é", "x" * 300, "*/", "\n#error", "int", "k_", "dim_x", "in0", "out0", "t1", "scratch", "lane", "kk",
       "panels", "once")  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_inputs_outputs_sizes_and_models_of_any_name(seed):
    """Names drawn from the languages' words, what headers define and what printers call their variables."""
    rng = random.Random(seed)
    headers = " ".join(f.read_text() for f in files("autocomp.targets").joinpath("cpu", "include").iterdir())
    words = sorted({*reserved._WORDS, *re.findall(r"[A-Za-z_]\w*", headers)})
    names = [*rng.sample(words, 8), *rng.sample(ODD, 3)]
    rng.shuffle(names)
    sizes = [n for n in (*names, "class") if re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", n)][:2]
    graph, x, w, y, total = [n for n in names if n not in sizes][:5]
    print(f"seed {seed}: sizes {sizes}, model {graph!r}, inputs {x!r} {w!r}, outputs {y!r} {total!r}")
    b = Builder(graph)
    rows, depth = (Sym(n, 1, 40) for n in sizes)
    xs, ws = b.input(x, TensorType(F32, (rows, depth))), b.input(w, TensorType(F32, (depth, 24)))
    b.output(y, b.op("softmax", b.op("floor", b.op("matmul", xs, ws)), axes=[1]))
    b.output(total, b.op("reduce_sum", xs, axes=[0]))
    data = np.random.default_rng(seed)
    feed = [data.standard_normal(s, np.float32) for s in ((7, 5), (5, 24))]
    got = autocomp.optimize(b.graph(), cache=False)(*feed)
    e = np.exp(np.floor(feed[0].astype(float) @ feed[1]))
    np.testing.assert_allclose(got[0], e / e.sum(1, keepdims=True), atol=1e-5)
    np.testing.assert_allclose(got[1], feed[0].sum(0), atol=1e-5)


def test_a_dimension_of_a_name_that_no_text_can_hold_is_refused():
    for name in ("a b", "1x", "", "é", "\n#error"):
        with pytest.raises(ModelError, match=r"a dimension may not be called (.|\n)*letters, digits and underscores"):
            Sym(name)


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("name", VARIABLES)
def test_a_dimension_may_be_called_as_a_variable_of_the_kernel(name):
    check(parse(TWO.format(name)), "cpu")


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("target", GPUS)
def test_a_loop_of_a_kernel_does_not_hide_a_dimension(target):
    """"q" counts pieces of a copy, whose guard compares with the dimension."""
    check(parse(TWO.format("q")), target)


def test_sources_have_the_models_names_again():
    program = autocomp.optimize(TWO.format("q"), target="cuda:h200")
    assert program.printed
    for s in program.printed.values():
        assert s.sizes == ("q",)
        assert "long long dim_q" in s.text
        assert s.launch.blocks({"q": 399})


def test_renaming_keeps_what_occurs_twice():
    shared = (Aff.of("q") + Aff.of("i0"), Sym("q"))
    a, b = renamed((shared, shared), {"q": "dim_q"})
    assert a is b
    assert a == (Aff.of("dim_q") + Aff.of("i0"), Sym("dim_q"))
    assert renamed(shared, {"other": "x"}) is shared


def test_an_axis_name_of_kernels_is_refused_for_a_dimension():
    with pytest.raises(ModelError, match="a dimension may not be called 'i0': kernels call their axes so"):
        parse(TWO.format("i0"))
