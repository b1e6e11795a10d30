"""What each axis of a kernel is for: rows, columns, batch and depth of its contraction; outer axes and row otherwise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf, prod

from autocomp.cost.derived import constant
from autocomp.ir.body import Axis, Const, Contract, Expr, Gather, Index, Inside, Load, Map, Reduce, free_axes, postorder
from autocomp.ir.kernel import Kernel
from autocomp.ir.parts import together, why_not_parts
from autocomp.ir.scans import as_statistic, is_running
from autocomp.ir.types import BOOL, Dim, Sym, dim_hint
from autocomp.loops.chosen_turns import choosing_rows

HELD = int(constant("shared_rows"))
COUNTED = 2**40  # of iterations: larger products are alike, and rules multiply them as 64-bit numbers


@dataclass(frozen=True)
class Roles:
    """form: contract | chain | online | reduce | scan | map. Axes in loop order, outermost first.

    contract, online: `rows` are in the first factor only, `cols` in the second only, `batch` in both, `depth` reduced.
    reduce, map: `rows` are all output axes but those of the row, `cols` the row (the innermost axis of a map); of a reduce, `batch` are
    short ones that its largest operand lacks.
    factor: dtype of the factors of a contraction. scores: of an online contraction whose scores are a product, perhaps with such steps, the
    dtype that the model rounds the product to, "" for others; steps: what it does to them then, the last first: adds a `tile` or one
    `line` to all rows, multiplies `by` a number, puts a number (`mask`) or minus infinity (`endless`) where indices say so.
    split: the reduced axis that can be done in parts (`ir.parts`), "" for none.
    depths: the reduced axes of every reduction and contraction, each as `depth` is of one. levels: of a reduce, those that wait for each
    other, one behind the other.
    taps: reduced axes that slide: a dimension of the first factor is read at the sum of a row's axis and of one of them; `runs`: those
    that do so along its contiguous dimension, so that windows are runs of it.
    alike: no reduction varies along the innermost output axis: results along it are made of the same ones.
    scan: of a kernel whose reductions run along an axis of the result, the roles of the form `scan`: that axis is `cols`.
    wide, high, still: rows of a reduce along which windows slide, the innermost and the one before it, and the rows that are neither;
    where none slide, `still` are rows whose number chooses what their sum takes in.
    padded: tiles of a contraction lie in shared memory, where all axes of a side but the outermost take powers of two.
    """

    form: str
    batch: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    cols: tuple[Axis, ...]
    depth: tuple[Axis, ...]
    depths: tuple[tuple[Axis, ...], ...] = ()
    padded: bool = False
    factor: str = ""
    scores: str = ""
    steps: tuple[str, ...] = ()
    split: str = ""
    taps: tuple[Axis, ...] = ()
    runs: tuple[Axis, ...] = ()
    alike: bool = False
    levels: int = 1
    scan: Roles | None = None
    wide: tuple[Axis, ...] = ()
    high: tuple[Axis, ...] = ()
    still: tuple[Axis, ...] = ()

    def extent(self, role: str) -> int:
        """Product of a role's extents; symbols at their hint. At most COUNTED."""
        return min(COUNTED, prod(dim_hint(a.extent) for a in getattr(self, role)))

    def limit(self, role: str) -> int:
        """Product of a role's extents; symbols at their upper bound: no larger tile has a use. At most COUNTED."""
        return min(COUNTED, prod(_largest(a.extent) for a in getattr(self, role)))


def _largest(d: Dim) -> int:
    return d.hi if isinstance(d, Sym) else d


def names_of(root: Expr) -> frozenset[str]:
    """Axes that a body mentions in any index or guard."""
    out: set[str] = set()
    for e in postorder(root):
        if isinstance(e, Load):
            for i in (*e.index, *e.guard):
                out |= i.names()
        elif isinstance(e, Index):
            out |= e.index.names()
        elif isinstance(e, Inside):
            for i in e.guard:
                out |= i.names()
        elif isinstance(e, Gather):
            continue
    return frozenset(out)


