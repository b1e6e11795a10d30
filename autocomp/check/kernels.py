"""Kernels that are drawn by seed, for checks of rules about kernels: families of graphs with shapes that have tails, as a target's cover
makes kernels of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from autocomp.cost.roles import roles_of
from autocomp.egraph.cover import cover
from autocomp.egraph.saturate import saturate
from autocomp.errors import ModelError, UnsupportedOp
from autocomp.frontends.text import parse
from autocomp.ir.decompose import decompose
from autocomp.ir.kernel import Kernel
from autocomp.ir.parts import pieces
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import dim_hint
from autocomp.options import Options
from autocomp.rewrite.instance import CONSTANT, type_of
from autocomp.rewrite.load import shipped_rules
from autocomp.rewrite.rule import RuleSet
from autocomp.trace import Trace

if TYPE_CHECKING:
    from autocomp.targets import Target

Inputs = dict[str, str]
Drawn = tuple[tuple[tuple[str, str], ...], str]  # a graph: its inputs with their types, its lines
Family = Callable[[Random], tuple[Inputs, str]]


def _product(r: Random) -> tuple[Inputs, str]:
    m, n, k = (r.choice((48, 96, 257, 1000, 1536, 4096, 8192)) for _ in range(3))
    dtype = r.choice(("f16", "bf16", "f32"))
    after = r.choice(("", "\n%1 = relu(%0)", "\n%1 = add(%0, c)", "\n%1 = add(%0, d)\n%2 = gelu(%1)"))
    more = {"c": f"{dtype}[{m}, {n}]"} if "c)" in after else {"d": f"{dtype}[{n}]"} if after.endswith("gelu(%1)") else {}
    return {"a": f"{dtype}[{m}, {k}]", "b": f"{dtype}[{k}, {n}]", **more}, "%0 = matmul(a, b)" + after


def _few_rows(r: Random) -> tuple[Inputs, str]:
    m, n, k = r.choice((1, 3, 8, 16, 40, 56)), r.choice((1000, 4096, 11008)), r.choice((2048, 4096, 8192))
    dtype, given = r.choice(("f16", "bf16")), r.choice((CONSTANT, ""))  # constants are laid as they are read, others lie along the depth
    return {"a": f"{dtype}[{m}, {k}]", "b": f"{dtype}[{n}, {k}]{given}"}, "%t = transpose(b, perm=[1, 0])\n%0 = matmul(a, %t)"


def _few_columns(r: Random) -> tuple[Inputs, str]:
    m, n, k = r.choice((512, 1000, 4096)), r.choice((1, 3, 10)), r.choice((320, 1024, 4099))
    dtype = r.choice(("f16", "f32"))
    return {"a": f"{dtype}[{m}, {k}]", "b": f"{dtype}[{k}, {n}]"}, "%0 = matmul(a, b)"


def _small_square(r: Random) -> tuple[Inputs, str]:
    m, n, k = r.choice((128, 256, 512)), r.choice((256, 512)), r.choice((1024, 4096, 16384))
    return {"a": f"f16[{m}, {k}]", "b": f"f16[{k}, {n}]"}, "%0 = matmul(a, b)"


def _batched(r: Random) -> tuple[Inputs, str]:
    b, m, n, k = r.choice((8, 48)), r.choice((128, 384, 1000)), r.choice((64, 77, 512)), r.choice((64, 96, 250))
    return {"a": f"f16[{b}, {m}, {k}]", "b": f"f16[{b}, {k}, {n}]"}, "%0 = matmul(a, b)"


def _bytes(r: Random) -> tuple[Inputs, str]:
    m, n, k = r.choice((64, 512, 1000)), r.choice((1024, 4096)), r.choice((1024, 4096))
    lines = '%0 = cast(a, to="i32")\n%1 = cast(b, to="i32")\n%t = transpose(%1, perm=[1, 0])\n%2 = matmul(%0, %t)'
    return {"a": f"i8[{m}, {k}]", "b": f"i8[{n}, {k}]"}, lines


def _normalised_product(r: Random) -> tuple[Inputs, str]:
    m, n, k = r.choice((96, 500, 2048)), r.choice((40, 128, 250)), r.choice((64, 96, 300))
    after = r.choice(("%1 = softmax(%0, axes=[1])", "%1 = reduce_max(%0, axes=[1], keepdims=True)\n%2 = sub(%0, %1)"))
    return {"a": f"f32[{m}, {k}]", "b": f"f32[{k}, {n}]"}, f"%0 = matmul(a, b)\n{after}"


def _low_rank(r: Random) -> tuple[Inputs, str]:
    m, k, w, n = r.choice((196, 784, 3136)), r.choice((64, 256, 4096)), r.choice((16, 32)), r.choice((64, 256, 4096))
    return {"a": f"f32[{m}, {k}]", "u": f"f32[{k}, {w}] constant", "v": f"f32[{w}, {n}] constant"}, "%0 = matmul(a, u)\n%1 = matmul(%0, v)"


def _attention(r: Random) -> tuple[Inputs, str]:
    b, s, d = r.choice((8, 24, 96)), r.choice((77, 384, 1000, 2048)), r.choice((40, 64, 128, 256))
    return _scores(b, s, s, d, r.choice(("f16", "f32")))


def _wide_attention(r: Random) -> tuple[Inputs, str]:
    return _scores(r.choice((2, 8)), r.choice((64, 512)), r.choice((512, 1024)), 512)


def _one_query(r: Random) -> tuple[Inputs, str]:
    return _scores(r.choice((4, 32)), r.choice((1, 8, 16)), r.choice((1000, 4096, 16384)), r.choice((64, 128)))


def _latent(r: Random) -> tuple[Inputs, str]:
    """Keys that are the values too."""
    b, q, s, d = r.choice((1, 8)), r.choice((16, 64, 128)), r.choice((512, 1000, 4096)), r.choice((320, 512))
    lines = ["%0 = transpose(k, perm=[0, 2, 1])", "%1 = matmul(q, %0)", "%2 = softmax(%1, axes=[2])", "%3 = matmul(%2, k)"]
    return {"q": f"f16[{b}, {q}, {d}]", "k": f"f16[{b}, {s}, {d}]"}, "\n".join(lines)


def _scores(b: int, q: int, s: int, d: int, dtype: str = "f16") -> tuple[Inputs, str]:
    lines = ["%0 = transpose(k, perm=[0, 2, 1])", "%1 = matmul(q, %0)", f"%2 = mul(%1, const(0.125, {dtype}))",
             "%3 = softmax(%2, axes=[2])", "%4 = matmul(%3, v)"]  # fmt: skip
    return {"q": f"{dtype}[{b}, {q}, {d}]", "k": f"{dtype}[{b}, {s}, {d}]", "v": f"{dtype}[{b}, {s}, {d}]"}, "\n".join(lines)


ROWS = (
    "%0 = softmax(a, axes=[1])", "%0 = reduce_sum(a, axes=[1], keepdims=False)", "%0 = reduce_argmax(a, axes=[1])",
    "%0 = reduce_mean(a, axes=[1], keepdims=True)\n%1 = sub(a, %0)\n%2 = mul(%1, %1)\n%3 = reduce_mean(%2, axes=[1], keepdims=True)\n"
    "%4 = add(%3, const(0.00001, f32))\n%5 = rsqrt(%4)\n%6 = mul(%1, %5)",
)  # fmt: skip


def _rows(r: Random) -> tuple[Inputs, str]:
    return {"a": f"f32[{r.choice((7, 100, 512, 4096, 16384))}, {r.choice((5, 24, 100, 768, 1000, 4096))}]"}, r.choice(ROWS)


def _normalised_rows(r: Random) -> tuple[Inputs, str]:
    """Rows as wide as a model's, of which each element is kept."""
    return {"a": f"f32[{r.choice((100, 512, 4096))}, {r.choice((320, 768, 1000, 2048))}]"}, r.choice((ROWS[0], ROWS[3]))


