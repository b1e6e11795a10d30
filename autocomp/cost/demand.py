"""What a kernel asks for under every schedule: operations, compulsory bytes, and how its operands are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from math import gcd, prod
from typing import TypeGuard

from autocomp.cost.chip import F32
from autocomp.cost.copies import WIDEST, narrow_copies
from autocomp.cost.derived import constant
from autocomp.cost.operations import count
from autocomp.cost.roles import Roles, roles_of
from autocomp.cost.windows import Windows, windows_of
from autocomp.cost.work import Work
from autocomp.ir.affine import Aff
from autocomp.ir.body import Const, Contract, Expr, Load, Map, Reduce, bound_axes, free_axes, postorder
from autocomp.ir.dead_steps import endings, share_left
from autocomp.ir.kernel import Arg, Kernel
from autocomp.ir.masks import end_of, shares_left, turns_left
from autocomp.ir.reach import share_read
from autocomp.ir.types import BF16, Sym, TensorType, dim_hint

SECTOR = int(constant("sector"))


@dataclass(frozen=True)
class Operand:
    """An input: bytes of what is read of it and of an element, the axes that its indices mention.

    views: for each different index the axes that it mentions, the last load's last; runs: those along which neighbours lie side by
    side in memory (None: the last index mentions no axis). factor: a contraction multiplies it; contiguous: neighbours do not lie
    along an axis that it sums; constant: known before the first run; guards: conditions outside of which
    a read gives a fill. places: for
    each view and dimension the axes it mentions with their coefficients. cut: share of its rows that do not begin at a sector's 32 bytes.
    apart: elements of memory from one to the next along each axis, of the first view.
    """

    name: str
    bytes: float
    element: int
    axes: frozenset[str]
    views: tuple[tuple[str, ...], ...]
    runs: tuple[tuple[str, ...] | None, ...]
    factor: bool = False
    contiguous: bool = False
    constant: bool = False
    guards: int = 0
    places: tuple[tuple[tuple[tuple[str, int], ...], ...], ...] = ()
    cut: float = 0.0
    apart: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Piece:
    """A tensor that is read or written: bytes of what is and of an element, the axes along which its last view's neighbours lie; apart: as
    in Operand."""

    bytes: float
    element: int
    side_by_side: tuple[str, ...] | None
    apart: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Demand:
    """What does not depend on the schedule. `extent`: of every axis, symbols at their hint; `grid`: output axes, in order; `narrow`:
    copies of less than 16 bytes a step in depth, for each row and for each column of a tile (`cost.copies`), of them `words` of 4 and 8,
    which are asynchronous; `cut`: share of a factor's rows that do not begin at a memory sector's 32 bytes; `products`: operations of
    each contraction and the output axes that it varies with;
    `packed`: vector operations, where those that make a factor work on whole registers of its narrow types; `ends`: (reduced axis, row
    i, c) where a mask leaves nothing past index i + c; `held`: values that are made whole before a product reads them, as bytes in
    f32 over all tiles and the axes that they vary with; `windows`: what those of a reduction read; `carries`: a row's chunks pass by once,
    as what those before came to is carried (scans); `wide`: vector operations on numbers of 64 bits; `looked_up`: elements that integers
    name along a table's last axis; `making`: vector and special operations that make factors; `in_order`: Kernel's;
    `steps`: of a special operation in the mean, in those of an exponential, where no unit computes it; `calls`, `beside`, `rounded`,
    `masked`, `folds`, `sums`, `rows`: as in `Operations`; `long`: `_long`; `bf16`: elements of that type that are read and written;
    `result`: bytes of the largest element that is written; `torn`: share of a product's rows of results that do not begin at a sector;
    `ending`: axes of the depth at whose last steps a factor is zero in part of the grid, with what says where, and the part of their
    steps that is left."""

    roles: Roles
    work: Work
    operands: tuple[Operand, ...]
    extent: Mapping[str, int]
    grid: tuple[str, ...]
    narrow: tuple[float, float] = (0.0, 0.0)
    words: tuple[float, float] = (0.0, 0.0)
    pieces: tuple[Piece, ...] = ()
    cut: float = 0.0
    products: tuple[tuple[float, frozenset[str]], ...] = ()
    packed: float = 0.0
    ends: tuple[str, str, int] | None = None
    held: tuple[tuple[float, frozenset[str]], ...] = ()
    carries: bool = False
    windows: Windows | None = None
    wide: float = 0.0
    looked_up: float = 0.0
    making: tuple[float, float] = (0.0, 0.0)
    in_order: bool = True
    steps: float = 1.0
    calls: float = 0.0
    beside: float = 0.0
    rounded: tuple[float, float] = (0.0, 0.0)
    masked: tuple[float, float] = (0.0, 0.0)
    bf16: tuple[float, float] = (0.0, 0.0)
    folds: float = 0.0
    sums: float = 0.0
    rows: tuple[float, str] = (0.0, "")
    result: int = F32
    torn: float = 0.0
    ending: tuple[tuple[frozenset[str], float], ...] = ()
    long: tuple[float, float] = (1.0, 0.0)

    def tiles(self, tile: Mapping[str, int]) -> int:
        """Tiles of the grid: of the output axes that are cut."""
        n = 1
        for a in self.grid:
            t = tile.get(a, 0)
            if 0 < t < self.extent[a]:
                n *= -(-self.extent[a] // t)
        return n

    def blocks(self, tile: Mapping[str, int]) -> int:
        """Tiles that cores share: of a reduction, chunks of a row that results are computed from once more are turns of one tile."""
        turns = {a.name for a in self.roles.cols} if self.roles.form == "reduce" else set()
        return self.tiles({a: n for a, n in tile.items() if a not in turns})

    def left(self, tile: Mapping[str, int]) -> tuple[float, float]:
        """The share of a reduction's turns that a mask leaves, in the mean of tiles and in the longest; of its elements where there is
        no tile."""
        if self.ends is None:
            return 1.0, 1.0
        axis, row, past = self.ends
        size = lambda a: min(tile.get(a, self.extent[a]), self.extent[a]) if tile else 1
        return shares_left(self.extent[axis], size(axis), self.extent[row], size(row), past)

    def busiest(self, tile: Mapping[str, int], cores: int) -> float:
        """The same of the core that has most of them, where the longest tiles come first and cores take them in turn."""
        if self.ends is None or self.ends[2] < 0 or not (tiles := self.tiles(tile)):
            return 1.0
        axis, row, past = self.ends
        turns = turns_left(self.extent[axis], tile.get(axis, self.extent[axis]), self.extent[row], tile.get(row, self.extent[row]), past)
        first = range(0, tiles, cores)  # tiles of the first core
        beside = tiles // len(turns)  # of as many turns each
        return sum(turns[-1 - t // beside] for t in first) / (len(first) * -(-self.extent[axis] // tile.get(axis, self.extent[axis])))

    def size(self, role: str, tile: Mapping[str, int]) -> int:
        """Elements of one tile along the axes of a role."""
        n = 1
        for a in getattr(self.roles, role):
            e = self.extent[a.name]
            n *= min(tile.get(a.name, e), e)
        return n


def demand_of(k: Kernel) -> Demand:
    """Operations and compulsory bytes of a kernel."""
    roles = roles_of(k)
    extent = {a.name: dim_hint(a.extent) for a in (*k.axes, *(a for st in k.stores for a in bound_axes(st.value)))}
    nodes = list(postorder(*(s.value for s in k.stores)))
    free = free_axes(tuple(s.value for s in k.stores))
    x = count(nodes, free, roles, [a.name for a in k.axes], extent)
    moved = {a.name: a.type.bytes * share_read(nodes, a.name, a.type.shape, a.type.dtype.bytes, extent, SECTOR)
             for a in k.inputs} | {a.name: float(a.type.bytes) for a in k.outputs}
    read = sum(moved[a.name] for a in k.inputs)
    written = sum(float(a.type.bytes) for a in k.outputs)
    m, n, depth = (roles.extent(r) if x.matrix else 0 for r in ("rows", "cols", "depth"))
    w = Work(read=read, written=written, vector=x.vector, special=x.special, matrix=x.matrix, matrix_dtype=x.dtype, m=m, n=n, k=depth,
             words=x.words)  # fmt: skip
    operands = tuple(_operand(k, a, nodes, roles, moved[a.name]) for a in k.inputs)
    odd = max((o.cut for o in operands if o.factor), default=0.0)
    alike = len({o.element >= F32 for o in operands if o.factor}) == 1  # else what is made of the narrower one waits for it
    narrow, words = narrow_copies(k, F32)
    return Demand(roles, w, operands, extent, tuple(a.name for a in k.axes), narrow, words if alike else (0.0, 0.0),
                  _pieces(k, nodes, moved, roles), odd, tuple(x.products), x.vector - x.spared,
                  _ends(nodes, roles), _held(nodes, roles, extent), windows=windows_of(nodes, free, roles, extent), wide=x.wide,
                  looked_up=x.looked_up, making=x.making, in_order=k.in_order,
                  steps=x.steps / x.special if x.special else 1.0, calls=x.calls, beside=x.beside, rounded=x.rounded, masked=x.masked,
                  bf16=(_elements(k.inputs, moved), _elements(k.outputs, moved)), folds=x.folds, sums=x.sums, rows=x.rows,
                  result=max(a.type.dtype.bytes for a in k.outputs), torn=_torn(k, roles),
                  ending=_ending(nodes, roles, extent), long=_long(k, x.long))  # fmt: skip


def _long(k: Kernel, long: Set[int]) -> tuple[float, float]:
    """Of integers of 64 bits that units of words compute: halves of an element that are read, elements that are made."""
    made = {st.tensor for st in k.stores if id(st.value) in long}
    both = made or any(id(a) in long and not (isinstance(e, Map) and e.fn == "cast" and e.dtype.is_int)
                       for st in k.stores for e in postorder(st.value) for a in e.args)  # fmt: skip
    return (2.0 if both else 1.0), sum(a.type.bytes / a.type.dtype.bytes for a in k.outputs if a.name in made)


def _torn(k: Kernel, roles: Roles) -> float:
    """Share of a product's rows of results that do not begin at a sector of memory: of its only output, whose rows lie along its columns.
    None of those that begin anywhere, whose stores are priced by themselves (`cost.schemes`)."""
    if roles.form != "contract" or len(k.stores) != 1 or not roles.cols or not k.stores[0].index:
        return 0.0
    t, along = k.outputs[0].type, _neighbours(k.stores[0].index[-1], frozenset(x.name for x in k.axes))
    whole = dim_hint(t.shape[-1]) * t.dtype.bytes % WIDEST == 0
    return cut_rows(t) if whole and along and roles.cols[-1].name in along else 0.0


def _ending(nodes: Sequence[Expr], roles: Roles, extent: Mapping[str, int]) -> tuple[tuple[frozenset[str], float], ...]:
    """The axes of a product's depth that end sooner at some places (`ir.dead_steps`), and what is left of their steps in the mean."""
    if roles.form != "contract":
        return ()
    found = endings(nodes, {a.name for a in roles.depth}, extent)
    return tuple((g.names(), share_left(a, g, extent)) for a, g in found.items())


