"""Products where a core has both a cube and a vector unit (feature `one_core_kind`, 310P): both units' works stand in one loop, factors go
to L1 by copies of whole blocks, and sums from L0C straight to unified buffer, where vector instructions take them up.

Published for architecture 2002: the page on coupled cores of the guide (fractals of L0A by rows, of L0B by columns, of L0C by columns), the
page of DataCopy from L0C, and the types of Mmad.
"""

from __future__ import annotations

from dataclasses import replace

from autocomp.targets.ascend.cube import Factor
from autocomp.targets.ascend.geometry import extent
from autocomp.targets.ascend.operand import Operand
from autocomp.targets.ascend.tables import table
from autocomp.targets.ascend.vector import VectorPart

from autocomp.cost.chip import Chip
from autocomp.errors import UnsupportedOp
from autocomp.tile.agents import Again, Body, Once, Skewed, Work
from autocomp.tile.program import Tensor, TileProgram

CORE, COLUMNS = "core", 4  # columns of fractals that leave L0C at once: ac_from_l0c


def coupled(chip: Chip) -> bool:
    return "one_core_kind" in chip.features


def check_factor(p: TileProgram, f: Factor, t: Tensor, read: bool) -> None:
    """Raises UnsupportedOp for a factor that copies of whole blocks do not bring. What lies behind a row's end comes with it and may be
    anything, so no part of the depth may lie there."""
    depth, fractal = f.rows if f.summed else f.cols, int(table()["fractal"])
    if f.dtype.name != "f16":
        raise UnsupportedOp(f"factor {f.name} is of type {f.dtype}", where=p.name, hint="cores with both units take f16 here")
    if not depth or extent(p, depth) % fractal:
        raise UnsupportedOp(f"factor {f.name} has a depth of {extent(p, depth) if depth else 1}", where=p.name,
                            hint=f"copies of whole blocks bring multiples of {fractal}")  # fmt: skip
    if t.guard or read:
        raise UnsupportedOp(f"factor {f.name} {'has a border' if t.guard else 'is read by the vector unit too'}", where=p.name,
                            hint="copies of whole blocks bring a factor as it lies in memory, for the cube unit alone")  # fmt: skip


def arrives(v: VectorPart, acc: str, m: str, n: str, rows: int) -> None:
    """A sum of axes m and n from L0C, where it has `rows` rows, as the vector value of its name. Raises UnsupportedOp."""
    b = v.p.buf(acc)
    assert b is not None
    kind, lane = v.g.kind(b.axes, v.p.name)
    if kind != "full" or lane != n:
        raise UnsupportedOp(f"a sum with lanes along {n or 'no axis'} is a {kind} with lanes along {lane or 'none'}", where=v.p.name,
                            hint="lanes run along the columns of a sum")  # fmt: skip
    d = v.temporary(kind, lane, acc)
    bytes_ = rows * 64 * COLUMNS
    t = Operand(f"{acc}_columns", kind, lane, v.ub.take(bytes_))
    v.frame.declarations.append(f"const ac_f32 {t.name} = ac_at<float>(ub, {bytes_}, {t.offset});")
    size = f"{v.true[m] if m else 1}, {v.true[n]}, {v.g.pitch(lane)}"
    v.v([f"ac_from_l0c({d.name}, {acc}, {t.name}, {size});"], (Operand(acc, kind, lane),), d, t)
    v.ub.give(t.offset, bytes_)
    v.values[acc] = d


def one_core(body: Body) -> Body:
    """Works of both units as those of one core's pipes."""
    return tuple(replace(n, body=one_core(n.body)) if isinstance(n, (Again, Skewed, Once)) else
                 replace(n, agent=f"{CORE}.{n.agent.split('.')[1]}") if isinstance(n, Work) else n for n in body)  # fmt: skip