def _long_rows(r: Random) -> tuple[Inputs, str]:
    return {"a": f"f32[{r.choice((3, 64, 512))}, {r.choice((20000, 32768, 50257, 65536, 131072))}]"}, r.choice(ROWS)


def _whole(r: Random) -> tuple[Inputs, str]:
    return {"a": f"f32[{r.choice((100003, 1048576, 8388608))}]"}, "%0 = reduce_sum(a, axes=[0], keepdims=False)"


def _columns(r: Random) -> tuple[Inputs, str]:
    m, n = r.choice((48, 1000, 4096, 20000)), r.choice((30, 768, 1000, 8192))
    return {"a": f"f32[{m}, {n}]"}, f"%0 = {r.choice(('reduce_max', 'reduce_sum'))}(a, axes=[0], keepdims=False)"


def _middle(r: Random) -> tuple[Inputs, str]:
    return {"a": f"f16[{r.choice((5, 64))}, {r.choice((20, 130, 1000))}, {r.choice((70, 512))}]"}, "%0 = softmax(a, axes=[1])"


def _pointwise(r: Random) -> tuple[Inputs, str]:
    m, n = r.choice((9, 4096, 10000)), r.choice((5, 24, 1000, 4096))
    return {"a": f"f16[{m}, {n}]", "b": f"f16[{n}]"}, "%0 = add(a, b)\n%1 = exp(%0)\n%2 = mul(%1, a)"


