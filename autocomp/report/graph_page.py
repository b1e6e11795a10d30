"""What the interactive graph page shows, as one JSON document: the model, the kernels over it, their loops,
what lost, rules, memory."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from autocomp.errors import AutocompError
from autocomp.ir.kernel import Call, Kernel, KernelGraph
from autocomp.ir.places import LEAVES, short
from autocomp.ir.schedule_text import parse as parse_schedule
from autocomp.report.layers import folded, model_text
from autocomp.report.nest_view import nest_view
from autocomp.report.tables import remarks, runners_up, seconds_text
from autocomp.tile.derive import derive
from autocomp.tile.text import show

COVERS = 40  # other covers that are listed
NESTS = 48  # distinct kernels whose loops are shown
SOURCES = 900_000  # characters of kernel text that a page holds; what is beyond is named, not shown


def page_data(program: Any) -> dict[str, Any]:
    """`nodes`: the model's operations (`calls`: the kernels that compute each); `calls`: launches in order, with what they read; `layers`:
    runs of calls that repeat; `kernels` by name; `stored` by tensor: forms and bodies that lost; `rules`, `phases`, `memory`, `stages`."""
    return {
        "title": f"{program.name} on {program.target.name} ({program.target.chip.name})",
        "predicted": program.predicted,
        "remarks": remarks(program),
        "nodes": _nodes(program),
        "calls": _calls(program),
        "layers": [{"name": x.name, "names": x.names, "length": len(x.calls), "times": x.times} for x in folded(program)],
        "inputs": {n: str(program.calls.tensors[n]) for n in program.calls.inputs},
        "outputs": [{"name": n, "tensor": t, "type": str(program.calls.tensors[t])} for n, t in program.calls.outputs],
        "kernels": _kernels(program),
        "stored": {e.name: {"seconds": e.seconds, **e.data} for e in program.trace.of("alternatives")},
        "covers": _covers(program),
        "rules": _rules(program),
        "phases": [{"name": e.name, "seconds": e.seconds, **e.data} for e in program.trace.of("phase")],
        "memory": _memory(program),
        "stages": [{"name": e.name, "seconds": e.seconds} for e in program.trace.of("stage")],
    }


def page_json(program: Any) -> str:
    """The document as text that may stand in a script element."""
    text = json.dumps(page_data(program), separators=(",", ":"), default=str)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _nodes(program: Any) -> list[dict[str, Any]]:
    g = program.calls.source
    nodes = [n for n in g.nodes() if n.op not in LEAVES]
    of: dict[int, list[int]] = {}
    for k, c in enumerate(program.calls.calls):
        for i in c.computes:
            of.setdefault(i, []).append(k)
    number = {n: i for i, n in enumerate(g.nodes())}
    at = {n: i for i, n in enumerate(nodes)}
    names = lambda n: [str(i.attrs["name"]) for i in n.inputs if i.op == "input"]
    return [{"op": n.op, "type": str(n.type), "place": short(g.locations.get(n, "")), "reads": [at[i] for i in n.inputs if i in at],
             "from": names(n), "calls": of.get(number[n], [])} for n in nodes]  # fmt: skip


@dataclass(frozen=True)
class Links:
    """What one call stores and reads, by names of tensors; `reads` with the number of the call that made it, -1 where none did; `carried`:
    what it reads of the step before, with the number of the call that made it there."""

    stores: tuple[str, ...]
    reads: tuple[tuple[str, int], ...]
    carried: tuple[tuple[str, int], ...] = ()


def links(g: KernelGraph) -> tuple[list[Links], dict[str, int]]:
    """Of each call, and at the end who made each tensor. In a loop's body what a step before made counts as read from before the loop, so
    that nothing goes back; what stands in memory step by step, or is what a loop leaves, is made by the call that makes it in the body."""
    made: dict[str, int] = {}
    out = []
    for i, c in enumerate(g.calls):
        places, ends = g.places(c), g.loops[c.loop].ends if c.loop else ()
        formal = {o.name for o in c.kernel.outputs}
        stores: list[str] = []
        reads: list[tuple[str, int]] = []
        for name, tensor in c.args.items():
            place = places.get(tensor)
            if name in formal:
                stores += [tensor, *(place.memory if place else ()), *(e.to for e in ends if e.of == tensor)]
                made |= dict.fromkeys((tensor, *(place.memory if place else ())), i)
            else:
                source = tensor if place is None or tensor in made else place.before or place.memory[0]
                reads.append((source, made.get(tensor, made.get(source, -1))))
        out.append(Links(tuple(dict.fromkeys(stores)), tuple(reads), _carried(g, c)))
        if c.loop and i + 1 == g.spans[c.loop][1]:
            made |= {e.to: made[e.of] for e in ends if e.of in made}
    return out, made


def _carried(g: KernelGraph, call: Call) -> tuple[tuple[str, int], ...]:
    """What a call in a loop's body reads of the step before, and the call that makes it: the last that stores where it lies."""
    places = g.places(call)
    if not places:
        return ()
    makers: dict[str, int] = {}
    for j in range(*g.spans[call.loop]):
        stored = [g.calls[j].args[o.name] for o in g.calls[j].kernel.outputs]
        makers |= {m: j for t in stored if t in places and not places[t].before for m in places[t].memory}
    read = dict.fromkeys(call.args[a.name] for a in call.kernel.inputs)
    return tuple((t, makers[m]) for t in read if t in places and places[t].before for m in places[t].memory[:1] if m in makers)


