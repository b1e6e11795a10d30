"""The tile program's data: values over named axes, loops and statements. Frozen; `tile.text` prints and parses it,
`tile.meaning` runs it on NumPy, `tile.derive` makes it from a kernel and a schedule.

    kernel  ::= "kernel" name "(" tensor,* ")" "->" tensor,*   newline  "tile" (axis "=" int)*  block
    tensor  ::= name ":" dtype "[" (axis ":" extent),* "]"
                [ "of" buffer "[" shape "]" "at" "[" index,* "]" [ "where" guard,* ["else" fill] ] ]
    block   ::= (loop | stmt)*
    loop    ::= ("grid" | "serial" | "pipelined" | "parallel" | "when") axis,* (key "=" value)*
    stmt    ::= dst [":" dtype "[" axis,* "]" scope] ("=" | "+=") rhs   |   "store" tensor "=" value
    rhs     ::= "copy" tensor | "fill" number | "map" expr | "reduce" op axis value
                | "scan" op ["-"] axis value ["," value] | "mma" value "," value
    scope   ::= "block" | "fragment"

A tensor is a *view*: named axes over a row-major buffer, `index` giving the buffer's indices as quasi-affine functions of
the axes (the identity when the axes are the buffer's dimensions). Transposes, reshapes, broadcasts, slices, pads and the
sliding windows of convolutions are such views; nothing is copied. Outside `guard` a copy gives `fill` and a store does
nothing. No thread, memory, barrier, lane, stage index or address appears.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from autocomp.errors import UnsupportedOp
from autocomp.forks import kept_property
from autocomp.ir.affine import Aff
from autocomp.ir.body import Expr, postorder, read_sizes
from autocomp.ir.types import Dim, DType


@dataclass(frozen=True, eq=False)
class Value(Expr):
    """An on-chip value (a Buf) used in a map's expression; the other nodes are those of `ir.body` (Map, Const, Index,
    Inside, Gather)."""

    name: str


@dataclass(frozen=True)
class Tensor:
    """A view of a buffer in memory over named axes. `constant`: its data never changes between runs.

    Several views may name one buffer. index/guard are over axis names; `shape` is the buffer's row-major shape.
    """

    name: str
    dtype: DType
    axes: tuple[str, ...]
    extents: tuple[Dim, ...]
    buffer: str
    shape: tuple[Dim, ...]
    index: tuple[Aff, ...]
    guard: tuple[Aff, ...] = ()
    fill: float = 0.0
    constant: bool = False


def dense(shape: Sequence[Dim], index: Sequence[Aff]) -> tuple[tuple[Dim, ...], tuple[Aff, ...]]:
    """(shape, index) of a view without the dimensions of one element, which are nowhere in memory; of the last where all are so."""
    kept = [(n, i) for n, i in zip(shape, index, strict=True) if n != 1 or i != Aff()] or list(zip(shape, index))[-1:]
    return tuple(n for n, _ in kept), tuple(i for _, i in kept)


@dataclass(frozen=True)
class Buf:
    """An on-chip value over named axes. scope: block (shared by the workers of a tile) or fragment (theirs alone)."""

    name: str
    dtype: DType
    axes: tuple[str, ...]
    scope: str


@dataclass(frozen=True)
class Stmt:
    """op: copy | fill | map | reduce | scan | mma | store. `expr` is an Expr over Value leaves for map, a number for fill, the name
    of the combining scalar function (add, max, min, mul, ..) for reduce and scan. acc: dst op= ... scan: each element of `axis` folds
    those up to it; those from it on where the axis is written -axis. The axis lies whole in the tile, or a loop over it stands around:
    the second source is then what the turns before came to, which each element folds too, and to which the scan adds its turn's."""

    op: str
    dst: str
    srcs: tuple[str, ...] = ()
    expr: Expr | float | str | None = None
    axis: str = ""
    acc: bool = False


