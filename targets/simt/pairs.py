"""Packed arithmetic on two half values in a register (half2): operands of a product that are dequantised or scaled just before it.

An integer of at most 8 bits in a word becomes a half by its bits alone: 0x6400 with the field in its mantissa is 1024 + field, which
one multiply-add takes to (field - zero), exactly. A bf16 has a mantissa of 7 bits: 0x4300 with a field of at most 7, moved to its end,
is 128 + field. What has no pair form is computed twice in f32 and rounded.

Elements that are neighbours in depth have their fields in one byte, or in two beside each other, and a pair wants them 16 bits apart.
Steps in depth may come in any order that both factors have (directive `paired_fields`):

    before   (n0, n1) (n2, n3) of a word n7..n0    byte of each, shifted, added, masked      5 instructions a pair (bf16, 4 bits)
    after    (n0, n4) (n1, n5)                     the word shifted once for both, masked    4; the other factor's pairs are picked anew
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from autocomp.targets.simt import streams
from autocomp.targets.simt.digits import number, register
from autocomp.targets.simt.direct import SLICES
from autocomp.targets.simt.expressions import STORED, Scalar, held, under
from autocomp.targets.simt.placed import Product

from autocomp.errors import UnsupportedOp
from autocomp.ir.body import Const, Expr, Inside, Map
from autocomp.ir.rounding import unrounded
from autocomp.ir.types import BF16, F16, U8, DType
from autocomp.tile.layout import Layout
from autocomp.tile.plan import Line
from autocomp.tile.program import Stmt, Tensor, Value

if TYPE_CHECKING:
    from autocomp.targets.simt.printer import Printer

MAGIC = {F16: 1024, BF16: 128}  # 0x6400 as a half, 0x4300 as a bf16: their last bits count ones
WIDEST = {F16: 8, BF16: 7}  # bits of a field that a mantissa holds
WHOLE = {F16: 2048, BF16: 256}  # up to which all whole numbers are values
TWO = {"add": "ac_pair_add", "sub": "ac_pair_sub", "mul": "ac_pair_mul"}


@dataclass(frozen=True)
class Field:
    """(bits `width` from `shift` of byte value `name`) - minus."""

    name: str
    shift: int
    width: int
    minus: int


def matrix_direct(at: Printer, s: Stmt, pr: Product) -> None:
    """A product from registers: a step's factors, then the instructions."""
    i, (rm, rn), acc = pr.instruction, pr.repeat, at.names.of(s.dst)
    step = i.k // SLICES  # elements of two registers
    alike = pr.m[0][0] not in at.bufs[pr.a].axes
    apart = next((d for d in (4, 2) if _fields_apart(at, pr, d)), 1)
    apart = apart if at.wants("paired_fields", apart > 1) else 1

    def word(name: str, row: str, n: int) -> str:
        if apart == 1:
            return _word(at, name, f"(({row} * {pr.steps} + kk) * {step} + {n * step // 2})")
        steps = apart * 2 // step  # that take the elements of a word
        return _word(at, name, f"(({row} * {pr.steps} + kk) / {steps} * {2 * apart} + kk % {steps} * {step // 2} + {n})", apart, n)

    with at.block(f"for (int kk = 0; kk < {pr.steps}; ++kk)", unroll=True):
        at.put(f"unsigned fa[{rm}][4], fb[{rn}][2];")
        with at.over(rm, "m"):
            for n in range(4):
                at.put(f"fa[m][{n}] = {word(pr.a, '0' if alike else f'(m * 2 + {n % 2})', n // 2)};")
        with at.over(rn, "n"):
            for n in range(2):
                at.put(f"fb[n][{n}] = {word(pr.b, 'n', n)};")
        with at.over(rm, "m"), at.over(rn, "n"):
            at.put(f"{i.call}(&{acc}[(m * {rn} + n) * 4], fa[m], fb[n]);")