def _calls(program: Any) -> list[dict[str, Any]]:
    g = program.calls
    typed = lambda t: str(g.tensors[t])
    return [{"kernel": c.kernel.name, "name": model_text(program, c), "stores": [[t, typed(t)] for t in x.stores if t in g.tensors],
             "reads": [[t, typed(t), maker] for t, maker in x.reads], "rules": list(c.rules),
             **({"loop": c.loop, "trips": g.loops[c.loop].steps} if c.loop else {}),
             **({"carried": [[t, typed(t), maker] for t, maker in x.carried]} if x.carried else {})}
            for c, x in zip(g.calls, links(g)[0], strict=True)]  # fmt: skip


def _kernels(program: Any) -> dict[str, dict[str, Any]]:
    kernel_of = {c.kernel.name: c.kernel for c in program.calls.calls}
    tried = {e.data["signature"]: e.data for e in program.trace.of("schedule") if "candidates" in e.data}
    given: dict[str, list[str]] = {}
    for e in program.trace.of("directive"):
        given.setdefault(e.data["signature"], []).append(f"{e.data['directive']}: {e.name}{'' if e.data['used'] else ' (no use for it)'}")
    room = SOURCES
    out = {}
    for n, k in enumerate(program.kernels):
        data, kernel = tried.get(k.signature, {}), kernel_of.get(k.name)
        left_out = f"(not in this page: {len(k.source)} characters; autocomp optimize -o FOLDER writes it)"
        shown = k.source if len(k.source) <= room else left_out
        room -= len(shown)
        out[k.name] = {
            "kind": kernel.kind if kernel else "", "ops": list(k.ops), "calls": k.calls, "schedule": k.schedule, "seconds": k.predicted,
            "time": seconds_text(k.predicted), "terms": k.terms,
            "bound": k.bound, "roofline": k.at_full_rate / k.predicted if k.predicted else None,
            "candidates": data.get("candidates"), "rule": data.get("rule", ""), "lost": runners_up(k.schedule, data),
            "made": data.get("made", {}), "given": given.get(k.signature, []), "body": k.signature, "source": shown,
            **(_loops(kernel, k.schedule) if kernel and n < NESTS else {}),
        }  # fmt: skip
    return out


def _loops(kernel: Kernel, schedule: str) -> dict[str, Any]:
    """`nest`: its loops before and after, dependences and moves; `tile`: its tile program as text. Nothing where it runs through its
    reference; no tile program where it has none (a recurrence)."""
    if kernel.opaque:
        return {}
    asked = parse_schedule(schedule)
    nest = nest_view(kernel, asked)
    if nest is None:
        return {}
    try:
        return {"nest": nest, "tile": show(derive(kernel, asked))}
    except AutocompError:
        return {"nest": nest}


def _covers(program: Any) -> dict[str, Any]:
    """What other choices of kernels cost: `named` ones, and of each tensor the cheapest other kernel (`total` of the whole program)."""
    cut = next((e.data for e in reversed(program.trace.of("cut")) if "exact_area" in e.data), None)
    if cut is None:
        return {"named": [], "others": []}
    named = [["chosen", cut["exact_area"], cut.get("kernels")], ["first choice, before the moves that improve it", cut["area_flow"], None]]
    if "least_fused" in cut:
        named.append(["the fewest operations in each kernel", cut["least_fused"], cut["least_fused_kernels"]])
    if cut["by_products"]:
        named.append(["no kernel stores for others too", cut["exact_area"] + cut["saved_by_by_products"], None])
    stored = {c.args[o.name]: model_text(program, c) or c.kernel.name for c in program.calls.calls for o in c.kernel.outputs
              if o.name in c.args}  # fmt: skip
    others = [{"tensor": stored.get(e.name, e.name), "total": o["total"], "ops": o["ops"], "reads": o["reads"]}
              for e in program.trace.of("alternatives") for o in e.data["others"] if o.get("total") is not None]  # fmt: skip
    others.sort(key=lambda o: (o["total"], o["tensor"]))
    return {"named": named, "others": others[:COVERS], "all": len(others)}


_NONE: dict[str, float] = {"fired": 0, "refused": 0, "matches": 0, "terms": 0, "seconds": 0.0}


def _rules(program: Any) -> list[dict[str, Any]]:
    """A row a rule: how often it fired, how many matches it looked at, terms it made and seconds that took; refusals and their commonest
    reason."""
    rows: dict[str, dict[str, Any]] = {}
    for e in program.trace.of("rule"):
        row = rows.setdefault(e.name, {"rule": e.name, "phase": e.data.get("phase", ""), **_NONE, "why": {}})
        row["fired"] += int(e.data.get("count", 1))
        row["matches"] += int(e.data.get("matches", 0))
        row["terms"] += int(e.data.get("terms", 0))
        row["seconds"] += e.seconds
    for e in program.trace.of("reject"):
        row = rows.setdefault(e.name, {"rule": e.name, "phase": e.data.get("phase", ""), **_NONE, "why": {}})
        n = int(e.data.get("count", 1))
        row["refused"] += n
        row["why"][e.data.get("reason", "")] = row["why"].get(e.data.get("reason", ""), 0) + n
    for row in rows.values():
        row["why"] = max(row["why"].items(), key=lambda x: x[1])[0] if row["why"] else ""
    return sorted(rows.values(), key=lambda r: (-r["fired"], -r["refused"], r["rule"]))


def _memory(program: Any) -> dict[str, Any]:
    """Intermediate tensors over the calls: [name, offset, bytes, first call, last call]; sizes of symbols as the launcher assumes them."""
    from autocomp.runtime.deploy import hints
    from autocomp.runtime.plan import arena, size_of

    g, s = program.calls, program.slots
    offsets, total = arena(g, s, hints(g))
    return {"bytes": total, "tensors": [[t, at, size_of(g.tensors[t], hints(g)), s.first_use[t], s.last_use[t]]
                                        for t, at in sorted(offsets.items())]}  # fmt: skip
