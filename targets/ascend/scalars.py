"""Indices that are data: integers that the scalar unit computes row by row, and the copies of the rows that they name."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from autocomp.targets.ascend.copies import base_text
from autocomp.targets.ascend.geometry import Geometry, extent, strides
from autocomp.targets.ascend.tables import table

from autocomp.errors import UnsupportedOp
from autocomp.ir.body import Const, Expr, Gather, Index, Map
from autocomp.ir.types import DType
from autocomp.tile.program import Tensor, TileProgram, Value


def is_scalar(d: DType) -> bool:
    """Whether values of this type are the scalar unit's: integers and truth values."""
    return not d.is_float


class Scalars:
    """Integer values by name: a tensor's element or an expression. `start`: text of the first index of a tile along an axis."""

    def __init__(self, p: TileProgram, start: Mapping[str, str]) -> None:
        self.p, self.start = p, start
        self.known: dict[str, Tensor | Expr] = {}

    def text(self, e: Expr, rows: Mapping[str, str]) -> str:
        """C++ of an integer at one row; `rows`: text of the row's place in the tile along each axis. Raises UnsupportedOp."""
        if isinstance(e, Value):
            source = self.known.get(e.name)
            if source is None:
                raise UnsupportedOp(f"index {e.name} is computed by vector cores", where=self.p.name, hint="make it an integer tensor")
            return self.element(source, rows) if isinstance(source, Tensor) else self.text(source, rows)
        if isinstance(e, Const):
            return f"int64_t({int(e.value)})"
        if isinstance(e, Index) and e.index.is_affine:
            terms = [f"{e.index.coef(a)} * int64_t({self.start[a]} + {rows.get(a, '0')})" for a in sorted(e.index.names())]
            return f"({' + '.join([*terms, str(e.index.const)])})"
        form = table()["scalar"].get(e.fn) if isinstance(e, Map) else None
        if form is None or not isinstance(e, Map):
            what = e.fn if isinstance(e, Map) else type(e).__name__
            raise UnsupportedOp(f"no integer function '{what}' of the scalar unit", where=self.p.name,
                                hint="see scalar in targets/ascend/instructions.yaml")  # fmt: skip
        return str(form).format(*(self.text(a, rows) for a in e.operands))

    def varies(self, e: Expr, axis: str) -> bool:
        """Whether an integer is another one along an axis."""
        if isinstance(e, Value):
            source = self.known.get(e.name)
            return axis in source.axes if isinstance(source, Tensor) else source is None or self.varies(source, axis)
        return axis in e.index.names() if isinstance(e, Index) else any(self.varies(a, axis) for a in e.args)

    def element(self, t: Tensor, rows: Mapping[str, str]) -> str:
        step, offset = strides(t, self.p.name)
        at = [base_text(step, offset, self.start), *(f"{step[a]}ull * {rows[a]}" for a in t.axes if step[a] and a in rows)]
        return f"int64_t({t.buffer}_g.GetValue({' + '.join(at)}))"


def gathered_lines(e: Gather, s: Scalars, g: Geometry, lane: str, true: Mapping[str, str], local: str) -> tuple[str, ...]:
    """Text that copies the rows of a tile, each from where its indices say. Raises UnsupportedOp unless lanes lie side by side."""
    t = s.p.tensor(str(e.tensor))
    assert t is not None
    last = e.index[-1]
    if not (isinstance(last, Index) and lane in last.index.names() and last.index.coef(lane) == 1 and last.index.is_affine):
        raise UnsupportedOp(f"elements of {t.name} are looked up one by one along axis {lane}", where=s.p.name,
                            hint="vector cores copy rows; look up whole rows")  # fmt: skip
    if any(s.varies(index, lane) for index in e.index[:-1]):
        raise UnsupportedOp(f"each element of a row of {t.name} is looked up in another row, along axis {lane}", where=s.p.name,
                            hint="vector cores copy rows; look up whole rows")  # fmt: skip
    ends = [last.index.coef(a) * (extent(s.p, a) - 1) for a in last.index.names()]
    if last.index.const + sum(min(0, x) for x in ends) < 0 or last.index.const + sum(max(0, x) for x in ends) >= _known(t.shape[-1], t):
        raise UnsupportedOp(f"rows of {t.name} are looked up at [{last.index}], which is not all in its {t.shape[-1]} elements",
                            where=s.p.name, hint="vector cores copy rows; look up whole rows")  # fmt: skip
    rows = {a: f"r_{a}" for a, n in g.rows if n > 1}
    at = [s.text(last, rows)]
    for index, size in reversed(list(zip(e.index[:-1], t.shape))):
        at.append(f"{_pitch(t, len(at))}ull * ac_clamped({s.text(index, rows)}, {_known(size, t)})")
    behind = {a: g.pitch(lane) * prod(n for _, n in g.rows[i + 1 :]) for i, (a, _) in enumerate(g.rows)}
    loops = [f"{'  ' * i}for (uint32_t {r} = 0; {r} < {true[a]}; ++{r})" for i, (a, r) in enumerate(rows.items())]
    place = " + ".join(f"{r} * {behind[a]}" for a, r in rows.items()) or "0"
    copy = f"ac_copy(1, {true[lane]} * {t.dtype.bytes}, 0, 0)"
    line = f"DataCopyPad({local}[{place}], {t.buffer}_g[{' + '.join(at)}], {copy}, {{false, 0, 0, 0}});"
    return (*loops, "  " * len(loops) + line)


def _known(size: object, t: Tensor) -> int:
    if not isinstance(size, int):
        raise UnsupportedOp(f"{t.name} has the symbolic extent {size}", where=t.name, hint="give the dimension a number (--dim)")
    return size


def _pitch(t: Tensor, dims: int) -> int:
    """Elements between neighbours along the dimension that has `dims` dimensions behind it."""
    return prod(_known(d, t) for d in t.shape[len(t.shape) - dims :])