@lru_cache(maxsize=1024)
def roles_of(k: Kernel) -> Roles:
    """Roles of the largest contraction; of the reductions where there is none."""
    nodes = list(postorder(*(s.value for s in k.stores)))
    depths = tuple(dict.fromkeys(_by_contiguity(e.axes, nodes) for e in nodes if isinstance(e, (Contract, Reduce))))
    pairs = [(e, "contract", e.a, e.b) for e in nodes if isinstance(e, Contract)]
    online = [(e, "online", e.operands[0], e.operands[-1]) for e in nodes if isinstance(e, Reduce) and len(e.operands) > 1
              and names_of(e.operands[-1]) & {a.name for a in k.axes} - names_of(e.operands[0])]  # fmt: skip
    if pairs or online:
        e, form, a, b = (online or pairs)[-1]
        if form == "contract" and any(isinstance(x, Contract) for x in postorder(a, b)):
            return _chain(k, [x for x, *_ in pairs], nodes, depths)
        left, right, bound = names_of(a), names_of(b), {x.name for x in e.axes}
        only_left = tuple(x for x in k.axes if x.name in left and x.name not in right)
        only_right = tuple(x for x in k.axes if x.name in right and x.name not in left)
        both = tuple(x for x in k.axes if x not in only_left and x not in only_right)
        depth = _by_contiguity(tuple(x for x in e.axes if x.name in bound), nodes)
        taps, runs = _sliding(a, {x.name for x in only_left}, depth) if form == "contract" else ((), ())
        scores, steps = _scores(a, {x.name for x in only_left}) if form == "online" else ("", ())
        return Roles(form, both, only_left, only_right, depth, depths, factor=a.dtype.name, scores=scores, steps=steps,
                     taps=taps, runs=runs, split=_longest(k, depth))  # fmt: skip
    reduced = [e for e in nodes if isinstance(e, Reduce)]
    if reduced:
        extents = [a.extent for e in reduced for a in e.axes]
        row = tuple(a for a in k.axes if a.extent in extents and all(a.name not in names_of(e) for e in reduced))
        split = _longest(k, depths[0]) if len(depths) == 1 else _shared(k, depths)
        alike = bool(k.axes) and all(k.axes[-1].name not in names_of(e) for e in reduced)
        scan = replace(roles_of(as_statistic(k)), form="scan", split="") if is_running(k) else None
        shared = _shared_rows(k, nodes)
        rows = tuple(a for a in k.axes if a not in (*row, *shared))
        slid = _windows(nodes, rows)
        still = tuple(a for a in rows if a not in slid[-2:]) if slid else choosing_rows(k)
        return Roles("reduce", shared, rows, row, tuple(reduced[0].axes), depths, split=split, alike=alike, levels=_levels(nodes),
                     scan=scan, wide=slid[-1:], high=slid[-2:-1], still=still)  # fmt: skip
    return Roles("map", (), k.axes[:-1], k.axes[-1:], ())


def _scores(e: Expr, rows: set[str]) -> tuple[str, tuple[str, ...]]:
    """The type that a product is rounded to before it is scaled, something of this type is added to it or indices mask it, and it is an
    exponent's; and these steps, the last first."""
    rounded = ""
    added: set[str] = set()
    steps: list[str] = []
    while isinstance(e, Map) and e.fn in ("cast", "mul", "add", "where"):
        rounded = e.dtype.name if e.fn == "cast" else ""
        operands = [x for x in e.operands if not isinstance(x, Const)]
        if e.fn == "where":
            endless = any(isinstance(x, Const) and x.value == -inf for x in e.operands)
            z = e.operands[0].operands[0] if isinstance(e.operands[0], Map) and e.operands[0].fn == "not" else e.operands[0]
            told = isinstance(z, Load) and z.dtype == BOOL  # by a tile, or a line, which scores are kept
            mask = "endless" if endless else "mask"
            steps += ["kept" if names_of(z) & rows else "kept line", *([] if endless else ["limit"])] if told else [mask]
            operands = [x for x in operands if x is not e.operands[0] or (not told and any(isinstance(y, Load) for y in postorder(x)))]
        elif e.fn == "add":
            added.add(e.dtype.name)
            steps.append("tile" if any(isinstance(x, Load) and names_of(x) & rows for x in operands) else "line")
            operands = [x for x in operands if not isinstance(x, Load)]
        elif e.fn == "mul" and set(steps) - {"endless", "kept", "kept line"}:  # else it is a factor of the exponent
            steps.append("by")
        if len(operands) != 1:
            return "", ()
        e = operands[0]
    fits = isinstance(e, Contract) and added <= {rounded}
    return (rounded, tuple(steps)) if fits else ("", ())


