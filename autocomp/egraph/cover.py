"""Choosing kernels: one cut for every tensor that has to be stored, so that the summed time is least.

Area flow gives the first choice; exact area with compound moves improves it: change one kernel's cut, stop storing a tensor
(all its users switch together), start storing one. A kernel may also store interior tensors that others need (by-products).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from autocomp.budget import Effort, cover_effort
from autocomp.cost.chip import Chip
from autocomp.deadline import current
from autocomp.egraph.alternatives import least_fused, record_alternatives
from autocomp.egraph.chains import record_chains
from autocomp.egraph.chosen import Cover, check_cover, kernel_order
from autocomp.egraph.cut import Cut, Known, lacks
from autocomp.egraph.cut_prices import Prices
from autocomp.egraph.cuts import Enumerator
from autocomp.egraph.frozen import Frozen
from autocomp.egraph.grammar import LOADED
from autocomp.egraph.kernels import kernel_graph, tensor_names
from autocomp.egraph.rows import compile_rows
from autocomp.egraph.subject import Subject, subject_of
from autocomp.errors import UnsupportedOp
from autocomp.ir.kernel import KernelGraph
from autocomp.options import Options
from autocomp.rewrite.rule import RuleSet
from autocomp.trace import Trace

PASSES = 4
WORTH = 0.8  # of the prices of kernels that it frees, what a detour over a tensor that nobody stores yet may take: prices of cuts are roofs
DEEP = 3  # rounds in which the users of a tensor, and then theirs, are moved away from it


def cover(frozen: Frozen, rules: RuleSet, chip: Chip, options: Options, trace: Trace,
          without: frozenset[frozenset[int]] = frozenset(), effort: Effort | None = None,
          known: Known | None = None, prices: Prices | None = None) -> KernelGraph:  # fmt: skip
    """Kernels for the whole graph, in an order in which every tensor is made before it is read. `without`: sets of nodes that no kernel
    computes together (`Call.body` of earlier covers), but for cuts of `known` seconds. `effort`: what all covers of the graph may take,
    this one's own by default. `prices`: `prices_of` the e-graph, where there are several covers of it.

    Raises UnsupportedOp when no finite cover exists (an op whose forms all need themselves).
    """
    prices = prices or prices_of(frozen, chip, options)
    subject = prices.subject
    effort = effort or cover_effort(len(frozen.graph.nodes()))
    rows = compile_rows(rules.of("fusion", chip.target), options)
    enum = Enumerator(subject, rows, chip, options, without=without, known=known or Known(), effort=effort, prices=prices)
    enum.run()
    if effort.spent:
        trace.add("budget", "cover", cuts=effort.done, limit=effort.limit)
    for reason, n in sorted(enum.refused.items()):
        rule, _, condition = reason.partition(": ")
        trace.add("reject", rule, phase="fusion", reason=condition or reason, count=n)
    c = Cover(enum)
    for name, root in subject.roots:
        if root not in enum.cuts:
            raise _no_form(name, root, enum)
        c.ref(root)
    seed = c.total
    _improve(c, subject)
    by_product_gain = _by_products(c, subject)
    check_cover(c, subject)
    fired: dict[str, int] = {}
    for x in c.used():
        for _, _, row in c.pick[x].steps:
            fired[row] = fired.get(row, 0) + 1
    for row, n in sorted(fired.items()):
        trace.add("rule", row, phase="fusion", count=n)
    with trace.recording():
        apart, many = least_fused(c, subject)
    trace.add(
        "cut",
        "cover",
        area_flow=seed,
        exact_area=c.total,
        by_products=len(c.extra),
        saved_by_by_products=by_product_gain,
        cuts=sum(map(len, enum.cuts.values())),
        kernels=len(kernel_order(c, subject)),
        least_fused=apart,
        least_fused_kernels=many,
    )
    with trace.recording():
        record_alternatives(c, subject, tensor_names(c, subject), trace)
        record_chains(c, subject, trace)
    return kernel_graph(c, subject, frozen.graph)


def prices_of(frozen: Frozen, chip: Chip, options: Options) -> Prices:
    """The part of a frozen e-graph that the outputs need, and the prices of its bodies."""
    return Prices(subject_of(frozen, chip.matrix.keys(), chip.runs_blocks), chip, options.allow_tf32)


def _no_form(output: str, root: int, enum: Enumerator) -> UnsupportedOp:
    """The node that stands in the way of an output, the limit that it breaks, and what to do."""
    s = enum.subject
    c, reason, hint = enum.why_none(root)
    needed = f", which output '{output}' needs," if c != root else f" of output '{output}'"
    return UnsupportedOp(f"{s.label(c)} {s.types[c]}{needed} {reason}", where=s.frozen.places.get(c, s.frozen.graph.name), hint=hint)


# ---- local search
def _improve(c: Cover, s: Subject) -> None:
    """Moves that make the total fall, pass by pass; every state in between is a cover. A move that changed nothing is not tried again
    while the cover is the same."""
    order = [x for g in s.order for x in g]
    moves: tuple[tuple[Callable[[int], bool], Callable[[int], None]], ...] = (
        (lambda x: c.refs.get(x, 0) > 0 and x in c.pick, lambda x: _best_swap(c, x)),
        (lambda x: c.refs.get(x, 0) > 0 and x in c.pick, lambda x: _swap_by_way(c, x)),
        (lambda x: c.refs.get(x, 0) > 1 and x in c.pick, lambda x: _try(c, lambda: _stop_storing(c, x))),
        (lambda x: c.stored(x) and not c.refs.get(x, 0), lambda x: _try(c, lambda: _start_storing(c, x))),
    )
    idle: dict[tuple[int, int], int] = {}  # move and class -> changes of the cover up to the one behind which it changed nothing
    for _ in range(PASSES):
        before = c.total
        for n, (may, move) in enumerate(moves):
            for x in order if n else reversed(order):
                if idle.get((n, x)) != c.kept and may(x):
                    if current().passed("cover", "moves to a cheaper cover"):
                        return
                    changes, total = c.kept, c.total
                    move(x)
                    if (c.kept, c.total) == (changes, total):
                        idle[n, x] = changes
        total = c.total
        c.recount()
        if c.total != total:
            idle.clear()
        if c.total >= before * (1 - 1e-9):
            break


def _try(c: Cover, moves: Callable[[], Iterator[tuple[int, Cut]]]) -> None:
    c.attempt(moves)


def _best_swap(c: Cover, x: int) -> None:
    for cut in c.enum.cuts[x]:
        c.attempt(lambda cut=cut: iter([(x, cut)]))  # type: ignore[misc]


def _swap_by_way(c: Cover, x: int) -> None:
    """Another cut that loads one tensor which nobody stores yet, by a kernel that need not be the one that area flow ranks first: a sum of
    all elements by way of its rows, whose kernel computes what is else stored for it."""
    for cut in c.enum.cuts[x]:
        own = c.pick[x]
        new = [y for y in cut.leaves if c.stored(y) and not c.refs.get(y, 0)]
        if len(new) != 1 or cut is own:
            continue
        freed = own.time + sum(c.pick[y].time for y in own.leaves if c.refs.get(y, 0) and y in c.pick)
        for first in c.enum.cuts[new[0]]:
            if first is not c.best(new[0]) and cut.time + first.time < WORTH * freed:
                both = ((x, cut), (new[0], first))
                c.attempt(lambda both=both: iter(both))  # type: ignore[misc]


def _stop_storing(c: Cover, x: int) -> Iterator[tuple[int, Cut]]:
    for _ in range(DEEP):  # a user's other cut may load what is a view of x in turn
        for u in c.users(x):
            other = [k for k in c.enum.cuts[u] if x not in k.leaves]
            if not other:
                return
            yield u, next((k for k in other if not _by_way_of(c, k, x)), other[0])


def _by_way_of(c: Cover, cut: Cut, x: int) -> bool:
    """Whether a cut loads what would in turn load x: then x is not left alone by it."""
    return any(x in c.best(leaf).leaves for leaf in cut.leaves if c.stored(leaf))


def _start_storing(c: Cover, x: int) -> Iterator[tuple[int, Cut]]:
    for u in c.holders(x):
        other = [k for k in c.enum.cuts[u] if x in k.leaves]
        if other:
            yield u, other[0]
    if c.refs.get(x, 0) > 0:
        best = min(c.enum.cuts[x], key=lambda k: (k.flow, k.order()))
        yield x, best


# ---- by-products
def _by_products(c: Cover, s: Subject) -> float:
    """Let a kernel store interior tensors that other kernels load, where that is cheaper than a kernel of their own."""
    before = c.total
    for x in sorted(c.used(), key=lambda x: (s.level.get(x, 0), x)):
        if x in c.extra or not c.refs.get(x, 0):  # an earlier one may have made its readers by-products
            continue
        if current().passed("cover", "by-products"):
            break
        settled = {*c.extra, *c.extra.values(), x}  # a kernel that stores by-products may not become one itself
        for cut in (*c.enum.cuts[x], *_larger(c, s, x, settled)):
            needed = [u for u in sorted(cut.top) if u not in settled and c.refs.get(u, 0) > 0 and u in c.pick and _fits(s, u, x)]
            if needed and _attach(c, s, x, cut, needed):
                break
    return before - c.total


def _larger(c: Cover, s: Subject, x: int, settled: set[int]) -> Iterator[Cut]:
    """Cuts of x with what it loads and others need as well computed inside, all together and one by one, as they are where they are
    stored: what a kernel with several results shares is dear to each of them alone, so that few such cuts are kept."""
    cut = c.best(x)
    loads = [u for u in sorted(cut.leaves) if c.stored(u) and u not in settled and c.refs.get(u, 0) > 1 and _fits(s, u, x)]
    for some in ([loads] if len(loads) > 1 else []) + [[u] for u in loads]:
        if (found := c.enum.with_inside(cut, {u: c.best(u) for u in some})) is not None:
            yield found


def _fits(s: Subject, u: int, x: int) -> bool:
    """Whether a tensor has the points of another, or one for all those along some of its axes."""
    return s.types[u].shape == s.types[x].shape or lacks(s.types[u].shape, s.types[x].shape)


def _attach(c: Cover, s: Subject, x: int, cut: Cut, needed: list[int]) -> bool:
    """Try x := cut storing `needed` too. A leaf that depends on x or on one of them would be a cycle."""
    inner = {x, *needed}
    if _reaches(c, cut.leaves, inner):
        return False
    joint = c.enum.priced(cut, tuple(needed))
    before = c.total
    done = [(x, c.swap(x, joint))]
    taken = []
    for u in needed:
        if c.refs.get(u, 0) > 0:
            done.append((u, c.swap(u, _taken_from(u, x))))
            taken.append(u)
    if taken != needed:
        taken = []  # one is no longer read once the others are by-products: price the smaller set another time
    if taken and c.total < before * (1 - 1e-9):
        c.extra.update(dict.fromkeys(taken, x))
        return True
    for k, old in reversed(done):
        c.swap(k, old)
    return False


def _taken_from(u: int, x: int) -> Cut:
    """The free 'cut' of a by-product: it costs nothing and keeps the kernel of x in the cover."""
    none: frozenset[int] = frozenset()
    return Cut(u, frozenset({x}), none, none, LOADED, 0, {}, frozenset(), none, none)


def _reaches(c: Cover, start: frozenset[int], goals: set[int]) -> bool:
    """Does any of `start` depend on a goal, through the kernels chosen?"""
    seen, stack = set(), list(start)
    while stack:
        x = stack.pop()
        if x in goals:
            return True
        if x in seen:
            continue
        seen.add(x)
        if c.stored(x):
            stack.extend(c.best(x).leaves)
    return False
