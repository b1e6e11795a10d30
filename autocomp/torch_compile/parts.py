"""One group of nodes as a program, called with torch's tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from autocomp.errors import UnsupportedOp
from autocomp.frontends.torch.fragment import Fragment, Layout, layout_of
from autocomp.frontends.torch.sizes import is_size
from autocomp.ir.node import Graph
from autocomp.ir.types import Sym
from autocomp.runtime.addressed import Addressed
from autocomp.runtime.host import HostExecutor
from autocomp.runtime.program import Program
from autocomp.torch_compile.capability import is_tensor

empty_strided = torch.empty_strided


@dataclass(frozen=True)
class Source:
    """A group as a graph. `inputs`: nodes of torch's that are passed, `copied` those that are made contiguous; `sizes`: for each symbol the
    input and the dimension that says it, or an input that is its number and -1; `outputs`: nodes of torch's with where they lie; `numbers`:
    of torch's symbols, where it is for these alone."""

    graph: Graph
    inputs: tuple[Any, ...]
    copied: frozenset[int]
    layouts: tuple[Layout | None, ...]
    sizes: Mapping[str, tuple[int, int]]
    outputs: tuple[tuple[Any, Layout | None], ...]
    numbers: Mapping[Any, int]

    def number(self, n: Any) -> Any:
        """A size or step, with its symbols' numbers where they are given."""
        return int(n.node.expr.xreplace(self.numbers)) if is_size(n) and (self.numbers or n.node.expr.is_number) else n


