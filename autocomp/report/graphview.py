"""The graph of kernels and tensors as .dot, .svg or .html: what the e-graph's cover chose, what was fused into what, by which rules.

The SVG is laid out here (levels by longest path, order by the median of the predecessors), so no tool is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import networkx as nx

from autocomp.files import write_atomic
from autocomp.report.graph_page import links, page_json
from autocomp.report.layers import model_places, model_text
from autocomp.report.tables import plural, runners_up, seconds_text
from autocomp.report.templates import asset, render

if TYPE_CHECKING:
    from autocomp.ir.kernel import Call

BOX_W, BOX_H, GAP_X, GAP_Y = 250, 64, 26, 60
VIEWS = (("kernels", "Kernels"), ("model", "Model"), ("loops", "Loops"), ("covers", "Covers"), ("rules", "Rules"), ("memory", "Memory"),
         ("prices", "Prices"))  # fmt: skip
LABELS = 3  # rules that an edge names in a picture; its tooltip has all
KIND_COLOUR = {"E": "#e8f1fb", "S": "#e5f6ea", "N": "#d9f2ee", "C": "#fdeedd", "K": "#f9e3c8", "O": "#fbe2e2", "X": "#eeeeee",
               "R": "#efe6fa"}  # fmt: skip
KIND_TEXT = {
    "E": "element-wise",
    "S": "row statistic",
    "N": "row-normalised",
    "C": "contraction",
    "K": "chain of contractions",
    "O": "online contraction",
    "X": "opaque",
    "R": "recurrence",
}


@dataclass(frozen=True)
class Drawn:
    """One box: a kernel call, an input or an output."""

    key: str
    title: str
    lines: tuple[str, ...]
    colour: str
    hover: str


def _call_box(i: int, call: Call, cost: str, choice: tuple[str, ...], model: str, places: Iterable[str]) -> Drawn:
    ops = ", ".join(call.ops)
    what = model or ops
    lines = (what if len(what) <= 40 else what[:39] + "…", cost)
    kind = KIND_TEXT.get(call.kernel.kind, call.kernel.kind)
    computes = [f"ops: {ops}", *(f"model: {p}" for p in places)]
    made = ["rules:", *(f"  {r}" for r in call.rules or ("none",)), *choice]
    hover = "\n".join([f"{call.name or call.kernel.name} ({kind})", *computes, *made])
    return Drawn(f"k{i}", call.name or call.kernel.name, lines, KIND_COLOUR.get(call.kernel.kind, "#ffffff"), hover)


def kernel_network(program: Any) -> nx.DiGraph:
    """Nodes carry `box` (Drawn); edges carry `tensor`, `type` and `rules` (those of the consumer). `carried`: what steps of loops hand to
    the next ones, as (maker, reader, type); they go back, and are no edges."""
    calls = program.calls
    costs = {k.signature: f"{seconds_text(k.predicted)}, {k.bound}" for k in program.kernels}
    chosen = _choices(program)
    g: Any = nx.DiGraph()
    for name in calls.inputs:
        g.add_node(f"in:{name}", box=Drawn(f"in:{name}", name, (str(calls.tensors[name]),), "#ffffff", f"input {name}"))
    each, makers = links(calls)
    made = {name: f"in:{name}" for name in calls.inputs} | {t: f"k{i}" for t, i in makers.items()}
    for i, (call, linked) in enumerate(zip(calls.calls, each, strict=True)):
        steps = f", each of {calls.loops[call.loop].steps} steps of {call.loop}" if call.loop else ""
        price = costs.get(call.kernel.signature, "") + steps
        box = _call_box(i, call, price, chosen.get(call.kernel.signature, ()), model_text(program, call), model_places(program, call))
        g.add_node(box.key, box=box)
        for tensor, maker in linked.reads:
            if maker >= 0 or tensor in calls.inputs:
                g.add_edge(f"k{maker}" if maker >= 0 else f"in:{tensor}", box.key, tensor=tensor, type=str(calls.tensors[tensor]),
                           rules=call.rules)  # fmt: skip
    g.graph["carried"] = [(f"k{maker}", f"k{i}", str(calls.tensors[t])) for i, linked in enumerate(each) for t, maker in linked.carried]
    for public, tensor in calls.outputs:
        key = f"out:{public}"
        g.add_node(key, box=Drawn(key, public, (str(calls.tensors[tensor]),), "#ffffff", f"output {public}"))
        if tensor in made:
            g.add_edge(made[tensor], key, tensor=tensor, type=str(calls.tensors[tensor]), rules=())
    return g


def _choices(program: Any) -> dict[str, tuple[str, ...]]:
    """A kernel's signature -> its schedule, of how many it is the best, and the next best, off the trace."""
    out: dict[str, tuple[str, ...]] = {}
    for k in program.kernels:
        out[k.signature] = (f"schedule: {k.schedule}",)
        for e in program.trace.of("schedule"):
            if e.data.get("signature") == k.signature and "candidates" in e.data:
                lost = [f"  lost: {r}" for r in runners_up(k.schedule, e.data)]
                out[k.signature] += (f"chosen among {plural(e.data['candidates'], 'legal schedule')}", *lost)
    return out