def _short_rows(r: Random) -> tuple[Inputs, str]:
    m, n = r.choice((3000, 20000)), r.choice((3, 7, 20))
    return {"a": f"f16[{m}, {n}]", "b": f"f16[{n}, {m}]"}, "%0 = transpose(b, perm=[1, 0])\n%1 = mul(a, %0)"


def _same_rows(r: Random) -> tuple[Inputs, str]:
    """Results along a row that are made of one statistic."""
    m, n, c = r.choice((16, 200)), r.choice((9, 60)), r.choice((128, 1000))
    lines = "%0 = reduce_sum(a, axes=[1], keepdims=True)\n%1 = mul(%0, b)"
    return {"a": f"f32[{m}, {n}]", "b": f"f32[{m}, {c}]"}, lines


def _turned(r: Random) -> tuple[Inputs, str]:
    m, n = r.choice((1000, 4096)), r.choice((30, 768, 3000))
    return {"a": f"f16[{m}, {n}]", "b": f"f16[{n}, {m}]"}, "%0 = transpose(a, perm=[1, 0])\n%1 = add(%0, b)"


def _window(r: Random) -> tuple[Inputs, str]:
    n, c, side, w = r.choice((1, 16)), r.choice((3, 64, 192)), r.choice((14, 30, 57)), r.choice((2, 3))
    how = f"window=[{w}, {w}], strides=[2, 2], lo=[0, 0], hi=[0, 0], dilations=[1, 1]"
    return {"a": f"f16[{n}, {c}, {side}, {side}]"}, f"%0 = maxpool(a, {how})"


def _convolution(r: Random) -> tuple[Inputs, str]:
    n, c, k, side, w = r.choice((1, 16, 32)), r.choice((3, 32, 64, 128)), r.choice((32, 64, 192)), r.choice((14, 28, 56)), r.choice((1, 3))
    groups, s = r.choice(((1, 1), (1, 1), (1, 2), (c, 1)))
    k = c if groups == c else k
    how = f"lo=[{w // 2}, {w // 2}], hi=[{w // 2}, {w // 2}], strides=[{s}, {s}], dilations=[1, 1], groups={groups}"
    return {"x": f"f16[{n}, {c}, {side}, {side}]", "w": f"f16[{k}, {c // groups}, {w}, {w}] constant"}, f"%0 = conv(x, w, {how})"


def _winograd(r: Random) -> tuple[Inputs, str]:
    """A convolution that is done as products of transformed tiles where that pays: contractions behind each other."""
    c, k, side = r.choice((64, 128, 512)), r.choice((64, 256, 512)), r.choice((7, 14, 28))
    how = "lo=[1, 1], hi=[1, 1], strides=[1, 1], dilations=[1, 1], groups=1"
    return {"x": f"f32[1, {c}, {side}, {side}]", "w": f"f32[{k}, {c}, 3, 3] constant"}, f"%0 = conv(x, w, {how})"


def _tapped(r: Random) -> tuple[Inputs, str]:
    """A convolution whose channels lie innermost."""
    n, c, k, side, w = r.choice((1, 16, 32)), r.choice((64, 128)), r.choice((64, 192)), r.choice((14, 28, 56)), 3
    how = 'lo=[1, 1], hi=[1, 1], strides=[1, 1], dilations=[1, 1], groups=1, layout="nhwc_ohwi"'
    return {"x": f"f16[{n}, {side}, {side}, {c}]", "w": f"f16[{k}, {w}, {w}, {c}] constant"}, f"%0 = conv(x, w, {how})"


