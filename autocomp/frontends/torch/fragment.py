"""Parts of an fx graph of ATen operators, as torch's ahead-of-time autograd makes them, -> Graph.

A part's inputs and outputs lie as torch has them: a tensor whose elements are dense in another order of its dimensions (channels last, a
transpose) or that repeats along some (expand) is read and written where it lies, and its transpose is part of the graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autocomp.errors import UnsupportedOp
from autocomp.frontends.torch import attention_gradients, dispatched  # noqa: F401  (their rows stand in TABLE)
from autocomp.frontends.torch.complex_numbers import Pair, apart, beside
from autocomp.frontends.torch.export import Reader, to_numpy
from autocomp.frontends.torch.guards import guarded
from autocomp.frontends.torch.sizes import Sizes, is_size
from autocomp.ir.node import Graph, Node
from autocomp.ir.types import BOOL, Dim, Sym, TensorType


@dataclass(frozen=True)
class Layout:
    """`order`: the dimensions from the one whose steps are largest in memory; `repeated`: those with a step of 0."""

    order: tuple[int, ...]
    repeated: tuple[int, ...] = ()

    @property
    def plain(self) -> bool:
        return self.order == tuple(range(len(self.order))) and not self.repeated


def layout_of(x: Any, sizes: Mapping[Any, int] | None = None) -> Layout | None:
    """Where the elements of a tensor lie, with `sizes` for torch's symbols; None where they are neither dense nor repeated, or where
    symbols leave it open."""
    shape, strides = [_known(n, sizes) for n in x.shape], [_without_least(_known(s, sizes)) for s in x.stride()]
    rank = len(shape)
    if 0 in shape:
        return Layout(tuple(range(rank)))
    counts = [k for k in range(rank) if shape[k] != 1]
    repeated = tuple(k for k in counts if strides[k] == 0)
    rough = [int(s) if isinstance(s, int) else int(s.xreplace(_hints(x))) for s in strides]
    natural = tuple(range(rank))
    by_step = tuple(sorted(natural, key=lambda k: (k in counts and k not in repeated, -rough[k] if k in counts else 0)))
    for order in (natural, by_step):
        step: Any = 1
        for k in reversed(order):
            if k in counts and k not in repeated:
                if strides[k] != step and not _is_zero(strides[k] - step):
                    break
                step = step * shape[k]
        else:
            return Layout(order, repeated)
    return None


def in_memory(node: Any, given: bool, sizes: Mapping[Any, int] | None = None) -> Layout | None:
    """Where the elements of a node's tensor lie, of complex numbers the parts, along one more dimension. None where a call makes it
    contiguous: an input (`given`) also where its memory has the conjugate or the negative of what is meant."""
    x = node.meta["val"]
    if given and (x.is_conj() or x.is_neg()):
        return None
    found = layout_of(x, sizes)
    return Layout((*found.order, len(found.order)), found.repeated) if found is not None and x.dtype.is_complex else found


def _known(n: Any, sizes: Mapping[Any, int] | None) -> Any:
    """A size or step: a number, or torch's expression."""
    if not is_size(n):
        return int(n)
    expr = n.node.expr.xreplace(sizes) if sizes else guarded(n, whole=False)
    return int(expr) if expr.is_number else expr


def _without_least(step: Any) -> Any:
    """torch's step with n in the place of Max(1, n), which differs for tensors without an element alone."""
    if isinstance(step, int) or step.is_symbol:
        return step
    least = lambda e: e.func.__name__ == "Max" and len(e.args) == 2 and 1 in e.args
    return step.replace(least, lambda e: next(a for a in e.args if a != 1))


def _is_zero(difference: Any) -> bool:
    return not isinstance(difference, int) and difference.expand() == 0


def _hints(x: Any) -> dict[Any, int]:
    """Numbers for the symbols of a tensor's shape and strides, as torch has seen them."""
    sized = [n for n in (*x.shape, *x.stride()) if is_size(n)]
    return {s: int(n.node.shape_env.backed_var_to_val.get(s, 8)) for n in sized for s in n.node.expr.free_symbols}