def choice_text(program: Any) -> str:
    """What the graph's e-graph held and what its cover took of it, off the trace."""
    terms = [e.data["terms"] for e in program.trace.of("phase") if "terms" in e.data]
    held = f"The e-graph held {terms[-1]} terms after its rules; " if terms else ""
    cuts = next((e.data["cuts"] for e in program.trace.of("cut") if "cuts" in e.data), None)
    offered = f" of {cuts} possible ones" if cuts is not None else ""
    return f"{held}the cover took {plural(len({c.kernel.signature for c in program.calls.calls}), 'distinct kernel')}{offered}."


def rule_names(rules: Iterable[str]) -> list[str]:
    """The names alone, each once."""
    return sorted({r.split(":")[0] for r in rules})


def dot(g: nx.DiGraph) -> str:
    """Graphviz text; rules are the edges' labels."""

    def q(s: str) -> str:
        return '"' + s.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'

    lines = ["digraph autocomp {", '  rankdir=TB; node [shape=box, style=filled, fontname="Helvetica"];']
    for n, d in g.nodes(data=True):
        b: Drawn = d["box"]
        lines.append(f"  {q(n)} [label={q(chr(10).join((b.title, *b.lines)))}, fillcolor={q(b.colour)}, tooltip={q(b.hover)}];")
    for a, b, d in g.edges(data=True):
        rules = rule_names(d["rules"])
        lines.append(f"  {q(a)} -> {q(b)} [label={q(d['type'] + (chr(10) + chr(10).join(rules) if rules else ''))}];")  # type: ignore[arg-type]
    handed = g.graph.get("carried", ())
    lines += [f"  {q(a)} -> {q(b)} [style=dashed, constraint=false, label={q(f'next step: {t}')}];" for a, b, t in handed]
    return "\n".join([*lines, "}"]) + "\n"


def layout(g: nx.DiGraph) -> dict[str, tuple[float, float]]:
    """Top-left corner of every box."""
    level: dict[str, int] = {}
    for n in nx.lexicographical_topological_sort(g, key=str):
        level[n] = 1 + max((level[p] for p in g.predecessors(n)), default=-1)
    rows: dict[int, list[str]] = {}
    for n, lv in level.items():
        rows.setdefault(lv, []).append(n)
    x: dict[str, float] = {}
    for lv in sorted(rows):
        rows[lv].sort(key=lambda n: (median([x[p] for p in g.predecessors(n)] or [0.0]), n))
        width = len(rows[lv]) * (BOX_W + GAP_X)
        for i, n in enumerate(rows[lv]):
            x[n] = i * (BOX_W + GAP_X) - width / 2
    left = min(x.values(), default=0.0)
    return {n: (x[n] - left + GAP_X, level[n] * (BOX_H + GAP_Y) + GAP_Y) for n in g.nodes}


