"""Every access of a kernel stays in its buffer: always checked, and a defect of the compiler where it does not hold."""

from __future__ import annotations

from collections.abc import Iterator

from autocomp.ir.affine import Aff
from autocomp.ir.body import Expr, Inside, Load, Map, Prev, Recurrence, bound_axes
from autocomp.ir.kernel import Kernel, KernelGraph
from autocomp.ir.types import Dim
from autocomp.loops.access import free_symbols, require_in_bounds
from autocomp.loops.nest import Access
from autocomp.loops.sets import Extents, symbols

Guard = tuple[Aff, ...]


def check_kernel_graph_accesses(graph: KernelGraph) -> None:
    """Check each distinct kernel. Raises `access.OutOfBounds` with the iteration."""
    for kernel in {c.kernel.signature: c.kernel for c in graph.calls}.values():
        if not kernel.opaque:
            check_accesses(kernel)


def check_accesses(kernel: Kernel) -> None:
    """Raise `access.OutOfBounds` where a load or store of the kernel leaves its tensor.

    An arm of `where(inside, a, b)` is reached only where `inside` holds (a) or fails (b).
    """
    shape = {a.name: a.type.shape for a in (*kernel.inputs, *kernel.outputs)}
    for store in kernel.stores:
        bound = {a.name: a.extent for a in (*kernel.axes, *bound_axes(store.value))}
        todo: list[tuple[str, Guard, Guard, tuple[Dim, ...]]] = [(store.tensor, store.index, store.guard, shape[store.tensor])]
        for e, guard in _guarded(store.value):
            if isinstance(e, Load):
                todo.append((e.tensor, e.index, (*guard, *e.guard), shape[e.tensor]))
            elif isinstance(e, Prev):
                todo.append(("state", e.index, (*guard, *e.guard), _space(store.value)))
        for tensor, index, guard, dims in todo:
            names = frozenset().union(*(x.names() for x in (*index, *guard)))
            axes: Extents = tuple((n, d) for n, d in bound.items() if n in names)
            known = {s.name for s in symbols((*dims, *(d for _, d in axes)))}
            # Sizes that neither the buffer nor an axis has are related in ways only the model knows.
            if {s.name for s in free_symbols((*index, *guard), axes)} <= known:
                require_in_bounds(index, guard, axes, dims, f"{kernel.name}: {Access(tensor, index, guard)}")


def _space(value: Expr) -> tuple[Dim, ...]:
    stack: list[Expr] = [value]
    while stack:
        e = stack.pop()
        if isinstance(e, Recurrence):
            return tuple(a.extent for a in e.axes)
        stack.extend(e.args)
    return ()


def _guarded(value: Expr) -> Iterator[tuple[Expr, Guard]]:
    """Nodes with the guards under which their value is used; a node used in several ways comes once a way."""
    seen: set[tuple[int, Guard]] = set()
    stack: list[tuple[Expr, Guard]] = [(value, ())]
    while stack:
        e, guard = stack.pop()
        if (id(e), guard) in seen:
            continue
        seen.add((id(e), guard))
        yield e, guard
        if isinstance(e, Map) and e.fn == "where" and isinstance(e.operands[0], Inside):
            test, a, b = e.operands
            assert isinstance(test, Inside)
            stack.append((a, (*guard, *test.guard)))
            stack.extend((b, (*guard, *test.guard[:k], -g - 1)) for k, g in enumerate(test.guard))
        else:
            stack.extend((x, guard) for x in e.args)