class Fragment(Reader):
    """Reads nodes one by one; what a node needs and was not read is an input. `sizes`: numbers for torch's symbols, None to keep them."""

    chooses = False

    def __init__(self, name: str, owner: Any, sizes: Mapping[Any, int] | None = None) -> None:
        super().__init__(None, name, formats=False)
        self.owner, self.fixed, self.name = owner, sizes, name
        self.given: list[Any] = []  # nodes of torch's, in the order of the graph's inputs
        self.sizes = Sizes(self.b, self.symbol, self.said) if sizes is None else _Fixed(self.b, sizes)

    def dim(self, d: Any, node: Any) -> Dim:
        if is_size(d) and self.fixed is not None:
            return self.sizes.dim(d, "")
        return super().dim(d, node)

    def give(self, node: Any, layout: Layout | None) -> None:
        """The value of a node of torch's is an input; of complex numbers, the parts along one more dimension (`in_memory`). None: it is
        made contiguous before the call."""
        self.given.append(node)
        t = self.type(node)
        paired = node.meta["val"].dtype.is_complex
        t = TensorType(t.dtype, (*t.shape, 2)) if paired else t
        name = self.b.fresh(node.name) if self.b.is_taken(node.name) else node.name  # a constant of a row read before may have it
        x = self._placed(name, t, layout)
        self.values[node] = apart(self.b, x) if paired else x

    def _placed(self, name: str, t: TensorType, layout: Layout | None) -> Node:
        if layout is None or layout.plain:
            return self.b.input(name, t)
        lies = tuple(1 if k in layout.repeated else t.shape[k] for k in layout.order)
        x = self.b.input(name, TensorType(t.dtype, lies))
        x = self.b.op("transpose", x, perm=tuple(layout.order.index(k) for k in range(t.rank)))
        return self.b.op("broadcast", x, shape=t.shape) if layout.repeated else x

    def said(self, sym: Sym) -> Node:
        """An input that is there for a symbol alone: it is an argument of the call."""
        return self.b.input(f"size_{sym.name}", TensorType(BOOL, (sym,)))

    def read(self, node: Any) -> None:
        """One node of torch's, whose operands have values. Raises UnsupportedOp, ModelError."""
        import torch

        if node.op == "get_attr":
            data = getattr(self.owner, node.target)
            if data.dtype.is_complex:
                self.values[node] = apart(self.b, self.b.param(node.name, to_numpy(torch.view_as_real(data.resolve_conj()))))
            else:
                self.values[node] = self.b.param(node.name, to_numpy(data))
        else:
            self.values[node] = self.call(node)

    def graph_of(self, outputs: Sequence[tuple[Any, Layout | None]]) -> Graph:
        """The graph with these nodes of torch's as outputs, each as its layout says."""
        for k, (node, layout) in enumerate(outputs):
            y = self.values[node]
            y = beside(self.b, y) if isinstance(y, Pair) else y
            if layout is not None and not layout.plain:
                for axis in layout.repeated:
                    y = _first(self.b, y, axis)
                y = self.b.op("transpose", y, perm=layout.order)
            self.output(f"output_{k}", y)
        for sym in self.symbols.values():
            if not any(sym in n.type.shape for n in self.b.inputs):
                self.said(sym)
        return self.b.graph()


class _Fixed(Sizes):
    """Sizes with a number for each symbol."""

    def __init__(self, b: Any, numbers: Mapping[Any, int]) -> None:
        super().__init__(b, lambda expr, size: int(numbers[expr]))
        self.numbers = numbers

    def dim(self, x: Any, where: str) -> Dim:
        value = x.node.expr.xreplace(self.numbers)
        if not value.is_number:
            raise UnsupportedOp(f"the size {value} is known when the program runs", where=where, hint="fix the dimension")
        return int(value)


def _first(b: Any, y: Node, axis: int) -> Node:
    """The first of the equal elements along an axis."""
    n = y.type.rank
    limits = tuple(1 if k == axis else d for k, d in enumerate(y.type.shape))
    return b.op("slice", y, starts=(0,) * n, limits=limits, steps=(1,) * n)  # type: ignore[no-any-return]
