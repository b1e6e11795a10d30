"""Casts that a program asks for: their values are rounded before anything else reads them.

A kernel computes an f16 graph in f32 and rounds what it stores, which is nearer to the exact value than rounding every step. A cast
to f16 in the program itself is another thing: who writes one may want the rounding (high and low parts of a number, quantisation).

    %h = cast(x, to=f16)          %h = cast(x, to=f16)
    %y = sub(%w, %h)        ->    %s = as_stored(%h)
    %z = matmul(%h, b)            %y = sub(%w, %s)
                                  %z = matmul(%h, b)

A product needs no `as_stored`, as its factors lie in the type's own bits where matrix units read them, nor does an output.

Where a last bit decides (`decided.STEPS`: floors, comparisons, casts to integers), what is computed in f16 is rounded first: the floor of
0.1 x is that of a number that the type has.
"""

from __future__ import annotations

from dataclasses import replace

from autocomp.ir.body import Const, Expr, Gather, Load, Map
from autocomp.ir.builder import make_op
from autocomp.ir.decided import is_step
from autocomp.ir.node import Graph, Node, make
from autocomp.ir.types import BF16, F16, contains

VIEWS = {"transpose", "reshape", "broadcast", "slice", "concat"}
PRODUCTS = {"matmul", "conv", "conv_direct", "conv_spread"}


def round_casts(graph: Graph) -> Graph:
    """The graph with `as_stored` between every cast that rounds to f16 or bf16 and those of its readers that need the rounded value.
    To be called before decompositions add casts of their own."""
    nodes = graph.nodes()
    rounding = {n for n in nodes if n.op == "cast" and n.type.dtype in (F16, BF16) and not contains(n.type.dtype, n.inputs[0].type.dtype)}
    stepping = {n for n in nodes if is_step(n)}
    if not rounding and not any(_computed(i) for n in stepping for i in n.inputs):
        return graph
    unread = _unread(nodes)
    needed = lambda i, n: (i in rounding and not _harmless(n, unread)) or (n in stepping and _computed(i))
    done: dict[Node, Node] = {}
    for n in nodes:
        inputs = tuple(make_op("as_stored", (done[i],), {}) if needed(i, n) else done[i] for i in n.inputs)
        same = all(a is b for a, b in zip(inputs, n.inputs))
        done[n] = n if same else make(n.op, inputs, n.type, n.attrs)
    outputs = tuple((name, done[n]) for name, n in graph.outputs)
    return replace(graph, outputs=outputs, locations={done[n]: text for n, text in graph.locations.items() if n in done})


def _computed(n: Node) -> bool:
    """Whether a short float may have more digits than its type: views are as what they view."""
    while n.op in VIEWS and n.op != "concat":
        n = n.inputs[0]
    return n.type.dtype in (F16, BF16) and n.op not in ("input", "param", "const", "cast", "as_stored")


def _unread(nodes: tuple[Node, ...]) -> set[Node]:
    """Views that nobody reads but products and other such views."""
    readers: dict[Node, list[Node]] = {}
    for n in nodes:
        for i in n.inputs:
            readers.setdefault(i, []).append(n)
    found: set[Node] = set()
    for n in reversed(nodes):
        if n.op in VIEWS and all(_harmless(r, found) for r in readers.get(n, ())):
            found.add(n)
    return found


def _harmless(reader: Node, views: set[Node]) -> bool:
    """Whether a reader rounds what it reads. A product of one row or column may become a sum of products, which does not."""
    if reader.op == "matmul":
        return all(d != 1 for d in reader.type.shape[-2:]) and all(i.type.rank >= 2 for i in reader.inputs)
    return reader.op in PRODUCTS or reader in views


# ---- bodies of kernels
def rounded_already(e: Expr) -> Expr:
    """A node without its rounding where its operand comes out of memory."""
    return e.args[0] if _rounds(e) and isinstance(e.args[0], (Load, Gather, Const)) else e


def unrounded(e: Expr) -> Expr:
    """A value without its own rounding, for those who round what they get: stores, and factors of products."""
    if _rounds(e):
        return unrounded(e.args[0])
    if isinstance(e, Map) and e.fn == "where":
        return e.with_args((e.args[0], *map(unrounded, e.args[1:])))
    return e


def _rounds(e: Expr) -> bool:
    return isinstance(e, Map) and e.fn == "as_stored"