def ends_of(gm: Any, group: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """(symbols of torch's that sizes in the group have, inputs, outputs) of a group. Inputs are tensors, and behind them the graph's own
    inputs that are symbols which no tensor says."""
    members = set(group)
    operands = dict.fromkeys(i for n in group for i in n.all_input_nodes)
    inputs = [i for i in operands if i not in members and is_tensor(i) and i.op != "get_attr"]
    outputs = [n for n in group if is_tensor(n) and any(u not in members for u in n.users)]
    sized = [d for n in dict.fromkeys((*inputs, *group)) for v in tensors_of(n) for d in (*v.shape, *v.stride())]
    sized += [i.meta["val"] for n in group for i in n.all_input_nodes if is_size(i.meta.get("val"))]
    symbols = dict.fromkeys(s for d in sized if is_size(d) for s in sorted(d.node.expr.free_symbols, key=str))
    said = {str(d) for i in inputs for d in i.meta["val"].shape}
    inputs += [n for n in gm.graph.nodes if n.op == "placeholder" and is_size(v := n.meta.get("val")) and v.node.expr in symbols
               and str(v) not in said]  # fmt: skip
    return list(symbols), inputs, outputs


def where_of(expr: Any, inputs: Sequence[Any], name: str) -> tuple[int, int]:
    """(input, dimension) that says a symbol's value, (input, -1) for one that is it. Raises UnsupportedOp where none does."""
    for k, i in enumerate(inputs):
        v = i.meta["val"]
        for a, m in enumerate(v.shape if is_tensor(i) else (v,)):
            if str(m) == str(expr):
                return k, a if is_tensor(i) else -1
    raise UnsupportedOp(f"the size {expr} is that of no input", where=name, hint="fix the dimension")


def source_of(gm: Any, group: Sequence[Any], name: str, sizes: Mapping[Any, int] | None = None) -> Source:
    """The group read into a graph, with `sizes` for torch's symbols. Raises UnsupportedOp, ModelError."""
    _, inputs, outputs = ends_of(gm, group)
    tensors = [i for i in inputs if is_tensor(i)]
    reader = Fragment(name, gm, sizes)
    layouts = [layout_of(i.meta["val"], sizes) for i in tensors]
    for i, layout in zip(tensors, layouts):
        reader.give(i, layout)
    for i in dict.fromkeys(i for n in group for i in n.all_input_nodes):
        if i.op == "get_attr":
            reader.read(i)
        elif not is_tensor(i) and i not in group:
            reader.values[i] = i.meta.get("val")
    for n in group:
        reader.read(n)
    lies = [(n, layout_of(n.meta["val"], sizes)) for n in outputs]
    if sizes is None and any(layout is None and is_open(n) for n, layout in lies):
        raise UnsupportedOp("how a result lies in memory depends on its sizes", where=name, hint="fix the dimension")
    graph = reader.graph_of(lies)
    where: dict[str, tuple[int, int]] = {}
    for n in graph.inputs:
        for d in n.type.shape:
            if isinstance(d, Sym) and d.name not in where:
                where[d.name] = where_of(next(e for e, s in reader.symbols.items() if s == d), inputs, name)
    copied = frozenset(k for k, layout in enumerate(layouts) if layout is None)
    numbers = dict(sizes or {})
    return Source(graph, tuple(inputs), copied, tuple(layouts), where, tuple(lies), numbers)


def tensors_of(node: Any) -> list[Any]:
    """The tensors that a node gives."""
    v = node.meta.get("val")
    return [x for x in (v if isinstance(v, (list, tuple)) else (v,)) if hasattr(x, "dtype") and hasattr(x, "stride")]


def is_open(node: Any) -> bool:
    """Whether a tensor's sizes or steps are symbols."""
    v = node.meta["val"]
    return any(is_size(n) for n in (*v.shape, *v.stride()))


def callable_of(source: Source, program: Program) -> Callable[..., Any]:
    """A function over the values of `source.inputs` that gives the output, or a tuple of them.

    Raises UnsupportedOp where a kernel would run through its reference, which torch's own operator does not."""
    opaque = next((c.kernel.opaque for c in program.calls.calls if c.kernel.opaque), "")
    if opaque:
        raise UnsupportedOp(f"no code is generated for '{opaque}'", where=source.graph.name, hint="it stays with torch")
    executor = program.executor
    if isinstance(executor, HostExecutor):
        return _OnHost(source, program, executor)
    return _OnDevice(source, program)


class _Part:
    """What a call of a program makes of torch's tensors, and of its results."""

    __name__ = __qualname__ = "autocomp_program"

    def __init__(self, source: Source, program: Program) -> None:
        self.program, self.source = program, source
        self.tensors = sum(map(is_tensor, source.inputs))
        self.values = [(name, *at) for name, at in sorted(source.sizes.items())]
        self.one = len(source.outputs) == 1
        self.types = [program.calls.tensors[t] for _, t in program.calls.outputs]
        fakes = [n.meta["val"] for n, _ in source.outputs]
        self.dtypes, self.layouts = [x.dtype for x in fakes], [layout for _, layout in source.outputs]
        self.shapes = [tuple(map(source.number, x.shape)) for x in fakes]
        self.strides = [tuple(map(source.number, x.stride())) for x in fakes]
        self.sized = any(is_size(n) for shape in (*self.shapes, *self.strides) for n in shape)
        self.gaps = [k for k, layout in enumerate(self.layouts) if layout is None]
        self.odd = [k for k, layout in enumerate(self.layouts) if layout is not None and not layout.plain]

    def key(self, args: Sequence[Any]) -> tuple[int, ...]:
        """The values of the symbols, by name in order."""
        return tuple([args[k].shape[a] if a >= 0 else args[k] for _, k, a in self.values])

    def spread(self, outputs: list[torch.Tensor]) -> None:
        """Results with gaps between their elements, as torch expects them, in the place of dense ones."""
        for k in self.gaps:
            like = torch.empty_strided(self.shapes[k], self.strides[k], dtype=self.dtypes[k], device=outputs[k].device)
            outputs[k] = like.copy_(outputs[k])

    def seen(self, k: int, x: torch.Tensor) -> torch.Tensor:
        """Memory in the order of output k as torch sees it."""
        layout = self.layouts[k]
        if layout is None or layout.plain:
            return x
        if not self.sized:
            return x.as_strided(self.shapes[k], self.strides[k])
        x = x.permute([layout.order.index(a) for a in range(x.dim())])
        return x.expand([self.shapes[k][a] if a in layout.repeated else -1 for a in range(x.dim())]) if layout.repeated else x


class _OnHost(_Part):
    """Calls by addresses."""

    def __init__(self, source: Source, program: Program, executor: HostExecutor) -> None:
        super().__init__(source, program)
        self.run = Addressed(executor)
        self.none = [0] * (len(source.graph.inputs) - self.tensors)  # inputs that are there for a symbol only
        dense = [_contiguous(s) if layout is None else t for s, t, layout in zip(self.shapes, self.strides, self.layouts)]
        self.made = [] if self.sized else list(zip(self.shapes, dense, self.dtypes))
        self.copied = source.copied

    def __call__(self, *args: Any) -> Any:
        key: tuple[int, ...] = ()
        if self.values:
            key = self.key(args)
            args = args[: self.tensors]
        if self.copied:
            args = tuple([x.contiguous() if k in self.copied else x for k, x in enumerate(args)])
        given = [x.data_ptr() for x in args]
        if self.sized:
            outputs = self._new(key)
        else:
            outputs = [empty_strided(shape, strides, dtype=dtype) for shape, strides, dtype in self.made]
        self.run(key, given + self.none if self.none else given, [x.data_ptr() for x in outputs])
        if self.sized:
            for k in self.odd:
                outputs[k] = self.seen(k, outputs[k])
        if self.gaps:
            self.spread(outputs)
        return outputs[0] if self.one else outputs

    def _new(self, key: tuple[int, ...]) -> list[torch.Tensor]:
        values = dict(zip((name for name, _, _ in self.values), key))
        return [torch.empty([values[d.name] if isinstance(d, Sym) else d for d in t.shape], dtype=dtype)
                for t, dtype in zip(self.types, self.dtypes)]  # fmt: skip


class _OnDevice(_Part):
    """Calls through the program itself, which takes torch's tensors where they lie and gives such."""

    def __init__(self, source: Source, program: Program) -> None:
        super().__init__(source, program)
        if not self.tensors:
            raise UnsupportedOp("it reads no tensor", where=source.graph.name, hint="it stays with torch")
        self.device = next(n for n in source.inputs if is_tensor(n)).meta["val"].device
        self.names = [n.attrs["name"] for n in source.graph.inputs]
        self.opened = [(n.attrs["name"], str(n.type.shape[0])) for n in source.graph.inputs[self.tensors :]]

    def __call__(self, *args: Any) -> Any:
        feed: dict[str, Any] = {}
        for k, (name, x) in enumerate(zip(self.names, args[: self.tensors])):
            layout = self.source.layouts[k]
            x = x.detach()
            if layout is None:
                x = x.contiguous()
            elif not layout.plain:
                for a in layout.repeated:
                    x = x.narrow(a, 0, 1)
                x = x.permute(layout.order)
            feed[name] = x
        values = dict(zip((name for name, _, _ in self.values), self.key(args))) if self.opened else {}
        for name, symbol in self.opened:
            feed[name] = torch.empty(values[symbol], dtype=torch.bool, device=self.device)
        outputs = list(self.program.run(feed).values())
        for k in self.odd:
            outputs[k] = self.seen(k, outputs[k])
        self.spread(outputs)
        return outputs[0] if self.one else outputs


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(prod(max(1, n) for n in shape[k + 1 :]) for k in range(len(shape)))
