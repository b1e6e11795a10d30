"""Kernels that differ in where a tensor's rows begin alone: one schedule is chosen for all of them.

    out[i] = in0[5, i] * 2    and    out[i] = in0[9, i] * 2    ->    in0[0, i] for both, where a row of in0 has whole lines of memory

Loops that a module writes out (over steps, rows, chunks) make one such kernel a turn.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from autocomp.egraph.bodies import signature
from autocomp.ir.affine import Aff
from autocomp.ir.body import Expr, Load, postorder, rewrite
from autocomp.ir.kernel import Kernel

LINE = 128  # bytes, of which caches' lines, sectors and vectors of any chip are parts


def form_of(kernel: Kernel) -> str:
    """The kernel's signature with each tensor that is read at one constant place of a dimension read at its first place, if steps along
    that dimension are whole lines: what is loaded lies in its lines as before."""
    if kernel.opaque or kernel.program:
        return kernel.signature
    moved = {a.name: found for a in kernel.inputs if (found := _constant(kernel, a.name))}
    if not moved:
        return kernel.signature

    def first(e: Expr) -> Expr:
        if not isinstance(e, Load) or e.tensor not in moved:
            return e
        return replace(e, index=tuple(Aff() if k in moved[e.tensor] else i for k, i in enumerate(e.index)))

    return signature(replace(kernel, stores=tuple(replace(s, value=rewrite(s.value, first)) for s in kernel.stores)))


def _constant(kernel: Kernel, tensor: str) -> frozenset[int]:
    """Dimensions of a tensor along which all that reads it reads one constant place, whole lines from the first one."""
    of = [e for e in postorder(*(s.value for s in kernel.stores)) if getattr(e, "tensor", "") == tensor]
    if not of or not all(isinstance(e, Load) for e in of):
        return frozenset()
    type = next(a.type for a in kernel.inputs if a.name == tensor)
    found = []
    for k in range(type.rank):
        behind = type.shape[k + 1 :]
        places = {e.index[k] for e in of if isinstance(e, Load)}
        place = next(iter(places))
        if len(places) == 1 and not place.names() and all(isinstance(n, int) for n in behind):
            if prod(n for n in behind if isinstance(n, int)) * type.dtype.bytes % LINE == 0:
                found.append(k)
    return frozenset(found)