def _scan(r: Random) -> tuple[Inputs, str]:
    return {"a": f"f32[{r.choice((64, 1000))}, {r.choice((512, 1000, 4096))}]"}, "%0 = cumsum(a, axis=1, exclusive=False, reverse=False)"


def _lookup(r: Random) -> tuple[Inputs, str]:
    table = f"f16[{r.choice((1000, 50304))}, {r.choice((768, 1000))}]"
    return {"t": table, "i": f"i64[{r.choice((512, 10000))}]"}, "%0 = gather(t, i, axis=0)"


def _scattered(r: Random) -> tuple[Inputs, str]:
    """Updates that are added to rows of which a tensor says the numbers, where few of them change."""
    rows, n, columns = r.choice((300, 1000)), r.choice((500, 2176)), r.choice((64, 256, 1000))
    inputs = {"x": f"f32[{rows}, {columns}]", "i": f"i64[{n}, 1]", "u": f"f32[{n}, {columns}]"}
    return inputs, '%0 = scatter_nd(x, i, u, reduction="add")'


def _open_rows(r: Random) -> tuple[Inputs, str]:
    return {"a": f"f32[{r.choice((64, 1000))}, open]"}, r.choice(ROWS[:2])


def _stencil(r: Random) -> tuple[Inputs, str]:
    n, steps = r.choice((1000, 20000)), r.choice((9, 50))
    taps = r.choice((0, 1, 2))
    if taps == 0:
        return {"a": f"f32[{n}]"}, f"%0 = stencil(a, offsets=[[0], [1]], weights=[0.5, 0.5], steps={steps})"
    if taps == 1:
        return {"a": f"f32[{n}]"}, f"%0 = stencil(a, offsets=[[-1], [0], [1]], weights=[0.25, 0.5, 0.25], steps={steps})"
    offsets = "[[0, -1], [0, 1], [-1, 0], [1, 0]]"
    return {"a": f"f32[{n // 20}, 300]"}, f"%0 = stencil(a, offsets={offsets}, weights=[0.25, 0.25, 0.25, 0.25], steps={steps})"


FORMS: Mapping[Family, tuple[str, ...]] = {  # of the kernels that targets make of each family's graphs; "scan": a reduction beside others
    _product: ("contract", "map"), _few_rows: ("contract", "map"), _few_columns: ("contract", "map"), _small_square: ("contract", "map"),
    _batched: ("contract", "map"), _bytes: ("contract", "map"), _normalised_product: ("contract", "reduce", "map"),
    _low_rank: ("contract", "chain", "map"), _attention: ("online", "contract", "reduce", "map"),
    _wide_attention: ("online", "contract", "reduce", "map"), _latent: ("online", "contract", "reduce", "map"),
    _one_query: ("online", "contract", "reduce", "map"), _rows: ("reduce", "map"), _normalised_rows: ("reduce", "map"),
    _short_rows: ("map",), _same_rows: ("reduce", "map"),
    _long_rows: ("reduce", "map"), _whole: ("reduce", "map"), _columns: ("reduce", "map"), _middle: ("reduce", "map"),
    _pointwise: ("map",), _turned: ("map",), _window: ("reduce", "map"), _convolution: ("contract", "reduce", "map"),
    _winograd: ("contract", "chain", "map"), _tapped: ("contract", "map"), _scan: ("scan", "reduce", "map"), _lookup: ("map",),
    _scattered: ("reduce", "map"), _open_rows: ("reduce", "map"), _stencil: ("map",),
}  # fmt: skip
FAMILIES: tuple[Family, ...] = tuple(FORMS)
SPLIT: tuple[Family, ...] = (_rows, _long_rows)  # those whose reductions are also done in PARTS, which a kernel of its own combines
PARTS = 4
RECURRENCES: tuple[Family, ...] = (_stencil,)  # those with a kernel whose loop over time carries a dependence


def text(inputs: Inputs, body: str) -> str:
    """A graph's text; the last line of the body is its output."""
    lines = body.splitlines()
    leaves = [f"param {n}: {t.removesuffix(CONSTANT)} = extern" if t.endswith(CONSTANT) else f"input {n}: {t}" for n, t in inputs.items()]
    return "\n".join(["graph drawn", "dim open in 1..65536", *leaves, *lines, f"output y = {lines[-1].split()[0]}", ""])


_GRAPHS: dict[Kernel, Drawn] = {}


