"""Kernels of every instruction set, whatever this machine has: printed for SSE2, AVX2, AVX-512 and NEON, built, run (NEON by an emulator)
and compared with float64. What cannot run here is skipped with the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import isfinite

import pytest

from autocomp.ir.builder import Builder
from autocomp.ir.node import Graph, Node
from autocomp.ir.tolerance import deviation
from autocomp.ir.types import BF16, F16, F32, F64, I8, I16, I32, I64, SHORT_FLOATS, U8, DType, TensorType
from benchmarks.random_graphs import NOISE, NOTHING, Expected
from tests.helpers.c_driver import MACHINES, Driven, Machine, for_machine


class Spread:
    """Many small computations in one graph, so that a machine's kernels are built at once. Sizes end between vectors."""

    def __init__(self) -> None:
        self.b = Builder("spread")

    def given(self, *shape: int, dtype: DType = F32) -> Node:
        return self.b.input(f"x{len(self.b.inputs)}", TensorType(dtype, shape))

    def gives(self, *nodes: Node) -> None:
        for n in nodes:
            self.b.output(f"y{len(self.b.outputs)}", n)

    def op(self, op: str, *inputs: Node, **attrs: object) -> Node:
        return self.b.op(op, *inputs, **attrs)


def products(g: Spread) -> None:
    g.gives(g.op("gelu", g.op("matmul", g.given(19, 45), g.given(45, 35))))
    g.gives(g.op("matmul", g.given(3, 33), g.op("transpose", g.given(70, 33), perm=[1, 0])))
    g.gives(g.op("matmul", g.given(17, 40, dtype=F16), g.given(40, 18, dtype=F16)))
    a, b = (g.op("cast", g.given(*s, dtype=I8), to="i32") for s in ((9, 40), (40, 21)))
    g.gives(g.op("matmul", a, b))


def rows(g: Spread) -> None:
    g.gives(g.op("softmax", g.given(6, 131), axes=[1]), g.op("softmax", g.given(37, 19), axes=[0]))
    g.gives(g.op("layer_norm", g.given(4, 77), g.given(77), g.given(77), axes=[1], eps=0.1))
    x = g.given(45, 70)
    g.gives(g.op("reduce_max", x, axes=[0]), g.op("reduce_sum", x, axes=[1]), g.op("reduce_argmax", x, axes=[1]))
    y = g.given(20_000)
    g.gives(g.op("reduce_sum", g.op("mul", y, y), axes=[0]))


def attention(g: Spread) -> None:
    q, k, v = g.given(21, 16), g.given(35, 16), g.given(35, 24)
    g.gives(g.op("matmul", g.op("softmax", g.op("matmul", q, g.op("transpose", k, perm=[1, 0])), axes=[1]), v))


def windows(g: Spread) -> None:
    same = {"strides": [1, 1], "lo": [1, 1], "hi": [1, 1], "dilations": [1, 1]}
    g.gives(g.op("relu", g.op("conv", g.given(1, 5, 13, 17), g.given(9, 5, 3, 3), **same)))
    g.gives(g.op("conv", g.given(2, 4, 11, 10), g.given(8, 2, 3, 2), strides=[2, 2], lo=[1, 0], hi=[0, 1], dilations=[1, 2], groups=2))
    apart = {"strides": [2, 2], "lo": [1, 1], "hi": [0, 1], "dilations": [1, 1]}  # every other element, also in vectors that end early
    g.gives(g.op("relu", g.op("conv", g.given(1, 4, 9, 45), g.given(4, 1, 3, 5), groups=4, **apart)))
    for dtype in (F16, I8, U8, I16):
        g.gives(g.op("maxpool", g.given(1, 2, 9, 83, dtype=dtype), window=[3, 3], **apart))
    x, w = (g.op("cast", g.given(*s, dtype=d), to="i32") for s, d in (((1, 4, 9, 75), U8), ((5, 4, 3, 3), I8)))
    g.gives(g.op("conv", x, w, **apart))
    g.gives(g.op("maxpool", g.given(1, 3, 12, 19), window=[3, 3], **{**same, "strides": [2, 1]}))


def integers(g: Spread) -> None:
    x, z = g.given(3, 41, dtype=I32), g.given(3, 41, dtype=I32)
    big = g.op("mul", g.op("mul", x, z), g.b.const(715_827_883, I32))  # wraps
    g.gives(g.op("floordiv", big, z), g.op("mod", big, z), g.op("reduce_sum", big, axes=[1]))
    u, w = g.given(77, dtype=U8), g.given(77, dtype=U8)
    g.gives(g.op("sub", u, w), g.op("cast", g.op("lt", u, w), to="f32"))


