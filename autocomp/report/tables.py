"""The table of kernels: what ran, how, how long, and how near to the bound."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from rich.table import Table

from autocomp.report.layers import model_text


def seconds_text(s: float | None) -> str:
    """1.234e-5 -> '12.3 us'."""
    if s is None:
        return ""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if s * scale >= 1:
            return f"{s * scale:.3g} {unit}" if s * scale < 1000 else f"{s * scale:.0f} {unit}"
    return f"{s * 1e9:.0f} ns"


def runners_up(chosen: str, data: dict[str, Any]) -> list[str]:
    """The best schedules that were not chosen, with their prices, off the trace's event of a choice."""
    return [r for r in data.get("runners_up", ()) if not r.startswith(f"{chosen} (")]


def deadline_cuts(program: Any) -> dict[str, str]:
    """Stages that the deadline ended, with what each left undone, off the trace."""
    return {e.name: e.data["undone"] for e in program.trace.of("budget") if "undone" in e.data}


def remarks(program: Any) -> list[str]:
    """What the deadline left undone, and what became of measured schedules: used, rolled back, or not to be used. Nothing where there are
    none."""
    seconds = next((e.data["deadline_s"] for e in program.trace.of("budget") if "undone" in e.data), 0.0)
    said = [f"the deadline of {seconds:g} s ended {stage}, which left out {undone}" for stage, undone in deadline_cuts(program).items()]
    return said + _of_measurements(program)


def _of_measurements(program: Any) -> list[str]:
    said = [e.data["text"] for e in program.trace.of("tuned") if e.name == "program"]
    return said + [f"{e.name}: {e.data['text']}" for e in program.trace.of("note") if e.name in ("tuning database", "schedule")]


def plural(n: int, noun: str) -> str:
    """1 kernel, 2 kernels."""
    return f"{n} {noun}{'' if n == 1 else 's'}"


FEW = 12  # names that an error lists; of more it says what lists them


def near_hint(name: str, known: list[str], all_of_them: str) -> str:
    """The next step where there is no such name: the nearest ones, all where they are few, else what lists them."""
    near = get_close_matches(name, known, 3)
    return f"nearest: {', '.join(near)}" if near else f"known: {', '.join(known)}" if len(known) <= FEW else all_of_them


def kernel_rows(program: Any, timing: Any = None) -> list[dict[str, Any]]:
    """One dict a distinct kernel, in order of first call; times are per call, `calls` how often it is called.

    model: what the model calls the nodes that it computes, a line a call. roofline: the time that the busiest unit needs at its full rate,
    over the measured time. operations and bytes of main memory of one launch; terms: what the predicted time is made of.
    """
    measured = {} if timing is None else timing.by_kernel
    model: dict[str, list[str]] = {}
    for c in program.calls.calls:
        model.setdefault(c.kernel.name, []).extend(filter(None, [model_text(program, c)]))
    rows = []
    for k in program.kernels:
        m = measured.get(k.name)
        rows.append(
            {
                "kernel": k.name,
                "calls": k.calls,
                "ops": list(k.ops),
                "model": model.get(k.name, []),
                "schedule": k.schedule,
                "predicted": k.predicted,
                "bound": k.bound,
                "measured": m,
                "roofline": k.at_full_rate / m if m else None,
                "operations": k.operations,
                "bytes": k.moved,
                "matrix": k.matrix,
                "rules": list(k.rules),
                "terms": [list(t) for t in k.terms],
                "makes": program.makes(k.signature),
            }
        )
    return rows


def computes(row: dict[str, Any]) -> str:
    """What a kernel computes in the model's own words, of its first call; its ops where the model has none (graphs as text)."""
    more = len(row["model"]) - 1
    return (row["model"][0] + (f" (and {plural(more, 'more call')})" if more > 0 else "")) if row["model"] else " ".join(row["ops"])


def kernel_table(program: Any, timing: Any = None) -> Table:
    """The rows for a terminal; the last line has the totals."""
    rows = kernel_rows(program, timing)
    where = f"{program.name} on {program.target.name} ({program.target.chip.name})"
    t = Table(title=f"{where}: {plural(len(program.calls.calls), 'kernel')}, {len(rows)} distinct")
    for name, kw in (
        ("kernel", {"overflow": "fold"}),
        ("calls", {"justify": "right"}),
        ("computes", {"overflow": "ellipsis", "max_width": 36}),
        ("schedule", {"overflow": "ellipsis", "max_width": 34}),
        ("predicted", {"justify": "right"}),
        ("bound", {}),
    ):
        t.add_column(name, **kw)  # type: ignore[arg-type]
    if timing is not None:
        t.add_column("measured", justify="right")
        t.add_column("roofline", justify="right")
    for r in rows:
        cells = [r["kernel"], str(r["calls"]), computes(r), r["schedule"], seconds_text(r["predicted"]), r["bound"]]
        if timing is not None:
            cells += [seconds_text(r["measured"]), f"{r['roofline']:.0%}" if r["roofline"] else ""]
        t.add_row(*cells)
    total = ["total", str(len(program.calls.calls)), "", "", seconds_text(program.predicted), ""]
    if timing is not None:
        total += [seconds_text(timing.total), f"{_at_full_rate(program) / timing.total:.0%}" if timing.total else ""]
    t.add_section()
    t.add_row(*total, style="bold")
    return t


def _at_full_rate(program: Any) -> float:
    return float(sum(k.at_full_rate * k.calls for k in program.kernels))
