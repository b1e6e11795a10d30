"""What must hold of the data that stages hand on. Each check raises ModelError naming the object."""

from __future__ import annotations

from autocomp.errors import ModelError, UnsupportedOp
from autocomp.ir.body import Load, bound_axes, indices, postorder
from autocomp.ir.kernel import Kernel, KernelGraph, dims_of
from autocomp.ir.node import Graph
from autocomp.ir.ops import OPS
from autocomp.ir.types import Sym

LEAVES = {"input", "param", "const"}


def check_graph(graph: Graph) -> None:
    """Every op is in the table and has the type that its rule gives; every parameter has data."""
    for n in graph.nodes():
        where = graph.locations.get(n, n.op)
        if n.op in LEAVES:
            if n.op == "param" and n.attrs["name"] not in graph.params:
                raise ModelError(f"parameter '{n.attrs['name']}' has no data", where=graph.name)
            continue
        if n.op not in OPS:
            raise ModelError(f"op '{n.op}' is not in the op table", where=where)
        want = OPS[n.op].infer(tuple(i.type for i in n.inputs), n.attrs)
        if want != n.type:
            raise ModelError(f"has type {n.type}, its rule gives {want}", where=where)


def check_kernel(k: Kernel) -> None:
    """Axes are distinct; every load names an input and has its rank; every output is stored once with its rank."""
    names = [a.name for a in k.axes] + [a.name for s in k.stores for a in bound_axes(s.value)]
    free = {a.name for a in k.axes}
    if len(free) != len(k.axes) or free & set(names[len(k.axes) :]):
        raise ModelError(f"axis names repeat: {', '.join(names)}", where=k.name)
    rank = {a.name: a.type.rank for a in (*k.inputs, *k.outputs)}
    if [s.tensor for s in k.stores] != [o.name for o in k.outputs] and not k.opaque:
        raise ModelError("outputs and stores differ", where=k.name)
    inputs = {a.name for a in k.inputs}
    for s in k.stores:
        if len(s.index) != rank[s.tensor]:
            raise ModelError(f"stores {s.tensor} with {len(s.index)} indices for rank {rank[s.tensor]}", where=k.name)
        for e in postorder(s.value):
            if isinstance(e, Load) and (e.tensor not in inputs or len(e.index) != rank[e.tensor]):
                raise ModelError(f"loads {e.tensor} with {len(e.index)} indices", where=k.name)


def check_kernel_graph(g: KernelGraph) -> None:
    """Kernels are well formed; every tensor is made before it is read; outputs exist."""
    for k in {id(c.kernel): c.kernel for c in g.calls}.values():
        check_kernel(k)
        if g.computed:
            _check_sizes(k)
    made = {*g.inputs, *g.params, *g.constants}
    ends = {last: g.loops[name] for name, (_, last) in g.spans.items()}
    for i, c in enumerate(g.calls):
        outs = {o.name for o in c.kernel.outputs}
        places = g.places(c)
        for formal, actual in c.args.items():
            here = places.get(actual)
            if here is not None and not here.before and formal in outs:
                made |= {actual, *here.memory}
            read = actual if here is None else here.before or here.memory[0]
            if formal not in outs and not {actual, read} & made:
                raise ModelError(f"reads '{actual}' before it is made", where=c.name or c.kernel.name)
            if actual not in g.tensors:
                raise ModelError(f"tensor '{actual}' has no type", where=c.name or c.kernel.name)
        made |= {c.args[o] for o in outs}
        made |= {e.to for e in ends[i + 1].ends} if i + 1 in ends else set()
    for name, tensor in g.outputs:
        if tensor not in made:
            raise ModelError(f"output '{name}' is never made", where=g.source.name)


def _check_sizes(k: Kernel) -> None:
    """Raises UnsupportedOp where an index names a size that no tensor and no axis of the kernel has: it would have no value there."""
    known = {d.name for d in dims_of(k) if isinstance(d, Sym)}
    for store in k.stores:
        axes = {a.name for a in (*k.axes, *bound_axes(store.value))}
        found = (*store.index, *indices(store.value))
        if missing := sorted(frozenset().union(*(i.names() for i in found)) - axes - known):
            raise UnsupportedOp(f"a kernel reads at places that depend on {', '.join(missing)}, the size of none of its tensors",
                                where=f"kernel {k.name}", hint="fix the dimension with dims={...}, or leave fusion rules out")  # fmt: skip