def _elements(args: Iterable[Arg], moved: Mapping[str, float]) -> float:
    """Elements of bf16 of which so many bytes are moved."""
    return sum(moved[a.name] / a.type.dtype.bytes for a in args if a.type.dtype == BF16)


def _ends(nodes: Sequence[Expr], roles: Roles) -> tuple[str, str, int] | None:
    """Where a mask ends the loop of the only reduction that the kernel's online contraction has."""
    online = [e for e in nodes if isinstance(e, Reduce) and len(e.operands) > 1]
    if roles.form != "online" or len({e.axes for e in online}) > 1 or len(roles.depth) != 1:
        return None
    axis = roles.depth[0].name
    end = end_of(online[-1], axis, [a.name for a in roles.rows])
    return (axis, *end) if end else None


def _held(nodes: Sequence[Expr], roles: Roles, extent: Mapping[str, int]) -> tuple[tuple[float, frozenset[str]], ...]:
    """Factors that are computed (links of a chain too) and the weights of an online reduction."""
    products = [e for e in nodes if _multiplies(e, roles)]
    made = [x for e in products for x in ([e.a, e.b] if isinstance(e, Contract) else []) if not isinstance(x, (Load, Const))]
    made += [e.operands[0] for e in products if isinstance(e, Reduce)]
    free = free_axes(tuple(made))
    sizes = {id(x): frozenset(n for n in free[id(x)] if n in extent) for x in made}
    return tuple((float(F32) * prod(extent[n] for n in names), names) for names in sizes.values())