def bytes_in_products(g: Spread) -> None:
    wide = lambda *shape, dtype: g.op("cast", g.given(*shape, dtype=dtype), to="i32")
    for left in (I8, U8):
        for right in (I8, U8):  # depths between groups of four, columns between vectors, factors that lie along the depth
            g.gives(g.op("matmul", wide(7, 41, dtype=left), wide(41, 37, dtype=right)))
            g.gives(g.op("matmul", wide(5, 12, dtype=left), g.op("transpose", wide(19, 12, dtype=right), perm=[1, 0])))
    g.gives(g.op("matmul", wide(3, 9, dtype=I16), wide(9, 40, dtype=U8)))
    same = {"strides": [1, 1], "lo": [1, 1], "hi": [1, 1], "dilations": [1, 1]}
    g.gives(g.op("conv", wide(1, 6, 9, 21, dtype=U8), wide(8, 6, 3, 3, dtype=I8), **same))
    for line in (3, 5, 7, 14):  # short lines: several to a panel
        g.gives(g.op("conv", wide(1, 6, line + 2, line, dtype=U8), wide(18, 6, 3, 3, dtype=I8), **same))


def conversions(g: Spread) -> None:
    for d in (F16, BF16, F64):
        x, z = g.given(5, 37, dtype=d), g.given(5, 37, dtype=d)
        m = g.op("tanh", g.op("mul", x, z))
        g.gives(g.op("add", x, g.op("reduce_sum", m, axes=[1], keepdims=True)))
    x = g.given(61)
    g.gives(*(g.op("cast", x, to=t) for t in ("f16", "bf16", "f64", "i32")), g.op("cast", g.given(61, dtype=F16), to="f32"))


def lookups(g: Spread) -> None:
    x, i = g.given(9, 23), g.given(4, dtype=I64)
    g.gives(g.op("gather", x, i, axis=0), g.op("gather", x, i, axis=1))
    g.gives(g.op("exp", g.op("slice", g.given(7, 67), starts=[0, 1], limits=[7, 66], steps=[1, 3])))


def functions(g: Spread) -> None:
    x = g.given(61)
    whole = [g.op(f, x) for f in ("tanh", "sigmoid", "softplus", "erf", "floor", "round", "gelu", "sign")]
    positive = g.op("exp", g.op("tanh", x))
    g.gives(*whole, positive, g.op("log", positive), g.op("sqrt", positive), g.op("rsqrt", positive))
    g.gives(*(g.op(f, g.given(61)) for f in ("gelu_tanh", "expm1", "sin", "cos", "atan", "sinh", "asinh")))
    g.gives(*(g.op("pow", positive, g.b.const(n, F32)) for n in (3.0, 2.5, -0.5)), g.op("log2", positive))


def narrow(g: Spread) -> None:
    """What memory holds in fewer bits than lanes have: masks, steps and ends of vectors of each."""
    for d in (*SHORT_FLOATS, I8, U8, I16, I32):
        x = g.given(5, 67, dtype=d)
        edge = g.op("pad", x, lo=[0, 1], hi=[0, 2], value=1)
        g.gives(g.op("mul", edge, edge), g.op("cast", g.op("slice", x, starts=[0, 1], limits=[5, 66], steps=[1, 3]), to="f32"))
        g.gives(g.op("where", g.op("gt", x, g.b.const(1, d)), x, g.b.const(2, d)))
    g.gives(g.op("reduce_max", g.op("cast", g.given(9, 83, dtype=I8), to="i32"), axes=[1]))


KINDS: tuple[Callable[[Spread], None], ...] = (
    products, rows, attention, windows, integers, bytes_in_products, conversions, lookups, functions, narrow)  # fmt: skip


@cache
def spread() -> tuple[Graph, Expected]:
    g = Spread()
    for kind in KINDS:
        kind(g)
    graph = g.b.graph()
    return graph, Expected.of(graph)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.name)
def test_a_spread_of_kernels(machine: Machine, tmp_path):
    if why := machine.missing():
        pytest.skip(why)
    graph, known = spread()
    program = for_machine(graph, machine)
    assert f"#define AC_LANES {machine.vector_bytes // 4}\n" in program.source()
    quick = replace(machine.toolchain, more=(*machine.toolchain.more, "-O0"))  # other tests build as programs are built
    got = Driven(program, tmp_path, quick, machine.runner).run(known.feed)
    for name, node in graph.outputs:
        alone = Graph(graph.name, graph.inputs, ((name, node),), graph.params)
        one = lambda x, name=name: {name: x[name]}
        want, own, near = one(known.want), one(known.own), [one(x) for x in known.near]
        ratios = (deviation(alone, want, x, own).ratio for x in (own, *near))  # of this output: an argmax may jump
        natural = max(filter(isfinite, ratios), default=1.0)
        d = deviation(alone, want, one(got), own, near=near)
        assert d.ratio <= max(1.0, NOISE * natural) or abs(d.got - d.want) <= NOTHING, (name, node.op, d)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.name)
def test_the_compiler_takes_the_machines_instructions(machine: Machine, tmp_path):
    """The header chooses its short forms by what the compiler says that the machine has."""
    if machine.toolchain.missing():
        pytest.skip(machine.missing())
    wanted = {"AVX2": "AC_AVX2", "AVX-512": "AC_AVX512", "NEON": "__ARM_NEON"}.get(machine.name, "__SSE2__")
    text = f'#define AC_LANES {machine.vector_bytes // 4}\n#include "autocomp_cpu.h"\n#if !{wanted}\n#error not the machine\n#endif\n'
    (tmp_path / "main.c").write_text(text + "int main(void) { return 0; }\n")
    machine.toolchain.compile(tmp_path, ["main.c"], tmp_path / "program", program=True)