def graph_of(kernel: Kernel) -> Drawn | None:
    """The graph that a kernel was made of, where it was drawn or read here."""
    return _GRAPHS.get(kernel)


def one_line(graph: Drawn) -> str:
    """A graph as examples of rules write it."""
    lines = text(dict(graph[0]), graph[1]).splitlines()
    return "; ".join(line for line in lines if line and line.partition(" ")[0] not in ("graph", "dim"))


def read(line: str) -> Drawn:
    """What `one_line` wrote, or somebody; parameters have any numbers, `open` is a length that is known when it runs.

    Raises ModelError where it is no such graph.
    """
    inputs, body = [], []
    for part in filter(None, (p.strip() for p in line.split(";"))):
        if found := re.fullmatch(r"(input|param) (\w+): ([^=]+?)( = .*)?", part):
            inputs.append((found[2], found[3] + (CONSTANT if found[1] == "param" else "")))
        elif not part.startswith("output "):
            body.append(part)
    if not inputs or not body:
        hint = "such as 'input x: f32[8, 64]; %0 = exp(x); output y = %0'"
        raise ModelError("is no graph in one line", where=repr(line), hint=hint)
    return tuple(inputs), "\n".join(body)


def kernels_of(graph: Drawn, machine: Target, *others: Target) -> tuple[Kernel, ...]:
    """The kernels that a target's cover makes of a graph, those of other targets' covers too, and what combines the parts of a split.

    Raises AutocompError where the graph is wrong.
    """
    return tuple(dict.fromkeys(k for m in (machine, *others) for k in _made(*graph, True, m)))


@dataclass
class Pool:
    """Kernels that a target's cover makes of graphs of some families, in a fixed order, each once; drawn when they are asked for."""

    left: Iterator[Kernel]
    have: list[Kernel] = field(default_factory=list)
    known: set[Kernel] = field(default_factory=set)

    def __iter__(self) -> Iterator[Kernel]:
        at = 0
        while True:
            if at == len(self.have):
                new = next((k for k in self.left if k not in self.known), None)
                if new is None:
                    return
                self.have.append(new)
                self.known.add(new)
            yield self.have[at]
            at += 1


def with_form(form: str) -> tuple[Family, ...]:
    """The families whose kernels may have a form."""
    return tuple(f for f, forms in FORMS.items() if form in forms)


@lru_cache(maxsize=64)
def drawn(machine: Target, rounds: int, seed: int = 0, families: tuple[Family, ...] = FAMILIES) -> Pool:
    """The pool of a target: the same one for the same seed."""
    return Pool(k for r in range(rounds) for f in families for k in _kernels(f, f"{seed}/{r}", machine))


def _kernels(family: Family, seed: str, machine: Target) -> tuple[Kernel, ...]:
    inputs, body = family(Random(f"{seed}/{family.__name__}"))
    return _made(tuple(inputs.items()), body, family in SPLIT, machine)


@lru_cache(maxsize=4096)
def _made(inputs: tuple[tuple[str, str], ...], body: str, split: bool, machine: Target) -> tuple[Kernel, ...]:
    """The kernels of one graph: seeds draw some graphs more than once, and pools of several forms have them in common."""
    params = {n: _numbers(t) for n, t in inputs if t.endswith(CONSTANT)}
    graph = decompose(parse(text(dict(inputs), body), params=params))
    rules, options, chip = RuleSet(shipped_rules()), Options(cache=False), machine.chip
    calls = cover(saturate(graph, rules, options, Trace(), chip.features, chip.target), rules, chip, options, Trace()).calls
    made = dict.fromkeys(c.kernel for c in calls if not c.kernel.opaque)
    parts = []
    for k in made if split else ():
        if axis := roles_of(k).split:
            try:
                parts.append(pieces(k, Schedule(split=(axis, PARTS)))[1][0])
            except UnsupportedOp:  # its parts would have to be equal
                continue
    for k in (*made, *parts):
        _GRAPHS.setdefault(k, (inputs, body))
    return (*made, *parts)


def _numbers(type: str) -> np.ndarray:
    """An array of a type that takes no memory and is not of one number."""
    t = type_of(type)
    assert t is not None, type
    shape = tuple(map(dim_hint, t.shape))
    return np.broadcast_to(np.arange(shape[-1]).astype(t.dtype.numpy), shape)