def _operand(k: Kernel, a: Arg, nodes: Sequence[Expr], roles: Roles, moved: float) -> Operand:
    runs: list[tuple[str, ...] | None] = []
    guards = 0
    views: dict[tuple[Aff, ...], tuple[str, ...]] = {}
    extents = (x.extent for x in (*k.axes, *(x for st in k.stores for x in bound_axes(st.value))))
    shapes = (d for x in (*k.inputs, *k.outputs) for d in x.type.shape)
    sizes = {d.name: Aff.of(dim_hint(d)) for d in (*shapes, *extents) if isinstance(d, Sym)}
    for e in nodes:
        if isinstance(e, Load) and e.tensor == a.name and e.index:
            index = tuple(i.substitute(sizes) for i in e.index) if sizes else e.index
            views.pop(index, None)  # the last load stands last
            views[index] = tuple(n for i in index for n in i.names())
            runs.append(_side_by_side(index[-1], frozenset(x.name for x in k.axes), roles))
            guards = max(guards, len(e.guard))
    reduced = [{x.name for x in e.axes} for e in nodes if _multiplies(e, roles) and _reads(e, a.name)]
    summed = set().union(*reduced) if reduced else set()
    contiguous = any(r and not set(r) <= summed for r in runs)
    mentioned = frozenset(n for v in views.values() for n in v)
    return Operand(a.name, moved, a.type.dtype.bytes, mentioned, tuple(views.values()), tuple(dict.fromkeys(runs)),
                   bool(reduced), contiguous, a.constant, guards,
                   tuple(tuple(tuple((n, i.coef(n)) for n in sorted(i.names())) for i in v) for v in views), cut_rows(a.type),
                   steps_apart(next(iter(views), ()), a.type))


