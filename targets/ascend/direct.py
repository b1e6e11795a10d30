"""Which values of a kernel a vector instruction takes and gives as memory has them, without single precision between."""

from __future__ import annotations

from collections import Counter

from autocomp.targets.ascend.geometry import Geometry, strides, values
from autocomp.targets.ascend.tables import table

from autocomp.ir.body import Map
from autocomp.tile.program import Tensor, TileProgram, Value, walk


def _as_it_lies(t: Tensor | None, g: Geometry, where: str) -> bool:
    """Whether rows of a tile are rows in memory, all of them inside of the tensor: what is turned or has borders is single precision."""
    if t is None or t.guard:
        return False
    step, _ = strides(t, where)
    return all(step.get(a, 0) == 1 for a in t.axes if a in g.lanes)


def direct(p: TileProgram, g: Geometry) -> frozenset[str]:
    """Results of one exact or rightly rounded instruction on whole tiles, stored as they are, and their operands: nothing is gained by
    single precision between, and copies can be twice as long in the room that it would take."""
    statements = [s for s, _ in walk(p.body)]
    if any(s.op not in ("copy", "map", "store") for s in statements):
        return frozenset()
    of = {b.name: b for b in p.bufs}
    uses = Counter(v for s in statements for v in {*s.srcs, *values(s.expr)})
    loaded = {s.dst for s in statements if s.op == "copy" and _as_it_lies(p.tensor(s.srcs[0]), g, p.name)}
    found: set[str] = set()
    for s in statements:
        if s.op != "map" or not isinstance(s.expr, Map) or s.expr.fn not in table()["direct"]:
            continue
        names = [a.name for a in s.expr.operands if isinstance(a, Value)]
        stores = [x for x in statements if s.dst in x.srcs]
        if len(names) != len(s.expr.operands) or uses[s.dst] != 1 or len(stores) != 1 or stores[0].op != "store":
            continue
        types = {of[v].dtype.name for v in (s.dst, *names)} | {t.dtype.name for t in p.outputs if t.name == stores[0].dst}
        whole = {g.kind(of[v].axes, p.name) for v in (s.dst, *names)}
        alone = set(names) <= loaded and all(uses[v] == 1 for v in names)
        if alone and len(types) == len(whole) == 1 and types <= {"f16", "f32"} and next(iter(whole))[0] == "full":
            found |= {s.dst, *names}
    return frozenset(found)
