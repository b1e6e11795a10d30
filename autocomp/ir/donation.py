"""Inputs whose memory is given away: an output that is an input with some of its elements replaced is written where the input lies.

    new = where(place == position, keys, cache)            new and cache are one piece of memory

That is right where nothing reads the old value once its memory is written. In the kernel that writes, elements that stay are the
input's own at the same place, and nothing else is read from it: computing an element twice, or reading it late, gives the same. Every
other kernel that reads the old value runs before. What cannot be so is refused with the kernel and the reason.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from autocomp.errors import UnsupportedOp
from autocomp.ir.affine import Aff
from autocomp.ir.body import Expr, Gather, Load, Map, postorder
from autocomp.ir.kernel import Call, KernelGraph, Loop, Store
from autocomp.ir.node import Graph, Node, Written
from autocomp.ir.rounding import VIEWS
from autocomp.ir.types import TensorType, dim_hint, widens

HINT = "leave it out of donate=[..] and keep what the program returns"


def given_away(graph: Graph, names: Sequence[str]) -> Graph:
    """The graph in which each of these inputs (names or globs) gives its memory to an output: to the one that the model writes into it,
    else to the nearest output of its type that is computed from it. What the model writes into others is copied there behind each call.
    Raises UnsupportedOp where there is none."""
    known = {n.attrs["name"]: n for n in graph.inputs}
    for name in names:
        if not fnmatch.filter(known, name):
            raise UnsupportedOp(f"there is no input '{name}' to donate", where=graph.name, hint=f"inputs: {', '.join(known)}")
    names = [n for n in known if any(fnmatch.fnmatchcase(n, name) for name in names)]
    written = [w if w.input in names else replace(w, copied=True) for w in graph.written]
    for name in names:
        if name in graph.input_orders:
            lies = list(graph.input_orders[name])
            raise UnsupportedOp(f"input '{name}' cannot be written in place: its axes lie in the order {lies}", where=graph.name,
                                hint="export the module on a contiguous tensor, or leave it out of donate=[..]")  # fmt: skip
        if any(w.input == name for w in written):
            continue
        steps = _distances(graph, known[name])
        taken = {w.output for w in written}
        free = [(steps[n], k, o) for k, (o, n) in enumerate(graph.outputs) if steps.get(n) and n.type == known[name].type
                and o not in taken and o not in graph.output_orders]
        if not free:
            raise UnsupportedOp(f"no output can take the memory of input '{name}': none of type {known[name].type} is computed from it",
                                where=graph.name, hint="leave it out of donate=[..]")  # fmt: skip
        written.append(Written(min(free)[2], name))
    return replace(graph, written=tuple(written))


def _distances(graph: Graph, source: Node) -> dict[Node, int]:
    """How many operations lie between an input and each node computed from it, views not counted."""
    steps = {source: 0}
    for n in graph.nodes():
        known = [steps[i] for i in n.inputs if i in steps]
        if known:
            steps[n] = min(known) + (n.op not in VIEWS)
    return steps


def in_place(calls: KernelGraph) -> KernelGraph:
    """The program in which donated inputs are written where they lie (`KernelGraph.donated`), its calls ordered for that. Raises
    UnsupportedOp with the reason where the old value is read after the write, or where the memory cannot be the output's."""
    donated: dict[str, str] = {}
    outputs = dict(calls.outputs)
    for w in calls.source.written:
        tensor = outputs[w.output]
        if tensor == w.input or w.copied:
            continue
        if donated.setdefault(tensor, w.input) != w.input:
            raise UnsupportedOp(f"'{w.input}' and '{donated[tensor]}' get the same value", where=calls.source.name, hint=HINT)
        if tensor in (*calls.inputs, *calls.params, *calls.constants):
            raise UnsupportedOp(f"the new value of '{w.input}' is '{tensor}' as it is: no kernel writes it",
                                where=calls.source.name, hint=HINT)  # fmt: skip
    if not donated:
        return calls
    for out, tensor in calls.outputs:
        if tensor in donated.values():
            raise UnsupportedOp(f"input '{tensor}' cannot be written in place: its old value is output '{out}'", where=calls.source.name,
                                hint=HINT)  # fmt: skip
    for tensor, name in donated.items():
        if looped := next((n for n, x in calls.loops.items() if tensor in x.touched), ""):
            raise UnsupportedOp(f"input '{name}' cannot be written in place: {looped}, a loop, makes its new value a step at a time",
                                where=calls.source.name, hint=HINT)  # fmt: skip
        writer = next(c for c in calls.calls if tensor in c.args.values() and tensor in _written(c))
        if why := _why_not(writer, tensor, name):
            raise UnsupportedOp(f"input '{name}' cannot be written in place: {why}", where=f"kernel {writer.kernel.name}", hint=HINT)
    return replace(calls, calls=_ordered(calls, donated), donated=donated)


def _written(c: Call) -> list[str]:
    return [c.args[a.name] for a in c.kernel.outputs]


def _read(c: Call) -> list[str]:
    return [c.args[a.name] for a in c.kernel.inputs]