@dataclass(frozen=True)
class Loop:
    """kind: grid | serial | pipelined | parallel; steps the axes by their tile sizes. opts: (key, value) pairs.

    until=i+c ends a loop over one axis behind the tile that holds index i + c, i the last index of its axis' tile: what follows
    would change nothing (a mask makes it the reduction's identity).
    from=end: a loop over one axis begins with its last tile.
    parts=n shares out the turns among the n blocks of a cluster, whose accumulators are added behind the loop.

    when of=v above=x has no axes; its body must run where an element of v is above x or NaN, and always may. Where v is a sum,
    workers may test their parts of it: x leaves room for that.
    """

    kind: str
    axes: tuple[str, ...]
    body: tuple[Loop | Stmt, ...]
    opts: tuple[tuple[str, str], ...] = ()

    def opt(self, key: str, default: str = "") -> str:
        return dict(self.opts).get(key, default)

    @property
    def back(self) -> bool:
        """Whether it begins with the last tile."""
        return self.opt("from") == "end"

    @property
    def until(self) -> tuple[str, int] | None:
        """(axis, constant) of `until`."""
        axis, _, constant = self.opt("until").partition("+")
        return (axis, int(constant)) if axis else None


@dataclass(frozen=True)
class TileProgram:
    """One kernel. `axes` has the extent of every axis, `tile` its tile size (whole if missing). `applied`: directives of its schedule
    that its body has."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    axes: tuple[tuple[str, Dim], ...]
    tile: tuple[tuple[str, int], ...]
    bufs: tuple[Buf, ...]
    body: tuple[Loop | Stmt, ...]
    applied: tuple[str, ...] = ()

    def extent(self, axis: str) -> Dim:
        return dict(self.axes)[axis]

    def buf(self, name: str) -> Buf | None:
        return self._bufs.get(name)

    def read_sizes(self, dims: Iterable[Dim]) -> list[str]:
        """Names of sizes that it computes with, beside these."""
        return read_sizes((s.expr for s, _ in walk(self.body) if isinstance(s.expr, Expr)), dict(self.axes), dims)

    @kept_property
    def _bufs(self) -> dict[str, Buf]:
        return {b.name: b for b in reversed(self.bufs)}

    def tensor(self, name: str) -> Tensor | None:
        return next((t for t in self.inputs + self.outputs if t.name == name), None)


def without_scans(p: TileProgram, target: str) -> None:
    """Raises UnsupportedOp where a program has a scan, for targets that print none."""
    for s, _ in walk(p.body):
        if s.op == "scan":
            raise UnsupportedOp(f"{target} has no scan ({s.dst})", where=f"kernel {p.name}",
                                hint="leave `scan` out of the schedule: running sums go in parts")  # fmt: skip


def without_when(body: Sequence[Loop | Stmt]) -> tuple[Loop | Stmt, ...]:
    """The bodies of `when` in their places, as they may always run, without values that nobody reads then."""
    flat = _unconditional(body)
    if flat == tuple(body):
        return flat
    while dead := {s.dst for s, _ in walk(flat) if s.op != "store"} - {n for s, _ in walk(flat) for n in reads(s) if n != s.dst}:
        flat = _without(flat, dead)
    return flat


def reads(s: Stmt) -> set[str]:
    """Values and tensors that a statement reads."""
    found = {e.name for e in postorder(s.expr) if isinstance(e, Value)} if isinstance(s.expr, Expr) else set()
    return found | {*s.srcs} | ({s.dst} if s.acc else set())


def _unconditional(body: Sequence[Loop | Stmt]) -> tuple[Loop | Stmt, ...]:
    out: list[Loop | Stmt] = []
    for n in body:
        inner = _unconditional(n.body) if isinstance(n, Loop) else ()
        out += (n,) if isinstance(n, Stmt) else inner if n.kind == "when" else (replace(n, body=inner),)
    return tuple(out)


def _without(body: Sequence[Loop | Stmt], dead: set[str]) -> tuple[Loop | Stmt, ...]:
    return tuple(replace(n, body=_without(n.body, dead)) if isinstance(n, Loop) else n for n in body
                 if isinstance(n, Loop) or n.op == "store" or n.dst not in dead)  # fmt: skip


def walk(body: Sequence[Loop | Stmt], loops: tuple[Loop, ...] = ()) -> Iterator[tuple[Stmt, tuple[Loop, ...]]]:
    """Every statement with the loops around it, in program order."""
    for n in body:
        if isinstance(n, Loop):
            yield from walk(n.body, (*loops, n))
        else:
            yield n, loops