def svg(g: nx.DiGraph) -> str:
    """One picture; every box and edge has its reasons as a tooltip."""
    at = layout(g)
    w = max((x for x, _ in at.values()), default=0.0) + BOX_W + GAP_X
    h = max((y for _, y in at.values()), default=0.0) + BOX_H + GAP_Y
    p = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w:.0f} {h:.0f}" width="{w:.0f}" height="{h:.0f}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12">'
    ]
    for a, b, d in g.edges(data=True):
        x0, y0, x1, y1 = at[a][0] + BOX_W / 2, at[a][1] + BOX_H, at[b][0] + BOX_W / 2, at[b][1]
        tip = escape(f"{d['tensor']}: {d['type']}" + "".join(f"\n{r}" for r in d["rules"]))
        p.append(
            f'<path d="M{x0:.0f},{y0:.0f} C{x0:.0f},{y0 + GAP_Y:.0f} {x1:.0f},{y1 - GAP_Y:.0f} {x1:.0f},{y1:.0f}" fill="none" '
            f'stroke="#8899aa" stroke-width="1.3"><title>{tip}</title></path>'
        )
        p += _edge_label((x0 + x1) / 2, (y0 + y1) / 2, rule_names(d["rules"]))
    for n, d in g.nodes(data=True):
        b: Drawn = d["box"]  # type: ignore[no-redef]
        x, y = at[n]
        p.append(
            f'<g><title>{escape(b.hover)}</title><rect x="{x:.0f}" y="{y:.0f}" width="{BOX_W}" height="{BOX_H}" rx="6" '
            f'fill="{b.colour}" stroke="#556677"/>'
        )
        for i, line in enumerate((b.title, *b.lines)):
            style = ' font-weight="bold"' if i == 0 else ' fill="#445566" font-size="11"'
            room = 38 if i else 30  # characters; the first line is bold
            short = line if len(line) <= room else line[: room - 1] + "…"
            p.append(f'<text x="{x + 8:.0f}" y="{y + 18 + 17 * i:.0f}"{style}>{escape(short)}</text>')
        p.append("</g>")
    return "\n".join([*p, "</svg>"]) + "\n"


def _edge_label(x: float, y: float, rules: list[str]) -> list[str]:
    """Text lines around a point: rules, the last line for those that have no room."""
    shown = rules if len(rules) <= LABELS else [*rules[: LABELS - 1], f"and {len(rules) - LABELS + 1} more"]
    top = y - 5 * (len(shown) - 1) + 3
    style = 'text-anchor="middle" fill="#7a4a00" font-size="9" paint-order="stroke" stroke="#ffffff" stroke-width="3"'
    return [f'<text x="{x:.0f}" y="{top + 10 * i:.0f}" {style}>{escape(text)}</text>' for i, text in enumerate(shown)]


def graph_script() -> str:
    """The page's script: where things stand, and what draws them."""
    return "\n".join(asset(name) for name in ("graph_layout.js", "graph_pages.js", "graph.js"))


def write_graph(program: Any, path: Path) -> Path:
    """Write the view by the path's suffix: .html is the interactive page, .dot and .svg are for scripts. Returns the path."""
    if path.suffix == ".html":
        title = f"{program.name} on {program.target.name}"
        text = render("graph.html", title=title, views=VIEWS, choice=choice_text(program), names=", ".join(k.name for k in program.kernels),
                      style=asset("graph.css"), script=graph_script(), data=page_json(program))  # fmt: skip
    else:
        g = kernel_network(program)
        text = dot(g) if path.suffix == ".dot" else svg(g)
    write_atomic(path, text)
    return path
