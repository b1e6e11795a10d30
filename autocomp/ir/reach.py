"""How much of a tensor a body reads: a slice its part, a lookup the rows that it asks for, a window what it covers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from autocomp.ir.affine import Aff
from autocomp.ir.body import Expr, Gather, Index, Load, Read, postorder
from autocomp.ir.types import Dim, dim_hint


def share_read(nodes: Iterable[Expr], tensor: str | int, shape: Sequence[Dim], element: int, extents: Mapping[str, int],
               sector: int) -> float:  # fmt: skip
    """Share of a tensor's elements, at most 1, that the nodes of a body read: the sum over its different reads of the places that each
    can name. `element`: bytes of one; `sector`: bytes that a read of a place which a value decides brings at least. 1 where no node
    reads it by an index (its reference does).

        x[:, :64] of [n, 4096]: 1/64       table[tokens] of [words, width]: tokens/words       max pool 3 x 3 of stride 2: 1
    """
    sizes, places = [max(1, dim_hint(d)) for d in shape], dict[tuple[object, ...], float]()
    for e in nodes:
        if isinstance(e, (Load, Read)) and (e.tensor if isinstance(e, Load) else e.operand) == tensor:
            places[e.index] = _places([i.names() for i in e.index], sizes, extents)
        elif isinstance(e, Gather) and e.tensor == tensor:
            alone = 1.0 if _side_by_side(e.index[-1]) else max(1.0, sector / element)
            places[e.index] = alone * _places([_names(i) for i in e.index], sizes, extents)
    return min(1.0, sum(places.values()) / prod(sizes)) if places else 1.0


def _places(names: Sequence[frozenset[str]], sizes: Sequence[int], extents: Mapping[str, int]) -> float:
    """Places that an index names at most: of each dimension no more than it has, in all no more than there are points. A symbol is one."""
    points = lambda of: prod(extents.get(n, 1) for n in of)
    return float(min(prod(min(size, points(of)) for of, size in zip(names, sizes, strict=True)), points(frozenset().union(*names))))


def _names(e: Expr) -> frozenset[str]:
    """Axes and symbols that a value mentions."""
    affs: list[Aff] = []
    for x in postorder(e):
        affs += x.index if isinstance(x, (Load, Read)) else [x.index] if isinstance(x, Index) else []
    return frozenset().union(*(a.names() for a in affs))


def _side_by_side(last: Expr) -> bool:
    """Whether neighbours along an axis lie side by side: the last index is that axis, not a value that is looked up."""
    return isinstance(last, Index) and any(c == 1 for _, c in last.index.terms)
