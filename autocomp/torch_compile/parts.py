"""One group of nodes as a program, called with torch's tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import torch
from sympy import Integer

from autocomp.errors import UnsupportedOp
from autocomp.frontends.torch.fragment import Fragment, Layout, in_memory
from autocomp.frontends.torch.guards import guarded
from autocomp.frontends.torch.sizes import is_size
from autocomp.ir.node import Graph
from autocomp.ir.sizes import with_computed
from autocomp.ir.types import Sym
from autocomp.runtime.addressed import Addressed
from autocomp.runtime.cuda import ALIGNED, CudaExecutor
from autocomp.runtime.host import HostExecutor
from autocomp.runtime.on_stream import OnStream
from autocomp.runtime.plan import on_host
from autocomp.runtime.program import Program
from autocomp.torch_compile.capability import is_tensor

empty, empty_strided = torch.empty, torch.empty_strided


@dataclass(frozen=True)
class Source:
    """A group as a graph. `inputs`: nodes of torch's that are passed, `copied` those that are made contiguous; `sizes`: for each symbol the
    input and the dimension that says it, or an input that is its number and -1, and how many times the symbol is said; `outputs`: nodes
    of torch's with where they lie; `numbers`: of torch's symbols, where it is for these alone; `called`: of a symbol of torch's, what the
    graph has for it and how many times that it is."""

    graph: Graph
    inputs: tuple[Any, ...]
    copied: frozenset[int]
    layouts: tuple[Layout | None, ...]
    sizes: Mapping[str, tuple[int, int, int]]
    outputs: tuple[tuple[Any, Layout | None], ...]
    numbers: Mapping[Any, int]
    called: Mapping[str, tuple[str, int]]

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
    layouts = [in_memory(i, True, sizes) for i in tensors]
    for i, layout in zip(tensors, layouts):
        reader.give(i, layout)
    for i in dict.fromkeys(i for n in group for i in n.all_input_nodes):
        if i.op == "get_attr":
            if is_tensor(i):  # else a graph, which its operator reads
                reader.read(i)
        elif not is_tensor(i) and i not in group:
            reader.values[i] = i.meta.get("val")
    for n in group:
        reader.read(n)
    lies = [(n, in_memory(n, False, sizes)) for n in outputs]
    graph = reader.graph_of(lies)
    where: dict[str, tuple[int, int, int]] = {}
    said = {str(m) for i in inputs for m in (i.meta["val"].shape if is_tensor(i) else (i.meta["val"],))}
    for n in graph.inputs:
        for d in n.type.shape:
            if isinstance(d, Sym) and not d.is_computed and d.name not in where:
                same = [e for e, s in reader.symbols.items() if s == d]  # several where torch's guards make them one
                expr = next((e for e in same if e in said), same[0])
                where[d.name] = *where_of(expr, inputs, name), reader.times[expr]
    if sizes is None and any(layout is None and not _said(n, reader.symbols, where) for n, layout in lies):
        raise UnsupportedOp("how a result lies in memory depends on its sizes", where=name, hint="fix the dimension")
    copied = frozenset(k for k, layout in enumerate(layouts) if layout is None)
    numbers = dict(sizes or {})
    return Source(graph, tuple(inputs), copied, tuple(layouts), where, tuple(lies), numbers,
                  {e: (sym.name, reader.times[e]) for e, sym in reader.symbols.items()})  # fmt: skip


def tensors_of(node: Any) -> list[Any]:
    """The tensors that a node gives."""
    v = node.meta.get("val")
    return [x for x in (v if isinstance(v, (list, tuple)) else (v,)) if hasattr(x, "dtype") and hasattr(x, "stride")]


def _said(node: Any, symbols: Mapping[str, Sym], where: Mapping[str, Any]) -> bool:
    """Whether the inputs of a graph say all symbols of a tensor's sizes and steps."""
    v = node.meta["val"]
    read = {str(s) for n in (*v.shape, *v.stride()) if is_size(n) for s in guarded(n).free_symbols}
    return all(e in symbols and symbols[e].name in where for e in read)