def steps_apart(index: Sequence[Aff], t: TensorType) -> tuple[tuple[str, int], ...]:
    """Elements of memory from one element to the next along each axis that an index mentions, the outermost dimension's first."""
    out: dict[str, int] = {}
    pitch = prod(dim_hint(n) for n in t.shape)
    for i, n in zip(index, t.shape):
        pitch //= max(1, dim_hint(n))
        for a in sorted(i.names()):
            out[a] = out.get(a, 0) + i.coef(a) * pitch
    return tuple(out.items())


def cut_rows(t: TensorType) -> float:
    """Share of a tensor's rows that do not begin at a sector; one row alone begins where the tensor does."""
    row = dim_hint(t.shape[-1]) if t.shape else 0
    return 1 - gcd(row * t.dtype.bytes, SECTOR) / SECTOR if t.elements > row else 0.0


def _neighbours(last: Aff, outputs: frozenset[str]) -> tuple[str, ...] | None:
    """Axes along which neighbours lie side by side, None where the last index mentions no axis; the output's own last, as
    lanes run along these where a window slides."""
    return tuple(n for n in sorted(last.names(), key=lambda n: (n in outputs, n)) if last.step(n) == 1) if last.names() else None


def _side_by_side(last: Aff, outputs: frozenset[str], roles: Roles) -> tuple[str, ...] | None:
    """The same of a reduction with the axes along which windows that touch each other slide: elements lie side by side over all of them."""
    near = _neighbours(last, outputs)
    if not near or roles.form != "reduce":
        return near
    wide = max((dim_hint(a.extent) for axes in roles.depths for a in axes if a.name in near), default=0)
    return (*near, *(a.name for a in (*roles.rows, *roles.cols) if 1 < last.coef(a.name) <= wide))


def _pieces(k: Kernel, nodes: Sequence[Expr], moved: Mapping[str, float], roles: Roles) -> tuple[Piece, ...]:
    index = {e.tensor: e.index for e in nodes if isinstance(e, Load) and e.index}
    index |= {st.tensor: st.index for st in k.stores if st.index}
    outputs = frozenset(x.name for x in k.axes)
    near = {n: _side_by_side(i[-1], outputs, roles) for n, i in index.items()}
    return tuple(Piece(moved[a.name], a.type.dtype.bytes, near[a.name], steps_apart(index[a.name], a.type))
                 for a in (*k.inputs, *k.outputs) if a.name in index)  # fmt: skip


def _multiplies(e: Expr, roles: Roles) -> TypeGuard[Contract | Reduce]:
    return isinstance(e, Contract) or (isinstance(e, Reduce) and len(e.operands) > 1 and roles.form == "online")


def _reads(e: Contract | Reduce, tensor: str) -> bool:
    """Does the tensor reach the product without another contraction between?"""
    stack = [e.a, e.b] if isinstance(e, Contract) else [e.operands[-1]]
    while stack:
        x = stack.pop()
        if isinstance(x, Load) and x.tensor == tensor:
            return True
        if not isinstance(x, (Contract, Reduce)):
            stack.extend(x.args)
    return False
