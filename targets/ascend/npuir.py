"""TileProgram -> a function of AscendNPU-IR (MLIR): the same tiles as the Ascend C printer has, their memories, flags and hand-overs left
to the public compiler's passes.

Each block takes every n-th tile. A view of a tensor is a `reinterpret_cast` with the strides of its axes; values on chip are tensors of
whole tiles, of which only what lies inside is copied and stored. A sum that is only converted leaves by `fixpipe`. What has no form in
npuir.yaml is refused by its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Any

from autocomp.cost.chip import Chip
from autocomp.errors import UnsupportedOp
from autocomp.files import own_table
from autocomp.ir.body import Const, Expr, Map
from autocomp.ir.types import DType, dim_hint
from autocomp.tile.program import Buf, Loop, Stmt, Tensor, TileProgram, Value, walk


@lru_cache(maxsize=1)
def forms() -> dict[str, Any]:
    """npuir.yaml."""
    out: dict[str, Any] = own_table("autocomp.targets.ascend", "npuir.yaml")
    return out


def emit(p: TileProgram, chip: Chip) -> str:
    """A module with one function. Raises UnsupportedOp for what has no form."""
    return _Function(p, chip).text()


@dataclass(frozen=True)
class Val:
    """An SSA value of a tensor type: a dimension for each of `axes`, of one element where the value has not that axis."""

    name: str
    sizes: tuple[int, ...]
    element: str
    axes: tuple[str, ...]

    @property
    def type(self) -> str:
        return f"tensor<{'x'.join(map(str, self.sizes))}x{self.element}>"


@dataclass
class _Function:
    p: TileProgram
    chip: Chip
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    number: int = 0
    values: dict[str, Val] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)
    begins: dict[str, str] = field(default_factory=dict)  # axis -> the index of its tile's first element
    counts: dict[str, str] = field(default_factory=dict)  # axis -> elements of its tile that are inside, where not all are
    fresh: set[str] = field(default_factory=set)  # sums that no product has been added to yet
    first: str = ""  # whether a loop is in its first turn

    # ---- text
    def text(self) -> str:
        p = self.p
        for t in (*p.inputs, *p.outputs):
            if t.guard or any(not i.is_affine for i in t.index) or any(not isinstance(n, int) for n in (*t.shape, *t.extents)):
                raise self.refused(f"a view of {t.buffer} with a guard, floors or symbolic sizes")
        products = any(s.op == "mma" for s, _ in walk(p.body))
        arguments = {t.buffer: t.dtype for t in (*p.inputs, *p.outputs)}
        body = p.body[0].body if isinstance(p.body[0], Loop) and p.body[0].kind == "grid" else p.body
        grid = p.body[0].axes if isinstance(p.body[0], Loop) and p.body[0].kind == "grid" else ()
        self.grid(grid, body)
        cores = "MIX" if products and self.mixed else "AIC" if products else "AIV"
        given = ", ".join(f"%{b}: memref<?x{self.element(d)}>" for b, d in arguments.items())
        head = (f"  func.func @{p.name}({given}) attributes {{hacc.entry, hacc.function_kind = #hacc.function_kind<DEVICE>, "
                f"hivm.func_core_type = #hivm.func_core_type<{cores}>}} {{")  # fmt: skip
        constants = [f"    {name} = {text}" for text, name in self.constants.items()]
        return "\n".join(["module {", head, *constants, *("  " + x for x in self.lines), "    return", "  }", "}", ""])

    def put(self, line: str) -> None:
        self.lines.append("  " * self.depth + line)

    def new(self) -> str:
        self.number += 1
        return f"%{self.number - 1}"

    def let(self, text: str) -> str:
        """A new SSA value."""
        name = self.new()
        self.put(f"{name} = {text}")
        return name

    def constant(self, value: str, type_: str) -> str:
        text = f"arith.constant {value}" + ("" if type_ == "i1" and value in ("true", "false") else f" : {type_}")
        return self.constants.setdefault(text, f"%c{len(self.constants)}")

    def index(self, n: int) -> str:
        return self.constant(str(n), "index")

    def refused(self, what: str) -> UnsupportedOp:
        return UnsupportedOp(f"{what} has no form in AscendNPU-IR here", where=f"kernel {self.p.name}",
                             hint="Ascend C prints it; forms are rows of targets/ascend/npuir.yaml")  # fmt: skip

    def element(self, d: DType) -> str:
        if d.name not in forms()["types"]:
            raise self.refused(f"an element of type {d.name}")
        return str(forms()["types"][d.name])

    # ---- axes
    def tile(self, axis: str) -> int:
        return min(dict(self.p.tile).get(axis, self.extent(axis)), self.extent(axis))

    def extent(self, axis: str) -> int:
        return dim_hint(self.p.extent(axis))  # no symbol is left: `text`

    def grid(self, axes: Sequence[str], body: Sequence[Loop | Stmt]) -> None:
        """The loop over this block's tiles: tile = block, block + blocks, ..; its place along each axis by division."""
        trips = [-(-self.extent(a) // self.tile(a)) for a in axes]
        tiles = prod(trips)
        if tiles == 1:
            self.begins |= dict.fromkeys(axes, self.index(0))
            self.run(body)
            return
        vectors = not any(s.op == "mma" for s, _ in walk(self.p.body))
        blocks = min(tiles, self.chip.cores * (int(self.chip.limits["vector_cores"]) if vectors else 1))
        number = self.let("hivm.hir.get_block_idx -> i64")
        block = self.let(f"arith.index_cast {number} : i64 to index")
        at = self.new()
        self.put(f"scf.for {at} = {block} to {self.index(tiles)} step {self.index(blocks)} {{")
        self.depth += 1
        left = at
        for a, n in reversed(list(zip(axes, trips))):
            place = left if a == axes[0] else self.let(f"arith.remsi {left}, {self.index(n)} : index")
            left = left if a == axes[0] else self.let(f"arith.divsi {left}, {self.index(n)} : index")
            self.begin(a, place)
        self.run(body)
        self.depth -= 1
        self.put("}")

    def begin(self, axis: str, place: str) -> None:
        """The tile of an axis whose number is `place`."""
        size, extent = self.tile(axis), self.extent(axis)
        self.begins[axis] = self.let(f"arith.muli {place}, {self.index(size)} : index")
        if extent % size:
            rest = self.let(f"arith.subi {self.index(extent)}, {self.begins[axis]} : index")
            self.counts[axis] = self.let(f"arith.minsi {rest}, {self.index(size)} : index")

    # ---- statements
    def run(self, body: Sequence[Loop | Stmt]) -> None:
        for n in body:
            if isinstance(n, Loop):
                self.loop(n)
            else:
                getattr(self, n.op, self.other)(n)

    def other(self, s: Stmt) -> None:
        raise self.refused(f"'{s.op}' of {s.dst}")

    def loop(self, n: Loop) -> None:
        """A loop over the depth of products: their sums are carried from turn to turn."""
        carried = sorted({s.dst for s, _ in walk(n.body) if s.op == "mma"})
        plain = all(isinstance(x, Stmt) and x.op in ("copy", "mma") for x in n.body)
        if n.kind not in ("serial", "pipelined") or len(n.axes) != 1 or not plain:
            raise self.refused(f"a loop over {', '.join(n.axes)}")
        (axis,) = n.axes
        extent, size = self.extent(axis), self.tile(axis)
        before = [self.values[c] for c in carried]
        at, names, result = self.new(), [self.new() for _ in carried], self.new()
        start = ", ".join(f"{x} = {v.name}" for x, v in zip(names, before))
        types = ", ".join(v.type for v in before)
        many = f":{len(carried)}" if len(carried) > 1 else ""
        self.put(f"{result}{many} = scf.for {at} = {self.index(0)} to {self.index(-(-extent // size))} step {self.index(1)} "
                 f"iter_args({start}) -> ({types}) {{")  # fmt: skip
        self.depth += 1
        self.values |= {c: Val(x, v.sizes, v.element, v.axes) for c, x, v in zip(carried, names, before)}
        self.first = self.let(f"arith.cmpi eq, {at}, {self.index(0)} : index") if self.fresh & set(carried) else ""
        self.begin(axis, at)
        self.run(n.body)
        self.put(f"scf.yield {', '.join(self.values[c].name for c in carried)} : {types}")
        self.depth -= 1
        self.put("}")
        self.first, self.fresh = "", self.fresh - set(carried)
        for i, (c, v) in enumerate(zip(carried, before)):
            self.values[c] = Val(f"{result}#{i}" if many else result, v.sizes, v.element, v.axes)

    def copy(self, s: Stmt) -> None:
        """A view's tile, loaded into a tile of its own: the part that is inside."""
        t, b = self.p.tensor(s.srcs[0]), self.p.buf(s.dst)
        assert t is not None and b is not None
        axes = self.ordered(t, b) if self.is_factor(s.dst) else self.whole(b)
        v = Val("", tuple(self.tile(a) if a in b.axes else 1 for a in axes), self.element(b.dtype), tuple(axes))
        view, type_ = self.view(t, v)
        kind = f"memref<{'x'.join(map(str, v.sizes))}x{v.element}>"
        room = self.let(f"memref.alloc() : {kind}")
        place, place_type = room, kind
        if any(a in self.counts for a in b.axes):
            counts, dims = self.inside(v)
            place_type = f"memref<{dims}x{v.element}, strided<[{', '.join(map(str, _dense(v.sizes)))}]>>"
            zeros, ones = ", ".join("0" for _ in v.sizes), ", ".join("1" for _ in v.sizes)
            place = self.let(f"memref.subview {room}[{zeros}] [{counts}] [{ones}] : {kind} to {place_type}")
        zero = ""
        if self.is_factor(s.dst) and self.deep(b) & self.counts.keys():  # what fills up the depth must be zero
            number = self.constant("0.000000e+00", v.element)
            zero = f" pad_mode = #hivm.padmode<PadValue> pad_value = {number} : {v.element} init_out_buffer = true"
        self.put(f"hivm.hir.load ins({view} : {type_}) outs({place} : {place_type}){zero}")
        got = self.let(f"bufferization.to_tensor {room} restrict writable : {kind}")
        self.values[s.dst] = Val(got, v.sizes, v.element, v.axes)

    def view(self, t: Tensor, v: Val) -> tuple[str, str]:
        """A memref of the part of a tensor that lies inside of this tile."""
        buffer = f"memref<?x{self.element(t.dtype)}>"
        pitch = _dense([dim_hint(n) for n in t.shape])
        strides = {a: 0 for a in t.axes}
        base = 0
        for i, step in zip(t.index, pitch):
            base += i.const * step
            for atom, c in i.terms:
                strides[str(atom)] = strides.get(str(atom), 0) + c * step
        offset = self.index(base)
        for a, step in strides.items():
            if step:
                part = self.let(f"arith.muli {self.begins.get(a, self.index(0))}, {self.index(step)} : index")
                offset = self.let(f"arith.addi {offset}, {part} : index")
        counts, dims = self.inside(v)
        steps = [strides.get(a, 1) for a in v.axes]
        layout = ", ".join(map(str, steps))
        type_ = f"memref<{dims}x{self.element(t.dtype)}, strided<[{layout}], offset: ?>>"
        name = self.let(f"memref.reinterpret_cast %{t.buffer} to offset: [{offset}], sizes: [{counts}], strides: [{layout}] : {buffer} "
                        f"to {type_}")  # fmt: skip
        return name, type_

    def inside(self, v: Val) -> tuple[str, str]:
        """Sizes of what is inside as operands, and in a type."""
        counts = [self.counts[a] if a in self.counts and n > 1 else str(n) for a, n in zip(v.axes, v.sizes)]
        return ", ".join(counts), "x".join("?" if c.startswith("%") else c for c in counts)

    def fill(self, s: Stmt) -> None:
        b = self.p.buf(s.dst)
        assert b is not None and isinstance(s.expr, (int, float))
        if s.expr or not any(x.op == "mma" and x.dst == s.dst for x, _ in walk(self.p.body)):
            raise self.refused(f"a value that begins as {s.expr}")
        self.values[s.dst] = self.empty(tuple(b.axes), tuple(self.tile(a) for a in b.axes), self.element(b.dtype))
        self.fresh.add(s.dst)

    def mma(self, s: Stmt) -> None:
        """A product on the cube unit; the first one of a sum takes no sum."""
        a, b, c = (self.values[x] for x in (*s.srcs, s.dst))
        rows, cols = c.axes[-2:]
        (k,) = [x for x in a.axes if x in b.axes and x not in c.axes]
        flags = [f for f, wrong in (("a_transpose", a.axes[-1] != k), ("b_transpose", b.axes[-1] == k)) if wrong]
        if len(a.axes) != 2 or len(b.axes) != 2 or rows not in a.axes or cols not in b.axes:
            raise self.refused("a product of more than rows, columns and depth")
        sizes = ", ".join(self.counts.get(x, self.index(self.tile(x))) for x in (rows, k, cols))
        begins = self.first or self.constant("true" if s.dst in self.fresh else "false", "i1")
        attributes = f" {{{', '.join(flags)}}}" if flags else ""
        got = self.let(f"hivm.hir.mmadL1{attributes} ins({a.name}, {b.name}, {begins}, {sizes} : {a.type}, {b.type}, i1, index, index, "
                       f"index) outs({c.name} : {c.type}) -> {c.type}")  # fmt: skip
        self.values[s.dst] = Val(got, c.sizes, c.element, c.axes)
        if not self.first:
            self.fresh.discard(s.dst)

    def reduce(self, s: Stmt) -> None:
        source = self.values[s.srcs[0]]
        kind = forms()["reductions"].get(str(s.expr))
        if kind is None or s.acc or self.counts.keys() & {s.axis}:
            raise self.refused(f"a reduction by {s.expr} over {s.axis}, in parts or with a tail")
        dim = source.axes.index(s.axis)
        sizes = tuple(1 if i == dim else n for i, n in enumerate(source.sizes))
        into = self.empty(source.axes, sizes, source.element)
        got = self.let(f"hivm.hir.vreduce <{kind}> ins({source.name} : {source.type}) outs({into.name} : {into.type}) "
                       f"reduce_dims = [{dim}] -> {into.type}")  # fmt: skip
        self.values[s.dst] = Val(got, sizes, source.element, source.axes)

    def map(self, s: Stmt) -> None:
        b = self.p.buf(s.dst)
        assert b is not None and isinstance(s.expr, Expr)
        if self.leaves(s):
            self.values[s.dst] = self.values[s.expr.args[0].name]  # type: ignore[attr-defined]
            return
        got = self.expression(s.expr, self.whole(b))
        assert isinstance(got, Val)
        self.values[s.dst] = got

    def store(self, s: Stmt) -> None:
        t = self.p.tensor(s.dst)
        assert t is not None
        v = self.values[s.srcs[0]]
        view, type_ = self.view(t, v)
        name, kind = v.name, v.type
        if any(a in self.counts and n > 1 for a, n in zip(v.axes, v.sizes)):
            counts, dims = self.inside(v)
            zeros, ones = ", ".join("0" for _ in v.sizes), ", ".join("1" for _ in v.sizes)
            kind = f"tensor<{dims}x{v.element}>"
            name = self.let(f"tensor.extract_slice {v.name}[{zeros}] [{counts}] [{ones}] : {v.type} to {kind}")
        if self.is_sum(s.srcs[0]):
            to = forms()["quantised"].get(t.dtype.name) if t.dtype.name != "f32" else ""
            if to is None:
                raise self.refused(f"a sum that leaves as {t.dtype.name}")
            how = f"enable_nz2nd, pre_quant = #hivm.fixpipe_pre_quant_mode<{to}>" if to else "enable_nz2nd"
            self.put(f"hivm.hir.fixpipe {{{how}}} ins({name} : {kind}) outs({view} : {type_})")
        else:
            self.put(f"hivm.hir.store ins({name} : {kind}) outs({view} : {type_})")

    # ---- expressions
    def expression(self, e: Expr, axes: Sequence[str]) -> Val | str:
        """A value, or the operand text of a number."""
        if isinstance(e, Value):
            return self.aligned(self.values[e.name], axes)
        if isinstance(e, Const):
            return self.constant(f"{float(e.value):e}", self.element(e.dtype))
        if not isinstance(e, Map) or e.fn not in (*forms()["functions"], "neg"):
            raise self.refused(f"the function '{e.fn if isinstance(e, Map) else type(e).__name__}'")
        if e.fn == "neg":
            e = Map(e.dtype, "mul", (e.args[0], Const(e.dtype, -1.0)))
        row, args = forms()["functions"][e.fn], [self.expression(a, axes) for a in e.args]
        element = self.element(e.dtype)
        if e.fn == "cast" and isinstance(args[0], Val) and args[0].element == element:
            return args[0]
        if len(args) == 2 and isinstance(args[0], str) and row.get("commutes"):
            args = args[::-1]
        if all(isinstance(a, str) for a in args):
            raise self.refused("an operation on numbers alone")
        sizes = tuple(max(v.sizes[i] for v in args if isinstance(v, Val)) for i in range(len(axes)))
        if isinstance(args[0], str):
            args[0] = self.spread(args[0], self.element(e.args[0].dtype), tuple(axes), sizes)
        wide = [self.broadcast(a, sizes) if isinstance(a, Val) else a for a in args]
        into = self.empty(tuple(axes), sizes, element)
        names = ", ".join(a.name if isinstance(a, Val) else a for a in wide)
        types = ", ".join(a.type if isinstance(a, Val) else self.element(x.dtype) for a, x in zip(wide, e.args))
        got = self.let(f"hivm.hir.{row['op']} ins({names} : {types}) outs({into.name} : {into.type}) -> {into.type}")
        return Val(got, sizes, element, tuple(axes))

    def aligned(self, v: Val, axes: Sequence[str]) -> Val:
        """A value whose dimensions are these axes."""
        if v.axes != tuple(axes):
            raise self.refused(f"a value over {', '.join(v.axes)} beside others over {', '.join(axes)}")
        return v

    def spread(self, number: str, element: str, axes: tuple[str, ...], sizes: tuple[int, ...]) -> Val:
        into = self.empty(axes, sizes, element)
        got = self.let(f"hivm.hir.vbrc ins({number} : {element}) outs({into.name} : {into.type}) -> {into.type}")
        return Val(got, sizes, element, axes)

    def broadcast(self, v: Val, sizes: tuple[int, ...]) -> Val:
        dims = [i for i, (n, m) in enumerate(zip(v.sizes, sizes)) if n != m]
        if not dims:
            return v
        into = self.empty(v.axes, sizes, v.element)
        got = self.let(f"hivm.hir.vbrc ins({v.name} : {v.type}) outs({into.name} : {into.type}) "
                       f"broadcast_dims = [{', '.join(map(str, dims))}] -> {into.type}")  # fmt: skip
        return Val(got, sizes, v.element, v.axes)

    def empty(self, axes: tuple[str, ...], sizes: tuple[int, ...], element: str) -> Val:
        v = Val("", sizes, element, axes)
        return Val(self.let(f"tensor.empty() : {v.type}"), sizes, element, axes)

    # ---- what kind of value
    def whole(self, b: Buf) -> tuple[str, ...]:
        """The axes of all values of vector cores, in one order: those of the results, then those that are folded away."""
        order = dict.fromkeys(a for t in self.p.outputs for a in t.axes)
        depth = {a for s, _ in walk(self.p.body) if s.op == "mma" for x in s.srcs for a in self._axes(x)} - order.keys()
        return tuple(order | dict.fromkeys(a for x in self.p.bufs for a in x.axes if a not in depth))

    def _axes(self, name: str) -> tuple[str, ...]:
        b = self.p.buf(name)
        return b.axes if b is not None else ()

    def ordered(self, t: Tensor, b: Buf) -> list[str]:
        """A factor's axes as they lie in memory, the innermost last."""
        pitch = _dense([dim_hint(n) for n in t.shape])
        step = {a: sum(c * p for i, p in zip(t.index, pitch) for atom, c in i.terms if str(atom) == a) for a in b.axes}
        return sorted(b.axes, key=lambda a: -step[a])

    def is_factor(self, name: str) -> bool:
        return any(s.op == "mma" and name in s.srcs for s, _ in walk(self.p.body))

    def deep(self, b: Buf) -> set[str]:
        """The depth's axes of a factor."""
        return {a for s, _ in walk(self.p.body) if s.op == "mma" and b.name in s.srcs for a in b.axes if a not in self._axes(s.dst)}

    def is_sum(self, name: str) -> bool:
        """Whether a value is a product's sum, or that sum on its way out."""
        statements = [s for s, _ in walk(self.p.body)]
        return any(s.dst == name and (s.op == "mma" or (s.op == "map" and self.leaves(s))) for s in statements)

    def leaves(self, s: Stmt) -> bool:
        """Whether a map only converts a sum that is stored then."""
        e = s.expr
        if not (isinstance(e, Map) and e.fn == "cast" and isinstance(e.args[0], Value)):
            return False
        sums = {x.dst for x, _ in walk(self.p.body) if x.op == "mma"}
        return e.args[0].name in sums and all(x.op == "store" for x, _ in walk(self.p.body) if s.dst in x.srcs or (
            isinstance(x.expr, Expr) and s.dst in _names(x.expr)))

    @property
    def mixed(self) -> bool:
        """Whether vector cores work behind products or in front of them."""
        return any(s.op == "reduce" or (s.op == "map" and not self.leaves(s)) for s, _ in walk(self.p.body))


def _names(e: Expr) -> set[str]:
    return {e.name} if isinstance(e, Value) else {n for a in e.args for n in _names(a)} if isinstance(e, Map) else set()


def _dense(sizes: Sequence[int]) -> list[int]:
    """Strides of a row-major array."""
    out = [1] * len(sizes)
    for i in range(len(sizes) - 2, -1, -1):
        out[i] = out[i + 1] * sizes[i + 1]
    return out
