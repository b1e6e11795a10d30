"""A kernel's loops before and after its schedule, what depends on what, and which moves are refused: as data for the graph page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from autocomp.errors import AutocompError, IllegalTransform
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.loops.arrows import arrows
from autocomp.loops.effort import OverBudget
from autocomp.loops.nest import LoopNest, Rows, Statement
from autocomp.loops.recurrences import recurrence_nest, recurrence_of
from autocomp.loops.schedules import fused, legal_transform, scheduled, scheduled_recurrence
from autocomp.loops.verdict import Instance, Verdict, Witness

MOST = 12  # moves that are asked
LONGEST = 78  # characters of a line


def nest_view(kernel: Kernel, schedule: Schedule) -> dict[str, Any] | None:
    """`before`, `after`: lines of the loops, statements with their names; `arrows` between statements; `moves`: whether each loop may run
    at once, backwards, or in another place, with the two iterations that forbid it. None for what has no loops (an op that runs through its
    reference)."""
    if kernel.opaque:
        return None
    repeats = recurrence_of(kernel) is not None
    nest = recurrence_nest(kernel) if repeats else LoopNest.of(kernel)
    try:
        every = arrows(nest)
        flows = {(a.earlier, a.later) for a in every if a.kind == "flow"}
        found = [{"kind": a.kind, "from": a.earlier, "to": a.later, "distance": list(a.distance)} for a in every
                 if a.kind == "flow" or (a.earlier, a.later) not in flows]  # fmt: skip
    except OverBudget:
        found = []
    try:
        after = nest_lines(scheduled_recurrence(kernel, schedule) if repeats else scheduled(kernel, schedule), schedule)
    except IllegalTransform:
        after = []
    return {"before": nest_lines(nest.with_rows(nest.origin)), "after": after, "arrows": found, "moves": list(_moves(kernel, nest))}


def nest_lines(nest: LoopNest, schedule: Schedule | None = None) -> list[dict[str, str]]:
    """The loops of a nest in the order of its rows: {text, statement} a line, the statement empty for a loop."""
    sizes = dict(schedule.tile) if schedule else {}
    marks = dict(nest.marks)
    out: list[dict[str, str]] = []

    def loop(s: Statement, name: str) -> str:
        axis = next((a for a in s.axes if name in (a.name, f"{a.name}_tile", f"{a.name}_lane", f"{a.name}_part")), None)
        if axis is None:
            return name
        inside = axis.name in sizes and name != f"{axis.name}_tile"
        room = f"a tile of {sizes[axis.name]}" if inside and name == axis.name else f"{axis.extent}"
        step = f" step {sizes[axis.name]}" if name == f"{axis.name}_tile" and axis.name in sizes else ""
        how = {"parallel": "at once ", "lanes": "in lanes "}.get(marks.get(name, ""), "")
        return f"{how}{name} in {room}{step}"

    def put(members: Sequence[tuple[Statement, Rows]], depth: int, indent: int, outer: str = "") -> None:
        order: dict[int, list[tuple[Statement, Rows]]] = {}
        for s, r in members:
            order.setdefault(r.beta[depth], []).append((s, r))
        parts = []
        for _, group in sorted(order.items()):
            loops: dict[str, list[tuple[Statement, Rows]]] = {}
            for s, r in group:
                loops.setdefault(r.names()[depth] if depth < len(r.loops) else "", []).append((s, r))
            parts += list(loops.items())
        if outer and not (len(parts) == 1 and parts[0][0]):  # loops with nothing between them stand in one line
            out.append({"text": "  " * indent + "for " + outer, "statement": ""})
            indent, outer = indent + 1, ""
        for name, inner in parts:
            if name:
                put(inner, depth + 1, indent, f"{outer}, {loop(inner[0][0], name)}" if outer else loop(inner[0][0], name))
            else:
                out.extend({"text": "  " * indent + _cut(text_of(s)), "statement": s.name} for s, _ in inner)

    put(list(zip(nest.statements, nest.rows, strict=True)), 0, 0)
    return out


def text_of(s: Statement) -> str:
    """`U0: r0[i0] = fold(r0[i0], in0[i0, r0])`: what a statement writes, of what."""
    writes = ", ".join(map(str, s.writes))
    reads = ", ".join(str(r) for r in s.reads if r != s.cell)
    value = "neutral" if s.role == "init" else f"fold({s.cell}, {reads or '1'})" if s.role == "update" else reads or "constant"
    return f"{s.name}: {writes} = {value}"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _moves(kernel: Kernel, nest: LoopNest) -> Iterator[dict[str, Any]]:
    """The questions that say most: each loop at once and backwards, neighbours interchanged, several statements in one loop of an axis."""
    joined = nest if recurrence_of(kernel) else fused(kernel)
    deepest = sorted(joined.statements, key=lambda s: -len(s.axes))  # its loops in its order
    axes = list(dict.fromkeys(a.name for s in deepest for a in s.axes))
    pairs = [(a, b) for a, b in zip(axes, axes[1:]) if any(a in s.names and b in s.names for s in joined.statements)]
    asked = [*(("parallel", (a,)) for a in axes), *(("interchange", p) for p in pairs), *(("reverse", (a,)) for a in axes)]
    if recurrence_of(kernel):
        asked.insert(0, ("tile", tuple(axes)))
    for kind, of in asked[:MOST]:
        try:
            answer = legal_transform(kernel, kind, of)
        except AutocompError as e:
            answer = Verdict(False, why=e.what)
        two = answer.witness
        if not answer.ok and not isinstance(two, Witness):
            continue  # it says nothing of the order
        yield {"move": f"{kind} {', '.join(of)}", "ok": answer.ok, "text": str(answer),
               "points": [_point(nest, x) for x in (two.first, two.second)] if isinstance(two, Witness) else []}  # fmt: skip


def _point(nest: LoopNest, x: Instance) -> dict[str, Any]:
    return {"statement": x.statement, "at": [[a, v] for a, v in x.point]}
