"""Products of warpgroups (PTX: wgmma.mma_async), from operands in shared memory that descriptors name, or a first operand in registers.

A product is issued step by step in depth, and is under way until its accumulator is touched. Descriptors are made once and moved on by
additions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from autocomp.targets.cuda import mma_row_sums
from autocomp.targets.cuda.mma_zero_init import Overwrite
from autocomp.targets.cuda.queues import read, turn
from autocomp.targets.cuda.team_placer import Laid
from autocomp.targets.cuda.tma import Bulk
from autocomp.targets.simt.access import contiguous_axis
from autocomp.targets.simt.expressions import STORED
from autocomp.targets.simt.placed import Product

from autocomp.tile.plan import Access, Began, Group, Line, Node, Touch
from autocomp.tile.program import Stmt, TileProgram, walk
from autocomp.tile.steps import by, stmt_of

if TYPE_CHECKING:
    from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter

PTX = {"f8e4m3": "e4m3", "f8e5m2": "e5m2", "i8": "s8", "i32": "s32"}  # types that PTX names otherwise


def packing(at: WarpSpecialisedPrinter, pr: Product) -> tuple[str, str]:
    """Declares registers for a product's first factor; their name, and the text that packs the factor into them."""
    packed, have = at.names.fresh("fa"), at.place.layouts[pr.a].registers
    at.put(f"unsigned {packed}[{have // 2}];")
    return packed, f"ac_pack<{STORED[at.bufs[pr.a].dtype.name]}, {have}>({packed}, {at.names.of(pr.a)});"


def multiply(at: WarpSpecialisedPrinter, s: Stmt, packed: str) -> None:
    """A product whose first factor has been packed into registers."""
    read(at, at.place.products[s].b)
    issue_product(at, s, packed)


def issue_product(at: WarpSpecialisedPrinter, s: Stmt, packed: str) -> None:
    """Start a product; it is under way until its accumulator is touched."""
    pr = at.place.products[s]
    acc = at.names.of(s.dst)
    i, (rm, rn) = pr.instruction, pr.repeat
    per = i.n // 2
    more = at.row_sums if at.row_sums and at.row_sums.product is s else None
    sums = more.registers if more else ""
    mine = tuple(dict.fromkeys(q.name for name in (pr.a, pr.b) if (q := at.of.get(name)) is not None))
    laid = tuple(n for n in (pr.a, pr.b) if n in at.placer.laid)
    keep, behind = f"ac_keep({acc});", mma_row_sums.settled(at, more) if more else ()
    over: tuple[Node, ...] = (*(Access(n, False) for n in laid), Touch((s.dst,), keep), *behind)
    at.plan(Began((s.dst, *([more.total] if more else ())), mine, (*laid, *(["ones"] if more else ())), (Line(keep),), over))
    if sums:
        at.put(f"ac_keep({sums});")
    at.put("ac_team_fence();")
    call = wrapper(at, pr, bool(packed), bool(sums))
    first = by(at.doing, Overwrite) if at.doing and stmt_of(at.doing) is s else None
    with at.block(f"for (int kk = 0; kk < {at.steps or pr.steps}; ++kk)", unroll=True), at.over(rm, "m"), at.over(rn, "n"):
        a = f"&{packed}[(m * {pr.steps} + kk) * 4]" if packed else descriptor(at, pr.a, True, pr)
        keep = "1" if first is None else "kk > 0" if not first.turn else f"{at.turn_of} > 0 || kk > 0" if at.turn_of else "1"
        beside = f"{sums}, " if sums else ""
        at.put(f"{call}({keep}, &{acc}[(m * {rn} + n) * {per}], {beside}{a}, {descriptor(at, pr.b, False, pr)});")
    at.plan(Group("ac_team_commit();"))


def descriptor(at: WarpSpecialisedPrinter, name: str, first: bool, pr: Product) -> str:
    """The matrix descriptor of a factor at step kk and repetition m or n: its first element's, made once, and a way in 16 bytes."""
    x, q, i = at.placer.bulk.get(name) or at.placer.laid[name], at.of.get(name), pr.instruction
    if not isinstance(x, Laid) and type(x) is not Bulk:  # rows that share memory lie by a formula of their own
        number = f"(wave / 4 * {pr.repeat[0]} + m)" if first else "n"
        side = f"{number} * {i.m}" if first else f"n * {i.n}" if pr.repeat[1] > 1 else "0"
        slot = f" + {turn(at, q)[0]} * {x.bytes}" if q is not None and q.depth > 1 else ""
        place = x.place(side, number, i.m if first else i.n, i.k * x.buf.dtype.bytes)
        return f"{_made(at, x)}({at.memory} + {x.offset}{slot} + {place}, {x.layout[0]}, {x.layout[1]})"
    var, size, count = ("m", i.m, pr.repeat[0]) if first else ("n", i.n, pr.repeat[1])
    way = [f"{turn(at, q)[0]} * {x.bytes // 16}"] if q is not None and q.depth > 1 else []
    if deep(at, name, pr):
        bytes_ = i.k * x.buf.dtype.bytes
        steps = x.chunk // bytes_
        way += [f"{var} * {size * x.chunk // 16}"] * (count > 1) + [f"kk % {steps} * {bytes_ // 16}"]
        way += [f"kk / {steps} * {x.box_bytes // 16}"] * (x.boxes > 1)
    else:
        way += [f"{var} * {size} / {x.across} * {x.box_bytes // 16}"] * (count > 1) + [f"kk * {i.k * 8}"]
    moved = "beside" if at.row_sums and at.row_sums.factor == name else "at"
    return f"{at.describes}_{moved}({described(at, name, first, pr)}, {' + '.join(way)})"


