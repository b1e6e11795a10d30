"""What the interactive graph page shows, as one JSON document: the model, the kernels over it, what lost, rules, memory."""

from __future__ import annotations

import json
from typing import Any

from autocomp.ir.places import LEAVES, short
from autocomp.report.layers import folded, model_text
from autocomp.report.tables import remarks, runners_up, seconds_text

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


def _calls(program: Any) -> list[dict[str, Any]]:
    g = program.calls
    maker: dict[str, int] = {}
    out = []
    for i, c in enumerate(g.calls):
        stored = [c.args[o.name] for o in c.kernel.outputs if o.name in c.args]
        reads = [t for a, t in c.args.items() if a not in {o.name for o in c.kernel.outputs}]
        out.append({"kernel": c.kernel.name, "name": model_text(program, c), "stores": [[t, str(g.tensors[t])] for t in stored],
                    "reads": [[t, str(g.tensors[t]), maker.get(t, -1)] for t in reads], "rules": list(c.rules)})  # fmt: skip
        maker |= dict.fromkeys(stored, i)
    return out


def _kernels(program: Any) -> dict[str, dict[str, Any]]:
    kind = {c.kernel.name: c.kernel.kind for c in program.calls.calls}
    tried = {e.data["signature"]: e.data for e in program.trace.of("schedule") if "candidates" in e.data}
    given: dict[str, list[str]] = {}
    for e in program.trace.of("directive"):
        given.setdefault(e.data["signature"], []).append(f"{e.data['directive']}: {e.name}{'' if e.data['used'] else ' (no use for it)'}")
    room = SOURCES
    out = {}
    for k in program.kernels:
        data = tried.get(k.signature, {})
        left_out = f"(not in this page: {len(k.source)} characters; autocomp optimize -o FOLDER writes it)"
        shown = k.source if len(k.source) <= room else left_out
        room -= len(shown)
        out[k.name] = {
            "kind": kind.get(k.name, ""), "ops": list(k.ops), "calls": k.calls, "schedule": k.schedule, "seconds": k.predicted,
            "time": seconds_text(k.predicted), "bound": k.bound, "roofline": k.at_full_rate / k.predicted if k.predicted else None,
            "candidates": data.get("candidates"), "rule": data.get("rule", ""), "lost": runners_up(k.schedule, data),
            "made": data.get("made", {}), "given": given.get(k.signature, []), "body": k.signature, "source": shown,
        }  # fmt: skip
    return out


def _rules(program: Any) -> list[dict[str, Any]]:
    """A row a rule: how often it fired, and was refused, with its commonest reason."""
    rows: dict[str, dict[str, Any]] = {}
    for e in program.trace.of("rule"):
        row = rows.setdefault(e.name, {"rule": e.name, "phase": e.data.get("phase", ""), "fired": 0, "refused": 0, "why": {}})
        row["fired"] += int(e.data.get("count", 1))
    for e in program.trace.of("reject"):
        row = rows.setdefault(e.name, {"rule": e.name, "phase": e.data.get("phase", ""), "fired": 0, "refused": 0, "why": {}})
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