def callable_of(source: Source, program: Program) -> Callable[..., Any]:
    """A function over the values of `source.inputs` that gives the output, or a tuple of them.

    Raises UnsupportedOp where a kernel would run through its reference, which torch's own operator does not."""
    if opaque := on_host(program.calls, program.slots.views):
        raise UnsupportedOp(f"no code is generated for '{opaque}'", where=source.graph.name, hint="it stays with torch")
    executor = program.executor
    if isinstance(executor, HostExecutor):
        return _OnHost(source, program, executor)
    if isinstance(executor, CudaExecutor):
        return _OnDevice(source, program, executor)
    raise UnsupportedOp("its target's programs are not called by addresses", where=source.graph.name, hint="it stays with torch")


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
        dense = lambda: [_contiguous(s) if layout is None else t for s, t, layout in zip(self.shapes, self.strides, self.layouts)]
        self.made = [] if self.sized else list(zip(self.shapes, dense(), self.dtypes))
        self.device = fakes[0].device
        self.copied = source.copied
        self.none = [0] * (len(source.graph.inputs) - self.tensors)  # inputs that are there for a symbol only
        self.odd = [k for k, layout in enumerate(self.layouts) if layout is not None and not layout.plain]
        self.dense = lru_cache(64)(self._dense)
        self.repeated = lru_cache(64)(self._repeated)
        self.spread = lru_cache(64)(self._spread)

    def key(self, args: Sequence[Any]) -> tuple[int, ...]:
        """The values of the symbols, by name in order."""
        return tuple([(args[k].shape[a] if a >= 0 else args[k]) // times for _, k, a, times in self.values])

    def given(self, args: tuple[Any, ...]) -> tuple[tuple[int, ...], tuple[Any, ...]]:
        """(the values of the symbols, the tensors as the program reads them)."""
        key: tuple[int, ...] = ()
        if self.values:
            key = self.key(args)
        if len(args) > self.tensors:  # also symbols that only steps have, which a copy does not
            args = args[: self.tensors]
        if self.copied:
            args = tuple([x.resolve_conj().resolve_neg().contiguous() if k in self.copied else x for k, x in enumerate(args)])
        return key, args

    def new(self, key: tuple[int, ...]) -> list[torch.Tensor]:
        """Memory for the outputs: with torch's strides, or dense in memory's order where sizes are symbols."""
        if not self.sized:
            return [empty_strided(shape, strides, dtype=dtype, device=self.device) for shape, strides, dtype in self.made]
        return [empty(shape, dtype=dtype, device=self.device) for shape, dtype in self.dense(key)]

    def _dense(self, key: tuple[int, ...]) -> list[tuple[tuple[int, ...], torch.dtype]]:
        """Shapes and types of the outputs as the program writes them, for these values of the symbols."""
        values = with_computed(dict(zip((name for name, *_ in self.values), key)), self.program.calls.computed)
        sized = lambda t, dtype: t.shape[:-1] if dtype.is_complex else t.shape  # the parts of a complex number lie side by side
        return [(tuple(values[d.name] if isinstance(d, Sym) else d for d in sized(t, dtype)), dtype)
                for t, dtype in zip(self.types, self.dtypes)]  # fmt: skip

    def finished(self, outputs: list[torch.Tensor], key: tuple[int, ...]) -> Any:
        """Written outputs as torch expects them: alone where it is one."""
        if self.sized and self.odd:
            spread = self.repeated(key)
            for k in self.odd:
                layout = self.layouts[k]
                assert layout is not None
                x = outputs[k].permute([layout.order.index(a) for a in range(outputs[k].dim())])
                outputs[k] = x.expand(spread[k]) if k in spread else x
        for k in self.gaps:
            shape, strides = self.spread(key)[k] if self.sized else (self.shapes[k], self.strides[k])
            like = torch.empty_strided(shape, strides, dtype=self.dtypes[k], device=self.device)
            once = tuple([slice(0, 1) if step == 0 else slice(None) for step in strides])  # torch writes no element twice
            like[once] = outputs[k][once]
            outputs[k] = like
        return outputs[0] if self.one else outputs

    def _size(self, key: tuple[int, ...]) -> Callable[[Any], int]:
        """Sizes and steps of torch's -> their numbers, for these values of the symbols."""
        values = dict(zip((name for name, *_ in self.values), key))
        numbers = {e: values[name] * times for e, (name, times) in self.source.called.items() if name in values}
        valued = lambda expr: int(expr.xreplace({s: Integer(numbers[str(s)]) for s in expr.free_symbols}))
        return lambda n: valued(guarded(n)) if is_size(n) else n

    def _spread(self, key: tuple[int, ...]) -> dict[int, tuple[list[int], list[int]]]:
        """The shapes and steps of outputs that are copied to where torch has them."""
        size = self._size(key)
        return {k: ([*map(size, self.shapes[k])], [*map(size, self.strides[k])]) for k in self.gaps}

    def _repeated(self, key: tuple[int, ...]) -> dict[int, list[int]]:
        """To what outputs that lie repeated in memory are expanded, -1 along the others of their dimensions."""
        size = self._size(key)
        found = ((k, self.layouts[k]) for k in self.odd)
        return {k: [size(n) if a in layout.repeated else -1 for a, n in enumerate(self.shapes[k])]
                for k, layout in found if layout is not None and layout.repeated}  # fmt: skip


class _OnHost(_Part):
    """Calls by addresses."""

    def __init__(self, source: Source, program: Program, executor: HostExecutor) -> None:
        super().__init__(source, program)
        self.run = Addressed(executor)

    def __call__(self, *args: Any) -> Any:
        key, args = self.given(args)
        given = [x.data_ptr() for x in args]
        if 0 in given:
            args = with_memory(args)
            given = [x.data_ptr() for x in args]
        outputs = self.new(key)
        self.run(key, given + self.none, [x.data_ptr() for x in outputs])
        return self.finished(outputs, key)


class _OnDevice(_Part):
    """Calls by addresses on torch's current stream, in memory of torch's."""

    def __init__(self, source: Source, program: Program, executor: CudaExecutor) -> None:
        super().__init__(source, program)
        self.run = OnStream(executor)

    def __call__(self, *args: Any) -> Any:
        key, args = self.given(args)
        given = [x.data_ptr() for x in args]
        if 0 in given:
            args = with_memory(args)
            given = [x.data_ptr() for x in args]
        if any([p % ALIGNED for p in given]):
            args = tuple([x.clone() if p % ALIGNED else x for x, p in zip(args, given)])
            given = [x.data_ptr() for x in args]
        outputs = self.new(key)
        size = self.run.room(key)
        room = torch.empty(size, dtype=torch.uint8, device=self.device) if size else None
        handle = torch._C._cuda_getCurrentRawStream(self.device.index)
        self.run(key, given + self.none, [x.data_ptr() for x in outputs], room.data_ptr() if room is not None else 0, handle)
        return self.finished(outputs, key)


def with_memory(args: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """The tensors, those of torch's that are zero and have no memory (tangents of forward differentiation) as zeros in memory."""
    zeros = lambda x: torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device).zero_()
    return tuple([zeros(x) if x._is_zerotensor() else x for x in args])


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(prod(max(1, n) for n in shape[k + 1 :]) for k in range(len(shape)))