def _windows(nodes: list[Expr], rows: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """The rows along which windows slide: a dimension is read at the sum of one of them and of a reduced axis."""
    taps = {a.name for e in nodes if isinstance(e, Reduce) for a in e.axes}
    read = [i.names() for e in nodes if isinstance(e, Load) for i in e.index]
    return tuple(a for a in rows if any(a.name in names and names & taps for names in read))


def _levels(nodes: list[Expr]) -> int:
    """Reductions one behind the other, of nodes in postorder."""
    level: dict[int, int] = {}
    for e in nodes:
        level[id(e)] = max((level[id(a)] for a in e.args), default=0) + isinstance(e, Reduce)
    return max(level.values())


def _shared_rows(k: Kernel, nodes: list[Expr]) -> tuple[Axis, ...]:
    """Short output axes that the largest operand lacks: what a thread has of it serves all of their points, which lie in every tile."""
    read = {e.tensor: names_of(e) for e in nodes if isinstance(e, Load)}
    largest = max(k.inputs, key=lambda a: a.type.bytes, default=None)
    if largest is None or largest.name not in read:
        return ()
    found = tuple(a for a in k.axes if a.name not in read[largest.name] and isinstance(a.extent, int))
    return found if len(found) < len(k.axes) and prod(a.extent for a in found) <= HELD else ()  # type: ignore[misc]


def _longest(k: Kernel, axes: tuple[Axis, ...]) -> str:
    """The longest of the reduced axes (the outermost of equal ones) that can be done in parts."""
    able = [a for a in axes if dim_hint(a.extent) > 1 and not why_not_parts(k, a.name)]
    return max(able, key=lambda a: dim_hint(a.extent), default=Axis("", 0)).name


def _shared(k: Kernel, depths: tuple[tuple[Axis, ...], ...]) -> str:
    """The axis of the first reduction where all of them can be done in the same parts, "" where they cannot."""
    name = depths[0][0].name
    one = together(k, name)
    return name if one != k and not why_not_parts(one, name) else ""  # an equal kernel may be another object


def _chain(k: Kernel, links: list[Contract], nodes: list[Expr], depths: tuple[tuple[Axis, ...], ...]) -> Roles:
    """Roles by the largest contraction of a chain: `rows` are output axes of its first factor, `cols` those of its second, `batch` the
    axes that later contractions sum. Output axes that only others mention are whole in every tile."""
    free = free_axes(tuple(s.value for s in k.stores))
    axes = {a.name: a for a in (*k.axes, *(a for x in links for a in x.axes))}
    size = lambda x: prod(dim_hint(axes[n].extent) for n in (*free[id(x)], *(a.name for a in x.axes)) if n in axes)
    e = max(links, key=size)
    left, right, summed = free[id(e.a)], free[id(e.b)], {a.name for a in e.axes}
    rows = tuple(x for x in k.axes if x.name in left and x.name not in right)
    cols = tuple(x for x in k.axes if x.name in right and x.name not in left)
    batch = tuple(a for n, a in axes.items() if n in left and n in right and n not in summed and a not in k.axes)
    return Roles("chain", batch, rows, cols, _by_contiguity(e.axes, nodes), depths, factor=e.a.dtype.name)


def _by_contiguity(axes: tuple[Axis, ...], nodes: list[Expr]) -> tuple[Axis, ...]:
    """Reduced axes with the one innermost along which a tensor's elements lie side by side."""
    near = {n for e in nodes if isinstance(e, Load) and e.index for n in e.index[-1].names() if e.index[-1].coef(n) == 1}
    return tuple(sorted(axes, key=lambda a: a.name in near))


def _sliding(factor: Expr, rows: set[str], depth: tuple[Axis, ...]) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
    """The reduced axes that move a window over a factor, from one run of its memory to another and along one."""
    loads = [e for e in postorder(factor) if isinstance(e, Load)]
    dims = [(i, i == max((j for j in e.index if j.names()), key=e.index.index)) for e in loads for i in e.index if i.names() & rows]
    runs = tuple(a for a in depth if any(last and i.coef(a.name) == 1 for i, last in dims))
    return tuple(a for a in depth if a not in runs and any(a.name in i.names() for i, _ in dims)), runs


def power_of_two(n: int) -> int:
    """The least power of two that is no less."""
    return 1 << max(0, n - 1).bit_length()


def spread(axes: tuple[Axis, ...], size: int, padded: bool = False, windows: bool = False) -> dict[str, int]:
    """A tile of about `size` elements over several axes: inner axes whole first, then part of one, the outer ones by 1.

    padded: an axis takes the place of the next power of two (14 columns that of 16, so 128 elements are 8 lines of them).
    windows: a part of an axis is a power of two, as threads share it out.
    """
    tile: dict[str, int] = {}
    for a in reversed(axes):
        e = max(1, _largest(a.extent))
        part = min(size, e)
        tile[a.name] = 1 << (part.bit_length() - 1) if windows and 1 < part < e else part
        size = max(1, size // (power_of_two(e) if padded else e))
    return tile


def spread_role(roles: Roles, role: str, axes: tuple[Axis, ...], size: int) -> dict[str, int]:
    """The size of a role's tile over some of its axes."""
    return spread(axes, size, roles.padded and role != "taps", roles.form == "reduce" and role == "rows")
