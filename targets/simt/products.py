"""Products as C++: by matrix instructions from shared memory or from registers, or thread by thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import reduce
from math import gcd, prod
from operator import or_
from typing import TYPE_CHECKING, Any

from autocomp.targets.simt.digits import digit, linear, refined, register
from autocomp.targets.simt.expressions import STORED, held
from autocomp.targets.simt.pairs import matrix_direct
from autocomp.targets.simt.placed import Product, Shared

from autocomp.cost.lanes import SWIZZLED
from autocomp.errors import UnsupportedOp
from autocomp.ir.types import DTYPES
from autocomp.tile.layout import Digit, Layout, weights
from autocomp.tile.program import Stmt

if TYPE_CHECKING:
    from autocomp.targets.simt.printer import Printer

ADDS = 512  # of a thread in one turn of a loop over depth: 8 KB of code; 16 took 349 us for 335 (f32 1344 x 1384 x 3440, H100)
CHUNK = 16  # bytes that a swizzle moves whole (`ac_swizzle`)
BYTES = {d.name: d.bytes for d in DTYPES.values()} | {"tf32": 4}  # of a factor's element in registers


def mma(at: Printer, s: Stmt) -> None:
    pr = at.place.products[s]
    for name in (pr.a, pr.b):
        if name in at.place.shared:
            at.before_read(name)
    if pr.instruction.load == "direct":
        matrix_direct(at, s, pr)
    elif pr.instruction.call and pr.instruction.load != "thread":
        matrix(at, s, pr)
    else:
        plain(at, s, pr)


def within(row: str, reach: int, stored: int, run: int = 1) -> str:
    """The place of a row (a column, where a factor lies along them), of `reach` that are read, from which shared memory holds `run`: past
    the `stored` ones another's is read, nobody stores its results."""
    return row if reach <= stored else f"ac_min({row}, {stored - run})"


def _reach(part: Layout, group: tuple[tuple[str, int], ...]) -> int:
    """Rows of a tile, combined axes innermost first, that a layout has up to its last."""
    last, step = 0, 1
    for a, size in group:
        last, step = last + (part.extent(a) - 1) * step, step * size
    return last + 1


def matrix(at: Printer, s: Stmt, pr: Product) -> None:
    i, (rm, rn), acc = pr.instruction, pr.repeat, at.names.of(s.dst)
    per = 1
    for d in i.c[0]:
        per *= d.count
    held_ = BYTES[i.factor or i.types[0]]
    kind, each = ("double", 8) if held_ == 8 else ("unsigned", 4)
    words = lambda side: side * i.k * held_ // at.place.wave // each
    with at.block(f"for (int kk = 0; kk < {pr.steps}; ++kk)", unroll=True):
        at.put(f"{kind} fa[{rm}][{words(i.m)}], fb[{rn}][{words(i.n)}];")
        factor(at, pr, True)
        factor(at, pr, False)
        with at.over(rm, "m"), at.over(rn, "n"):
            at.put(f"{i.call}(&{acc}[(m * {rn} + n) * {per}], fa[m], fb[n]);")


