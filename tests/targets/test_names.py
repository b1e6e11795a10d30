"""Names of ops and of dimensions that would be words of a target's language or variables of a kernel's."""

from __future__ import annotations

import pytest
from autocomp.targets import load_target
from autocomp.targets.symbols import renamed

import autocomp
from autocomp.errors import AutocompError, ModelError
from autocomp.frontends.text import parse
from autocomp.ir.affine import Aff
from autocomp.ir.ops import OPS
from autocomp.ir.types import Sym
from benchmarks.random_graphs import check
from tests.helpers.simt_model import COMPILER

TWO = ("graph g\ndim {0} in 1..400\ninput x: f32[{0}, 40]\ninput w: f32[40, 24]\n"
       "%0 = matmul(x, w)\n%1 = softmax(%0, axes=[0])\noutput y = %1\n")  # fmt: skip
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
    assert {"n_and", "n_or", "n_not", "n_max", "n_min", "n_rsqrt", "relu"} <= set(texts)
    load_target("cuda:h200").toolchain.compile_object("all", '#include "autocomp_cuda.cuh"\n' + "\n".join(texts.values()))


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("name", VARIABLES)
def test_a_dimension_may_be_called_as_a_variable_of_the_kernel(name):
    check(parse(TWO.format(name)), "cpu")


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("target", ["cuda:h200", "maca:c500"])
def test_a_loop_of_a_kernel_does_not_hide_a_dimension(target):
    """"q" counts pieces of a copy, whose guard compares with the dimension."""
    check(parse(TWO.format("q")), target)


def test_sources_have_the_models_names_again():
    program = autocomp.optimize(TWO.format("q"), target="cuda:h200")
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
