"""Which loops stay loops: named like rules (`loop/..`), so that `without` leaves out what is a choice, and the trace says each."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from autocomp.errors import UnsupportedOp
from autocomp.ir.builder import Builder
from autocomp.ir.checks import check_graph
from autocomp.ir.decompose import decompose
from autocomp.ir.loop_bodies import loops_of, replay, unrolled
from autocomp.ir.node import Attrs, Graph, Node
from autocomp.ir.ops import OPS
from autocomp.ir.ops.loops import ENDLESS, NAME, NONE, Step, attributes
from autocomp.ir.places import spread_places
from autocomp.ir.rounding import round_casts
from autocomp.ir.types import Dim, TensorType
from autocomp.trace import Trace

MOST_STEPS = 1024  # of a loop that is unrolled
MOST_OPERATIONS = 2**14  # of all its steps, as many as a long LSTM's: a compilation took 7 ms of a processor for each (910B1)
ONE = "loop/one-step"  # a loop of one step is its body: what stands before and behind it fuses with it
UNROLL = "loop/unroll"  # what a target, or what runs a program, cannot repeat is written once a step


def settled(graph: Graph, repeats: bool, trace: Trace, without: Sequence[str] = (), stops: bool = True) -> Graph:
    """The graph with its loops of one step, and those that cannot run step by step, unrolled. `repeats`: whether programs of the target
    have loops at all; `stops`: loops that a value computed in them ends. Raises UnsupportedOp where a loop that cannot run so, one in
    another's body for instance, has too many steps, or as many as a symbol says."""
    reasons: dict[Attrs, tuple[str, str]] = {}
    for n in loops_of(graph):
        if not isinstance(within := _within(n.attrs["body"]), int) or within > MOST_STEPS:
            many = "any number of" if within == ENDLESS else within
            raise UnsupportedOp(f"a loop of {many} steps in the body of a loop, where up to {MOST_STEPS} are unrolled",
                                where=graph.locations.get(n, NAME), hint="write the inner loop with tensor operators")  # fmt: skip
        reason = _why_unrolled(n, repeats, stops, any(fnmatchcase(ONE, g) for g in without))
        if reason is not None:
            reasons[n.attrs] = reason
    if not reasons:
        return graph
    for n in loops_of(graph):
        if n.attrs not in reasons:
            continue
        (rule, why), trips, where = reasons[n.attrs], n.attrs["trips"], graph.locations.get(n, NAME)
        if not isinstance(trips, int) or trips > MOST_STEPS:
            many, hint = str(trips), "fix the number of steps with dims={...}, or split the sequence"
            if n.attrs["condition"] != NONE:
                many = "any number of" if trips == ENDLESS else f"up to {trips}"
                hint = f"give the model a bound of at most {MOST_STEPS} steps, or compile it for the cpu"
            raise UnsupportedOp(f"a loop of {many} steps: {why}; loops of up to {MOST_STEPS} are unrolled then", where=where, hint=hint)
        if rule == UNROLL and (operations := trips * len(n.attrs["body"])) > MOST_OPERATIONS:
            raise UnsupportedOp(f"a loop of {trips} steps of {len(n.attrs['body'])} operations: {why}; loops of up to {MOST_OPERATIONS} "
                                f"operations, not {operations}, are unrolled then", where=where,
                                hint="take smaller matrices or fewer steps, or compile it for the cpu or cuda")  # fmt: skip
        if not trips and len(n.attrs["results"]) > n.attrs["carried"]:
            raise UnsupportedOp(f"it stacks the results of no step, and {why}", where=where, hint="leave it out of the model")
    for rule in sorted({r for r, _ in reasons.values()}):
        mine = [n for n in loops_of(graph) if reasons.get(n.attrs, ("",))[0] == rule and n.attrs["part"] == 0]
        why = "; ".join(sorted({w for r, w in reasons.values() if r == rule}))
        trace.add("rule", rule, phase="loops", count=max(1, len(mine)), why=why)
    flat = spread_places(decompose(round_casts(unrolled(graph, lambda n: n.attrs in reasons))))
    check_graph(flat)
    return flat


def _within(body: Sequence[Step]) -> Dim:
    """Steps of the longest loop in a body, with those of loops in its own; a symbol where one has as many as that says."""
    longest = 0
    for a in (attributes(step) for step in body if step[0] == NAME):
        trips, inner = a["trips"], _within(a["body"])
        if not isinstance(trips, int) or not isinstance(inner, int):
            return inner if isinstance(trips, int) else trips
        longest = max(longest, trips * max(1, inner))
    return longest


def _why_unrolled(n: Node, repeats: bool, stops: bool, one_stays: bool) -> tuple[str, str] | None:
    """(rule, why) a loop is unrolled; None where it stays."""
    if not repeats:
        return UNROLL, "programs for this target are lists of kernels"
    if n.attrs["trips"] == 1 and not one_stays:
        return ONE, "a loop of one step is its body"
    if n.attrs["condition"] != NONE and not stops:
        return UNROLL, "the host starts its steps, and does not see the value that ends them"
    if op := _opaque(n):
        return UNROLL, f"'{op}', in its body, runs through its reference"
    return None


def _opaque(n: Node) -> str:
    """An op of a loop's body that has no kernel."""
    c, s = n.attrs["carried"], n.attrs["scanned"]
    b = Builder()
    leaves = [b.input(f"x{k}", TensorType(i.type.dtype, i.type.shape[1:]) if c <= k < c + s else i.type) for k, i in enumerate(n.inputs)]
    for k, r in enumerate(replay(n.attrs, leaves)):
        b.output(f"y{k}", r)
    nodes = decompose(unrolled(b.graph(), lambda n: True)).nodes()
    return next((x.op for x in nodes if x.op in OPS and OPS[x.op].comprehension is None), "")