# ---- one kernel
def _why_not(c: Call, tensor: str, name: str) -> str:
    """Why the kernel that makes `tensor` cannot write it into the memory of `name`; "" where it can."""
    k = c.kernel
    if k.opaque:
        return f"'{k.opaque}' makes a tensor of its own"
    if k.program:
        return "its tile program was written by hand, and may read what it has written"
    if c.of is not None:
        return "its reduction is done in parts"
    out = next(a.name for a in k.outputs if c.args[a.name] == tensor)
    mine = {a.name: a.type for a in k.inputs if c.args[a.name] == name}
    store = next(s for s in k.stores if s.tensor == out)
    new = _plain(store.value)  # is the same before and after the write: others may compute with it
    value = new.operands[0] if isinstance(new, Map) and new.fn == "cast" else new
    rest = list(_moved(store, mine, next(a.type for a in k.outputs if a.name == out)))
    for e in (*postorder(*rest), *_without((new, value), [s.value for s in k.stores if s is not store])):
        if isinstance(e, (Load, Gather)) and e.tensor in mine:
            return f"the kernel reads '{name}' for more than the elements that stay as they are"
    return ""


def _without(known: tuple[Expr, ...], roots: list[Expr]) -> Iterator[Expr]:
    """What values are computed from, `known` not entered."""
    seen, stack = {id(e) for e in known}, list(roots)
    while stack:
        e = stack.pop()
        if id(e) not in seen:
            seen.add(id(e))
            yield e
            stack += e.args


def _moved(s: Store, mine: Mapping[str, TensorType], out: TensorType) -> Iterator[Expr]:
    """What a store computes, without the elements that it keeps."""
    at = _address(s.index, out)
    stack = [s.value]
    while stack:
        e = _plain(stack.pop())
        if isinstance(e, Map) and e.fn == "cast" and isinstance(e.operands[0], Map) and e.operands[0].fn == "where":
            e = e.operands[0]  # a choice that is rounded where it is stored
        if isinstance(e, Map) and e.fn == "where":
            yield e.operands[0]
            stack += e.operands[1:]
        elif not (isinstance(e := _narrow(e), Load) and e.tensor in mine and not e.guard and _address(e.index, mine[e.tensor]) == at):
            yield e


def _plain(e: Expr) -> Expr:
    """Without casts to a wider type and back."""
    while isinstance(e, Map) and e.fn == "cast" and isinstance(inner := e.operands[0], Map) and inner.fn == "cast":
        source = inner.operands[0]
        if source.dtype != e.dtype or not widens(source.dtype, inner.dtype):
            break
        e = source
    return e


def _narrow(e: Expr) -> Expr:
    """The operand of a cast to a wider type: what is stored has the input's own type again."""
    wide = isinstance(e, Map) and e.fn == "cast" and widens(e.operands[0].dtype, e.dtype)
    return e.operands[0] if wide and isinstance(e, Map) else e


def _address(index: tuple[Aff, ...], t: TensorType) -> tuple[object, ...]:
    """The place of an element: one number where sizes are known, so that views of one tensor agree."""
    if not t.is_static:
        return (index, t.shape)
    at = Aff()
    for i, d in zip(index, t.shape):
        at = at * dim_hint(d) + i
    return (at,)


# ---- their order
def _ordered(calls: KernelGraph, donated: Mapping[str, str]) -> tuple[Call, ...]:
    """Calls in the order in which they stand, but what reads an old value before what writes over it. Pieces of one kernel stay
    together."""
    units: list[list[Call]] = []
    for c in calls.calls:
        if units and ((c.of is not None and units[-1][0].of is c.of) or (c.loop and units[-1][0].loop == c.loop)):
            units[-1].append(c)
        else:
            units.append([c])
    touched = [calls.loops[unit[0].loop].touched if unit[0].loop else frozenset() for unit in units]
    maker = {t: u for u, unit in enumerate(units) for c in unit for t in _written(c)}
    for u, unit in enumerate(units):
        if unit[0].loop:
            inside, loop = {t for c in unit for t in _written(c)}, calls.loops[unit[0].loop]
            made = {m for t, p in loop.places.items() if t in inside for m in p.memory} | {e.to for e in loop.ends}
            maker |= dict.fromkeys(made, u)
    before: list[set[int]] = [{maker[t] for t in (*(t for c in unit for t in _read(c)), *touched[u]) if t in maker} - {u}
                              for u, unit in enumerate(units)]  # fmt: skip
    for tensor, name in donated.items():
        reads = {u for u, unit in enumerate(units) if name in touched[u] or any(name in _read(c) for c in unit)}
        before[maker[tensor]] |= reads - {maker[tensor]}
    done: dict[int, None] = {}
    while len(done) < len(units):
        ready = next((u for u in range(len(units)) if u not in done and before[u] <= done.keys()), None)
        if ready is None:
            raise _late(units, before, done, maker, donated, calls.loops)
        done[ready] = None
    return tuple(c for u in done for c in units[u])


def _late(units: Sequence[Sequence[Call]], before: Sequence[set[int]], done: Mapping[int, None], maker: Mapping[str, int],
          donated: Mapping[str, str], loops: Mapping[str, Loop]) -> UnsupportedOp:  # fmt: skip
    """An old value that a kernel reads which needs the new one."""
    for tensor, name in donated.items():
        for u, unit in enumerate(units):
            loop = loops.get(unit[0].loop)
            reads = any(name in _read(c) for c in unit) or (loop is not None and name in loop.touched)
            if u in done or not reads or u == maker[tensor]:
                continue
            seen, stack = set[int](), [u]
            while stack:
                at = stack.pop()
                if at not in seen:
                    seen.add(at)
                    stack += before[at]
            if maker[tensor] in seen:
                return UnsupportedOp(f"input '{name}' cannot be written in place: its old value is read after the write, by kernel "
                                     f"{unit[0].kernel.name}",
                                     where=f"kernel {units[maker[tensor]][0].kernel.name}", hint=HINT)  # fmt: skip
    return UnsupportedOp(f"inputs {', '.join(sorted(donated.values()))} cannot be written in place together", hint=HINT)