def sum_parts(at: Printer, s: Stmt, pr: Product) -> None:
    """The parts that waves computed of one product, in the first of them."""
    n, acc, wave = at.place.layouts[s.dst].registers, at.names.of(s.dst), at.place.wave
    key = f"parts of {s.dst}"
    if key not in at.place.trees:
        at.place.trees[key] = at.place.reserve(at.place.threads * n * 4)
    at.before_write(key)
    box = at.names.fresh("box")
    kind = held(at.bufs[s.dst].dtype)
    at.put(f"{kind} *{box} = ({kind} *)(smem + {at.place.trees[key]});")
    with at.over(n):
        at.put(f"{box}[(wave * {n} + r) * {wave} + lane] = {acc}[r];")
    at.before_read(key)
    with at.block(f"if (wave % {pr.parts} == 0)"), at.over(n), at.block(f"for (int q = 1; q < {pr.parts}; ++q)", unroll=True):
        at.put(f"{acc}[r] += {box}[((wave + q) * {n} + r) * {wave} + lane];")


def load_words(at: Printer, s: Stmt, t: Tensor) -> None:
    """A tile of a view into registers as it is stored, several elements in each; zeros outside of the extents and guards."""
    layout, name = at.place.layouts[s.dst], at.names.of(s.dst)
    per = 4 // t.dtype.bytes
    v = at.vector(layout, t)
    if v % per:
        raise UnsupportedOp(f"{t.name} comes in pieces of {v * t.dtype.bytes} bytes, no whole registers", where=f"kernel {at.p.name}")
    with at.over(layout.registers // v, "q"):
        r = f"(q * {v})"
        place = lambda a: at.coordinate(layout, a, r)
        ok = at.inside(layout, t.axes, r) + at.guards(t.guard, place)
        read = f"ac_load_words{streams.once(at, t, v)}<{v}>(&{name}[q * {v // per}], {at.address(t, place)});"
        at.put(under(ok, read))
        if ok:
            at.put(f"else ac_fill<{v // per}>(&{name}[q * {v // per}], 0u);")


def _word(at: Printer, name: str, r: str, apart: int = 1, half: int = 0) -> str:
    """The register whose first element is number r of a factor, its second one `apart` behind; `half`: the place of those along a pair's
    own axis, where they are not the two of one."""
    if name in at.place.words:
        words, per = at.names.of(name), 4 // at.bufs[name].dtype.bytes
        if apart == 1:
            return f"{words}[{r} / {per}]"
        return f"ac_pair_at({words}[{r} / {per}], {words}[({r} + {apart}) / {per}], {r} % {per})"
    if at.bufs[name].dtype.bytes != 2:
        raise UnsupportedOp(f"{name}, {at.bufs[name].dtype}, is computed; in registers that is for half types", where=f"kernel {at.p.name}")
    return Pairs(at, at.place.layouts[name], at.bufs[name].dtype.name, apart).text(at.made(name), r, half)


def _fields_apart(at: Printer, pr: Product, apart: int) -> bool:
    """Whether the elements of the computed factor that are `apart` in a thread's registers are made from fields 16 bits apart in a word:
    four elements where a byte has two, two where it has one."""
    of = at.bufs[pr.a]
    if pr.a not in at.place.late or of.dtype not in MAGIC or at.bufs[pr.b].dtype.bytes != 2 or at.exact:
        return False
    layout = at.place.layouts[pr.a]
    if pr.steps * pr.instruction.k // SLICES % (2 * apart) or layout.registers % (2 * apart):
        return False
    pairs = Pairs(at, layout, of.dtype.name, apart)
    both = bool(pairs.axis) and pairs.known
    if both is not (apart == 4):
        return False
    names = {f.name for half in range(1 + both) for f in pairs.fields_of(pairs.settled(at.made(pr.a), half if both else None))}
    return bool(names) and all(pairs.words_apart(name) for name in names)


class Pairs:
    """Text of expressions at two registers of a layout, `apart` registers apart: neighbours, or those whose fields are 16 bits apart."""

    def __init__(self, at: Printer, layout: Layout, dtype: str, apart: int = 1) -> None:
        self.at, self.layout, self.kind, self.apart = at, layout, STORED[dtype], apart
        self.half = next((d for d in MAGIC if d.name == dtype), None)
        first = layout.reg[0]
        whole = sum(d.axis == first.axis for level in (layout.reg, layout.lane, layout.wave) for d in level) == 1
        self.axis = first.axis if whole and first.axis not in at.base else ""  # its index is known to be 0 or 1
        self.known = first.count == 2
        self.near = first.axis

    def text(self, e: Expr, r: str, half: int = 0) -> str:
        places = (None, None) if not (self.axis and self.known) else (0, 1) if self.apart == 1 else (half, half)
        return self.pair(self.settled(e, places[0]), self.settled(e, places[1]), r)

    def fields_of(self, e: Expr) -> list[Field]:
        """The fields of bytes that pairs of an expression are made from."""
        e = unrounded(e)
        assert self.half is not None
        if (field := _field(e, self.half)) is not None:
            return [field]
        return [f for x in e.args for f in self.fields_of(x)] if isinstance(e, Map) and self.two(e, e) else []

    def words_apart(self, name: str) -> bool:
        """Whether the bytes of `2 * apart` elements are one word of a value, those of the second half of them its upper 16 bits."""
        if (mine := self.at.place.layouts.get(name)) is None or name in self.at.place.strips or mine.registers % 4:
            return False
        at = [number(mine, self.layout, r) for r in range(self.layout.registers)]
        span = 2 * self.apart
        words = [at[r : r + span] for r in range(0, len(at), span)]
        return all(w[0] is not None and w[0] % 4 == 0 and w == [w[0] + q // (self.apart // 2) for q in range(span)] for w in words)

    def settled(self, e: Expr, half: int | None) -> Expr:
        """An expression with what is computed only for it in its place, and choices by the pair's own axis made."""
        if isinstance(e, Value):
            return self.settled(self.at.made(e.name), half) if e.name in self.at.place.late else e
        if half is not None and isinstance(e, Inside) and all(g.names() <= {self.axis} for g in e.guard):
            return Const(e.dtype, all(g.const + g.coef(self.axis) * half >= 0 for g in e.guard))
        if not isinstance(e, Map):
            return e
        args = tuple(self.settled(x, half) for x in e.args)
        if e.fn == "where" and isinstance(args[0], Const):
            return args[1] if args[0].value else args[2]
        return e.with_args(args)

    def pair(self, low: Expr, high: Expr, r: str) -> str:
        low, high = unrounded(low), unrounded(high)  # a pair is rounded where it is made
        if self.half is not None and not self.at.exact:
            fields = _field(low, self.half), _field(high, self.half)
            if fields[0] is not None and fields[1] is not None:
                return self.fields(fields[0], fields[1], r)
            if isinstance(low, Map) and isinstance(high, Map) and (call := self.two(low, high)):
                return f"{call}({', '.join(self.pair(a, b, r) for a, b in zip(low.args, high.args))})"
        scalar = lambda h: self.scalar(r if h == 0 else f"({r} + {self.apart})")
        return f"ac_pair<{self.kind}>({scalar(0).text(low)}, {scalar(1).text(high)})"

    def two(self, low: Map, high: Map) -> str:
        """What computes both at once, "" for nothing."""
        alike = low.fn == high.fn and low.fn in TWO and low.dtype == high.dtype == self.half
        return TWO[low.fn] + ("_bf16" if self.half == BF16 else "") if alike else ""

    def fields(self, low: Field, high: Field, r: str) -> str:
        word = lambda f, r: f"ac_word({self.at.names.of(f.name)}, {self.place(f.name, r)})"
        byte = lambda f, r: f"({self.place(f.name, r)}) % 4"
        if self.apart > 1 and low == high:
            return self.fields_apart(low, f"{word(low, r)}, {byte(low, r)}")
        words = f"{word(low, r)}, {word(high, f'({r} + 1)')}, {byte(low, r)}, {byte(high, f'({r} + 1)')}"
        if self.half == BF16:
            mask = (1 << low.width) - 1 | (1 << high.width) - 1 << 16
            zero = _bits(BF16, *(-MAGIC[BF16] - f.minus for f in (low, high)))
            return f"ac_pair_fields_bf16({words}, {low.shift}, {high.shift}, {self.kept(f'{mask:#010x}u')}, {self.kept(zero)})"
        mask = sum(((1 << f.width) - 1 << f.shift) << 16 * h for h, f in enumerate((low, high)))
        scale = _bits(F16, 2.0**-low.shift, 2.0**-high.shift)
        shift = _bits(F16, *(-(MAGIC[F16] * 2.0**-f.shift) - f.minus for f in (low, high)))
        return f"ac_pair_fields({words}, {self.kept(f'{mask:#010x}u')}, {self.kept(scale)}, {shift})"

    def fields_apart(self, f: Field, place: str) -> str:
        """The field at a place of a word, and the one 16 bits behind it."""
        mask = self.kept(f"{((1 << f.width) - 1) * 0x10001 << (0 if self.half == BF16 else f.shift):#010x}u")
        if self.half == BF16:
            return f"ac_pair_apart_bf16({place}, {f.shift}, {mask}, {self.kept(_bits(BF16, *(-MAGIC[BF16] - f.minus,) * 2))})"
        scale, shift = 2.0**-f.shift, -(MAGIC[F16] * 2.0**-f.shift) - f.minus
        return f"ac_pair_apart({place}, {mask}, {self.kept(_bits(F16, scale, scale))}, {_bits(F16, shift, shift)})"

    def kept(self, bits: str) -> str:
        """A constant as a register of the whole kernel: compilers load it anew for every use otherwise."""
        if bits not in self.at.kept:
            self.at.kept[bits] = name = self.at.names.fresh("kept")
            self.at.top.first(Line(f"const unsigned {name} = ac_kept({bits});"))
        return self.at.kept[bits]

    def place(self, name: str, r: str) -> str:
        return register(self.at.place.layouts[name], self.layout, r, name)

    def scalar(self, r: str) -> Scalar:
        read: Callable[[str], str] = lambda n: f"{self.at.names.of(n)}[{self.place(n, r)}]"
        return Scalar(read, self.at.table, lambda a: self.at.coordinate(self.layout, a, r), self.at.exact, self.at.half, self.at.relative,
                      index=self.at.index)  # fmt: skip


def _field(e: Expr, half: DType) -> Field | None:
    """A field of a byte, cast to a half type, less a whole number: what has a pair form; None otherwise."""
    minus = 0
    if isinstance(e, Map) and e.fn in ("sub", "add") and isinstance(e.args[1], Const):
        c = float(e.args[1].value)
        if c != int(c) or MAGIC[half] + abs(c) > WHOLE[half] or abs(c) > MAGIC[half] // 2:
            return None
        minus, e = int(c) if e.fn == "sub" else -int(c), e.args[0]
    if not (isinstance(e, Map) and e.fn == "cast" and e.dtype == half):
        return None
    x, shift, width = e.args[0], 0, 8
    if isinstance(x, Map) and x.fn == "bitand" and isinstance(x.args[1], Const):
        width = int(x.args[1].value).bit_length()
        if int(x.args[1].value) != (1 << width) - 1:
            return None
        x = x.args[0]
    if isinstance(x, Map) and x.fn == "shr" and isinstance(x.args[1], Const):
        shift = int(x.args[1].value)
        x = x.args[0]
    if not (isinstance(x, Value) and x.dtype == U8 and 0 <= shift < 8):
        return None
    width = min(width, 8 - shift)
    return Field(x.name, shift, width, minus) if width <= WIDEST[half] else None


def _bits(half: DType, low: float, high: float) -> str:
    """Two numbers of a half type as the word that holds them."""
    a, b = (int(np.float32(x).astype(half.numpy).view(np.uint16)) for x in (low, high))
    return f"{a | b << 16:#010x}u"
