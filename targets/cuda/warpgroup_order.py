"""Order of consumer warpgroups in attention (directive `warpgroup_order`; FlashAttention 3: inter-warpgroup scheduling by named barriers).

Products of one step start behind those of the warpgroup before: each has the units whole, for half as long, and is at its maps while the
others multiply. Without an order warpgroups that come together stay together. It goes round by named barriers: one warpgroup waits, the
one before it arrives.

    before   serial r1  | o += mma p, v runs a turn late, ..      after   serial r1  | ..  | warpgroups start its products one behind the ..
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from autocomp.targets.cuda.facts import Facts
from autocomp.targets.cuda.softmax_overlap import Overlapped

from autocomp.tile.plan import NamedBarrier, Reach
from autocomp.tile.steps import Scheme, Steps, by, loops, told

if TYPE_CHECKING:
    from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter

PAIR = 256  # threads that meet at a barrier of the order: two warpgroups


@dataclass(frozen=True)
class InOrder(Scheme):
    """A loop's turns start their products in the warpgroups' order."""

    says = "warpgroups start its products one behind the other"


def warpgroup_order(steps: Steps, facts: Facts) -> Steps:
    """Orders the products of a loop whose last one runs a turn late, where warpgroups share its tiles."""
    late = lambda n, loop: by(n, Overlapped) and loop.opt("overlap") == "2" and facts.workers > 1
    return loops(steps, lambda n, loop: told(n, InOrder()) if late(n, loop) else n)


def barrier(at: WarpSpecialisedPrinter, further: int = 0) -> str:
    """The barrier of this warpgroup's turn, or of one `further` on, behind those of the block, the consumers, their stores."""
    number = f"({at.side} + {further}) % {at.workers}" if further else at.side
    return f"{2 + at.workers} + {number}"


def begin_order(at: WarpSpecialisedPrinter) -> None:
    """The last warpgroup lets the first one begin; printed once, where the role begins."""
    if not at.in_turn:
        text = f"if ({at.side} == {at.workers - 1}) ac_barrier_pass({2 + at.workers}, {PAIR});"
        at.in_front(NamedBarrier("pass", text, 1, -1))
    at.in_turn = True


def end_order(at: WarpSpecialisedPrinter) -> None:
    """The first warpgroup takes the last arrival, so that none is left."""
    if at.in_turn:
        at.plan(NamedBarrier("sync", f"if ({at.side} == 0) ac_barrier_sync({2 + at.workers}, {PAIR});", only=0))


def await_turn(at: WarpSpecialisedPrinter) -> None:
    at.plan(NamedBarrier("sync", f"ac_barrier_sync({barrier(at)}, {PAIR});"), Reach("products", True, "teams"))


def pass_turn(at: WarpSpecialisedPrinter) -> None:
    at.plan(NamedBarrier("pass", f"ac_barrier_pass({barrier(at, 1)}, {PAIR});", 1))
