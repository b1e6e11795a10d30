"""Row sums by the matrix unit (directive `mma_row_sums`): softmax's denominator is a column of the second product, whose operand V gets
eight columns of ones beside it, instead of additions by threads.

    before   serial r1                    after   serial r1
               | o += mma p, v runs late            | o += mma p, v runs late
               o += mma p, v                        | l += the same product by columns of ones:  o, l += mma p, (v | 1)
               l = l + sum p                        o += mma p, v

An addition of a float takes a cycle of the registers' ports from the matrix units (64 rows of 64 weights: 32 additions of a thread, 34
cycles of them beside products; eight columns more take 16; measured on an H200, 2026-11-21), and what is divided by the sum has been
rounded as the sum's terms have. Columns of the second factor in one box leave the way to a second group of columns free: it leads from
every slot and step to the same ones, of one step in depth.

Whether a weight has grown is then read off the packed weights, three words an instruction, and not off their sum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
from autocomp.targets.cuda.facts import Facts
from autocomp.targets.cuda.softmax_overlap import Overlapped
from autocomp.targets.cuda.tma import Bulk
from autocomp.targets.simt.placement import ALIGN

from autocomp.ir.body import Map
from autocomp.ir.types import SHORT_FLOATS, DType
from autocomp.tile.layout import Layout
from autocomp.tile.plan import Block, Box, Fence, Line, Node
from autocomp.tile.program import Loop, Stmt, Value
from autocomp.tile.steps import Over, Scheme, Steps, by, loops, restated

if TYPE_CHECKING:
    from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter

STEP, ROW = 16, 128  # of ones: a step's depth, bytes of a box for each
ONES = {"f16": 0x3C003C00, "bf16": 0x3F803F80}


@dataclass(frozen=True)
class RowSums(Scheme):
    """`product` sums what its first factor is made of into `total`; `part` was a step's sum. `layout`: how the eight columns' accumulator
    lies; `factor` reads ones beside it, whose words are `word`."""

    product: Stmt
    factor: str
    total: str
    part: str
    layout: Layout
    word: int

    says = "{0.total} += the same product by columns of ones"


@dataclass(frozen=True)
class Ones(RowSums):
    """The same in a kernel: `registers` have the eight columns' accumulator, `ones` is where they lie in shared memory."""

    registers: str = ""
    ones: int = 0


def mma_row_sums(steps: Steps, facts: Facts) -> Steps:
    """Takes the sums of a late product's first factor out of the maps beside it."""

    def change(n: Over, loop: Loop) -> Over:
        skew = by(n, Overlapped)
        found = find_row_sums(facts, skew) if skew and loop.opt("overlap") == "2" else None
        return restated(n, skew, *found) if skew and found else n

    return loops(steps, change)


def find_row_sums(at: Facts, skew: Overlapped) -> tuple[Overlapped, RowSums] | None:
    """The split of a loop without its sum, and how the late product takes the sum; None where the loop has another form."""
    late, when = skew.late, skew.when
    if when is None or len(skew.rescale) != 1:
        return None
    part, weights = when.opt("of"), late.srcs[0]
    folds = [s for s in skew.maps if s.dst == part]
    adds = [s for s in skew.then if part in s.srcs]
    made = [s for s in skew.then if s.dst == weights]
    if len(folds) != 1 or folds[0].op != "reduce" or folds[0].expr != "add" or len(adds) != 1 or len(made) != 1:
        return None
    total, e = adds[0].dst, adds[0].expr
    if not (isinstance(e, Map) and e.fn == "add" and {x.name for x in e.args if isinstance(x, Value)} == {total, part}):
        return None
    dtype = at.dtype(weights)
    if made[0].srcs != folds[0].srcs or dtype not in SHORT_FLOATS or dtype.name not in ONES:
        return None
    pr, layout = at.place.products[late], at.place.layouts[late.dst]
    x = at.placer.bulk.get(pr.b)
    one_box = type(x) is Bulk and not x.deep and x.boxes == 1 and pr.repeat == (1, 1) and x.across == pr.instruction.n
    if not one_box or len(layout.reg) != 3 or at.place.layouts[total].reg != layout.reg[1:2]:
        return None
    if folds[0].axis.split(",") != [a for a, _ in pr.k]:
        return None
    if any(s.op == "reduce" and at.crosses_waves(s) for s in (*skew.rare, *folds)):
        return None
    drop = lambda body: tuple(s for s in body if s.dst not in (part, total))
    left = replace(skew, maps=drop(skew.maps), rare=drop(skew.rare), updates=drop(skew.updates), then=drop(skew.then))
    narrow = Layout(layout.reg[:2], layout.lane, layout.wave)
    return left, RowSums(late, pr.b, total, part, narrow, ONES[dtype.name])


def begin(at: WarpSpecialisedPrinter, x: RowSums) -> None:
    """Zeros where a tile begins; all threads of the block write the ones before they part."""
    ones = at.place.reserve(STEP * ROW, ALIGN)
    s = at.row_sums = Ones(x.product, x.factor, x.total, x.part, x.layout, x.word, at.names.fresh("sums"), ones)
    at.put(f"float {s.registers}[{s.layout.registers}] = {{}};")
    at.started.put(
        Line(f"for (int i = threadIdx.x; i < {STEP * ROW // 4}; i += {128 * (at.teams + 1)}) "
             f"reinterpret_cast<unsigned *>({at.memory} + {s.ones})[i] = {s.word:#010x}u;"),
        Box("ones", "write", far=True),
        Fence("ac_async_fence();"),
    )  # fmt: skip


def rescaled(at: WarpSpecialisedPrinter, s: Ones, rescale: tuple[Stmt, ...]) -> None:
    """The sums move with the accumulator beside them."""
    name, layout = at.names.call(s.product.dst, s.registers), at.place.layouts[s.product.dst]
    at.place.layouts[s.product.dst] = s.layout
    at.run(rescale)
    at.place.layouts[s.product.dst] = layout
    at.names.call(s.product.dst, name)


def condition(at: WarpSpecialisedPrinter, s: Ones, when: Loop, packed: str) -> str:
    """The name of a flag that says whether some packed weight of a wave is above a limit."""
    far, above = at.names.fresh("far"), bits(float(when.opt("above")), at.bufs[s.product.srcs[0]].dtype)
    at.put(f"const bool {far} = ac_any(ac_halves_above<{above:#x}>({packed}));")
    return far


def bits(x: float, dtype: DType) -> int:
    """Of a number as f16 or bf16."""
    return int(np.asarray(x, np.float16 if dtype.name == "f16" else ml_dtypes.bfloat16).view(np.uint16))


def settled(at: WarpSpecialisedPrinter, s: Ones) -> tuple[Node, ...]:
    """The product has arrived: the sum, by its own name."""
    count, sums = at.place.layouts[s.total].registers, Line(f"{at.names.of(s.total)}[r] = {s.registers}[2 * r];")
    every = Block(f"for (int r = 0; r < {count}; ++r)", (sums,), "#pragma unroll" if count > 1 else "")
    return Line(f"ac_keep({s.registers});"), every