def described(at: WarpSpecialisedPrinter, name: str, first: bool, pr: Product) -> str:
    """The descriptor of a warpgroup's first element of a factor, declared where its role begins. Warpgroups have rows of their own,
    or columns where they share rows."""
    (high, wide), along, x = pr.waves, deep(at, name, pr), at.placer.bulk.get(name) or at.placer.laid[name]
    apart = high if first else wide
    key = (name, first and apart > 1, along, apart)
    if key not in at.descriptors:
        mine = ""
        if apart > 1:
            size = pr.repeat[0] * pr.instruction.m if first else pr.repeat[1] * pr.instruction.n
            number = f"ac_uniform(wave / 4){f' % {high}' if wide > 1 else ''}" if first else f"ac_uniform(wave / {4 * high})"
            mine = f" + {number} * {size * x.chunk if along else size // x.across * x.box_bytes}"
        at.descriptors[key] = variable = at.names.fresh(f"{name}_at")
        lead = 1 if along else at.row_sums.ones - x.offset if at.row_sums and at.row_sums.factor == name else x.box_bytes
        at.in_front(Line(f"const unsigned long long {variable} = {_made(at, x)}({at.memory} + {x.offset}{mine}, {lead}, {x.layout[1]});"))
    return at.descriptors[key]


def _made(at: WarpSpecialisedPrinter, x: Bulk | Laid) -> str:
    """The function that makes a descriptor of memory with this swizzle."""
    return at.describes if x.layout[2] == 128 else f"{at.describes}_of<{x.layout[2]}>"


def deep(at: WarpSpecialisedPrinter, name: str, pr: Product) -> bool:
    """Whether a factor lies along the axes that this product sums."""
    x = at.placer.bulk.get(name)
    return x is None or (x.deep if len(readers_of(at.p, name)) == 1 else contiguous_axis(x.view) in [a for a, _ in pr.k])


def readers_of(p: TileProgram, name: str) -> list[Stmt]:
    """The products that read a factor."""
    return [s for s, _ in walk(p.body) if s.op == "mma" and name in s.srcs]


def wrapper(at: WarpSpecialisedPrinter, pr: Product, registers: bool, sums: bool = False) -> str:
    """The device function of one instruction shape, printed in front of the kernel. `sums`: eight columns more, apart."""
    i = replace(pr.instruction, n=pr.instruction.n + 8) if sums else pr.instruction
    ta = "" if registers else f"{0 if deep(at, pr.a, pr) else 1}, "
    tb = 0 if deep(at, pr.b, pr) else 1
    left, right = (i.factor or x for x in i.types[:2])
    kinds = left if left == right else f"{left}_{right}"
    name = f"ac_wgmma_n{i.n}_{kinds}_{'r' if registers else 's' + ta[0]}{tb}{'_sums' if sums else ''}"
    if name not in at.wrappers:
        n = i.n // 2
        acc = ", ".join(f"%{x}" for x in range(n))
        whole = i.types[2] == "i32"
        place = lambda x: f"s[{x - n + 4}]" if sums and x >= n - 4 else f"d[{x}]"
        outs = ", ".join(f'"+{"r" if whole else "f"}"({place(x)})' for x in range(n))
        a = "{" + ", ".join(f"%{n + x}" for x in range(4)) + "}" if registers else f"%{n}"
        b = n + (4 if registers else 1)
        ins = ", ".join(f'"r"(a[{x}])' for x in range(4)) if registers else '"l"(a)'
        kind = "const unsigned *a" if registers else "unsigned long long a"
        opcode = f"wgmma.mma_async.sync.aligned.m64n{i.n}k{i.k}.{'.'.join(PTX.get(x, x) for x in (i.types[2], left, right))}"
        more = "" if whole else ", 1, 1" if i.deep else f", 1, 1, {ta}{tb}"  # scales of floats; major axes where there is a choice
        held = f"{'int' if whole else 'float'} *d, {'float *s, ' if sums else ''}"
        at.wrappers[name] = (
            f"AC_DEVICE void {name}(int keep, {held}{kind}, unsigned long long b) {{\n"
            f'  asm volatile("{{.reg .pred p; setp.ne.b32 p, %{b + 1}, 0; {opcode} {{{acc}}}, {a}, %{b}, p{more};}}"\n'
            f'    : {outs} : {ins}, "l"(b), "r"(keep));\n}}\n'
        )
    return name
