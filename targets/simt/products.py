"""Products as C++: by matrix instructions from shared memory or from registers, or thread by thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from autocomp.targets.simt.digits import digit, linear, refined, register
from autocomp.targets.simt.expressions import STORED, held
from autocomp.targets.simt.pairs import matrix_direct
from autocomp.targets.simt.placed import Product, Shared

from autocomp.errors import UnsupportedOp
from autocomp.ir.types import DTYPES
from autocomp.tile.layout import Digit, Layout, weights
from autocomp.tile.program import Stmt

if TYPE_CHECKING:
    from autocomp.targets.simt.printer import Printer

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
    words = lambda side: side * i.k * held_ // at.place.wave // 4
    with at.block(f"for (int kk = 0; kk < {pr.steps}; ++kk)", unroll=True):
        at.put(f"unsigned fa[{rm}][{words(i.m)}], fb[{rn}][{words(i.n)}];")
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
    """Products thread by thread, factors read from shared memory: one step in depth at a time, or as many as an instruction folds."""
    i = pr.instruction
    acc, layout = at.names.of(s.dst), pr.layout
    kind = held(at.bufs[s.dst].dtype)
    parts = []
    for name, group in ((pr.a, pr.m), (pr.b, pr.n)):
        if name not in at.place.shared:
            raise UnsupportedOp(f"'{name}' is computed and must lie in shared memory", where=f"kernel {at.p.name}")
        parts.append((name, layout.project([a for a, _ in group]), group))
    total = 1
    for _, size in pr.k:
        total *= size
    if i.k > 1 and not all(pr.deep(at.place.shared[name]) for name, _, _ in parts):
        raise UnsupportedOp(f"{i.name} folds {i.k} neighbours in depth, a factor lies otherwise", where=f"kernel {at.p.name}")
    run = pr.run(at.place.shared)
    if run > 1:
        _in_runs(at, pr, parts, layout, acc, kind, total, run)
        return
    with at.block(f"for (int kk = 0; kk < {-(-total // i.k)}; ++kk)"):
        for var, (name, part, group) in zip("ab", parts):
            x, reach = at.place.shared[name], _reach(part, group)
            at.put(f"{kind if i.k == 1 else 'unsigned'} f{var}[{part.registers}];")
            with at.over(part.registers):
                side = linear(group, lambda a, part=part: at.local(part, a, "r"))
                side = x.placed(within(side, reach, pr.rows(x)))
                deep = "kk" if i.k == 1 else f"kk * {i.k}"
                place = at.element(x, side, deep) if pr.deep(x) else at.element(x, deep, side)
                one = f"ac_held(*(const {STORED[x.buf.dtype.name]} *)({place}))"
                at.put(f"f{var}[r] = {one if i.k == 1 else f'*(const unsigned *)({place})'};")
        with at.over(layout.registers):
            a, b = (register(part, layout, "r", name) for name, part, _ in parts)
            at.put(_step(pr, acc, a, b))


def _step(pr: Product, acc: str, a: str, b: str) -> str:
    call = pr.instruction.call
    return f"{acc}[r] = {call}({acc}[r], fa[{a}], fb[{b}]);" if call else f"{acc}[r] += fa[{a}] * fb[{b}];"


def _in_runs(at: Printer, pr: Product, parts: Sequence[tuple[str, Layout, Any]], layout: Layout, acc: str, kind: str, total: int,
             run: int) -> None:  # fmt: skip
    """Steps in depth `run` at a time: one wide read for a factor whose depth is contiguous, a read a step for the other."""

    def side(x: Any, part: Layout, group: Any) -> str:
        return x.placed(within(linear(group, lambda a: at.local(part, a, "r")), _reach(part, group), pr.rows(x)))

    with at.block(f"for (int kk = 0; kk < {total}; kk += {run})"):
        for var, (name, part, group) in zip("ab", parts):
            x = at.place.shared[name]
            if pr.deep(x):
                at.put(f"{kind} f{var}[{part.registers * run}];")
                with at.over(part.registers):
                    place = at.element(x, side(x, part, group), "kk")
                    at.put(f"ac_load<{run}>(&f{var}[r * {run}], (const {STORED[x.buf.dtype.name]} *)({place}));")
        at.put("#pragma unroll")
        with at.block(f"for (int u = 0; u < {run}; ++u)"):
            for var, (name, part, group) in zip("ab", parts):
                x = at.place.shared[name]
                if not pr.deep(x):
                    at.put(f"{kind} f{var}[{part.registers}];")
                    with at.over(part.registers):
                        place = at.element(x, "kk + u", side(x, part, group))
                        at.put(f"f{var}[r] = ac_held(*(const {STORED[x.buf.dtype.name]} *)({place}));")
            with at.over(layout.registers):
                a, b = (f"({register(part, layout, 'r', name)})" + (f" * {run} + u" if pr.deep(at.place.shared[name]) else "")
                        for name, part, _ in parts)  # fmt: skip
                at.put(_step(pr, acc, a, b))