def factor(at: Printer, pr: Product, first: bool) -> None:
    """Registers of one factor at step kk: from shared memory, or packed from an earlier accumulator."""
    name = pr.a if first else pr.b
    i, n = pr.instruction, pr.repeat[0 if first else 1]
    side = i.m if first else i.n
    number = f"wave % {pr.waves[0]}" if first else f"wave / {pr.waves[0]}"
    if name not in at.place.shared:
        packed(at, pr, n)
        return
    x = at.place.shared[name]
    lies, waves = pr.deep(x), pr.waves[0 if first else 1]
    start = f"{number} * {side * n}" if waves > 1 else "0"
    inside = lambda row, run: within(row, side * n * waves, pr.rows(x), run)
    if i.load != "ldmatrix" or not (lies or x.buf.dtype.bytes == 2):
        own_elements(at, x, pr, first, n, start, inside)
        return
    trans, chunk = "" if lies else "_t", 16 // x.buf.dtype.bytes
    place = lambda row, k: at.element(x, inside(row, 1), k) if lies else at.element(x, k, inside(row, chunk))
    if first:
        row, deep = ("lane % 16", f"lane / 16 * {chunk}") if lies else ("lane / 8 % 2 * 8", "lane / 16 * 8 + lane % 8")
        with at.over(n, "m"):
            at.put(f"ac_ldmatrix4{trans}(fa[m], {place(f'{start} + m * 16 + {row}', f'kk * {i.k} + {deep}')});")
        return
    deep = f"lane / 8 % 2 * {chunk}" if lies else "lane / 8 % 2 * 8 + lane % 8"
    if n // 2:
        row = "lane / 16 * 8 + lane % 8" if lies else "lane / 16 * 8"
        with at.over(n // 2, "n"):
            at.put(f"ac_ldmatrix4{trans}(fb[2 * n], fb[2 * n + 1], {place(f'{start} + n * 16 + {row}', f'kk * {i.k} + {deep}')});")
    if n % 2:
        row = "lane % 8" if lies else "0"
        at.put(f"ac_ldmatrix2{trans}(fb[{n - 1}], {place(f'{start} + {(n - 1) * 8} + {row}', f'kk * {i.k} + {deep}')});")


def packed(at: Printer, pr: Product, n: int) -> None:
    """The first factor from the registers of an earlier accumulator, zeros outside the tile."""
    i, name = pr.instruction, at.names.of(pr.a)
    have, (axis, size) = at.place.layouts[pr.a], pr.k[0]
    per = prod(d.count for d in i.a[0])
    level = [*i.a[0], Digit("k", i.k, pr.steps), Digit("m", i.m, n)]
    names = {"m": pr.m[0][0], "k": axis}
    want = Layout(tuple(Digit(names[d.axis], d.stride, d.count) for d in level), have.lane, have.wave)
    mine = Layout(refined(have.reg, want.reg), have.lane, have.wave)
    with at.over(n, "m"), at.over(per // 2, "q"):
        pair = []
        for j in (0, 1):
            r = f"((m * {pr.steps} + kk) * {per} + 2 * q + {j})"
            value = f"{name}[{register(mine, want, r, pr.a)}]"
            inside = f"{at.local(want, axis, r)} < {size}"
            pair.append(f"{inside} ? {value} : 0.0f" if have.extent(axis) > size else value)
        at.put(f"fa[m][q] = ac_pair<{STORED[at.bufs[pr.a].dtype.name]}>({', '.join(pair)});")


def own_elements(at: Printer, x: Shared, pr: Product, first: bool, n: int, start: str, inside: Callable[[str, int], str]) -> None:
    """Each lane reads the elements that it holds: runs that lie side by side along depth at once, others one by one. `inside`: the place
    along the rows that shared memory holds."""
    i, lies = pr.instruction, pr.deep(x)
    reg, lane = i.a if first else i.b
    axis, step, var = ("m", i.m, "m") if first else ("n", i.n, "n")
    kind, count = STORED[x.buf.dtype.name], prod(d.count for d in reg)
    into = STORED.get(i.factor, f"ac_{i.factor}") if i.factor else kind
    run = reg[0].count if lies and reg and (reg[0].axis, reg[0].stride) == ("k", 1) else 1
    of = lambda a: [digit("lane", d, w, lane) for d, w in weights(lane) if d.axis == a]
    mine = lambda a: [digit(f"(q * {run})" if run > 1 else "q", d, w, reg) for d, w in weights(reg) if d.axis == a]
    with at.over(n, var), at.over(count // run, "q"):
        side, k = " + ".join([start, f"{var} * {step}", *of(axis), *mine(axis)]), " + ".join([f"kk * {i.k}", *of("k"), *mine("k")])
        side = inside(side, 1)
        place = at.element(x, side, k) if lies else at.element(x, k, side)
        at.put(f"ac_take<{kind}, {into}, {run}>(f{'a' if first else 'b'}[{var}], {f'q * {run}' if run > 1 else 'q'}, {place});")


def plain(at: Printer, s: Stmt, pr: Product) -> None:
    """Products thread by thread, factors read from shared memory in runs of neighbours: along depth where a factor lies along it, else
    along its rows. As many steps stand behind each other as keep the loop's code small."""
    i = pr.instruction
    for name in (pr.a, pr.b):
        if name not in at.place.shared:
            raise UnsupportedOp(f"'{name}' is computed and must lie in shared memory", where=f"kernel {at.p.name}")
    sides = [Side(at.place.shared[name], pr.part(first), pr.m if first else pr.n, pr) for name, first in ((pr.a, True), (pr.b, False))]
    total = prod(n for _, n in pr.k)
    if i.k > 1:
        folded(at, s, pr, sides, total)
        return
    left, right = sides
    acc, kind, run, pieces = at.names.of(s.dst), held(at.bufs[s.dst].dtype), pr.run(at.place.shared), pr.pieces(at.place.shared)
    own, rows = pr.layout.registers // pieces, left.part.registers // pieces
    with at.block(f"for (int kk = 0; kk < {total}; kk += {run})", unroll=True, most=turns_together(pr, total, run)):
        at.put(f"{kind} fb[{right.part.registers * run}];")
        right.read(at, "fb", run)
        with _over(at, pieces, "g"):
            at.put(f"{kind} fa[{rows * run}];")
            left.read(at, "fa", run, rows, f"g * {rows} + " if pieces > 1 else "")
            with _over(at, run, "u"), at.over(own):
                mine = "r"
                if there := _to_and_fro(pr, own):
                    at.put(f"const int s = {there};")
                    mine = "s"
                r = f"(g * {own} + {mine})" if pieces > 1 else mine
                a, b = (f"({register(x.part, pr.layout, r, x.x.buf.name)})" for x in sides)
                a = f"({a} % {rows})" if pieces > 1 else a
                at.put(f"{acc}[{r}] += fa[{left.held(a, run, rows)}] * fb[{right.held(b, run, right.part.registers)}];")


def _to_and_fro(pr: Product, own: int) -> str:
    """The register of the r-th of `own` multiply-adds of a step: along a row of the piece, back along the next, so that of two that follow
    each other one factor is the same, and compilers find it where the first had it (841 clocks of 512 to 612; see untied_accumulators).
    Empty where that is their order anyway."""
    digits = [(d.axis in [a for a, _ in pr.n], min(d.count, own // w), w) for d, w in weights(pr.layout.reg) if w < own]
    columns = prod(count for along, count, _ in digits if along)
    if columns == 1 or columns == own:
        return ""
    numbers = {True: f"(r / {columns} % 2 ? {columns - 1} - r % {columns} : r % {columns})", False: f"r / {columns}"}
    terms, size = list[str](), {True: 1, False: 1}
    for along, count, w in digits:
        below = f" / {size[along]}" if size[along] > 1 else ""
        terms.append(f"{numbers[along]}{below} % {count}{f' * {w}' if w > 1 else ''}")
        size[along] *= count
    return " + ".join(terms)


def _over(at: Printer, count: int, var: str) -> Any:
    """An unrolled loop, nothing around what is done once."""
    return at.over(count, var) if count > 1 else nullcontext()


def turns_together(pr: Product, total: int, run: int) -> int:
    """Turns of the loop over depth that are printed behind each other: ADDS multiply-adds at most, and no more than there are."""
    turns = max(1, min(total, ADDS // pr.layout.registers) // run)
    return next(n for n in range(turns, 0, -1) if total // run % n == 0 or n == 1)


@dataclass(frozen=True)
class Side:
    """A factor in shared memory as threads read it: `part` is how they hold its rows, axes `group` innermost first."""

    x: Shared
    part: Layout
    group: tuple[tuple[str, int], ...]
    of: Product

    @property
    def deep(self) -> bool:
        return self.of.deep(self.x)

    @property
    def run(self) -> int:
        """Rows that one access reads of a factor that lies along them."""
        return self.of.beside(self.x, self.part)

    def read(self, at: Printer, into: str, run: int, rows: int = 0, from_: str = "") -> None:
        """`run` steps from kk on, of `rows` registers (all of them) from one on."""
        rows, kind = rows or self.part.registers, STORED[self.x.buf.dtype.name]
        if self.deep:
            with at.over(rows):
                at.put(f"ac_load<{run}>(&{into}[r * {run}], (const {kind} *)({self.place(at, f'({from_}r)' if from_ else 'r', 'kk')}));")
            return
        n = self.run
        with _over(at, run, "u"), at.over(rows // n):
            r, step = f"r * {n}" if n > 1 else "r", "kk + u" if run > 1 else "kk"
            place = self.place(at, f"({from_}{r})" if from_ or n > 1 else r, step, n)
            at.put(f"ac_load<{n}>(&{into}[{f'u * {rows} + ' if run > 1 else ''}{r}], (const {kind} *)({place}));")

    def held(self, r: str, run: int, rows: int) -> str:
        """Where `read` put register r's element of step u."""
        return r if run == 1 else f"{r} * {run} + u" if self.deep else f"u * {rows} + {r}"

    def place(self, at: Printer, r: str, step: str, run: int = 1) -> str:
        """Where register r's element of a step in depth lies; `run` rows of a factor that lies along them."""
        if self.deep and self.x.swizzled and self.apart():
            return self._placed_apart(at, r, step)
        side = linear(self.group, lambda a: at.local(self.part, a, r))
        side = self.x.placed(within(side, _reach(self.part, self.group), self.of.rows(self.x), run))
        return at.element(self.x, side, step) if self.deep else at.element(self.x, step, side)

    def apart(self) -> bool:
        """Whether the numbers of a thread's own row and of a register's add up without a carry in the bits that a swizzle reads, so that
        each has its part of it."""
        mine, x = _numbers(self.group, self.part), self.x
        if _reach(self.part, self.group) > self.of.rows(x) or any(t % x.apart for t in mine[0]):
            return False
        threads = reduce(or_, (t // x.apart for t in mine[0]))
        return not threads & reduce(or_, (r % x.apart * (x.rows // x.apart) + r // x.apart for r in mine[1])) & (SWIZZLED - 1)

    def _placed_apart(self, at: Printer, r: str, step: str) -> str:
        """The same with what a register decides as a number beside the thread's address, which compilers then keep (NVRTC 13.0 computed
        each of 120 addresses in a loop of 896 multiply-adds anew: 1431 instructions, 980 so)."""
        x, part = self.x, self.part
        mine = linear(self.group, lambda a: at.local(Layout((), part.lane, part.wave), a, 0))
        row = x.placed(linear(self.group, lambda a: at.local(Layout(part.reg, (), ()), a, r)))
        phases = gcd(x.row_bytes // CHUNK, SWIZZLED)
        every = f" / {SWIZZLED // phases}" if phases < SWIZZLED else ""
        turn = f" ^ ({row}){every} % {phases} * {CHUNK}"
        own = at.element(x, f"({mine}) / {x.apart}" if x.apart > 1 else mine, step, turn)
        return f"{own} + ({row}) * {x.row_bytes}"


def _numbers(group: tuple[tuple[str, int], ...], layout: Layout) -> tuple[list[int], list[int]]:
    """What threads, and registers, add to the number of a row along combined axes, innermost first."""
    below, size = {}, 1
    for axis, n in group:
        below[axis], size = size, size * n

    def of(level: tuple[Digit, ...], count: int) -> list[int]:
        mine = [(d, w) for d, w in weights(level) if d.axis in below]
        return [sum(n // w % d.count * d.stride * below[d.axis] for d, w in mine) for n in range(count)]

    waves = of(layout.wave, layout.waves)
    return [a + b for a in of(layout.lane, layout.lanes) for b in waves], of(layout.reg, layout.registers)


def folded(at: Printer, s: Stmt, pr: Product, sides: Sequence[Side], total: int) -> None:
    """Products by an instruction that folds several neighbours in depth."""
    i, acc = pr.instruction, at.names.of(s.dst)
    if not all(x.deep for x in sides):
        raise UnsupportedOp(f"{i.name} folds {i.k} neighbours in depth, a factor lies otherwise", where=f"kernel {at.p.name}")
    with at.block(f"for (int kk = 0; kk < {-(-total // i.k)}; ++kk)"):
        for var, x in zip("ab", sides):
            at.put(f"unsigned f{var}[{x.part.registers}];")
            with at.over(x.part.registers):
                at.put(f"f{var}[r] = *(const unsigned *)({x.place(at, 'r', f'kk * {i.k}')});")
        with at.over(pr.layout.registers):
            a, b = (register(x.part, pr.layout, "r", x.x.buf.name) for x in sides)
            at.put(f"{acc}[r] = {i.call}({acc}[r], fa[{a}], fb[{b}]);")
